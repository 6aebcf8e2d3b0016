"""Causal kernel attention as sums over chunks, linear in the length.

For a kernel κ(q, k) = φ(q)·φ(k) this computes

    Σ_j κ(q_i, k_j) v_j / Σ_j κ(q_i, k_j)

over the keys j ≤ i + key_length − query_length, so that the last query sees the last key. It is
the recurrent form of linear attention (Katharopoulos et al. 2020) cut into chunks: keys of earlier
chunks are met through a state Σ_j φ(k_j) v_jᵀ, keys of the same chunk through a small triangle
of scores. It differs from the usual chunked form in two ways. A kernel that is a function of the
dot product computes its triangle from the dot products, not from its far wider features; and only
the inputs are kept for the backward pass, which scans forwards with the state of earlier keys for
the gradient of the queries, then backwards with the state of later queries for that of the keys
and values. No feature or state outlives its chunk, so memory grows with the inputs alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.core.autograd import first_order
from regard.core.cost import Cost
from regard.core.normalise import inverse, inverse_slope
from regard.mechanisms.scores.softmax import average_arithmetic

# Where the chunks of a causal scan lie, and what the scan takes with them.


class Cuts:
    """Where the chunks lie. Keys before every query make chunks of their own, which come first."""

    def __init__(self, query_length: int, key_length: int, chunk_size: int) -> None:
        alone = _sizes(max(key_length - query_length, 0), chunk_size)
        paired = _sizes(min(query_length, key_length), chunk_size)
        self.num_alone, self.num_chunks = len(alone), len(alone) + len(paired)
        self.key_sizes = [*alone, *paired]
        # Queries before every key are in no chunk; the empty ones keep the numbering of the keys.
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
    *,
    query_length: int,
    key_length: int,
    pair_width: int,
    num_features: int,
    value_dim: int,
    chunk_size: int,
    curve_arithmetic: int = 0,
    feature_arithmetic: int = 0,
) -> Cost:
    """What `causal_kernel_average` takes for one head: `pair_width` is that of the dot products.

    `curve_arithmetic` is what the kernel takes for a pair beside its dot product, and
    `feature_arithmetic` what it takes to make the features of one vector.
    """
    cuts = Cuts(query_length, key_length, chunk_size)
    products = backward = 0
    arithmetic = average_arithmetic(query_length, value_dim)
    for i, size in enumerate(cuts.key_sizes):
        through_state = 2 * size * num_features * value_dim
        has_state, is_last = i > 0, i + 1 == cuts.num_chunks
        if i >= cuts.num_alone:
            products += 2 * size * size * (pair_width + value_dim)
            # Dots again; gradients of scores, values, queries and keys.
            backward += 2 * size * size * (3 * pair_width + 2 * value_dim)
            arithmetic += size * size * (curve_arithmetic + 1)  # and the sum
        if i >= cuts.num_alone and has_state:
            products += through_state
            # The gradient of the queries' features, which are then absorbed.
            backward += 2 * through_state
            arithmetic += size * (feature_arithmetic + 2 * num_features + value_dim + 1)
        if not is_last:
            products += through_state
            backward += through_state
            arithmetic += size * (feature_arithmetic + num_features)
            arithmetic += num_features * (value_dim + 1) if has_state else 0
        if not is_last and cuts.num_alone < cuts.num_chunks:
            # Walking back: the gradients of the values and of the keys' features.
            backward += 2 * through_state
    largest = max(cuts.key_sizes, default=0)
    return Cost(
        products=products,
        # The division is one reciprocal a query.
        functions=query_length,
        arithmetic=arithmetic,
        backward_products=backward,
        memory=query_length * (value_dim + 4)
        + num_features * (value_dim + 2 * largest)
        + largest * (2 * largest + value_dim),
        sequential_steps=cuts.num_chunks,
    )


# What the chunked scan asks of a kernel, and the simplest kernel there is.


@runtime_checkable
class ChunkKernel(Protocol):
    """κ(q, k) = curve(t(q)·t(k)) = features(t(q))·features(t(k)), with the derivatives.

    t turns every vector into one of the same width, which is kept; features may be far wider and are
    made anew whenever they are needed. Gradients that are handed in may be overwritten.
    """

    is_transforming: bool  # whether t does anything

    def transform(self, inputs: Tensor, *, out: Tensor) -> None:
        """Write t of a chunk."""
        ...

    def transform_gradient(self, kept: Tensor, gradient: Tensor) -> Tensor:
        """The gradient of the inputs, in the place of that of t."""
        ...

    def features(self, kept: Tensor) -> Tensor:
        """The features, in any memory layout; their gradients arrive in the same one."""
        ...

    def features_gradient(self, kept: Tensor, gradient: Tensor) -> Tensor:
        """The gradient of what was kept, given that of the features."""
        ...

    def curve(self, dots: Tensor) -> Tensor:
        """The kernel at these dot products, which may be overwritten."""
        ...

    def curve_gradient(self, dots: Tensor, gradient: Tensor) -> Tensor:
        """The gradient of the dot products, given that of the curve."""
        ...


class DotProduct:
    """κ(q, k) = q·k: for a kernel whose features were computed beforehand."""

    is_transforming = False

    def transform(self, inputs: Tensor, *, out: Tensor) -> None:
        """Nothing is done."""

    def transform_gradient(self, kept: Tensor, gradient: Tensor) -> Tensor:
        """Nothing was done."""
        return gradient

    def features(self, kept: Tensor) -> Tensor:
        """The vector is its own features."""
        return kept

    def features_gradient(self, kept: Tensor, gradient: Tensor) -> Tensor:
        """The vector is its own features."""
        return gradient

    def curve(self, dots: Tensor) -> Tensor:
        """A straight line."""
        return dots

    def curve_gradient(self, dots: Tensor, gradient: Tensor) -> Tensor:
        """A slope of one."""
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
    """Numerators over denominators that are kept at least `floor` away from zero.

    Keys that are not kept count for nothing, and queries before the first key get zeros.
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
        """Add to the vectors what these features read."""
        if features.stride(-1) == 1 and vectors.is_contiguous():
            vectors.baddbmm_(features, self.outer)
        elif features.stride(-1) == 1:
            vectors += torch.bmm(features, self.outer)
        else:
            vectors += torch.bmm(self.outer.mT, features.mT).mT

    def read_weights(self, features: Tensor) -> Tensor:
        return (features * self.total).sum(-1, keepdim=True)

    def feature_gradient(self, features: Tensor, vectors: Tensor, weights: Tensor | None) -> Tensor:
        """The gradient of features whose reads have these gradients, in the features' layout."""
        if features.stride(-1) == 1:
            gradient = torch.bmm(vectors, self.outer.mT)
        else:
            gradient = torch.bmm(self.outer, vectors.mT).mT
        if weights is None:
            return gradient.add_(self.total)
        return gradient.addcmul_(weights, self.total)


