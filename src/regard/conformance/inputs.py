"""The tensors of one call, kept together so that a check can cut and change them at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard.core.masks import NO_MASK, Mask
from regard.core.mechanism import Mechanism, ScoreBias

Positions = slice | Tensor


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """Query, key, value, and the extras that the mechanism declares.

    Each is (batch, heads, length, width).
    """

    query: Tensor
    key: Tensor
    value: Tensor
    extras: Mapping[str, Tensor]

    @property
    def key_length(self) -> int:
        return self.key.shape[2]

    @property
    def query_length(self) -> int:
        return self.query.shape[2]

    def tensors(self) -> dict[str, Tensor]:
        """Every tensor by its name."""
        return {"query": self.query, "key": self.key, "value": self.value, **self.extras}

    def with_tensors(self, tensors: Mapping[str, Tensor]) -> Inputs:
        """The same with the named tensors exchanged."""
        every = {**self.tensors(), **tensors}
        extras = {name: every[name] for name in self.extras}
        return Inputs(query=every["query"], key=every["key"], value=every["value"], extras=extras)

    def each(self, change: Callable[[Tensor], Tensor]) -> Inputs:
        """The same with every tensor changed in the same way."""
        return self.with_tensors({name: change(t) for name, t in self.tensors().items()})

    def rows(self, index: Positions) -> Inputs:
        """Some rows of the batch."""
        return self.each(lambda tensor: tensor[index])

    def queries(self, index: Positions) -> Inputs:
        """Some queries, and every key."""
        return replace(self, query=self.query[:, :, index])

    def keys(self, index: Positions) -> Inputs:
        """Some keys with what they bring, and every query."""
        brought = {n: t[:, :, index] for n, t in self.tensors().items() if n != "query"}
        return self.with_tensors(brought)

    def tokens(self, index: Positions) -> Inputs:
        """Some positions, where there are as many queries as keys."""
        return self.keys(index).queries(index)

    def changed(self, other: Inputs, where: Tensor, *, queries: bool) -> Inputs:
        """Key positions taken from `other` where the boolean `where` (broadcast) is True."""
        others = other.tensors()
        chosen = {
            name: torch.where(where, others[name], tensor)
            for name, tensor in self.tensors().items()
            if queries or name != "query"
        }
        return self.with_tensors(chosen)

    def leaves(self) -> Inputs:
        """Copies that gather gradients."""
        return self.each(lambda tensor: tensor.detach().clone().requires_grad_())


def words(bias: ScoreBias | None) -> dict[str, Any]:
    """The keyword for a score bias, where there is one."""
    return {} if bias is None else {"bias": bias}


def forward(
    mechanism: Mechanism, inputs: Inputs, mask: Mask = NO_MASK, bias: ScoreBias | None = None
) -> Tensor:
    """The mechanism's `forward`."""
    output: Tensor = mechanism(
        inputs.query, inputs.key, inputs.value, mask, **inputs.extras, **words(bias)
    )
    return output


def weights(
    mechanism: Mechanism, inputs: Inputs, mask: Mask = NO_MASK, bias: ScoreBias | None = None
) -> Tensor:
    """The mechanism's `weights`."""
    return mechanism.weights(inputs.query, inputs.key, mask, **inputs.extras, **words(bias))


def start(mechanism: Mechanism, inputs: Inputs) -> Any:
    """An empty state for such inputs."""
    return mechanism.start(
        batch_size=inputs.key.shape[0],
        num_kv_heads=inputs.key.shape[1],
        key_dim=inputs.key.shape[3],
        value_dim=inputs.value.shape[3],
        dtype=inputs.value.dtype,
        device=inputs.value.device,
    )


def extend(mechanism: Mechanism, state: Any, inputs: Inputs, mask: Mask = NO_MASK) -> Any:
    """The state after the inputs' keys."""
    return mechanism.extend(state, inputs.key, inputs.value, mask, **inputs.extras)


def step(
    mechanism: Mechanism, state: Any, inputs: Inputs, bias: ScoreBias | None = None
) -> tuple[Tensor, Any]:
    """The outputs for the inputs' tokens, and the state after them."""
    output, after = mechanism.step(
        state, inputs.query, inputs.key, inputs.value, bias=bias, **inputs.extras
    )
    return output, after
