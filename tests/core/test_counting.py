"""Counts on fake tensors against counts of real execution; counted costs of mechanisms."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.core import counting
from regard.core.cost import AttentionShape
from regard.core.counter import Counter
from regard.core.counting import count_call, layers_to_connect, training_flops
from regard.core.errors import RegardError
from regard.core.masks import NO_MASK, Causal, Mask
from regard.core.mechanism import Mechanism
from regard.layers.blocks import EncoderBlock
from regard.layers.cost import SequenceShape
from regard.layers.feed_forward import FeedForward
from regard.layers.multi_head import MultiHead
from regard.mechanisms import MECHANISMS, ScoredMechanism, build_mechanism

BATCH, LENGTH, WIDTH = 3, 70, 16
TOKENS = torch.randint(0, 9, (BATCH, LENGTH), generator=torch.Generator().manual_seed(0))
LENGTHS = torch.tensor([70, 41, 2])


def transformer() -> tuple[nn.Module, Callable[[], Tensor]]:
    attention = MultiHead(model_dim=WIDTH, num_heads=2, dropout=0.1)
    block = EncoderBlock(attention=attention, feed_forward=FeedForward(model_dim=WIDTH))
    model = nn.ModuleDict({"embedding": nn.Embedding(9, WIDTH), "block": block})

    def loss() -> Tensor:
        hidden = model["block"](model["embedding"](TOKENS), Causal())
        logits = hidden @ model["embedding"].weight.mT
        return F.cross_entropy(logits.flatten(0, 1), TOKENS.flatten())

    return model, loss


def padded_attention() -> tuple[nn.Module, Callable[[], Tensor]]:
    layer = MultiHead(model_dim=WIDTH, num_heads=2, mechanism="additive")
    x = torch.randn(BATCH, LENGTH, WIDTH)
    return layer, lambda: layer(x, mask=Mask(lengths=LENGTHS)).square().mean()


def lstm(packed: bool) -> tuple[nn.Module, Callable[[], Tensor]]:
    layer, x = nn.LSTM(WIDTH, 5, batch_first=True), torch.randn(BATCH, LENGTH, WIDTH)

    def loss() -> Tensor:
        if not packed:
            return layer(x)[0].sum()
        rows = pack_padded_sequence(x, LENGTHS, batch_first=True, enforce_sorted=False)
        return pad_packed_sequence(layer(rows)[0], batch_first=True)[0].sum()

    return layer, loss


def convolution() -> tuple[nn.Module, Callable[[], Tensor]]:
    layer, x = nn.Conv1d(WIDTH, 5, 3, stride=2), torch.randn(BATCH, WIDTH, LENGTH)
    return layer, lambda: layer(x).relu().mean()


def fused_attention() -> tuple[nn.Module, Callable[[], Tensor]]:
    layer, x = nn.Linear(WIDTH, 3 * WIDTH), torch.randn(BATCH, 2, LENGTH, WIDTH)

    def loss() -> Tensor:
        query, key, value = layer(x).chunk(3, -1)
        return F.scaled_dot_product_attention(query, key, value, is_causal=True).sum()

    return layer, loss


def value_dependent() -> tuple[nn.Module, Callable[[], Tensor]]:
    layer, x = nn.Linear(WIDTH, 1), torch.randn(LENGTH, WIDTH)
    return layer, lambda: layer(x[x[:, 0] > 0]).sum()


CALLS: dict[str, Callable[[], tuple[nn.Module, Callable[[], Tensor]]]] = {
    "transformer block": transformer,
    "padded attention": padded_attention,
    "lstm": lambda: lstm(packed=False),
    "packed lstm": lambda: lstm(packed=True),
    "convolution": convolution,
    "causal fused attention": fused_attention,
    "value-dependent": value_dependent,
}


@pytest.mark.parametrize("case", CALLS)
def test_counts_equal_those_of_real_execution(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, loss = CALLS[case]()
    before = copy.deepcopy(module.state_dict())
    random_state = torch.get_rng_state()
    with Counter(memory=False) as real:
        loss().backward()
    torch.set_rng_state(random_state)
    module.zero_grad(set_to_none=True)
    if case not in ("value-dependent", "packed lstm"):
        monkeypatch.setattr(counting, "fake_or_real", lambda attempt: attempt(True))
    counted = count_call(loss, backward=True)
    assert counted.by_operator == real.by_operator
    assert (counted.matmul_flops, counted.transcendental_ops, counted.elementwise_ops) == (
        real.matmul_flops,
        real.transcendental_ops,
        real.elementwise_ops,
    )
    assert training_flops(loss) == real.flops
    assert torch.equal(torch.get_rng_state(), random_state)
    assert all(parameter.grad is None for parameter in module.parameters())
    torch.testing.assert_close(module.state_dict(), before, rtol=0, atol=0)


def test_integers_of_the_caller_do_not_change() -> None:
    count, mean = torch.zeros(1, dtype=torch.long), torch.zeros(3)
    view = count[:]

    def call() -> Tensor:
        count.add_(1)
        count[:1].add_(1)
        view.add_(1)
        mean.mul_(0.9).add_(1)
        return torch.zeros(2)

    count_call(call)
    assert int(count) == 0
    assert not mean.any()


@pytest.mark.parametrize("name", MECHANISMS)
def test_counted_cost_equals_the_declared_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without real tensors, `sequential_steps` and `memory` apart: those are declared approximately."""
    monkeypatch.setattr(counting, "fake_or_real", lambda attempt: attempt(True))
    mechanism = build_mechanism(name, query_dim=8, key_dim=8, num_heads=4, max_length=71)
    shape = AttentionShape(
        batch_size=2,
        num_heads=4,
        num_kv_heads=2,
        query_length=70,
        key_length=70,
        key_dim=8,
        value_dim=12,
        causal=True,
    )
    declared, counted = vars(mechanism.cost(shape)), vars(Mechanism.cost(mechanism, shape))
    assert counted["elementwise_ops"] == pytest.approx(declared["elementwise_ops"], rel=0.02)
    approximate = {"memory", "sequential_steps", "elementwise_ops"}
    assert {k: v for k, v in counted.items() if k not in approximate} == {
        k: v for k, v in declared.items() if k not in approximate
    }


