"""What a layer cannot be called with: the error says what was given, the rule and the way out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from regard.core.errors import RegardError
from regard.core.masks import Causal, Padding
from regard.core.mechanism import Step
from regard.layers.blocks import DecoderBlock, EncoderBlock
from regard.layers.convolution import Convolution
from regard.layers.feed_forward import FeedForward
from regard.layers.multi_head import MultiHead
from regard.layers.pooling import ContextPooling, StructuredPooling
from regard.layers.positions import POSITIONS, LearnedPositions, SinusoidalPositions, build_position
from regard.layers.recurrent import Recurrent

pytestmark = pytest.mark.usefixtures("as_users_call")

WIDTH, CONTEXT_WIDTH = 6, 4
X, CONTEXT = torch.randn(2, 5, WIDTH), torch.randn(2, 3, CONTEXT_WIDTH)
SELF = MultiHead(model_dim=WIDTH, num_heads=2)
CROSS = MultiHead(model_dim=WIDTH, num_heads=2, role="cross", context_dim=CONTEXT_WIDTH)
FEED_FORWARD = FeedForward(model_dim=WIDTH)
ENCODER = EncoderBlock(attention=SELF, feed_forward=FEED_FORWARD)
DECODER = DecoderBlock(self_attention=SELF, cross_attention=CROSS, feed_forward=FEED_FORWARD)
RECURRENT = Recurrent(model_dim=WIDTH, hidden_dim=3)
CONVOLUTION = Convolution(model_dim=WIDTH)
STRUCTURED = StructuredPooling(model_dim=WIDTH, hidden_dim=3)
CONTEXT_POOLING = ContextPooling(model_dim=WIDTH)

TAKE_X: dict[str, Callable[[Any], object]] = {
    "MultiHead": SELF,
    "MultiHead weights": SELF.weights,
    "MultiHead step": lambda x: SELF.step(SELF.start(2), x),
    "MultiHead read": lambda x: SELF.read(SELF.start(2), x),
    "MultiHead cross": lambda x: CROSS(x, CONTEXT),
    "FeedForward": FEED_FORWARD,
    "EncoderBlock": ENCODER,
    "EncoderBlock weights": ENCODER.weights,
    "EncoderBlock step": lambda x: ENCODER.step(ENCODER.start(2), x),
    "DecoderBlock": lambda x: DECODER(x, CONTEXT),
    "DecoderBlock weights": lambda x: DECODER.weights(x, CONTEXT),
    "DecoderBlock step": lambda x: DECODER.step(DECODER.start(CONTEXT), x),
    "Recurrent": RECURRENT,
    "Recurrent step": lambda x: RECURRENT.step(RECURRENT.start(2), x),
    "Convolution": CONVOLUTION,
    "StructuredPooling": STRUCTURED,
    "ContextPooling": CONTEXT_POOLING,
    "SinusoidalPositions": SinusoidalPositions(model_dim=WIDTH),
    "LearnedPositions": LearnedPositions(model_dim=WIDTH),
}
TAKE_CONTEXT: dict[str, Callable[[Any], object]] = {
    "MultiHead": lambda context: CROSS(X, context),
    "MultiHead weights": lambda context: CROSS.weights(X, context),
    "MultiHead extend": lambda context: CROSS.extend(CROSS.start(2), context),
    "DecoderBlock start": DECODER.start,
}
TAKE_MASK: dict[str, Callable[[Any], object]] = {
    "MultiHead": lambda mask: SELF(X, mask=mask),
    "MultiHead weights": lambda mask: SELF.weights(X, mask=mask),
    "MultiHead extend": lambda mask: SELF.extend(SELF.start(2), X, mask),
    "EncoderBlock": lambda mask: ENCODER(X, mask),
    "DecoderBlock": lambda mask: DECODER(X, CONTEXT, mask),
    "DecoderBlock context": lambda mask: DECODER(X, CONTEXT, Causal(), mask),
    "Recurrent": lambda mask: RECURRENT(X, mask),
    "Convolution": lambda mask: CONVOLUTION(X, mask),
    "StructuredPooling": lambda mask: STRUCTURED(X, mask),
    "ContextPooling": lambda mask: CONTEXT_POOLING(X, mask),
}
CONTINUE: dict[str, Callable[[Any], object]] = {
    "MultiHead step": lambda state: SELF.step(state, X),
    "MultiHead extend": lambda state: SELF.extend(state, X),
    "MultiHead read": lambda state: SELF.read(state, X),
    "EncoderBlock step": lambda state: ENCODER.step(state, X),
    "Recurrent step": lambda state: RECURRENT.step(state, X),
}


def refusal(call: Callable[[Any], object], given: object) -> str:
    with pytest.raises(RegardError) as raised:
        call(given)
    return str(raised.value)


@pytest.mark.parametrize("what", TAKE_X)
def test_x_is_a_batch_of_sequences_of_the_layers_width(what: str) -> None:
    call, layer = TAKE_X[what], what.split(maxsplit=1)[0]
    call(X)
    flat = f"{layer} was given x of shape (5, 6); it must be (batch, length, model_dim=6). A single"
    assert flat in refusal(call, X[0])
    wide = refusal(call, torch.randn(2, 5, 7))
    assert (
        f"{layer} was given x of shape (2, 5, 7); it must be (batch, length, model_dim=6)" in wide
    )
    assert "Build the layer with model_dim=7" in wide
    listed = f"{layer} was given x = a list; it must be a tensor (batch, length, model_dim=6)"
    assert listed in refusal(call, X.tolist())


@pytest.mark.parametrize("what", TAKE_CONTEXT)
def test_a_context_is_of_the_contexts_width(what: str) -> None:
    call, layer = TAKE_CONTEXT[what], what.split(maxsplit=1)[0]
    call(CONTEXT)
    rule = "it must be (batch, length, context_dim=4)"
    assert f"{layer} was given context of shape (2, 5, 6); {rule}" in refusal(call, X)
    assert f"{layer} was given context of shape (3, 4); {rule}" in refusal(call, CONTEXT[0])


@pytest.mark.parametrize("what", TAKE_MASK)
def test_a_mask_is_one_of_ours(what: str) -> None:
    call = TAKE_MASK[what]
    for given, described in (
        (torch.ones(5, 5, dtype=torch.bool), "a Tensor"),
        ("causal", "'causal'"),
        ([1, 0], "a list"),
        (None, "None"),
    ):
        message = refusal(call, given)
        assert f"mask is {described}; it must be a Mask, such as Causal()" in message
        assert "Allowed(boolean tensor)" in message
    unbuilt = "mask is the class Causal; it must be a Mask that is built: Causal()."
    assert unbuilt in refusal(call, Causal)
    assert "built: Padding(…)." in refusal(call, Padding)


def test_a_mask_in_the_contexts_place_is_told_where_it_belongs() -> None:
    assert "pass x alone, and a mask as mask=…" in refusal(lambda mask: SELF(X, mask), Causal())


@pytest.mark.parametrize("what", CONTINUE)
def test_a_state_is_one_of_as_many_rows(what: str) -> None:
    call, layer = CONTINUE[what], what.split(maxsplit=1)[0].replace("EncoderBlock", "MultiHead")
    begun = RECURRENT if layer == "Recurrent" else SELF
    call(begun.start(2))
    rows = f"{layer} was given a state of 3 rows and tokens of 2: both must have the same batch"
    assert rows in refusal(call, begun.start(3))
    rule = "it must be a decoding state. Begin with start(…)"
    assert f"{layer} was given state = None; {rule}" in refusal(call, None)
    assert f"{layer} was given state = a Step; {rule}" in refusal(call, Step(X, begun.start(2)))


def test_a_decoder_block_goes_on_from_its_own_state() -> None:
    def call(state: Any) -> object:
        return DECODER.step(state, X)

    assert "given a state of type NoneType; it must be a DecoderState" in refusal(call, None)
    assert "Begin with start(context)" in refusal(call, SELF.start(2))
    assert "a state of 1 rows and tokens of 2" in refusal(call, DECODER.start(CONTEXT[:1]))


def test_recurrent_forward_takes_a_state_of_as_many_rows() -> None:
    def call(state: Any) -> object:
        return RECURRENT(X, state=state)

    assert "a state of 3 rows and tokens of 2" in refusal(call, RECURRENT.start(3))


@pytest.mark.parametrize(
    "layer",
    [
        *(SELF, CROSS, FEED_FORWARD, ENCODER, DECODER),
        *(RECURRENT, CONVOLUTION, STRUCTURED, CONTEXT_POOLING),
        *(build_position(name, model_dim=6, head_dim=4, num_heads=2) for name in POSITIONS),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_a_cost_is_that_of_a_sequence_shape(layer: Any) -> None:
    name = type(layer).__name__
    message = refusal(layer.cost, 9)
    assert f"The cost of {name} was asked for 9; it is that of a SequenceShape" in message
    assert "cost(SequenceShape(batch_size=…, length=9))" in message
