"""Layers other than `MultiHead` in blocks, and forward passes and steps that read no values."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import pytest
import torch
import torch.nn.functional as F
from jaxtyping import Int
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from regard.core.errors import RegardError
from regard.core.masks import NO_MASK, Causal, Mask, Padding
from regard.core.mechanism import SequenceMixer, Step, select_rows
from regard.layers.blocks import DecoderBlock, EncoderBlock
from regard.layers.feed_forward import FeedForward
from regard.layers.multi_head import MultiHead
from regard.layers.positions import LearnedPositions
from regard.mechanisms import MECHANISMS

BATCH, LENGTH, MODEL_DIM, WIDTH = 2, 7, 8, 3


class Recent(NamedTuple):
    """The last inputs of a convolution."""

    inputs: Tensor
    position: Int[Tensor, " batch"]

    def select(self, index: Int[Tensor, " rows"]) -> Self:
        return select_rows(self, index)


class CausalConvolution(nn.Module):
    """A user's layer: the sum of the last WIDTH inputs, each times a matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Conv1d(MODEL_DIM, MODEL_DIM, WIDTH)
        self.model_dim = MODEL_DIM

    def forward(self, x: Tensor, context: Tensor | None = None, mask: Mask = NO_MASK) -> Tensor:
        output: Tensor = self.linear(F.pad(x.mT, (WIDTH - 1, 0)))
        return output.mT

    def start(self, batch_size: int) -> Recent:
        return Recent(
            self.linear.weight.new_zeros(batch_size, WIDTH - 1, MODEL_DIM),
            torch.zeros(batch_size, dtype=torch.long),
        )

    def extend(self, state: Recent, context: Tensor, mask: Mask = NO_MASK) -> Recent:
        lengths = torch.full((len(context),), context.shape[1])
        lengths = lengths if mask.lengths is None else mask.lengths
        every = torch.cat([state.inputs, context], dim=1)
        last = lengths[:, None] + torch.arange(WIDTH - 1)
        return Recent(every.take_along_dim(last[:, :, None], dim=1), state.position + lengths)

    def read(self, state: Recent, x: Tensor) -> Tensor:
        raise NotImplementedError

    def step(self, state: Recent, x: Tensor) -> Step:
        output: Tensor = self.linear(torch.cat([state.inputs, x], dim=1).mT)
        return Step(output.mT, self.extend(state, x))


def block() -> EncoderBlock:
    return EncoderBlock(
        attention=CausalConvolution(), feed_forward=FeedForward(model_dim=MODEL_DIM)
    ).double()


def test_a_users_layer_in_a_block() -> None:
    assert isinstance(CausalConvolution(), SequenceMixer)
    assert isinstance(MultiHead(model_dim=4, num_heads=2), SequenceMixer)
    layer, x = block(), torch.randn(BATCH, LENGTH, MODEL_DIM, dtype=torch.float64)
    whole = layer(x, Causal())
    state, rows = layer.start(BATCH), []
    for token in x.unbind(1):
        output, state = layer.step(state, token[:, None])
        rows.append(output)
    torch.testing.assert_close(torch.cat(rows, dim=1), whole)
    prompt = layer.prefill(x[:, :5], torch.tensor([5, 3]))
    torch.testing.assert_close(prompt.output, whole[:, :5])
    after = layer.step(prompt.state, torch.stack([x[0, 5:6], x[1, 3:4]])).output
    torch.testing.assert_close(after, torch.stack([whole[0, 5:6], whole[1, 3:4]]))
    whole.sum().backward()
    assert all(parameter.grad is not None for parameter in layer.parameters())


def test_a_users_layer_in_a_decoder_block() -> None:
    layer = DecoderBlock(
        self_attention=CausalConvolution(),
        cross_attention=MultiHead(model_dim=MODEL_DIM, num_heads=2, role="cross"),
        feed_forward=FeedForward(model_dim=MODEL_DIM),
    ).double()
    x, context = torch.randn(2, BATCH, LENGTH, MODEL_DIM, dtype=torch.float64)
    stepped = layer.step(layer.start(context), x[:, :1]).output
    torch.testing.assert_close(stepped, layer(x, context)[:, :1])


def test_weights_are_optional() -> None:
    with pytest.raises(RegardError, match="CausalConvolution has no method `weights`"):
        block().weights(torch.randn(BATCH, LENGTH, MODEL_DIM, dtype=torch.float64))


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize("missing", ["start", "extend", "read", "step"])
def test_a_missing_method_is_named(missing: str) -> None:
    methods = ("forward", "start", "extend", "read", "step")
    kept = {name: vars(CausalConvolution)[name] for name in methods if name != missing}
    lacking: Any = type("Lacking", (nn.Module,), {"model_dim": MODEL_DIM, **kept})()
    with pytest.raises(RegardError, match=f"attention = a Lacking; .* it has no {missing}"):
        EncoderBlock(attention=lacking, feed_forward=FeedForward(model_dim=MODEL_DIM))


class NoReads(TorchDispatchMode):
    """Raises where a value of a tensor is read."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert func is not torch.ops.aten._local_scalar_dense.default, "a value was read"
        return func(*args, **(kwargs or {}))


# The additive mechanism chooses its form by the largest score.
@pytest.mark.parametrize("name", sorted(set(MECHANISMS) - {"additive"}))
def test_no_values_are_read(name: str) -> None:
    layer = EncoderBlock(
        attention=MultiHead(
            model_dim=MODEL_DIM, num_heads=2, mechanism=name, max_length=LENGTH, dropout=0.1
        ),
        feed_forward=FeedForward(model_dim=MODEL_DIM),
    )
    positions = LearnedPositions(model_dim=MODEL_DIM, max_length=LENGTH)
    x, lengths = torch.randn(BATCH, LENGTH, MODEL_DIM), torch.tensor([LENGTH, 3])
    mask = Causal() & Padding(lengths)
    with NoReads():  # type: ignore[no-untyped-call]
        layer(positions(x), mask).sum().backward()
        state = layer.prefill(x[:, :5], torch.tensor([5, 3])).state
        layer.step(state, x[:, 5:6])
    with pytest.raises(AssertionError, match="a value was read"):  # noqa: SIM117
        with NoReads():  # type: ignore[no-untyped-call]
            lengths.max().item()
