"""Invalid arguments of layers: the error names the argument, the value, the rule and the way out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from regard.core.errors import RegardError
from regard.core.masks import Causal, Padding
from regard.core.mechanism import Step
from regard.layers.alibi import Alibi
from regard.layers.blocks import DecoderBlock, EncoderBlock
from regard.layers.convolution import Convolution
from regard.layers.cost import SequenceShape
from regard.layers.feed_forward import FeedForward
from regard.layers.multi_head import MultiHead
from regard.layers.names import POSITIONS
from regard.layers.pooling import ContextPooling, StructuredPooling
from regard.layers.positions import (
    LearnedPositions,
    NoPositions,
    SinusoidalPositions,
    build_position,
)
from regard.layers.recurrent import Recurrent
from regard.layers.rotary import Rotary
from regard.mechanisms.scores.dot_product import ScaledDotAttention

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


def error_of(call: Callable[[Any], object], argument: object) -> str:
    with pytest.raises(RegardError) as raised:
        call(argument)
    return str(raised.value)


@pytest.mark.parametrize("what", TAKE_X)
def test_wrong_input_shapes(what: str) -> None:
    call, layer = TAKE_X[what], what.split(maxsplit=1)[0]
    call(X)
    # In a block, a norm runs before the sublayer that checks the shape.
    sublayer, norm = ("MultiHead", "The block") if "Block" in layer else (layer, layer)
    flat = f"{sublayer} was given x of shape (5, 6); it must be (batch, length, model_dim=6). A sin"
    assert flat in error_of(call, X[0])
    wide = error_of(call, torch.randn(2, 5, 7))
    assert f"{norm} was given x of shape (2, 5, 7); it must be (batch, length, model_dim=6)" in wide
    assert "Build the layer with model_dim=7" in wide
    listed = f"{norm} was given x = a list; it must be a tensor (batch, length, model_dim=6)"
    assert listed in error_of(call, X.tolist())


@pytest.mark.parametrize("what", TAKE_CONTEXT)
def test_wrong_context_shapes(what: str) -> None:
    call = TAKE_CONTEXT[what]
    call(CONTEXT)
    rule = "it must be (batch, length, context_dim=4)"
    assert f"MultiHead was given context of shape (2, 5, 6); {rule}" in error_of(call, X)
    assert f"MultiHead was given context of shape (3, 4); {rule}" in error_of(call, CONTEXT[0])


@pytest.mark.parametrize("what", TAKE_MASK)
def test_wrong_masks(what: str) -> None:
    call = TAKE_MASK[what]
    for mask, described in (
        (torch.ones(5, 5, dtype=torch.bool), "a Tensor"),
        ("causal", "'causal'"),
        ([1, 0], "a list"),
        (None, "None"),
    ):
        message = error_of(call, mask)
        assert f"mask is {described}; it must be a Mask" in message
        assert "Allowed(boolean tensor)" in message
    message = error_of(call, Causal)
    assert "mask is the class Causal" in message
    assert "Causal()." in message
    assert "Padding(…)." in error_of(call, Padding)


def test_a_mask_in_place_of_the_context() -> None:
    assert "mask=…" in error_of(lambda mask: SELF(X, mask), Causal())


@pytest.mark.parametrize("what", CONTINUE)
def test_wrong_states(what: str) -> None:
    call, layer = CONTINUE[what], what.split(maxsplit=1)[0].replace("EncoderBlock", "MultiHead")
    begun = RECURRENT if layer == "Recurrent" else SELF
    call(begun.start(2))
    assert f"{layer} was given a state of 3 rows and tokens of 2" in error_of(call, begun.start(3))
    assert f"{layer} was given state = None; it must be a decoding state" in error_of(call, None)
    assert f"{layer} was given state = a Step; it must be a decoding state" in error_of(
        call, Step(X, begun.start(2))
    )


def test_wrong_states_of_a_decoder_block() -> None:
    def call(state: Any) -> object:
        return DECODER.step(state, X)

    assert "given a state of type NoneType; it must be a DecoderState" in error_of(call, None)
    assert "Begin with start(context)" in error_of(call, SELF.start(2))
    assert "a state of 1 rows and tokens of 2" in error_of(call, DECODER.start(CONTEXT[:1]))


def test_wrong_states_of_a_recurrent_layer() -> None:
    def call(state: Any) -> object:
        return RECURRENT(X, state=state)

    assert "a state of 3 rows and tokens of 2" in error_of(call, RECURRENT.start(3))


@pytest.mark.parametrize(
    "layer",
    [
        *(SELF, CROSS, FEED_FORWARD, ENCODER, DECODER),
        *(RECURRENT, CONVOLUTION, STRUCTURED, CONTEXT_POOLING),
        *(
            build_position(name, model_dim=6, head_dim=4, num_heads=2)
            for name, entry in POSITIONS.items()
            if entry.acts_on == "tokens"
        ),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_wrong_shapes_of_cost(layer: Any) -> None:
    name = type(layer).__name__
    message = error_of(layer.cost, 9)
    assert f"{name}.cost was called with 9; it must be a SequenceShape" in message
    assert "cost(SequenceShape(batch_size=…, length=9))" in message


class ForFourHeads(ScaledDotAttention):
    num_heads = 4


def attention(**options: Any) -> MultiHead:
    return MultiHead(**{"model_dim": 12, "num_heads": 2, **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"mechanism": ScaledDotAttention},
            "mechanism is the class ScaledDotAttention; it must be a name from `regard list` or a "
            "Mechanism instance. Build it, e.g. ScaledDotAttention(…).",
        ),
        ({"mechanism": nn.Linear}, "mechanism is the class Linear;"),
        ({"mechanism": None}, "mechanism is None, of type NoneType;"),
        ({"mechanism": 3}, "mechanism is 3, of type int;"),
        ({"mechanism": nn.Linear(2, 2)}, "of type Linear;"),
        (
            {"mechanism": ForFourHeads()},
            "num_heads=2 and a ForFourHeads built for num_heads=4: they must be equal",
        ),
        ({"role": "both"}, "role=both: it must be 'self' or 'cross'"),
        ({"role": None}, "role=None: it must be 'self' or 'cross'"),
        ({"position": "sinusoidal"}, "position 'sinusoidal', which is added"),
        ({"position": LearnedPositions(model_dim=12)}, "position 'learned', which is added"),
        ({"position": "rotery"}, "Unknown position 'rotery'. Did you mean 'rotary'?"),
        ({"position": 3}, "a position of type int; it must be one of the names rotary, alibi"),
        ({"position": Alibi}, "the class Alibi as position: build it, e.g. Alibi(…)"),
        ({"position": {}}, "a position of type dict"),
        ({"position": torch.ones(2)}, "a position of type Tensor"),
        ({"position": "rotary", "role": "cross"}, "role 'cross' and a position (Rotary)"),
        ({"position": "rotary", "head_dim": 5}, "head_dim=5: it must be a multiple of 2"),
        ({"position": "alibi", "mechanism": "elu"}, "'elu' cannot use a score bias"),
    ],
)
def test_invalid_attention_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RegardError) as raised:
        attention(**options)
    assert message in str(raised.value)


def test_positions_are_built_by_name() -> None:
    rotary, alibi = attention(position="rotary").rotary, attention(position="alibi").score_bias
    assert isinstance(rotary, Rotary)
    assert rotary.head_dim == 6
    assert isinstance(alibi, Alibi)
    assert len(alibi.slopes) == 2
    for none in ("none", None, NoPositions()):
        layer = attention(position=none)
        assert (layer.rotary, layer.score_bias) == (None, None)


def test_a_mechanism_built_for_the_number_of_heads() -> None:
    assert attention(model_dim=12, num_heads=4, mechanism=ForFourHeads()).sizes.num_heads == 4


@pytest.mark.parametrize(
    ("kind", "sizes"),
    [
        (
            MultiHead,
            {
                "model_dim": 12,
                "num_heads": 2,
                "num_kv_heads": 1,
                "head_dim": 4,
                "value_dim": 3,
                "max_length": 9,
            },
        ),
        (MultiHead, {"model_dim": 12, "num_heads": 2, "role": "cross", "context_dim": 5}),
        (FeedForward, {"model_dim": 4, "hidden_dim": 3}),
        (StructuredPooling, {"model_dim": 4, "hidden_dim": 3, "hops": 2}),
        (ContextPooling, {"model_dim": 4, "hidden_dim": 3}),
        (Convolution, {"model_dim": 4, "output_dim": 3, "width": 3, "stride": 2}),
        (Recurrent, {"model_dim": 4, "hidden_dim": 3}),
        (LearnedPositions, {"model_dim": 4, "max_length": 3}),
        (Alibi, {"num_heads": 3}),
        (SequenceShape, {"batch_size": 2, "length": 3, "context_length": 4}),
    ],
)
def test_invalid_sizes(kind: Any, sizes: dict[str, Any]) -> None:
    kind(**sizes)
    for name in sizes:
        if name == "role":
            continue
        for size in (0, -1, 2.5, "4", True):
            with pytest.raises(RegardError) as raised:
                kind(**{**sizes, name: size})
            shown = size if kind is not SequenceShape else repr(size)
            assert f"{name}={shown}" in str(raised.value)
            assert kind.__name__ in str(raised.value)


@pytest.mark.parametrize("width", [0, 3, 2.5, "4"])
def test_odd_widths(width: Any) -> None:
    with pytest.raises(RegardError, match=f"Rotary.head_dim={width}: "):
        Rotary(head_dim=width)
    with pytest.raises(RegardError, match=f"SinusoidalPositions.model_dim={width}: "):
        SinusoidalPositions(model_dim=width)


@pytest.mark.parametrize("dropout", [-0.1, 1.0, 5, "0.1", None])
def test_invalid_dropout(dropout: Any) -> None:
    for build in (attention, lambda **options: FeedForward(model_dim=4, **options)):
        with pytest.raises(RegardError) as raised:
            build(dropout=dropout)
        assert f".dropout={dropout}: it must be" in str(raised.value)


def test_sublayers_of_different_widths() -> None:
    with pytest.raises(RegardError) as raised:
        EncoderBlock(attention=attention(), feed_forward=FeedForward(model_dim=8))
    assert "different model_dim (attention 12, feed_forward 8)" in str(raised.value)
    with pytest.raises(RegardError) as raised:
        DecoderBlock(
            self_attention=attention(),
            cross_attention=attention(model_dim=8, role="cross"),
            feed_forward=FeedForward(model_dim=12),
        )
    widths = "different model_dim (self_attention 12, cross_attention 8, feed_forward 12)"
    assert widths in str(raised.value)


def test_sublayers_of_other_types() -> None:
    feed_forward: Any = FeedForward(model_dim=12)
    foreign: Any = nn.MultiheadAttention(12, 2)
    missing = "attention = a MultiheadAttention; .* it has no model_dim, start, extend, read, step"
    with pytest.raises(RegardError, match=missing):
        EncoderBlock(attention=foreign, feed_forward=feed_forward)
    with pytest.raises(RegardError, match="EncoderBlock was given attention of role 'cross'"):
        EncoderBlock(attention=attention(role="cross"), feed_forward=feed_forward)
    with pytest.raises(RegardError, match="feed_forward = a MultiheadAttention; it must be a Feed"):
        EncoderBlock(attention=attention(), feed_forward=foreign)
