"""Causal linear attention in chunks: the scan, its hand-written backward pass and its cost.

For a kernel κ(q, k) = φ(q)·φ(k) this computes

    Σ_j κ(q_i, k_j) v_j / Σ_j κ(q_i, k_j)

over the keys j ≤ i + key_length − query_length, so that the last query is aligned with the last key. It
is the recurrent form of linear attention (Katharopoulos et al. 2020) in chunks: keys of earlier chunks
contribute through a state Σ_j φ(k_j) v_jᵀ, keys of the same chunk through a triangle of scores. It
differs from the usual chunked form in two ways. A kernel that is a function of the dot product computes
its triangle from dot products, not from its far wider features; and only the inputs are saved for the
backward pass, which scans forward with the state of earlier keys for the gradient of the queries, then
backward with the state of later queries for the gradients of keys and values. Features and states live
for one chunk only, so memory is linear in the inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.core.cost import AttentionShape, Cost
from regard.core.mechanism import first_order_only
from regard.core.normalise import inverse, inverse_slope
from regard.mechanisms.scores.softmax import average_ops


class ChunkLayout:
    """The boundaries of chunks. Keys before the first query come first, in chunks of their own."""

    def __init__(self, query_length: int, key_length: int, chunk_size: int) -> None:
        alone = _sizes(max(key_length - query_length, 0), chunk_size)
        paired = _sizes(min(query_length, key_length), chunk_size)
        self.num_alone, self.num_chunks = len(alone), len(alone) + len(paired)
        self.key_sizes = [*alone, *paired]
        # Queries before the first key are in no chunk; empty chunks keep the numbering of the keys.
        self.query_sizes = [query_length - sum(paired), *(0 for _ in alone), *paired]
        self.blank_keys = sum(alone)

    def keys(self, tensor: Tensor | None, *, blank: bool = False) -> Sequence[Any]:
        """The chunks of a tensor along the keys; with `blank`, zero those without queries."""
        if tensor is None:
            return [None] * self.num_chunks
        if blank:
            tensor[:, : self.blank_keys] = 0
        return torch.split(tensor, self.key_sizes, dim=1)

    def queries(self, tensor: Tensor, *, blank: bool = False) -> Sequence[Tensor]:
        """The chunks of a tensor along the queries; with `blank`, zero those without keys."""
        if blank:
            tensor[:, : self.query_sizes[0]] = 0
        return torch.split(tensor, self.query_sizes, dim=1)[1:]


def _sizes(length: int, chunk_size: int) -> list[int]:
    return [min(chunk_size, length - start) for start in range(0, length, chunk_size)]


def causal_average_cost(
    shape: AttentionShape,
    *,
    pair_width: int,
    num_features: int,
    chunk_size: int,
    curve_ops: int = 0,
    feature_ops: int = 0,
) -> Cost:
    """The cost of `causal_kernel_average` for one head; `pair_width` is the width of its dot products.

    `curve_ops` are elementwise operations per pair beside the dot product, `feature_ops` those of the
    features of one vector.
    """
    query_length, value_dim = shape.query_length, shape.value_dim
    layout = ChunkLayout(query_length, shape.key_length, chunk_size)
    matmul_flops = backward = 0
    elementwise_ops = average_ops(query_length, value_dim)
    for i, size in enumerate(layout.key_sizes):
        through_state = 2 * size * num_features * value_dim
        has_state, is_last = i > 0, i + 1 == layout.num_chunks
        if i >= layout.num_alone:
            matmul_flops += 2 * size * size * (pair_width + value_dim)
            # Dot products recomputed; gradients of scores, values, queries and keys.
            backward += 2 * size * size * (3 * pair_width + 2 * value_dim)
            elementwise_ops += size * size * (curve_ops + 1)  # and the sum
        if i >= layout.num_alone and has_state:
            matmul_flops += through_state
            # The gradient of the query features, which are then added to the state.
            backward += 2 * through_state
            elementwise_ops += size * (feature_ops + 2 * num_features + value_dim + 1)
        if not is_last:
            matmul_flops += through_state
            backward += through_state
            elementwise_ops += size * (feature_ops + num_features)
            elementwise_ops += num_features * (value_dim + 1) if has_state else 0
        if not is_last and layout.num_alone < layout.num_chunks:
            # In the backward scan: the gradients of the values and of the key features.
            backward += 2 * through_state
    largest = max(layout.key_sizes, default=0)
    return Cost(
        matmul_flops=matmul_flops,
        # The division is one reciprocal per query.
        transcendental_ops=query_length,
        elementwise_ops=elementwise_ops,
        backward_matmul_flops=backward,
        memory=query_length * (value_dim + 4)
        + num_features * (value_dim + 2 * largest)
        + largest * (2 * largest + value_dim),
        sequential_steps=layout.num_chunks,
    )


@runtime_checkable
class ChunkKernel(Protocol):
    """κ(q, k) = curve(t(q)·t(k)) = features(t(q))·features(t(k)), with the derivatives.

    t maps every vector to one of the same width, which is saved; features may be far wider and are
    recomputed when needed. Gradients that are passed in may be overwritten.
    """

    is_transforming: bool  # whether t does anything

    def transform(self, inputs: Tensor, *, out: Tensor) -> None:
        """Write t of a chunk."""
        ...

    def transform_gradient(self, kept: Tensor, gradient: Tensor) -> Tensor:
        """The gradient of the inputs, in place of that of t."""
        ...

    def features(self, kept: Tensor) -> Tensor:
        """The features, in any memory layout; their gradients arrive in the same one."""
        ...

    def features_gradient(self, kept: Tensor, gradient: Tensor) -> Tensor:
        """The gradient of t, from that of the features."""
        ...

    def curve(self, dots: Tensor) -> Tensor:
        """The kernel as a function of the dot products, which may be overwritten."""
        ...

    def curve_gradient(self, dots: Tensor, gradient: Tensor) -> Tensor:
        """The gradient of the dot products, from that of the curve."""
        ...


class DotProduct:
    """κ(q, k) = q·k, for features that were computed beforehand: every map is the identity."""

    is_transforming = False

    def transform(self, inputs: Tensor, *, out: Tensor) -> None:
        """Not called, since `is_transforming` is False."""

    def transform_gradient(self, kept: Tensor, gradient: Tensor) -> Tensor:
        return gradient

    def features(self, kept: Tensor) -> Tensor:
        return kept

    def features_gradient(self, kept: Tensor, gradient: Tensor) -> Tensor:
        return gradient

    def curve(self, dots: Tensor) -> Tensor:
        return dots

    def curve_gradient(self, dots: Tensor, gradient: Tensor) -> Tensor:
        return gradient


def causal_kernel_average(
    query: Float[Tensor, "batch heads query_length width"],
    key: Float[Tensor, "batch heads key_length width"],
    value: Float[Tensor, "batch heads key_length value_dim"],
    *,
    kernel: ChunkKernel,
    floor: Float[Tensor, "#batch #heads #query_length"],
    chunk_size: int,
    keep: Bool[Tensor, "batch key_length"] | None = None,
) -> Float[Tensor, "batch heads query_length value_dim"]:
    """The weighted mean of the values, with |denominator| of at least `floor`.

    Keys where `keep` is False are ignored; queries before the first key get zeros.
    """
    batch, heads = query.shape[:2]
    weights = None
    if keep is not None:
        weights = keep.to(value.dtype)[:, None, :, None].expand(-1, heads, -1, -1)
        value = value * weights
        weights = weights.flatten(0, 1)
    output: Tensor = _CausalKernelAverage.apply(  # type: ignore[no-untyped-call]
        query.flatten(0, 1),
        key.flatten(0, 1),
        value.flatten(0, 1),
        weights,
        kernel,
        floor.expand(query.shape[:3]).flatten(0, 1).unsqueeze(-1),
        chunk_size,
    )
    return output.unflatten(0, (batch, heads))


class _State:
    """The running sums over positions of feature times vector, and of feature times weight."""

    def __init__(self, outer: Tensor, total: Tensor) -> None:
        self.outer, self.total = outer, total

    def add_vectors(self, vectors: Tensor, features: Tensor) -> None:
        """Add the state's output for these features to the vectors."""
        if features.stride(-1) == 1 and vectors.is_contiguous():
            vectors.baddbmm_(features, self.outer)
        elif features.stride(-1) == 1:
            vectors += torch.bmm(features, self.outer)
        else:
            vectors += torch.bmm(self.outer.mT, features.mT).mT

    def read_weights(self, features: Tensor) -> Tensor:
        return (features * self.total).sum(-1, keepdim=True)

    def feature_gradient(self, features: Tensor, vectors: Tensor, weights: Tensor | None) -> Tensor:
        """The gradient of features from those of their outputs, in the features' memory layout."""
        if features.stride(-1) == 1:
            gradient = torch.bmm(vectors, self.outer.mT)
        else:
            gradient = torch.bmm(self.outer, vectors.mT).mT
        if weights is None:
            return gradient.add_(self.total)
        return gradient.addcmul_(weights, self.total)


