"""Interventions equal a change of the weights, for attention layers and recurrent decoders."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.explain.test_trace import TARGET, TOKENS, build
from torch import Tensor

from regard.core.batches import TokenInput
from regard.core.errors import RegardError
from regard.core.masks import Causal, Padding
from regard.explain.interventions import (
    HeadEdit,
    KnockOut,
    MeanHead,
    PatchWeights,
    SetWeights,
    ZeroHead,
)
from regard.explain.trace import Trace, trace_attention
from regard.layers.multi_head import MultiHead
from regard.mechanisms import MECHANISMS
from regard.models.generation.search import decode

MASK = Causal() & Padding(torch.tensor([5, 3]))


def _layer(mechanism: str = "scaled_dot") -> tuple[MultiHead, Tensor]:
    torch.manual_seed(0)
    layer = MultiHead(model_dim=16, num_heads=4, num_kv_heads=2, mechanism=mechanism, max_length=8)
    return layer.double().eval(), torch.randn(2, 5, 16, dtype=torch.float64)


def _traced(layer: MultiHead, x: Tensor, *edits: HeadEdit) -> tuple[Tensor, Trace]:
    with trace_attention(layer, interventions=edits) as trace:
        output = layer(x, mask=MASK)
    return output.detach(), trace


def _written(trace: Trace, weights: Tensor) -> Tensor:
    """What the layer would write with other weights."""
    (call,) = trace
    assert call.projection is not None
    assert call.bias is not None
    heads = weights @ call.value
    return (torch.einsum("bhqv,hvm->bqm", heads, call.projection) + call.bias).detach()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_edits_equal_the_layer_with_edited_weights(mechanism: str) -> None:
    layer, x = _layer(mechanism)
    _, trace = _traced(layer, x)
    name = "decoder/0"
    whole = trace[name].weights()
    given = torch.rand(5, 5, dtype=torch.float64)

    zeroed, edge, column, row, changed = (whole.clone() for _ in range(5))
    zeroed[:, 1] = 0
    edge[:, 2, 4, 1] = 0
    column[..., 1] = 0
    row[:, 3, 2] = 0
    changed[:, 0] = given
    allowed = (
        torch.ones(5, 5).tril().bool() & (torch.arange(5) < torch.tensor([5, 3])[:, None])[:, None]
    )
    means = whole.clone()
    means[:, 2] = allowed.double() / allowed.sum(dim=-1, keepdim=True)
    for edit, expected in {
        ZeroHead(name, 1): zeroed,
        ZeroHead(name): torch.zeros_like(whole),
        KnockOut(name, 2, query=4, key=1): edge,
        KnockOut(name, key=1): column,
        KnockOut(name, 3, query=2): row,
        SetWeights(name, 0, weights=given): changed,
        SetWeights(name, weights=whole.flip(0)): whole.flip(0),
        MeanHead(name, 2): means,
        PatchWeights(name, 1, trace=trace): whole,
    }.items():
        output, edited = _traced(layer, x, edit)
        torch.testing.assert_close(output, _written(trace, expected), atol=1e-10, rtol=0)
        torch.testing.assert_close(edited[name].weights(), expected, atol=1e-10, rtol=0)
        torch.testing.assert_close(edited[name].written(), output, atol=1e-10, rtol=0)


def test_edits_of_one_layer_follow_each_other() -> None:
    layer, x = _layer()
    _, trace = _traced(layer, x)
    edits = [SetWeights("decoder/0", 0, weights=torch.eye(5)), KnockOut("decoder/0", key=2)]
    output, edited = _traced(layer, x, *edits)
    expected = trace["decoder/0"].weights()
    expected[:, 0] = torch.eye(5)
    expected[..., 2] = 0
    torch.testing.assert_close(edited["decoder/0"].weights(), expected)
    torch.testing.assert_close(output, _written(trace, expected))


def test_gradients_under_an_intervention_are_those_of_the_edited_layer() -> None:
    layer, x = _layer()
    x.requires_grad_()
    with trace_attention(layer, interventions=[KnockOut("decoder/0", query=4, key=1)]):
        (found,) = torch.autograd.grad(layer(x, mask=MASK).tanh().sum(), x)
    with trace_attention(layer) as trace:
        layer(x, mask=MASK)
    (call,) = trace
    weights = call.compute_weights()
    without = torch.ones(5, 5, dtype=torch.float64)
    without[4, 1] = 0
    heads = ((weights * without) @ call.value).transpose(1, 2).flatten(2)
    (expected,) = torch.autograd.grad(layer.output(heads).tanh().sum(), x)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("name", ["transformer", "hybrid", "luong", "input-feeding", "bahdanau"])
def test_patched_weights_of_another_input_give_its_attention(name: str) -> None:
    model: Any = build(name)[0]
    other = TokenInput(TOKENS.tokens.flip(0).clamp(min=4), torch.tensor([5, 5]))
    with trace_attention(model) as theirs:
        model(other, TARGET)
    edits = [PatchWeights(layer, trace=theirs) for layer in theirs.calls]
    with trace_attention(model, interventions=edits) as trace:
        patched = model(TOKENS, TARGET)
    for call in trace:
        torch.testing.assert_close(call.weights(), theirs[call.name].weights())
        torch.testing.assert_close(call.weights() @ call.value, call.output)
    assert (patched - model(TOKENS, TARGET)).abs().max() > 1e-6
    # Its own weights change nothing.
    with trace_attention(model) as own:
        expected = model(TOKENS, TARGET)
    edits = [PatchWeights(layer, trace=own) for layer in own.calls]
    with trace_attention(model, interventions=edits):
        torch.testing.assert_close(model(TOKENS, TARGET), expected)


@pytest.mark.parametrize("name", ["luong", "input-feeding", "bahdanau"])
def test_recurrent_decoders_without_an_edge(name: str) -> None:
    model: Any = build(name)[0]
    expected = model(TOKENS, TARGET)
    with trace_attention(model, interventions=[KnockOut("cross/0", query=2, key=1)]) as trace:
        found = model(TOKENS, TARGET)
    weights = trace["cross/0"].weights()
    assert (weights[:, :, 2, 1] == 0).all()
    assert (weights[:, :, 1, 1] > 0).all()
    # The first steps are as before, the others are not.
    torch.testing.assert_close(found[:, :2], expected[:, :2])
    assert (found[:, 2] - expected[:, 2]).abs().max() > 1e-8
    assert name == "luong" or (found[:, 3] - expected[:, 3]).abs().max() > 1e-12
    with trace_attention(model, interventions=[ZeroHead("cross/0")]) as trace:
        model(TOKENS, TARGET)
    assert not trace["cross/0"].output.any()


@pytest.mark.parametrize("name", ["transformer", "bahdanau"])
def test_decoding_with_a_change(name: str) -> None:
    model: Any = build(name)[0]
    edits = [ZeroHead("cross/0"), KnockOut("cross/0", query=3, key=0)]
    with trace_attention(model, interventions=edits) as trace:
        (first, _) = decode(model, TOKENS, use_cache=False, max_length=5)
    with trace_attention(model, interventions=edits):
        logits = model(TOKENS, torch.tensor([[1, *first.tokens[:-1]]] * 2))[0]
    logits[:, :2] = -torch.inf
    assert logits.argmax(dim=-1).tolist() == list(first.tokens)
    whole = trace["cross/0"].weights()
    with trace_attention(model) as before:
        decode(model, TOKENS, use_cache=False, max_length=5)
    given = before["cross/0"].weights()
    with trace_attention(model, interventions=[SetWeights("cross/0", weights=given)]):
        decode(model, TOKENS, use_cache=False, max_length=5)
    assert whole.shape == given.shape


def test_edits_of_layers_heads_and_positions_that_are_not_there() -> None:
    layer, x = _layer()
    _, trace = _traced(layer, x)
    own = "decoder/0"
    shape = r"shape \(4, 4\); they must be \(queries, keys\) = \(5, 5\)"
    for edit, message in [
        (ZeroHead("decoder/1"), "Unknown attention layer 'decoder/1'"),
        (
            ZeroHead(own, 4),
            "ZeroHead has head=4, counted from 0, but the layer 'decoder/0' has 4 heads",
        ),
        (MeanHead(own, -1), "MeanHead has head=-1, .* Choose one from 0 to 3"),
        (KnockOut(own, 0, query=5), "KnockOut has query=5, .* 5 queries here"),
        (KnockOut(own, 0, key=7), "KnockOut has key=7, .* 5 keys here"),
        (SetWeights(own, weights=torch.ones(4, 4)), shape),
        (SetWeights(own, weights=torch.ones(6, 6)), r"\(6, 6\).*Take an input of the same length"),
        (SetWeights(own, weights=torch.ones(3, 5, 5)), "broadcast"),
    ]:
        with pytest.raises(RegardError, match=message):
            _traced(layer, x, edit)
    with pytest.raises(RegardError, match="neither a query nor a key"):
        KnockOut(own, 0)
    with pytest.raises(RegardError, match=r"shape \(5,\); they must be \(queries, keys\)"):
        SetWeights(own, weights=torch.ones(5))
    with pytest.raises(RegardError, match="Unknown attention layer 'cross/0'"):
        PatchWeights("cross/0", trace=trace)
