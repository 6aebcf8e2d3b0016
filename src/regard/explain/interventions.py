"""Changing the attention of a model: what would it have predicted?

    edits = [ZeroHead("encoder/0", head=2), KnockOut("decoder/1", key=0)]
    with trace_attention(model, interventions=edits):
        changed = model(x)

    ZeroHead       a head writes nothing
    MeanHead       a head attends to all keys that its mask allows alike
    KnockOut       an entry of the weights, a row or a column is zero; rows are not renormalised
    SetWeights     the weights are a given matrix
    PatchWeights   the weights are those of another input, from its trace

Each is a change of the weights, exactly: what the heads write is `edit(call) @ value`, for every mechanism.
Heads and positions are counted from 0. Inside the `with` block `decode(model, source, use_cache=False)`
decodes with the change; positions that are not there yet are left alone, and must be there in the end.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from regard.core.errors import RegardError
from regard.explain.trace import AttentionCall, Trace

Weights = Float[Tensor, "batch heads queries keys"]
Output = Float[Tensor, "batch heads queries value_dim"]


@dataclass(frozen=True, eq=False)
class HeadEdit:
    """Base class: a change of the weights of one head of a layer; head=None: of all.

    A subclass defines `changed`, and `apply` where it needs no weights.
    """

    layer: str
    head: int | None = None

    def edit(self, call: AttentionCall) -> Weights:
        """The weights after the change."""
        weights = call.compute_weights()
        return self.in_head(call, weights, self.changed(call, weights))

    def apply(self, call: AttentionCall, output: Output) -> Output:
        """What the heads write after the change."""
        return self.in_head(call, output, self.edit(call) @ call.value)

    def changed(self, call: AttentionCall, weights: Weights) -> Weights:
        """The weights of all heads after the change."""
        raise NotImplementedError

    def in_head(self, call: AttentionCall, before: Tensor, after: Tensor) -> Tensor:
        """`after` in the chosen head, `before` in the others."""
        self.validate_index("head", self.head, call.num_heads)
        if self.head is None:
            return after
        heads = list(before.unbind(1))
        heads[self.head] = after[:, self.head]
        return torch.stack(heads, dim=1)

    def validate(self, call: AttentionCall) -> None:
        """Raise an error for a head or position that the layer does not have."""
        self.validate_index("head", self.head, call.num_heads)

    def validate_index(self, what: str, value: int | None, count: int) -> None:
        """Raise an error unless 0 ≤ value < count."""
        if value is not None and not 0 <= value < count:
            plural = what if count == 1 else "queries" if what == "query" else f"{what}s"
            raise RegardError(
                f"{type(self).__name__} has {what}={value}, counted from 0, but the layer '{self.layer}' "
                f"has {count} {plural} here. Choose one from 0 to {count - 1}."
            )


@dataclass(frozen=True, eq=False)
class ZeroHead(HeadEdit):
    """A head writes nothing (Michel et al. 2019); head=None: no head of the layer does."""

    def changed(self, call: AttentionCall, weights: Weights) -> Weights:
        del call
        return torch.zeros_like(weights)

    def apply(self, call: AttentionCall, output: Output) -> Output:
        return self.in_head(call, output, torch.zeros_like(output))


@dataclass(frozen=True, eq=False)
class MeanHead(HeadEdit):
    """A head attends to every key that the call's mask allows alike: it writes the mean of their values.

    Unlike a mean over queries, it tells a causal model nothing about the future. The sum of a row of
    weights becomes 1, or 0 without a key.
    """

    def changed(self, call: AttentionCall, weights: Weights) -> Weights:
        queries, keys = weights.shape[2:]
        allowed = call.mask.boolean(queries, keys, device=weights.device)
        if allowed is None:
            return torch.full_like(weights, 1 / keys)
        shares = allowed.to(weights) / allowed.sum(dim=-1, keepdim=True).clamp(min=1)
        return shares.expand_as(weights)


@dataclass(frozen=True, eq=False)
class KnockOut(HeadEdit):
    """The weight of one key is zero for one query; without a query for all of them, without a key all keys.

    Rows are not renormalised: the key adds nothing to the output, and nothing else changes.
    """

    _: KW_ONLY
    query: int | None = None
    key: int | None = None

    def __post_init__(self) -> None:
        if self.query is None and self.key is None:
            raise RegardError(
                f"KnockOut in '{self.layer}' has neither a query nor a key. Give one of them, or both; to "
                "switch off a whole head use ZeroHead."
            )

    def changed(self, call: AttentionCall, weights: Weights) -> Weights:
        weights = weights.clone()
        weights[:, :, self._rows(call), self._keys] = 0
        return weights

    def apply(self, call: AttentionCall, output: Output) -> Output:
        rows, changed = self._rows(call), output.clone()
        weights = call.compute_weights()[:, :, rows, self._keys]
        changed[:, :, rows] -= weights @ call.value[:, :, self._keys]
        return self.in_head(call, output, changed)

    def validate(self, call: AttentionCall) -> None:
        super().validate(call)
        self.validate_index("query", self.query, call.num_queries)
        self.validate_index("key", self.key, call.num_keys)

    def _rows(self, call: AttentionCall) -> slice:
        """The rows of this call, which is a step in a recurrent decoder; none if the query is not there."""
        if self.query is None:
            return slice(None)
        row = self.query - call.first_query
        return slice(row, row + 1) if row >= 0 else slice(0, 0)

    @property
    def _keys(self) -> slice:
        return slice(None) if self.key is None else slice(self.key, self.key + 1)


@dataclass(frozen=True, eq=False)
class SetWeights(HeadEdit):
    """The weights are a given tensor: (queries, keys), or one that broadcasts to all heads and rows."""

    _: KW_ONLY
    weights: Float[Tensor, "..."] = field(repr=False)

    def __post_init__(self) -> None:
        if not 2 <= self.weights.ndim <= 4:
            raise RegardError(
                f"{type(self).__name__} in '{self.layer}' has weights of shape "
                f"{tuple(self.weights.shape)}; they must be (queries, keys), or broadcast to "
                "(batch, heads, queries, keys)."
            )

    def changed(self, call: AttentionCall, weights: Weights) -> Weights:
        last = call.first_query + weights.shape[2]
        shape = (*weights.shape[:2], last, weights.shape[3])
        # While a text is decoded, the weights are those of a longer one.
        given = self.weights[..., :last, : weights.shape[3]]
        self._validate_shape(given, shape)
        return given[..., call.first_query :, :].to(weights).expand_as(weights)

    def validate(self, call: AttentionCall) -> None:
        super().validate(call)
        shape = (call.value.shape[0], call.num_heads, call.num_queries, call.num_keys)
        self._validate_shape(self.weights, shape)

    def _validate_shape(self, given: Tensor, shape: tuple[int, ...]) -> None:
        leading = zip(reversed(given.shape[:-2]), reversed(shape[:2]), strict=False)
        is_wrong = any(size not in (1, whole) for size, whole in leading)
        if is_wrong or given.shape[-2:] != shape[-2:]:
            raise RegardError(
                f"{type(self).__name__} in '{self.layer}' has weights of shape "
                f"{tuple(self.weights.shape)}; they must be (queries, keys) = {shape[-2:]}, or broadcast "
                f"to (batch, heads, queries, keys) = {shape}. Take an input of the same length."
            )


class PatchWeights(SetWeights):
    """The weights are those of the same layer for another input, of the same length.

    trace   of the other input: `with trace_attention(model) as trace: model(other)`
    """

    def __init__(self, layer: str, head: int | None = None, *, trace: Trace) -> None:
        super().__init__(layer, head, weights=trace[layer].weights())
