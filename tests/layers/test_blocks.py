"""Encoder block: parity with torch, decoding, weights, cost."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from regard.core.masks import NO_MASK, Causal, Mask, Padding
from regard.layers.blocks import EncoderBlock
from regard.layers.cost import SequenceShape
from regard.layers.feed_forward import FeedForward
from regard.layers.multi_head import MultiHead
from regard.layers.rotary import Rotary

BATCH, LENGTH, MODEL_DIM, HEADS, HIDDEN = 2, 11, 30, 3, 37
PADDING = Padding(torch.tensor([11, 5]))
Copy = Callable[..., None]


def block(
    *, norm_first: bool = True, activation: str = "relu", rotary: bool = False
) -> EncoderBlock:
    position = Rotary(head_dim=10) if rotary else None
    return EncoderBlock(
        attention=MultiHead(model_dim=MODEL_DIM, num_heads=HEADS, position=position),
        feed_forward=FeedForward(model_dim=MODEL_DIM, hidden_dim=HIDDEN, activation=activation),
        norm_first=norm_first,
    )


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("mask", [NO_MASK, Causal(), PADDING, Causal() & PADDING], ids=str)
def test_parity_with_torch(
    norm_first: bool,
    activation: str,
    mask: Mask,
    copy_attention: Copy,
    copy_feed_forward: Copy,
    stir: Copy,
) -> None:
    theirs = nn.TransformerEncoderLayer(
        MODEL_DIM,
        HEADS,
        HIDDEN,
        dropout=0.0,
        activation=activation,
        norm_first=norm_first,
        batch_first=True,
    )
    stir(theirs)
    ours = block(norm_first=norm_first, activation=activation)
    copy_attention(theirs.self_attn, ours.attention)
    copy_feed_forward(theirs, ours.feed_forward)
    ours.around_attention.norm.load_state_dict(theirs.norm1.state_dict())
    ours.around_feed_forward.norm.load_state_dict(theirs.norm2.state_dict())
    x = torch.randn(BATCH, LENGTH, MODEL_DIM)
    causal = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1) if mask.causal else None
    padding = None if mask.lengths is None else ~mask.keep(LENGTH)
    expected = theirs(x, src_mask=causal, src_key_padding_mask=padding)
    torch.testing.assert_close(ours(x, mask), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("norm_first", [True, False])
def test_steps_equal_causal_forward(norm_first: bool, stir: Copy) -> None:
    layer = block(norm_first=norm_first, rotary=True).double()
    stir(layer)
    x = torch.randn(BATCH, LENGTH, MODEL_DIM, dtype=torch.float64)
    state, rows = layer.start(BATCH), []
    for token in x.unbind(1):
        output, state = layer.step(state, token[:, None])
        rows.append(output)
    torch.testing.assert_close(torch.cat(rows, dim=1), layer(x, Causal()))


def test_weights_use_the_normed_input(stir: Copy) -> None:
    layer, x = block(), torch.randn(BATCH, LENGTH, MODEL_DIM)
    stir(layer)
    normed = layer.around_attention.norm(x)
    assert isinstance(layer.attention, MultiHead)
    torch.testing.assert_close(layer.weights(x), layer.attention.weights(normed))


def test_gradients_reach_every_parameter() -> None:
    layer = block()
    layer(torch.randn(BATCH, LENGTH, MODEL_DIM)).square().sum().backward()
    for parameter in layer.parameters():
        assert parameter.grad is not None
        assert parameter.grad.any()


def test_cost(check_cost: Copy) -> None:
    shape = SequenceShape(batch_size=BATCH, length=LENGTH)
    check_cost(block(activation="gelu"), shape, torch.randn(BATCH, LENGTH, MODEL_DIM))


def test_parameters_of_transformer_base() -> None:
    layer = EncoderBlock(
        attention=MultiHead(model_dim=512, num_heads=8),
        feed_forward=FeedForward(model_dim=512, hidden_dim=2048),
    )
    assert 6 * layer.cost(SequenceShape(length=1)).parameters == 18_914_304
