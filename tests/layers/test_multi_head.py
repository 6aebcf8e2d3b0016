"""Multi-head attention: parity with torch, weights, costs, invalid arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.core.errors import RegardError
from regard.core.masks import NO_MASK, Allowed, Causal, Mask, Padding, Window
from regard.core.mechanism import Role
from regard.layers.alibi import Alibi
from regard.layers.cost import SequenceShape
from regard.layers.multi_head import MultiHead
from regard.layers.projections import SelfProjection
from regard.layers.rotary import Rotary
from regard.mechanisms import MECHANISMS, build_mechanism
from regard.mechanisms.scores.dot_product import ScaledDotAttention

BATCH, LENGTH, CONTEXT = 2, 11, 7
HEADS, HEAD_DIM, MODEL_DIM = 3, 10, 30
LENGTHS = torch.tensor([11, 5])
Copy = Callable[..., None]
exactly: dict[str, Any] = {"rtol": 0.0, "atol": 1e-6}


def hidden_from_torch(mask: Mask, key_length: int) -> dict[str, Any]:
    """torch reads True as *may not attend*."""
    causal = torch.ones(LENGTH, key_length, dtype=torch.bool).triu(1) if mask.causal else None
    padding = None if mask.lengths is None else ~mask.keep(key_length)
    return {"attn_mask": causal, "key_padding_mask": padding}


@pytest.mark.parametrize(
    "mask", [NO_MASK, Causal(), Padding(LENGTHS), Causal() & Padding(LENGTHS)], ids=str
)
def test_self_attention_parity_with_torch(mask: Mask, copy_attention: Copy, stir: Copy) -> None:
    theirs = nn.MultiheadAttention(MODEL_DIM, HEADS, batch_first=True)
    stir(theirs)
    ours = MultiHead(model_dim=MODEL_DIM, num_heads=HEADS)
    copy_attention(theirs, ours)
    x = torch.randn(BATCH, LENGTH, MODEL_DIM)
    hidden = hidden_from_torch(mask, LENGTH)
    expected, weights = theirs(x, x, x, average_attn_weights=False, **hidden)
    torch.testing.assert_close(ours(x, mask=mask), expected, **exactly)
    torch.testing.assert_close(ours.weights(x, mask=mask), weights, **exactly)


@pytest.mark.parametrize("context_dim", [None, 13])
@pytest.mark.parametrize("mask", [NO_MASK, Padding(torch.tensor([7, 3]))], ids=str)
def test_cross_attention_parity_with_torch(
    context_dim: int | None, mask: Mask, copy_attention: Copy, stir: Copy
) -> None:
    theirs = nn.MultiheadAttention(
        MODEL_DIM, HEADS, batch_first=True, kdim=context_dim, vdim=context_dim
    )
    stir(theirs)
    ours = MultiHead(model_dim=MODEL_DIM, num_heads=HEADS, role="cross", context_dim=context_dim)
    copy_attention(theirs, ours)
    x = torch.randn(BATCH, LENGTH, MODEL_DIM)
    context = torch.randn(BATCH, CONTEXT, context_dim or MODEL_DIM)
    hidden = hidden_from_torch(mask, CONTEXT)
    expected, weights = theirs(x, context, context, average_attn_weights=False, **hidden)
    torch.testing.assert_close(ours(x, context, mask), expected, **exactly)
    torch.testing.assert_close(ours.weights(x, context, mask), weights, **exactly)


def test_two_heads_by_hand() -> None:
    """Each head copies one feature of the token it attends to; the output swaps the features."""
    layer = MultiHead(model_dim=2, num_heads=2, mechanism="dot", bias=False)
    assert isinstance(layer.projection, SelfProjection)
    large = 100.0
    with torch.no_grad():
        query = torch.tensor([[large, 0.0], [0.0, large]])
        layer.projection.linear.weight.copy_(torch.cat([query, torch.eye(2), torch.eye(2)]))
        layer.output.weight.copy_(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    # The first head attends to the largest first feature, the second to the largest second one.
    output = layer(torch.tensor([[[1.0, 2.0], [3.0, 1.0]]]))
    torch.testing.assert_close(output, torch.tensor([[[2.0, 3.0], [2.0, 3.0]]]))


def build(name: str, **options: Any) -> MultiHead:
    sizes = {"model_dim": MODEL_DIM, "num_heads": HEADS, "max_length": 13}
    return MultiHead(mechanism=name, **{**sizes, **options})


def mask_of(name: str) -> Mask:
    return Causal() if build(name).mechanism.capabilities.requires_causal else NO_MASK


@pytest.mark.parametrize("name", MECHANISMS)
def test_weights_reproduce_forward(name: str, stir: Copy) -> None:
    """The output is the weights times the projected values, then the output projection."""
    layer = build(name, num_kv_heads=1, value_dim=7, bias=False).double()
    stir(layer)
    x = torch.randn(BATCH, LENGTH, MODEL_DIM, dtype=torch.float64)
    mask = mask_of(name) & Padding(LENGTHS)
    value = layer.projection.key_value(x).value.expand(-1, HEADS, -1, -1)
    read = layer.weights(x, mask=mask) @ value
    expected = layer.output(read.transpose(1, 2).flatten(2))
    torch.testing.assert_close(layer(x, mask=mask), expected)


@pytest.mark.parametrize("name", MECHANISMS)
def test_gradients_reach_every_parameter(name: str, stir: Copy) -> None:
    layer = build(name)
    stir(layer)
    layer(torch.randn(BATCH, LENGTH, MODEL_DIM), mask=mask_of(name)).square().sum().backward()
    # A synthesizer does not use keys or queries: their rows of the fused matrix have no gradient.
    for parameter in layer.parameters():
        assert parameter.grad is not None
        assert parameter.grad.isfinite().all()
        assert parameter.grad.any()


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("num_kv_heads", [1, 3])
def test_cost_of_self_attention(
    name: str, causal: bool, num_kv_heads: int, check_cost: Callable[..., None]
) -> None:
    mask = Causal() if causal else mask_of(name)
    layer = build(name, num_kv_heads=num_kv_heads, value_dim=7)
    shape = SequenceShape(batch_size=BATCH, length=LENGTH, causal=mask.causal)
    check_cost(layer, shape, torch.randn(BATCH, LENGTH, MODEL_DIM), mask=mask)


@pytest.mark.parametrize("position", [Rotary(head_dim=HEAD_DIM), Alibi(num_heads=HEADS)])
def test_cost_with_positions(position: Any, check_cost: Callable[..., None]) -> None:
    shape = SequenceShape(batch_size=BATCH, length=LENGTH)
    x = torch.randn(BATCH, LENGTH, MODEL_DIM)
    check_cost(build("scaled_dot", position=position), shape, x)


def test_cost_of_cross_attention(check_cost: Callable[..., None]) -> None:
    layer = build("additive", role="cross", context_dim=13)
    shape = SequenceShape(batch_size=BATCH, length=LENGTH, context_length=CONTEXT)
    context = torch.randn(BATCH, CONTEXT, 13)
    check_cost(layer, shape, torch.randn(BATCH, LENGTH, MODEL_DIM), context)
    with pytest.raises(RegardError, match="context_length"):
        layer.cost(SequenceShape(length=LENGTH))


def test_matmul_flops_do_not_depend_on_the_number_of_heads() -> None:
    shape = SequenceShape(length=LENGTH)
    one, three = (
        MultiHead(model_dim=MODEL_DIM, num_heads=heads).cost(shape) for heads in (1, HEADS)
    )
    assert one.matmul_flops == three.matmul_flops
    assert one.parameters == three.parameters == 4 * MODEL_DIM**2 + 4 * MODEL_DIM


def test_without_positions_it_is_permutation_equivariant() -> None:
    layer, x = build("scaled_dot"), torch.randn(1, LENGTH, MODEL_DIM)
    order = torch.randperm(LENGTH)
    torch.testing.assert_close(layer(x[:, order]), layer(x)[:, order])


@pytest.mark.parametrize("position", [Rotary(head_dim=HEAD_DIM), Alibi(num_heads=HEADS)])
def test_positions_are_relative(position: Any) -> None:
    layer = build("scaled_dot", position=position).double()
    token = torch.randn(1, 1, MODEL_DIM, dtype=torch.float64)
    x = torch.randn(1, LENGTH, MODEL_DIM, dtype=torch.float64)
    order = torch.randperm(LENGTH)
    assert (layer(x[:, order]) - layer(x)[:, order]).abs().max() > 1e-3
    # A masked token in front shifts all positions by one.
    later = torch.cat([token, x], dim=1)
    hide_first = torch.ones(LENGTH + 1, LENGTH + 1, dtype=torch.bool)
    hide_first[:, 0] = False
    torch.testing.assert_close(layer(later, mask=Allowed(hide_first))[:, 1:], layer(x))


def test_a_mechanism_instance_is_used_as_is() -> None:
    mechanism = ScaledDotAttention()
    assert MultiHead(model_dim=6, num_heads=2, mechanism=mechanism).mechanism is mechanism


def test_dropout_is_on_the_output() -> None:
    layer = MultiHead(model_dim=MODEL_DIM, num_heads=HEADS, dropout=0.9)
    x = torch.randn(BATCH, LENGTH, MODEL_DIM)
    assert 0.8 < (layer(x) == 0).float().mean() < 1
    assert (layer.eval()(x) != 0).all()
    sums: Tensor = layer.train().weights(x).sum(dim=-1)
    torch.testing.assert_close(sums, torch.ones_like(sums))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_heads": 4}, "model_dim=30 and num_heads=4"),
        ({"num_kv_heads": 2}, "num_heads=3 and num_kv_heads=2"),
        ({"context_dim": 13}, "context_dim=13 and role 'self'"),
        ({"mechanism": "scaled_dto"}, "'scaled_dto'. Did you mean 'scaled_dot'"),
        ({"mechanism": "delta", "role": "cross"}, "'delta' cannot be used for cross-attention"),
        (
            {"role": "cross", "position": Rotary(head_dim=10)},
            "role 'cross' and a position (Rotary)",
        ),
        (
            {"mechanism": "elu", "position": Alibi(num_heads=3)},
            "'elu' cannot use a score bias",
        ),
        (
            {
                "mechanism": build_mechanism("dot", query_dim=5, key_dim=5),
                "mechanism_options": {"a": 1},
            },
            "mechanism_options={'a': 1} for a DotAttention",
        ),
        ({"position": Rotary(head_dim=6)}, "heads of width 10 and Rotary positions of head_dim=6"),
        ({"position": Alibi(num_heads=2)}, "num_heads=3 and Alibi positions of num_heads=2"),
    ],
)
def test_invalid_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RegardError) as raised:
        MultiHead(**{"model_dim": MODEL_DIM, "num_heads": HEADS, **options})
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("name", "role", "mask", "message"),
    [
        ("location", "self", NO_MASK, "(max_length=5) but there are 11 keys"),
        (
            "elu",
            "self",
            Window(3),
            "EluAttention does not support the mask Window(3)",
        ),
        (
            "retention",
            "self",
            NO_MASK,
            "RetentionAttention does not support the mask Mask()",
        ),
    ],
)
def test_invalid_calls(name: str, role: Role, mask: Mask, message: str) -> None:
    layer = build(name, role=role, max_length=5)
    for method in (layer, layer.weights):
        with pytest.raises(RegardError) as raised:
            method(torch.randn(BATCH, LENGTH, MODEL_DIM), mask=mask)
        assert message in str(raised.value)
        assert f"Mechanism '{name}' cannot be used: " in str(raised.value)
        assert "hoose one of: dot, scaled_dot, general, additive" in str(raised.value)


def test_context_and_role() -> None:
    x = torch.randn(BATCH, LENGTH, MODEL_DIM)
    with pytest.raises(RegardError, match="role 'self' and was called with a context"):
        build("dot")(x, x)
    cross = build("dot", role="cross")
    with pytest.raises(RegardError, match="role 'cross' and was called without a context"):
        cross(x)
    with pytest.raises(RegardError, match="role 'cross' has no step"):
        cross.step(cross.start(BATCH), x)
