"""Declared costs of every mechanism against the counter, at random shapes and in every form."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch._subclasses import FakeTensorMode

from regard.core.cost import AttentionShape, Cost
from regard.core.counter import Counter
from regard.core.masks import NO_MASK, Causal, Mask
from regard.core.mechanism import Mechanism
from regard.mechanisms import MECHANISMS, build_mechanism

NUM_SHAPES, LONGEST = 20, 600
FLOPS_TOLERANCE = 0.02

# Options used in turn, so that all forms and several radii are covered.
OPTIONS: dict[str, tuple[dict[str, Any], ...]] = {
    "window": tuple({"radius": radius} for radius in (0, 7, 64, 1000)),
    "elu": tuple({"form": form} for form in ("auto", "quadratic", "linear")),
    "taylor": (
        {"form": "auto"},
        {"form": "quadratic"},
        {"form": "linear"},
        {"num_terms": 2, "form": "linear"},
    ),
    "polynomial": (
        {"form": "auto"},
        {"form": "quadratic"},
        {"form": "linear"},
        {"constant": 0.0, "form": "linear"},
    ),
    "random_features": tuple({"form": form} for form in ("auto", "quadratic", "linear")),
    "taylor_window": ({"radius": 64}, {"radius": 0}, {"radius": 9, "num_terms": 2}),
}


class Inputs(NamedTuple):
    """The tensors of one call."""

    query: Tensor
    key: Tensor
    value: Tensor
    gates: dict[str, Any]

    def leaves(self) -> list[Tensor]:
        """All tensors, with gradients enabled."""
        tensors = (self.query, self.key, self.value, *self.gates.values())
        return [tensor.requires_grad_() for tensor in tensors]


def random_shape(name: str, rng: random.Random) -> AttentionShape:
    """Random valid sizes; a third with equal lengths, half with equal widths."""
    causal = built(name, num_heads=1, key_dim=16, options={}).capabilities.requires_causal
    heads, key_dim, key_length = rng.randint(1, 4), rng.randint(16, 64), random_length(rng)
    return AttentionShape(
        batch_size=rng.randint(1, 3),
        num_heads=heads,
        num_kv_heads=rng.choice([kv for kv in range(1, heads + 1) if heads % kv == 0]),
        query_length=rng.choice([key_length, random_length(rng), random_length(rng)]),
        key_length=key_length,
        key_dim=key_dim,
        value_dim=rng.choice([key_dim, rng.randint(16, 64)]),
        causal=causal or rng.random() < 0.5,
    )


def random_length(rng: random.Random) -> int:
    """From 1 to `LONGEST`, log-uniform, since long sequences are slow."""
    return round(LONGEST ** rng.random())


def built(name: str, *, num_heads: int, key_dim: int, options: dict[str, Any]) -> Mechanism:
    return build_mechanism(
        name,
        query_dim=key_dim,
        key_dim=key_dim,
        num_heads=num_heads,
        max_length=LONGEST + 1,
        **options,
    )


def random_inputs(mechanism: Mechanism, shape: AttentionShape, queries: int, keys: int) -> Inputs:
    kv_heads = shape.num_kv_heads or shape.num_heads
    widths = {"one": 1, "key_dim": shape.key_dim}
    return Inputs(
        torch.randn(shape.batch_size, shape.num_heads, queries, shape.key_dim),
        torch.randn(shape.batch_size, kv_heads, keys, shape.key_dim),
        torch.randn(shape.batch_size, kv_heads, keys, shape.value_dim),
        {
            extra.name: extra.activation(
                torch.randn(shape.batch_size, kv_heads, keys, widths[extra.width])
            )
            for extra in mechanism.gates
        },
    )


def counted_forward(mechanism: Mechanism, shape: AttentionShape) -> Counter:
    query, key, value, gates = random_inputs(mechanism, shape, shape.query_length, shape.key_length)
    with torch.no_grad(), Counter() as counter:
        mechanism(query, key, value, mask_of(shape), **gates)
    return counter


def counted_training(mechanism: Mechanism, shape: AttentionShape) -> Counter:
    inputs = random_inputs(mechanism, shape, shape.query_length, shape.key_length)
    wanted = [*inputs.leaves(), *mechanism.parameters()]
    with Counter() as counter:
        output = mechanism(*inputs[:3], mask_of(shape), **inputs.gates)
        torch.autograd.grad(output, wanted, torch.ones_like(output), allow_unused=True)
    return counter


def counted_step(mechanism: Mechanism, shape: AttentionShape) -> Counter:
    before = random_inputs(mechanism, shape, 0, shape.key_length)
    token = random_inputs(mechanism, shape, 1, 1)
    with torch.no_grad():
        state = mechanism.start(
            batch_size=shape.batch_size,
            num_kv_heads=before.key.shape[1],
            key_dim=shape.key_dim,
            value_dim=shape.value_dim,
        )
        state = mechanism.extend(state, before.key, before.value, **before.gates)
        with Counter() as counter:
            mechanism.step(state, *token[:3], **token.gates)
    return counter


def mask_of(shape: AttentionShape) -> Mask:
    return Causal() if shape.causal else NO_MASK


@pytest.mark.parametrize("name", MECHANISMS)
def test_declared_cost(name: str) -> None:
    rng, choices = random.Random(name), OPTIONS.get(name, ({},))
    for number in range(NUM_SHAPES):
        shape, options = random_shape(name, rng), choices[number % len(choices)]
        mechanism = built(name, num_heads=shape.num_heads, key_dim=shape.key_dim, options=options)
        where = f"{name} with {options} at {shape}"
        cost, forward = mechanism.cost(shape), counted_forward(mechanism, shape)
        assert cost.matmul_flops == forward.matmul_flops, where
        assert cost.transcendental_ops == forward.transcendental_ops, where
        assert cost.flops == pytest.approx(forward.flops, rel=FLOPS_TOLERANCE), where
        training = counted_training(mechanism, shape)
        assert cost.matmul_flops + cost.backward_matmul_flops == training.matmul_flops, where
        assert cost.step_matmul_flops == counted_step(mechanism, shape).matmul_flops, where


@pytest.mark.parametrize("name", MECHANISMS)
def test_declared_cost_on_fake_tensors(name: str) -> None:
    assert_cost_on_fake_tensors(
        name, AttentionShape(query_length=70, key_length=70, key_dim=16, value_dim=16, causal=True)
    )


@pytest.mark.parametrize("length", [300, 1000], ids=["weights are kept", "weights are recomputed"])
def test_training_in_blocks(length: int) -> None:
    shape = AttentionShape(
        batch_size=16, query_length=length, key_length=length, key_dim=48, value_dim=48, causal=True
    )
    every_pair = 2 * shape.batch_heads * shape.pairs * (4 * shape.key_dim + 3 * shape.value_dim)
    cost = assert_cost_on_fake_tensors("scaled_dot", shape)
    assert cost.matmul_flops + cost.backward_matmul_flops < 0.6 * every_pair


def assert_cost_on_fake_tensors(name: str, shape: AttentionShape) -> Cost:
    with FakeTensorMode():
        mechanism = built(name, num_heads=shape.num_heads, key_dim=shape.key_dim, options={})
        forward, training = counted_forward(mechanism, shape), counted_training(mechanism, shape)
        cost = mechanism.cost(shape)
    assert (cost.matmul_flops, cost.transcendental_ops) == (
        forward.matmul_flops,
        forward.transcendental_ops,
    )
    assert cost.flops == pytest.approx(forward.flops, rel=FLOPS_TOLERANCE)
    assert cost.matmul_flops + cost.backward_matmul_flops == training.matmul_flops
    return cost
