"""What a layer cannot be built from: the error says what was given, the rule and the way out."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from regard.core.errors import RegardError
from regard.layers.alibi import Alibi
from regard.layers.blocks import DecoderBlock, EncoderBlock
from regard.layers.convolution import Convolution
from regard.layers.cost import SequenceShape
from regard.layers.feed_forward import FeedForward
from regard.layers.multi_head import MultiHead
from regard.layers.pooling import ContextPooling, StructuredPooling
from regard.layers.positions import LearnedPositions, NoPositions, SinusoidalPositions
from regard.layers.recurrent import Recurrent
from regard.layers.rotary import Rotary
from regard.mechanisms.scores.dot_product import ScaledDotAttention

pytestmark = pytest.mark.usefixtures("as_users_call")


class ForFourHeads(ScaledDotAttention):
    num_heads = 4


def attention(**options: Any) -> MultiHead:
    return MultiHead(**{"model_dim": 12, "num_heads": 2, **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"mechanism": ScaledDotAttention},
            "mechanism is a class; give a name of `regard list` or a built Mechanism; you gave the "
            "class ScaledDotAttention: build it, e.g. ScaledDotAttention(…).",
        ),
        ({"mechanism": nn.Linear}, "a built Mechanism; you gave the class Linear."),
        ({"mechanism": None}, "mechanism is None, of type NoneType; give a name of `regard list`"),
        ({"mechanism": 3}, "mechanism is 3, of type int; give a name"),
        ({"mechanism": nn.Linear(2, 2)}, "of type Linear; give a name"),
        (
            {"mechanism": ForFourHeads()},
            "num_heads=2 and a ForFourHeads built for num_heads=4: they must be equal, or the "
            "mechanism's 1. Build it with num_heads=2, or give it by name.",
        ),
        ({"role": "both"}, "role='both'; it must be 'self', where x reads itself, or 'cross'"),
        ({"role": None}, "role=None; it must be 'self'"),
        (
            {"position": "sinusoidal"},
            "position 'sinusoidal', which is added to the tokens: it is given to the model, before "
            "its first block. A MultiHead takes those that act on heads or scores: rotary, alibi.",
        ),
        ({"position": LearnedPositions(model_dim=12)}, "position 'learned', which is added"),
        ({"position": "rotery"}, "Unknown position 'rotery'. Did you mean 'rotary'?"),
        ({"position": 3}, "a position of type int; it must be one of the names rotary, alibi"),
        ({"position": Alibi}, "the class Alibi as position: build it, e.g. Alibi(…)"),
        ({"position": {}}, "a position of type dict"),
        ({"position": torch.ones(2)}, "a position of type Tensor"),
        ({"position": "rotary", "role": "cross"}, "role 'cross' and a position (Rotary)"),
        ({"position": "rotary", "head_dim": 5}, "Rotary positions turn features in pairs"),
        ({"position": "alibi", "mechanism": "elu"}, "'elu' cannot take positions that are added"),
    ],
)
def test_an_attention_that_cannot_be_built(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RegardError) as raised:
        attention(**options)
    assert message in str(raised.value)


def test_positions_by_name_are_built_for_the_layers_heads() -> None:
    rotary, alibi = attention(position="rotary").rotary, attention(position="alibi").score_bias
    assert isinstance(rotary, Rotary)
    assert rotary.head_dim == 6
    assert isinstance(alibi, Alibi)
    assert len(alibi.slopes) == 2
    for none in ("none", None, NoPositions()):
        layer = attention(position=none)
        assert (layer.rotary, layer.score_bias) == (None, None)


def test_a_mechanism_for_one_head_or_for_all_is_taken() -> None:
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
def test_sizes_are_whole_and_positive(kind: Any, sizes: dict[str, Any]) -> None:
    kind(**sizes)
    for name in sizes:
        if name == "role":
            continue
        for size in (0, -1, 2.5, "4", True):
            with pytest.raises(RegardError) as raised:
                kind(**{**sizes, name: size})
            expected = f"{kind.__name__} has {name}={size!r}; it must be a whole number, 1 or more."
            assert str(raised.value) == expected


@pytest.mark.parametrize("width", [0, 3, 2.5, "4"])
def test_a_width_in_pairs_is_even(width: Any) -> None:
    for build in (
        lambda: Rotary(head_dim=width),
        lambda: SinusoidalPositions(model_dim=width),
    ):
        with pytest.raises(
            RegardError, match=f"in pairs, but the width is {width}. Choose an even"
        ):
            build()


@pytest.mark.parametrize("dropout", [-0.1, 1.0, 5, "0.1", None])
def test_dropout_is_a_share(dropout: Any) -> None:
    for build in (attention, lambda **options: FeedForward(model_dim=4, **options)):
        with pytest.raises(RegardError) as raised:
            build(dropout=dropout)
        assert f"has dropout={dropout!r}; it must be a number from 0 (none)" in str(raised.value)


def test_the_parts_of_a_block_have_one_width() -> None:
    with pytest.raises(RegardError) as raised:
        EncoderBlock(attention=attention(), feed_forward=FeedForward(model_dim=8))
    different = "given parts of different model_dim"
    assert f"EncoderBlock was {different} (attention 12, feed_forward 8)" in str(raised.value)
    with pytest.raises(RegardError) as raised:
        DecoderBlock(
            self_attention=attention(),
            cross_attention=attention(model_dim=8, role="cross"),
            feed_forward=FeedForward(model_dim=12),
        )
    widths = "(self_attention 12, cross_attention 8, feed_forward 12): they must be equal."
    assert f"DecoderBlock was {different} {widths}" in str(raised.value)


def test_the_parts_of_a_block_are_of_their_kind() -> None:
    feed_forward: Any = FeedForward(model_dim=12)
    foreign: Any = nn.MultiheadAttention(12, 2)
    with pytest.raises(RegardError, match="a MultiheadAttention as attention; it must be a Multi"):
        EncoderBlock(attention=foreign, feed_forward=feed_forward)
    with pytest.raises(RegardError, match="EncoderBlock was given attention of role 'cross'"):
        EncoderBlock(attention=attention(role="cross"), feed_forward=feed_forward)
    with pytest.raises(
        RegardError, match="a MultiheadAttention as feed_forward; it must be a Feed"
    ):
        EncoderBlock(attention=attention(), feed_forward=foreign)