def _add_to_state(
    state: _State | None, features: Tensor, vectors: Tensor, weights: Tensor | None
) -> _State:
    """The state with these positions added; None is an empty state."""
    total = _weighted(features, weights).sum(1, keepdim=True)
    if state is None:
        return _State(torch.bmm(features.mT, vectors), total)
    state.outer.baddbmm_(features.mT, vectors)
    state.total += total
    return state


class _CausalKernelAverage(torch.autograd.Function):
    """With batch and heads flattened; `weights` of keys (None: all 1) sum to the denominator."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        weights: Tensor | None,
        kernel: ChunkKernel,
        floor: Tensor,
        chunk_size: int,
    ) -> Tensor:
        ctx.kernel, ctx.chunk_size = kernel, chunk_size
        numerator = query.new_empty(*query.shape[:2], value.shape[2])
        denominator = query.new_empty(*query.shape[:2], 1)
        layout = ChunkLayout(query.shape[1], key.shape[1], chunk_size)
        query, key = (
            _transformed(kernel, layout.queries, query),
            _transformed(kernel, layout.keys, key),
        )
        keys, values, ones = layout.keys(key), layout.keys(value), layout.keys(weights)
        queries = layout.queries(query)
        numerators = layout.queries(numerator, blank=True)
        denominators = layout.queries(denominator, blank=True)
        state = None
        for i in range(layout.num_chunks):
            if i >= layout.num_alone:
                scores = kernel.curve(torch.bmm(queries[i], keys[i].mT)).tril_()
                vectors = torch.bmm(scores, values[i])
                totals = _weighted(scores, ones[i], transposed=True).sum(-1, keepdim=True)
                if state is not None:
                    query_features = kernel.features(queries[i])
                    state.add_vectors(vectors, query_features)
                    totals += state.read_weights(query_features)
                numerators[i].copy_(vectors)
                denominators[i].copy_(totals)
            if i + 1 < layout.num_chunks:
                state = _add_to_state(state, kernel.features(keys[i]), values[i], ones[i])
        # In place: at these sizes allocating a tensor costs more than the division.
        inverses = inverse(denominator, floor=floor)
        output = numerator.mul_(inverses)
        ctx.save_for_backward(query, key, value, weights, output, inverses, floor)
        return output

    @staticmethod
    @first_order_only
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, weights, output, inverses, floor = ctx.saved_tensors
        kernel: ChunkKernel = ctx.kernel
        results = (torch.empty_like(query), torch.empty_like(key), torch.empty_like(value))
        layout = ChunkLayout(query.shape[1], key.shape[1], ctx.chunk_size)
        keys, values, ones = layout.keys(key), layout.keys(value), layout.keys(weights)
        queries = layout.queries(query)
        division = _DivisionGradient(
            layout.queries(gradients[0]),
            layout.queries(output),
            layout.queries(inverses),
            layout.queries(inverse_slope(inverses, floor=floor)),
        )
        by_query = layout.queries(results[0], blank=True)
        by_key, by_value = (layout.keys(result, blank=True) for result in results[1:])

        totals: dict[int, Tensor] = {}
        state = None
        for i in range(layout.num_chunks):
            if i >= layout.num_alone:
                vectors, totals[i] = division.vectors(i), division.totals(i)
                ones_gradient = totals[i] if weights is None else totals[i] * ones[i].mT
                by_score = torch.baddbmm(ones_gradient, vectors, values[i].mT)
                by_score.tril_()
                dots = torch.bmm(queries[i], keys[i].mT)
                by_dots = kernel.curve_gradient(dots, by_score)
                by_key[i].copy_(torch.bmm(by_dots.mT, queries[i]))
                if state is None:
                    by_kept = torch.bmm(by_dots, keys[i])
                else:
                    query_features = kernel.features(queries[i])
                    by_features = state.feature_gradient(query_features, vectors, totals[i])
                    from_state = kernel.features_gradient(queries[i], by_features)
                    by_kept = torch.baddbmm(from_state, by_dots, keys[i])
                by_query[i].copy_(kernel.transform_gradient(queries[i], by_kept))
                scores = kernel.curve(dots)
                by_value[i].copy_(torch.bmm(scores.tril_().mT, vectors))
            if i + 1 < layout.num_chunks:
                state = _add_to_state(state, kernel.features(keys[i]), values[i], ones[i])

        # The same scan with the roles exchanged: queries are added to the state, weighted by the
        # gradients of numerator and denominator, and keys read from it.
        state = None
        for i in reversed(range(layout.num_chunks)):
            if state is not None:
                key_features = kernel.features(keys[i])
                state.add_vectors(by_value[i], key_features)
                by_features = state.feature_gradient(key_features, values[i], ones[i])
                by_key[i].add_(kernel.features_gradient(keys[i], by_features))
            kernel.transform_gradient(keys[i], by_key[i])
            if i >= max(layout.num_alone, 1):
                query_features = kernel.features(queries[i])
                state = _add_to_state(state, query_features, division.vectors(i), totals[i])
        return *results, None, None, None, None


def _transformed(
    kernel: ChunkKernel, split: Callable[[Tensor], Sequence[Tensor]], inputs: Tensor
) -> Tensor:
    if not kernel.is_transforming:
        return inputs
    kept = torch.empty_like(inputs)
    # Chunk by chunk, so that intermediate results stay in the CPU cache.
    for chunk, out in zip(split(inputs), split(kept), strict=True):
        kernel.transform(chunk, out=out)
    return kept


class _DivisionGradient(NamedTuple):
    """The gradients of numerators and denominators from that of the quotients, by chunk."""

    gradients: Sequence[Tensor]
    outputs: Sequence[Tensor]
    inverses: Sequence[Tensor]
    slopes: Sequence[Tensor]

    def vectors(self, i: int) -> Tensor:
        """The gradient of a chunk of numerators."""
        return self.gradients[i] * self.inverses[i]

    def totals(self, i: int) -> Tensor:
        """The gradient of a chunk of denominators."""
        return (self.gradients[i] * self.outputs[i]).sum(-1, keepdim=True).mul_(self.slopes[i])


def _weighted(tensor: Tensor, weights: Tensor | None, *, transposed: bool = False) -> Tensor:
    if weights is None:
        return tensor
    return tensor * (weights.mT if transposed else weights)