def _absorb(
    state: _State | None, features: Tensor, vectors: Tensor, weights: Tensor | None
) -> _State:
    """The state with these positions added; None is the state of no position."""
    total = _weighted(features, weights).sum(1, keepdim=True)
    if state is None:
        return _State(torch.bmm(features.mT, vectors), total)
    state.outer.baddbmm_(features.mT, vectors)
    state.total += total
    return state


class _CausalKernelAverage(torch.autograd.Function):
    """With batch and heads flattened; `weights` stand for the ones that make the denominator."""

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
        cuts = Cuts(query.shape[1], key.shape[1], chunk_size)
        query, key = _transformed(kernel, cuts.queries, query), _transformed(kernel, cuts.keys, key)
        keys, values, ones = cuts.keys(key), cuts.keys(value), cuts.keys(weights)
        queries = cuts.queries(query)
        numerators = cuts.queries(numerator, blank=True)
        denominators = cuts.queries(denominator, blank=True)
        state = None
        for i in range(cuts.num_chunks):
            if i >= cuts.num_alone:
                scores = kernel.curve(torch.bmm(queries[i], keys[i].mT)).tril_()
                vectors = torch.bmm(scores, values[i])
                totals = _weighted(scores, ones[i], transposed=True).sum(-1, keepdim=True)
                if state is not None:
                    query_features = kernel.features(queries[i])
                    state.add_vectors(vectors, query_features)
                    totals += state.read_weights(query_features)
                numerators[i].copy_(vectors)
                denominators[i].copy_(totals)
            if i + 1 < cuts.num_chunks:
                state = _absorb(state, kernel.features(keys[i]), values[i], ones[i])
        # The division is done in place: at these sizes a new tensor costs more than arithmetic.
        inverses = inverse(denominator, floor=floor)
        output = numerator.mul_(inverses)
        ctx.save_for_backward(query, key, value, weights, output, inverses, floor)
        return output

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, weights, output, inverses, floor = ctx.saved_tensors
        kernel: ChunkKernel = ctx.kernel
        results = (torch.empty_like(query), torch.empty_like(key), torch.empty_like(value))
        cuts = Cuts(query.shape[1], key.shape[1], ctx.chunk_size)
        keys, values, ones = cuts.keys(key), cuts.keys(value), cuts.keys(weights)
        queries = cuts.queries(query)
        division = _DivisionGradient(
            cuts.queries(gradients[0]),
            cuts.queries(output),
            cuts.queries(inverses),
            cuts.queries(inverse_slope(inverses, floor=floor)),
        )
        by_query = cuts.queries(results[0], blank=True)
        by_key, by_value = (cuts.keys(result, blank=True) for result in results[1:])

        totals: dict[int, Tensor] = {}
        state = None
        for i in range(cuts.num_chunks):
            if i >= cuts.num_alone:
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
            if i + 1 < cuts.num_chunks:
                state = _absorb(state, kernel.features(keys[i]), values[i], ones[i])

        # The same scan with the roles exchanged: queries are absorbed with the gradients of
        # numerator and denominator, and keys read.
        state = None
        for i in reversed(range(cuts.num_chunks)):
            if state is not None:
                key_features = kernel.features(keys[i])
                state.add_vectors(by_value[i], key_features)
                by_features = state.feature_gradient(key_features, values[i], ones[i])
                by_key[i].add_(kernel.features_gradient(keys[i], by_features))
            kernel.transform_gradient(keys[i], by_key[i])
            if i >= max(cuts.num_alone, 1):
                query_features = kernel.features(queries[i])
                state = _absorb(state, query_features, division.vectors(i), totals[i])
        return *results, None, None, None, None


def _transformed(
    kernel: ChunkKernel, cut: Callable[[Tensor], Sequence[Tensor]], inputs: Tensor
) -> Tensor:
    if not kernel.is_transforming:
        return inputs
    kept = torch.empty_like(inputs)
    # Chunk by chunk, so that the steps in between stay in the cache.
    for chunk, place in zip(cut(inputs), cut(kept), strict=True):
        kernel.transform(chunk, out=place)
    return kept


class _DivisionGradient(NamedTuple):
    """From the gradient of the quotients to those of numerators and denominators, by chunks."""

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
