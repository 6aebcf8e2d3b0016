"""Decoder block: parity with torch, decoding, weights, cost; the beam context."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from regard.core.errors import RegardError
from regard.core.masks import NO_MASK, Causal, Mask, Padding
from regard.layers.blocks import BeamContext, DecoderBlock
from regard.layers.cost import SequenceShape
from regard.layers.feed_forward import FeedForward
from regard.layers.multi_head import MultiHead

BATCH, LENGTH, CONTEXT, MODEL_DIM, HEADS, HIDDEN = 2, 11, 7, 30, 3, 37
PADDING = Padding(torch.tensor([7, 3]))
Copy = Callable[..., None]


def block(*, norm_first: bool = True, cross_mechanism: str = "scaled_dot") -> DecoderBlock:
    return DecoderBlock(
        self_attention=MultiHead(model_dim=MODEL_DIM, num_heads=HEADS),
        cross_attention=MultiHead(
            model_dim=MODEL_DIM, num_heads=HEADS, role="cross", mechanism=cross_mechanism
        ),
        feed_forward=FeedForward(model_dim=MODEL_DIM, hidden_dim=HIDDEN),
        norm_first=norm_first,
    )


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("context_mask", [NO_MASK, PADDING], ids=str)
@pytest.mark.parametrize("mask", [Causal(), Causal() & Padding(torch.tensor([11, 5]))], ids=str)
def test_parity_with_torch(
    norm_first: bool,
    context_mask: Mask,
    mask: Mask,
    copy_attention: Copy,
    copy_feed_forward: Copy,
    stir: Copy,
) -> None:
    theirs = nn.TransformerDecoderLayer(
        MODEL_DIM, HEADS, HIDDEN, dropout=0.0, norm_first=norm_first, batch_first=True
    )
    stir(theirs)
    ours = block(norm_first=norm_first)
    copy_attention(theirs.self_attn, ours.self_attention)
    copy_attention(theirs.multihead_attn, ours.cross_attention)
    copy_feed_forward(theirs, ours.feed_forward)
    ours.around_self_attention.norm.load_state_dict(theirs.norm1.state_dict())
    ours.around_cross_attention.norm.load_state_dict(theirs.norm2.state_dict())
    ours.around_feed_forward.norm.load_state_dict(theirs.norm3.state_dict())
    x = torch.randn(BATCH, LENGTH, MODEL_DIM)
    context = torch.randn(BATCH, CONTEXT, MODEL_DIM)
    expected = theirs(
        x,
        context,
        tgt_mask=torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1),
        tgt_key_padding_mask=None if mask.lengths is None else ~mask.keep(LENGTH),
        memory_key_padding_mask=None if context_mask is NO_MASK else ~context_mask.keep(CONTEXT),
    )
    torch.testing.assert_close(ours(x, context, mask, context_mask), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("cross_mechanism", ["scaled_dot", "elu"])
def test_steps_equal_forward(norm_first: bool, cross_mechanism: str, stir: Copy) -> None:
    layer = block(norm_first=norm_first, cross_mechanism=cross_mechanism).double()
    stir(layer)
    x = torch.randn(BATCH, LENGTH, MODEL_DIM, dtype=torch.float64)
    context = torch.randn(BATCH, CONTEXT, MODEL_DIM, dtype=torch.float64)
    expected = layer(x, context, context_mask=PADDING)
    state, rows = layer.start(context, PADDING), []
    for token in x.unbind(1):
        output, state = layer.step(state, token[:, None])
        rows.append(output)
    torch.testing.assert_close(torch.cat(rows, dim=1), expected)
    assert state.position.tolist() == [LENGTH, LENGTH]
    # Beam search reorders both states.
    begun = layer.step(layer.start(context, PADDING), x[:, :4]).state
    swap = torch.tensor([1, 0])
    output, _ = layer.step(begun.select(swap), x[swap, 4:5])
    torch.testing.assert_close(output, expected[swap, 4:5])


def test_weights_of_both_attentions(stir: Copy) -> None:
    layer = block()
    stir(layer)
    x, context = torch.randn(BATCH, LENGTH, MODEL_DIM), torch.randn(BATCH, CONTEXT, MODEL_DIM)
    own, cross = layer.weights(x, context, context_mask=PADDING)
    assert (own.triu(1) == 0).all()
    assert (cross[1, :, :, 3:] == 0).all()
    around = layer.around_self_attention
    attended = around.add(x, layer.self_attention(around.pre_norm(x), mask=Causal()))
    normed = layer.around_cross_attention.pre_norm(attended)
    assert isinstance(layer.cross_attention, MultiHead)
    torch.testing.assert_close(cross, layer.cross_attention.weights(normed, context, PADDING))


def test_no_gradient_from_later_targets() -> None:
    layer = block()
    x = torch.randn(1, LENGTH, MODEL_DIM, requires_grad=True)
    output = layer(x, torch.randn(1, CONTEXT, MODEL_DIM))
    (gradient,) = torch.autograd.grad(output[0, 4].sum(), x)
    assert (gradient[0, 5:] == 0).all()


def test_cost(check_cost: Copy) -> None:
    shape = SequenceShape(batch_size=BATCH, length=LENGTH, context_length=CONTEXT, causal=True)
    x, context = torch.randn(BATCH, LENGTH, MODEL_DIM), torch.randn(BATCH, CONTEXT, MODEL_DIM)
    check_cost(block(cross_mechanism="additive"), shape, x, context)


def test_parameters_of_transformer_base() -> None:
    layer = DecoderBlock(
        self_attention=MultiHead(model_dim=512, num_heads=8),
        cross_attention=MultiHead(model_dim=512, num_heads=8, role="cross"),
        feed_forward=FeedForward(model_dim=512, hidden_dim=2048),
    )
    shape = SequenceShape(length=1, context_length=1)
    assert 6 * layer.cost(shape).parameters == 25_224_192


def test_an_attention_of_the_other_role_is_an_error() -> None:
    own = MultiHead(model_dim=MODEL_DIM, num_heads=HEADS)
    with pytest.raises(RegardError, match=r"cross_attention of role 'self'"):
        DecoderBlock(
            self_attention=own, cross_attention=own, feed_forward=FeedForward(model_dim=MODEL_DIM)
        )


CPU = torch.device("cpu")


def rows(count: int) -> torch.Tensor:
    return torch.arange(1.0, count + 1)[:, None, None]


def test_beams_of_different_sizes() -> None:
    beam_context = BeamContext.of(torch.tensor([0, 0, 0, 1, 2, 2]), 3)
    gathered = beam_context.gather(rows(6))
    assert gathered[..., 0].tolist() == [[1, 2, 3], [4, 0, 0], [5, 6, 0]]
    assert torch.equal(beam_context.scatter(gathered), rows(6))


def test_any_order_and_unused_contexts() -> None:
    beam_context = BeamContext.of(torch.tensor([2, 0, 2]), 3)
    gathered = beam_context.gather(rows(3))
    assert gathered[..., 0].tolist() == [[2, 0], [0, 0], [1, 3]]
    assert torch.equal(beam_context.scatter(gathered), rows(3))


def test_full_beams_are_views() -> None:
    for beam_context in (
        BeamContext.identity(4, device=CPU),
        BeamContext.of(torch.tensor([0, 0, 1, 1]), 2),
    ):
        assert beam_context.slot is None
        x = rows(4)
        assert beam_context.gather(x).data_ptr() == x.data_ptr()
        assert torch.equal(beam_context.scatter(beam_context.gather(x)), x)


def test_contexts_are_dropped_when_unused() -> None:
    four = BeamContext.identity(4, device=CPU).select(torch.tensor([0, 0, 1, 2, 3]))
    assert four.kept is None
    assert four.beam_context.width == 2
    three = four.beam_context.select(torch.tensor([4, 0, 2]))
    assert three.kept is not None
    assert three.kept.tolist() == [0, 1, 3]
    assert three.beam_context.context_row.tolist() == [2, 0, 1]
    assert three.beam_context.num_contexts == 3
