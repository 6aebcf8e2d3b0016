"""Checks of attention inputs, and of hand-written backward passes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from regard.core.errors import RegardError
from regard.core.masks import NO_MASK, Causal, Mask, Padding
from regard.core.mechanism import validate_attention_inputs
from regard.mechanisms import build_mechanism

GOOD = (2, 4, 5, 3)


@pytest.mark.parametrize(
    ("query", "key", "value", "mask", "message"),
    [
        ((2, 5, 3), GOOD, GOOD, NO_MASK, r"query has shape \(2, 5, 3\)"),
        (GOOD, (1, 4, 5, 3), GOOD, NO_MASK, "key has 1 rows and query has 2"),
        (GOOD, (2, 3, 5, 3), (2, 3, 5, 3), NO_MASK, "key has 3 heads and query has 4"),
        (GOOD, GOOD, (2, 4, 6, 3), NO_MASK, "length 5 and value 4 of length 6"),
        (GOOD, GOOD, GOOD, Padding(torch.tensor([1, 2, 3])), "Padding has 3 lengths for 2 rows"),
    ],
)
def test_incompatible_inputs(
    query: tuple[int, ...],
    key: tuple[int, ...],
    value: tuple[int, ...],
    mask: Mask,
    message: str,
) -> None:
    with pytest.raises(RegardError, match=message):
        validate_attention_inputs(torch.zeros(query), torch.zeros(key), torch.zeros(value), mask)


def test_grouped_heads_and_different_widths_are_valid() -> None:
    validate_attention_inputs(
        torch.zeros(GOOD), torch.zeros(2, 2, 7, 9), torch.zeros(2, 2, 7, 1), Mask()
    )


def test_the_values_of_lengths_are_checked_on_request() -> None:
    mechanism, tensor = build_mechanism("dot", query_dim=3, key_dim=3), torch.zeros(GOOD)
    mask = Padding(torch.tensor([5, 7]))
    empty = mechanism.start(batch_size=2, num_kv_heads=4, key_dim=3, value_dim=3)
    mechanism(tensor, tensor, tensor, mask)
    mechanism.validate = True
    calls: list[Callable[[], object]] = [
        lambda: mechanism(tensor, tensor, tensor, mask),
        lambda: mechanism.weights(tensor, tensor, mask),
        lambda: mechanism.extend(empty, tensor, tensor, mask),
        lambda: mechanism(tensor, tensor, tensor, Mask(lengths=torch.tensor([5, -1]))),
    ]
    for call in calls:
        with pytest.raises(RegardError, match=r"lengths from (5 to 7|-1 to 5) .* 5 keys"):
            call()


@pytest.mark.parametrize("name", ["window", "elu", "taylor", "retention", "additive"])
@pytest.mark.parametrize("is_linear", [True, False])
def test_double_backward_is_an_error(name: str, is_linear: bool) -> None:
    """Also of a loss with a constant gradient, where once_differentiable would miss it."""
    mechanism = build_mechanism(name, query_dim=4, key_dim=4).double()
    query = torch.randn(1, 1, 300, 4, dtype=torch.float64, requires_grad=True)
    output = mechanism(query, query, query, Causal()) + query
    loss = output.sum() if is_linear else output.square().sum()
    with pytest.raises(RegardError, match="create_graph"):
        torch.autograd.grad(loss, query, create_graph=True)