class Undeclared(ScoredMechanism):
    """Dot products under an optional window, without a declared cost."""

    def __init__(self, *, window: Mask = NO_MASK) -> None:
        super().__init__()
        self.window = window
        self.calls = 0

    def scores(self, query: Tensor, cached_key: Tensor, **_: Any) -> Tensor:
        self.calls += 1
        return query @ cached_key.mT


def shape_of(length: int, **sizes: Any) -> AttentionShape:
    return AttentionShape(query_length=length, key_length=length, key_dim=4, value_dim=4, **sizes)


def test_a_mechanism_without_a_cost_is_counted() -> None:
    mechanism = Undeclared()
    assert not mechanism.declares_cost
    cost = mechanism.cost(shape_of(5, num_heads=2))
    assert cost.matmul_flops == 2 * 2 * 25 * (4 + 4)
    assert cost.backward_matmul_flops == 2 * cost.matmul_flops
    assert cost.step_matmul_flops == 2 * 2 * 6 * (4 + 4)
    assert (cost.parameters, cost.state, cost.max_path_length) == (0, 2 * 5 * 8, 1)


def test_a_counted_cost_is_remembered_within_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "MAX_REMEMBERED", 2)
    mechanism = Undeclared()
    first = mechanism.cost(shape_of(5))
    calls = mechanism.calls
    assert mechanism.cost(shape_of(5)) is first
    assert mechanism.calls == calls
    for length in (6, 7, 8):
        mechanism.cost(shape_of(length))
    assert len(counting._COSTS[mechanism]) == 2
    assert copy.deepcopy(mechanism).cost(shape_of(5)) == first
    assert mechanism.state_dict() == {}


@pytest.mark.parametrize("length", [13, 600])
def test_counted_path_length(length: int) -> None:
    """Beyond 512 positions it is extrapolated: ⌈(n − 1)/r⌉."""
    mechanism = Undeclared(window=Mask(radius=4))
    assert mechanism.cost(shape_of(length)).max_path_length == -(-(length - 1) // 4)


def test_layers_to_connect() -> None:
    neighbours = torch.ones(5, 5).tril().triu(-1).bool()
    assert layers_to_connect(neighbours, causal=True) == 4
    assert layers_to_connect(neighbours, causal=False) == 0


class DependsOnValues(Undeclared):
    """Twice the products where a score is positive."""

    def scores(self, query: Tensor, cached_key: Tensor, **_: Any) -> Tensor:
        scores = query @ cached_key.mT
        return query @ cached_key.mT if bool((scores.abs() >= 0).all()) else scores


def test_real_tensors_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = DependsOnValues()
    assert mechanism.cost(shape_of(5)).matmul_flops == 2 * 25 * (4 + 4 + 4)
    monkeypatch.setattr(counting, "MAX_REAL_NUMBERS", 100)
    with pytest.raises(RegardError, match=r"DependsOnValues.*declare `cost`"):
        mechanism.cost(shape_of(6))


def test_layers_with_an_undeclared_mechanism() -> None:
    layer = MultiHead(model_dim=8, num_heads=2, mechanism=Undeclared(window=Mask(radius=2)))
    cost = layer.cost(SequenceShape(length=9))
    assert (cost.max_path_length, cost.state) == (4, 2 * 3 * 8)
    assert cost.matmul_flops == 8 * 9 * 8**2 + 4 * 9**2 * 8
