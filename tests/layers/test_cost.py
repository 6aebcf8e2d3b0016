"""Costs of layers, declared or counted on fake tensors, against a count on real ones."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import pytest
import torch
from tests.factories.declared_costs import assert_declared_cost
from torch import Tensor, nn

from regard.core.errors import RegardError
from regard.core.masks import NO_MASK, Causal, Mask
from regard.layers.blocks import DecoderBlock, EncoderBlock
from regard.layers.convolution import Convolution
from regard.layers.cost import SequenceShape
from regard.layers.feed_forward import ACTIVATIONS, FeedForward
from regard.layers.multi_head import MultiHead
from regard.layers.pooling import ContextPooling, StructuredPooling
from regard.layers.positions import LearnedPositions, NoPositions, SinusoidalPositions
from regard.layers.recurrent import CELLS, Recurrent
from regard.mechanisms import MECHANISMS
from regard.mechanisms.compatibility import compatible_mechanisms

MAX_LENGTH = 160
NUM_SHAPES = 4
MECHANISM_SHAPES = 2


class Sizes(NamedTuple):
    """What one call is like, drawn at random; `width` is that of `heads` heads."""

    batch: int
    length: int
    context: int
    heads: int
    kv_heads: int
    width: int
    hidden: int
    causal: bool
    norm_first: bool

    @property
    def shape(self) -> SequenceShape:
        return SequenceShape(
            batch_size=self.batch,
            length=self.length,
            context_length=self.context,
            causal=self.causal,
        )

    @property
    def mask(self) -> Mask:
        return Causal() if self.causal else NO_MASK

    def x(self) -> Tensor:
        return torch.randn(self.batch, self.length, self.width, requires_grad=True)

    def source(self) -> Tensor:
        return torch.randn(self.batch, self.context, self.hidden, requires_grad=True)

    def token(self) -> Tensor:
        return torch.randn(self.batch, 1, self.width)


def drawn(
    case: object, *, longest: int = 120, head_dims: tuple[int, ...] = (16, 24)
) -> list[Sizes]:
    """The sizes of a case, the same every time."""
    random = Random(str(case))
    sizes = []
    for _ in range(NUM_SHAPES):
        heads = random.choice((2, 3, 4))
        sizes.append(
            Sizes(
                batch=random.randint(1, 4),
                length=random.randint(2, longest),
                context=random.randint(2, longest),
                heads=heads,
                kv_heads=random.choice((1, heads)),
                width=heads * random.choice(head_dims),
                hidden=random.randint(40, 160),
                causal=random.random() < 0.5,
                norm_first=random.random() < 0.5,
            )
        )
    return sizes


def sample_sizes(mechanism: str) -> list[Sizes]:
    """A few: mechanisms have their own test. Narrow heads where features multiply with the width."""
    narrow = MECHANISMS[mechanism].head_dim < 64
    return drawn(mechanism, head_dims=(6, 8) if narrow else (16, 24))[:MECHANISM_SHAPES]


def num_parameters(layer: nn.Module) -> int:
    return sum(parameter.numel() for parameter in layer.parameters())


def activated(name: str) -> Callable[[Sizes], FeedForward]:
    return lambda sizes: FeedForward(
        model_dim=sizes.width, hidden_dim=sizes.hidden, activation=name
    )


SIMPLE: dict[str, Callable[[Sizes], Any]] = {
    **{f"feed_forward {name}": activated(name) for name in ACTIVATIONS},
    "feed_forward without bias": lambda sizes: FeedForward(model_dim=sizes.width, bias=False),
    "convolution": lambda sizes: Convolution(model_dim=sizes.width, width=5),
    "convolution causal": lambda sizes: Convolution(
        model_dim=sizes.width, output_dim=sizes.hidden, width=4, causal=True, bias=False
    ),
    "convolution with strides": lambda sizes: Convolution(
        model_dim=sizes.width, output_dim=sizes.hidden, stride=3
    ),
    "sinusoidal": lambda sizes: SinusoidalPositions(model_dim=sizes.width),
    "learned": lambda sizes: LearnedPositions(model_dim=sizes.width, max_length=MAX_LENGTH),
    "none": lambda _: NoPositions(),
}


@pytest.mark.parametrize("case", SIMPLE)
def test_from_a_sequence_to_a_tensor(case: str) -> None:
    for sizes in drawn(case):
        layer, x = SIMPLE[case](sizes), sizes.x()
        assert_declared_cost(
            layer.cost(sizes.shape),
            parameters=num_parameters(layer),
            forward=lambda layer=layer, x=x: layer(x),
            where=f"{case}, {sizes}",
        )


POOLINGS: dict[str, Callable[[Sizes], Any]] = {
    "context": lambda sizes: ContextPooling(model_dim=sizes.width, hidden_dim=sizes.hidden),
    "structured": lambda sizes: StructuredPooling(
        model_dim=sizes.width, hidden_dim=sizes.hidden, hops=sizes.heads
    ),
}


@pytest.mark.parametrize("case", POOLINGS)
def test_pooling(case: str) -> None:
    for sizes in drawn(case):
        layer, x = POOLINGS[case](sizes), sizes.x()
        assert_declared_cost(
            layer.cost(sizes.shape),
            parameters=num_parameters(layer),
            forward=lambda layer=layer, x=x: layer(x).context,
            where=f"{case}, {sizes}",
        )


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_recurrent(cell: str, bidirectional: bool) -> None:
    for sizes in drawn((cell, bidirectional), longest=6):
        layer = Recurrent(
            model_dim=sizes.width, hidden_dim=sizes.hidden, cell=cell, bidirectional=bidirectional
        )
        x, token, state = sizes.x(), sizes.token(), layer.start(sizes.batch)
        assert_declared_cost(
            layer.cost(sizes.shape),
            parameters=num_parameters(layer),
            forward=lambda layer=layer, x=x: layer(x).output,
            step=None
            if bidirectional
            else lambda layer=layer, token=token, state=state: layer.step(state, token).output,
            where=f"{cell}, {sizes}",
        )


def attention(sizes: Sizes, mechanism: str, **options: Any) -> MultiHead:
    given = {"num_kv_heads": sizes.kv_heads, **options}
    return MultiHead(
        model_dim=sizes.width,
        num_heads=sizes.heads,
        mechanism=mechanism,
        max_length=MAX_LENGTH,
        **given,
    )


def check_self(layer: MultiHead, sizes: Sizes) -> None:
    x, token = sizes.x(), sizes.token()
    with torch.no_grad():
        state = layer.extend(layer.start(sizes.batch), x)
    assert_declared_cost(
        layer.cost(sizes.shape),
        parameters=num_parameters(layer),
        forward=lambda: layer(x, mask=sizes.mask),
        step=lambda: layer.step(state, token).output,
        where=str(sizes),
    )


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_self_attention_with_every_mechanism(mechanism: str) -> None:
    for sizes in sample_sizes(mechanism):
        layer = attention(sizes, mechanism)
        must = layer.mechanism.capabilities.requires_causal
        check_self(layer, sizes._replace(causal=sizes.causal or must))


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "values of another width": {"value_dim": 20, "bias": False},
    "rotary": {"position": "rotary"},
    "narrow window": {"mechanism": "window", "mechanism_options": {"radius": 9}},
    "no attention to keys": {"mechanism": "synthesizer_random", "position": "rotary"},
}


@pytest.mark.parametrize("case", OPTIONS)
def test_self_attention(case: str) -> None:
    for sizes in drawn(case):
        check_self(attention(sizes, **{"mechanism": "scaled_dot", **OPTIONS[case]}), sizes)


@pytest.mark.parametrize(
    "mechanism",
    compatible_mechanisms(role="cross", causal=False, masks=frozenset(), score_bias=False),
)
def test_cross_attention(mechanism: str) -> None:
    for sizes in sample_sizes(mechanism):
        layer = attention(sizes, mechanism, role="cross", context_dim=sizes.hidden)
        x, context, token = sizes.x(), sizes.source(), sizes.token()
        with torch.no_grad():
            state = layer.extend(layer.start(sizes.batch), context)
        assert_declared_cost(
            layer.cost(sizes._replace(causal=False).shape),
            parameters=num_parameters(layer),
            forward=lambda layer=layer, x=x, context=context: layer(x, context),
            step=lambda layer=layer, state=state, token=token: layer.read(state, token),
            where=str(sizes),
        )


BLOCKS = ("scaled_dot", "elu")


@pytest.mark.parametrize("mechanism", BLOCKS)
def test_encoder_block(mechanism: str) -> None:
    for sizes in drawn(mechanism, longest=80):
        block = EncoderBlock(
            attention=attention(sizes, mechanism),
            feed_forward=FeedForward(model_dim=sizes.width),
            norm_first=sizes.norm_first,
        )
        x, token = sizes.x(), sizes.token()
        with torch.no_grad():
            state = block.attention.extend(block.start(sizes.batch), x)
        assert_declared_cost(
            block.cost(sizes.shape),
            parameters=num_parameters(block),
            forward=lambda block=block, x=x, mask=sizes.mask: block(x, mask),
            step=lambda block=block, state=state, token=token: block.step(state, token).output,
            where=str(sizes),
        )


@pytest.mark.parametrize("mechanism", BLOCKS)
def test_decoder_block(mechanism: str) -> None:
    for sizes in drawn(mechanism, longest=80):
        block = DecoderBlock(
            self_attention=attention(sizes, mechanism),
            cross_attention=attention(sizes, mechanism, role="cross", context_dim=sizes.hidden),
            feed_forward=FeedForward(model_dim=sizes.width),
            norm_first=sizes.norm_first,
        )
        x, context, token = sizes.x(), sizes.source(), sizes.token()
        with torch.no_grad():
            state = block.start(context)
            state = state._replace(own=block.self_attention.extend(state.own, x))
        assert_declared_cost(
            block.cost(sizes._replace(causal=True).shape),
            parameters=num_parameters(block),
            forward=lambda block=block, x=x, context=context: block(x, context),
            step=lambda block=block, state=state, token=token: block.step(state, token).output,
            where=str(sizes),
        )


def test_positions_of_a_shape() -> None:
    assert SequenceShape(batch_size=3, length=7).positions == 21


def test_an_empty_shape_is_an_error() -> None:
    with pytest.raises(RegardError, match=r"SequenceShape\.length=0: "):
        SequenceShape(length=0)
