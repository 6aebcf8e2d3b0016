"""The FLOP counter against hand counts, in particular where public counters are wrong."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from regard.core.counter import Counter
from regard.core.errors import RegardError


def test_fused_attention_counts_the_quadratic_term() -> None:
    query, key, value = (torch.randn(2, 3, n, 8) for n in (5, 7, 7))
    with Counter() as counter:
        functional.scaled_dot_product_attention(query, key, value)
    assert counter.matmul_flops == 2 * (2 * 3) * (5 * 7) * (8 + 8)
    assert counter.transcendental_ops == (2 * 3) * (5 * 7)


def test_fused_attention_counts_like_explicit_attention() -> None:
    query, key, value = (torch.randn(2, 3, n, 8) for n in (5, 7, 7))
    with Counter() as fused:
        functional.scaled_dot_product_attention(query, key, value)
    with Counter() as plain:
        torch.softmax(query @ key.mT, dim=-1) @ value
    assert (fused.matmul_flops, fused.transcendental_ops) == (
        plain.matmul_flops,
        plain.transcendental_ops,
    )


def test_the_backward_of_fused_attention_recomputes_the_scores() -> None:
    query = torch.randn(1, 1, 5, 4, requires_grad=True)
    key, value = torch.randn(1, 1, 7, 4), torch.randn(1, 1, 7, 4)
    output = functional.scaled_dot_product_attention(query, key, value)
    with Counter() as counter:
        output.sum().backward()
    assert counter.matmul_flops == 2 * 5 * 7 * 4 * 5


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize(("kind", "gates"), [(nn.LSTM, 4), (nn.GRU, 3)])
def test_recurrent_layers_are_counted(kind: type[nn.Module], gates: int, grad: bool) -> None:
    layer, sequence = kind(3, 5, batch_first=True), torch.randn(2, 7, 3)
    with Counter() as counter, torch.set_grad_enabled(grad):
        layer(sequence)
    assert counter.matmul_flops == 2 * (2 * 7) * gates * 5 * (3 + 5)
    assert counter.depth >= 7


def test_lstm_backward_is_twice_the_forward() -> None:
    layer = nn.LSTM(3, 5, batch_first=True)
    sequence = torch.randn(2, 7, 3, requires_grad=True)
    with Counter() as forward:
        output, _ = layer(sequence)
    with Counter() as backward:
        output.sum().backward()
    assert backward.matmul_flops == 2 * forward.matmul_flops


def test_einsum_linear_and_convolution() -> None:
    with Counter() as counter:
        torch.einsum("bij,bjk->bik", torch.randn(2, 3, 5), torch.randn(2, 5, 7))
    assert counter.matmul_flops == 2 * 2 * 3 * 5 * 7
    with Counter() as counter:
        nn.Linear(5, 7)(torch.randn(2, 3, 5))
    assert counter.matmul_flops == 2 * 2 * 3 * 5 * 7
    with Counter() as counter:
        nn.Conv1d(5, 7, 3)(torch.randn(2, 5, 11))
    assert counter.matmul_flops == 2 * 2 * 9 * 7 * 5 * 3


def test_recomputation_in_backward_is_counted() -> None:
    weight = torch.randn(4, 4, requires_grad=True)
    inputs = torch.randn(3, 4)
    with Counter() as counter:
        output = torch.utils.checkpoint.checkpoint(
            lambda rows: (rows @ weight).tanh(), inputs, use_reentrant=False
        )
        output.sum().backward()
    # Forward twice, and once for the gradient of the weight.
    assert counter.matmul_flops == 3 * 2 * 3 * 4 * 4
    assert counter.transcendental_ops == 2 * 3 * 4


def test_peak_memory() -> None:
    start = torch.zeros(1000)
    with Counter() as counter:
        first = start + 1
        second = first + 1
        del first
        third = second.view(10, 100) + 1
        del second, third
    assert counter.peak_memory == 2000


def test_depth_is_the_longest_chain_and_ignores_views() -> None:
    start = torch.ones(4, 4)
    with Counter() as counter:
        left = start @ start
        right = start @ start
        total = (left.T + right).T
    assert total.shape == (4, 4)
    assert counter.depth == 2


def test_an_operator_without_a_formula_is_an_error() -> None:
    message = "'linalg_lu_factor_ex'"
    with pytest.raises(RegardError, match=message), Counter():
        torch.linalg.lu_factor(torch.eye(3))
