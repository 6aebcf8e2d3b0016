"""One mechanism on tensors of a shape: forward, forward and backward, or decoding one token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.core.cost import AttentionShape
from regard.core.masks import NO_MASK, Causal
from regard.core.mechanism import Mechanism
from regard.costs.running import trained, without_gradients
from regard.costs.workload import Mode, Run, Workload
from regard.mechanisms import build_mechanism


def build_for(
    name: str, shape: AttentionShape, options: Mapping[str, Any] | None = None
) -> Mechanism:
    """The mechanism in the sizes of a shape, just long enough where its length is bounded."""
    return build_mechanism(
        name,
        query_dim=shape.query_dim or shape.key_dim,
        key_dim=shape.key_dim,
        num_heads=shape.num_heads,
        max_length=max(shape.key_length, shape.query_length) + 1,
        **(options or {}),
    )


def attention_workload(
    name: str, shape: AttentionShape, mode: Mode, options: Mapping[str, Any] | None = None
) -> Workload:
    """A call of the mechanism; in decoding, a step after `key_length` tokens."""

    def prepare() -> Run:
        mechanism = build_for(name, shape, options)
        if mode == "decode":
            return _step(mechanism, shape)
        tensors = drawn(mechanism, shape, queries=shape.query_length, keys=shape.key_length)
        mask = Causal() if shape.causal else NO_MASK

        def call() -> Tensor:
            return mechanism(mask=mask, **tensors)

        if mode == "forward":
            return without_gradients(call)
        return trained(call, wanting=[*tensors.values(), *mechanism.parameters()])

    return Workload(name, mode, prepare)


class Example(NamedTuple):
    """A call that calibration runs to find what no single operator shows."""

    name: str
    shape: AttentionShape
    mode: Mode

    def workload(self) -> Workload:
        """The call."""
        return attention_workload(self.name, self.shape, self.mode)


def drawn(
    mechanism: Mechanism, shape: AttentionShape, *, queries: int, keys: int
) -> dict[str, Tensor]:
    """Random tensors for one call, by the names it takes them under."""
    kv_heads = shape.num_kv_heads or shape.num_heads
    of_keys = (shape.batch_size, kv_heads, keys)
    tensors = {
        "query": torch.randn(
            shape.batch_size, shape.num_heads, queries, shape.query_dim or shape.key_dim
        ),
        "key": torch.randn(*of_keys, shape.key_dim),
        "value": torch.randn(*of_keys, shape.value_dim),
    }
    for extra in mechanism.extras:
        width = 1 if extra.width == "one" else shape.key_dim
        tensors[extra.name] = extra.squash(torch.randn(*of_keys, width)).detach()
    return tensors


def _step(mechanism: Mechanism, shape: AttentionShape) -> Run:
    past: dict[str, Any] = drawn(mechanism, shape, queries=1, keys=shape.key_length)
    new: dict[str, Any] = drawn(mechanism, shape, queries=1, keys=1)
    del past["query"]
    with torch.no_grad():
        state = mechanism.start(
            batch_size=shape.batch_size,
            num_kv_heads=shape.num_kv_heads or shape.num_heads,
            key_dim=shape.key_dim,
            value_dim=shape.value_dim,
        )
        state = mechanism.extend(state, **past)
    return without_gradients(lambda: mechanism.step(state, **new))
