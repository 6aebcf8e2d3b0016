"""Maximum path length: so many layers connect all positions, and one layer fewer does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.core.masks import NO_MASK, Causal, Mask
from regard.layers.blocks import EncoderBlock
from regard.layers.convolution import Convolution
from regard.layers.cost import SequenceShape
from regard.layers.feed_forward import FeedForward
from regard.layers.multi_head import MultiHead
from regard.layers.recurrent import CELLS, Recurrent

# Wide enough for a layer norm to leave information.
WIDTH = 4
LENGTHS = (2, 5, 8, 13)
lengths = pytest.mark.parametrize("length", LENGTHS)
masks = pytest.mark.parametrize("mask", [NO_MASK, Causal()], ids=["all", "causal"])
Run = Callable[[Tensor], Tensor]


def connected(runs: list[Run], length: int) -> Tensor:
    """Which outputs (rows) of a stack depend on which inputs (columns)."""

    def stack(x: Tensor) -> Tensor:
        for run in runs:
            x = run(x)
        return x

    x = torch.randn(1, length, WIDTH, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(stack, x)
    found: Tensor = (jacobian[0, :, :, 0] != 0).any(dim=3).any(dim=1)
    return found


def assert_path_length(
    make: Callable[[], Run], declared: int, *, length: int, causal: bool
) -> None:
    """All pairs that the mask allows are connected by `declared` layers, and not by fewer."""
    visible = torch.ones(length, length, dtype=torch.bool)
    visible = visible.tril() if causal else visible
    runs = [make() for _ in range(declared)]
    assert torch.equal(connected(runs, length), visible)
    if declared > 1:
        # The last output is farthest from the first input.
        assert not connected(runs[1:], length)[-1, 0]


@lengths
@pytest.mark.parametrize(
    ("width", "causal"), [(3, False), (5, False), (2, True), (3, True), (4, True)]
)
def test_convolution(width: int, causal: bool, length: int) -> None:
    def make() -> Run:
        return Convolution(model_dim=WIDTH, width=width, causal=causal).double()

    declared = Convolution(model_dim=WIDTH, width=width, causal=causal).cost(
        SequenceShape(length=length)
    )
    assert_path_length(make, declared.max_path_length, length=length, causal=causal)


def attention(mechanism: str, **options: Any) -> MultiHead:
    return MultiHead(
        model_dim=WIDTH, num_heads=1, mechanism=mechanism, mechanism_options=options
    ).double()


def block(mechanism: str, **options: Any) -> EncoderBlock:
    return EncoderBlock(
        attention=attention(mechanism, **options), feed_forward=FeedForward(model_dim=WIDTH)
    ).double()


WINDOWS = pytest.mark.parametrize("radius", [1, 2, 3])


@lengths
@masks
@WINDOWS
def test_window_attention(radius: int, mask: Mask, length: int) -> None:
    def make() -> Run:
        layer = attention("window", radius=radius)
        return lambda x: layer(x, mask=mask)

    declared = attention("window", radius=radius).cost(
        SequenceShape(length=length, causal=mask.causal)
    )
    assert_path_length(make, declared.max_path_length, length=length, causal=mask.causal)


@lengths
@masks
@WINDOWS
def test_encoder_block_with_a_window(radius: int, mask: Mask, length: int) -> None:
    def make() -> Run:
        layer = block("window", radius=radius)
        return lambda x: layer(x, mask)

    declared = block("window", radius=radius).cost(SequenceShape(length=length, causal=mask.causal))
    assert_path_length(make, declared.max_path_length, length=length, causal=mask.causal)


@lengths
@masks
@pytest.mark.parametrize("mechanism", ["scaled_dot", "elu"])
def test_full_attention(mechanism: str, mask: Mask, length: int) -> None:
    layer = block(mechanism)
    cost = layer.cost(SequenceShape(length=length, causal=mask.causal))
    assert cost.max_path_length == 1
    assert_path_length(lambda: lambda x: layer(x, mask), 1, length=length, causal=mask.causal)


def test_feed_forward_has_no_path() -> None:
    layer = FeedForward(model_dim=WIDTH, activation="gelu").double()
    assert layer.cost(SequenceShape(length=5)).max_path_length == 0
    assert torch.equal(connected([layer, layer], 5), torch.eye(5, dtype=torch.bool))


@lengths
@pytest.mark.parametrize("cell", CELLS)
def test_recurrent_path_is_the_length(cell: str, length: int) -> None:
    layer = Recurrent(model_dim=WIDTH, hidden_dim=3, cell=cell).double()
    whole = connected([lambda x: layer(x).output @ torch.ones(3, WIDTH).double()], length)
    assert torch.equal(whole, torch.ones_like(whole).tril())
    # Unrolled, the first input reaches the last output through every state.
    applications = [depends_on_first(layer, length, cut_after=cut) for cut in range(1, length)]
    assert depends_on_first(layer, length, cut_after=None)
    assert not any(applications)
    assert layer.cost(SequenceShape(length=length)).max_path_length == len(applications) + 1


def depends_on_first(layer: nn.Module, length: int, *, cut_after: int | None) -> bool:
    """Whether the last output depends on the first input if the state after a step is detached."""
    assert isinstance(layer, Recurrent)
    x = torch.randn(1, length, WIDTH, dtype=torch.float64, requires_grad=True)
    state = layer.start(1)
    for number, token in enumerate(x.split(1, dim=1), start=1):
        output, state = layer.step(state, token)
        if number == cut_after:
            state = state._replace(hidden=state.hidden.detach(), memory=state.memory.detach())
    (gradient,) = torch.autograd.grad(output.sum(), x)
    return bool((gradient[:, 0] != 0).any())
