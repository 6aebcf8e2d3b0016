"""Fixtures: copying weights from torch's layers for parity tests, checking declared costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jaxtyping
import pytest
import torch
from torch import Tensor, nn

from regard.core.counter import Counter
from regard.layers.feed_forward import FeedForward
from regard.layers.multi_head import MultiHead
from regard.layers.projections import SelfProjection

CopyWeights = Callable[..., None]


def _copy(source: Tensor, target: Tensor) -> None:
    with torch.no_grad():
        target.copy_(source)


def _attention(theirs: nn.MultiheadAttention, ours: MultiHead) -> None:
    """torch stacks query, key and value rows in this order, unless the widths differ."""
    model_dim = theirs.embed_dim
    if isinstance(ours.projection, SelfProjection):
        _copy(theirs.in_proj_weight, ours.projection.linear.weight)
        _copy(theirs.in_proj_bias, ours.projection.linear.bias)
    else:
        query_linear = ours.projection.query_linear
        key_value_linear = ours.projection.key_value_linear
        _copy(theirs.in_proj_bias[:model_dim], query_linear.bias)
        _copy(theirs.in_proj_bias[model_dim:], key_value_linear.bias)
        if theirs._qkv_same_embed_dim:
            _copy(theirs.in_proj_weight[:model_dim], query_linear.weight)
            _copy(theirs.in_proj_weight[model_dim:], key_value_linear.weight)
        else:
            _copy(theirs.q_proj_weight, query_linear.weight)
            separate = (theirs.k_proj_weight, theirs.v_proj_weight)
            _copy(torch.cat(separate), key_value_linear.weight)
    _copy(theirs.out_proj.weight, ours.output.weight)
    _copy(theirs.out_proj.bias, ours.output.bias)


def _feed_forward(theirs: Any, ours: FeedForward) -> None:
    ours.widen.load_state_dict(theirs.linear1.state_dict())
    ours.narrow.load_state_dict(theirs.linear2.state_dict())


@pytest.fixture
def copy_attention() -> CopyWeights:
    """copy_attention(nn.MultiheadAttention, MultiHead)."""
    return _attention


@pytest.fixture
def copy_feed_forward() -> CopyWeights:
    """copy_feed_forward(nn.TransformerEncoderLayer or DecoderLayer, FeedForward)."""
    return _feed_forward


@pytest.fixture
def check_cost() -> Callable[..., None]:
    """check_cost(layer, shape, *inputs): matmul FLOPs, transcendental ops and parameters as declared."""

    def check(layer: Any, shape: Any, *inputs: Any, **named: Any) -> None:
        with Counter() as counter:
            layer(*inputs, **named)
        cost = layer.cost(shape)
        assert (cost.matmul_flops, cost.transcendental_ops) == (
            counter.matmul_flops,
            counter.transcendental_ops,
        )
        assert cost.parameters == sum(parameter.numel() for parameter in layer.parameters())

    return check


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture
def stir() -> Callable[[nn.Module], None]:
    """Add noise to every parameter, so that initial zeros and ones hide no error."""

    def stir_module(module: nn.Module) -> None:
        generator = torch.Generator().manual_seed(7)
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))

    return stir_module


@pytest.fixture
def as_users_call() -> Iterator[None]:
    """Disable the jaxtyping checks of the test suite, so that the layers' own checks are reached."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
