"""Linear attention: the base class of kernel attention with feature maps, κ(q, k) = φ(q)·φ(k).

    out_i = Σ_j κ(q_i, k_j) v_j / Σ_j κ(q_i, k_j)        (Katharopoulos et al. 2020)

Three forms compute the same numbers; `form_for` chooses one by FLOPs:

    quadratic   κ of every pair; cheapest for short sequences
    linear      φ(Q) (φ(K)ᵀ V): one sum over all keys
    chunked     causal: pairs within a chunk, a running sum across chunks

The decoding state is the running sum, of constant size.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal, NamedTuple, Self

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import pad

from regard.core.cost import AttentionShape, Cost
from regard.core.masks import NO_MASK, Mask
from regard.core.mechanism import (
    Capabilities,
    Key,
    Mechanism,
    Output,
    Query,
    Value,
    Weights,
    repeat_heads,
    select_rows,
)
from regard.core.normalise import average, inverse, min_floor, noise_floor
from regard.core.options import PositiveInt, validated
from regard.mechanisms.kernels.chunked import (
    ChunkKernel,
    DotProduct,
    causal_average_cost,
    causal_kernel_average,
)
from regard.mechanisms.scores.softmax import average_ops, boolean_ops

Vectors = Float[Tensor, "*batch length width"]
Features = Float[Tensor, "*batch length num_features"]


class FeatureKernel(nn.Module, ABC):
    """A kernel κ(q, k) = φ(q)·φ(k), given by its feature map φ."""

    # Whether features may be negative, so that a sum can be far smaller than its terms.
    cancels: bool = False

    @abstractmethod
    def num_features(self, width: int) -> int:
        """The number of features of a vector of this width."""

    @abstractmethod
    def query_features(self, inputs: Vectors) -> Features:
        """φ of queries; a factor per query cancels in attention."""

    @abstractmethod
    def key_features(self, inputs: Vectors) -> Features:
        """φ of keys."""

    def feature_cost(self, *, queries: int, keys: int, width: int) -> Cost:
        """The cost of computing features, if the subclass declares it; `form_for` uses its matmul FLOPs."""
        return Cost()

    def constant_ops(self, width: int) -> int:
        """Elementwise operations of the feature map that occur once per call."""
        return 0

    def pairwise(
        self,
        query: Float[Tensor, "*batch query_length width"],
        key: Float[Tensor, "*batch key_length width"],
    ) -> Float[Tensor, "*batch query_length key_length"]:
        """The kernel of every query with every key."""
        return self.query_features(query) @ self.key_features(key).mT

    def norms(self, inputs: Vectors) -> Float[Tensor, "*batch length"]:
        """The norm of each feature vector, √κ(x, x); for kernels with `cancels`."""
        raise NotImplementedError

    def norm_ops(self, width: int) -> int:
        """Elementwise operations of one feature vector's norm, without the square root."""
        raise NotImplementedError

    def pair_cost(self, *, query_length: int, key_length: int, width: int) -> Cost:
        """The cost of `pairwise`."""
        features = self.feature_cost(queries=query_length, keys=key_length, width=width)
        pairs = query_length * key_length
        matmul_flops = 2 * pairs * self.num_features(width)
        return features + Cost(
            matmul_flops=matmul_flops, backward_matmul_flops=2 * matmul_flops, memory=pairs
        )

    def chunked(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor, ChunkKernel]:
        """The inputs of the causal scan: queries, keys, and the kernel between them."""
        return self.query_features(query), self.key_features(key), DotProduct()

    def causal_cost(self, shape: AttentionShape, *, chunk_size: int) -> Cost:
        """The cost of the causal scan for one head, features included."""
        features = self.num_features(shape.key_dim)
        made = self.feature_cost(
            queries=shape.query_length, keys=shape.key_length, width=shape.key_dim
        )
        return made + causal_average_cost(
            shape, pair_width=features, num_features=features, chunk_size=chunk_size
        )


Form = Literal["quadratic", "linear", "chunked"]
# How much slower a FLOP is in the linear form than in the quadratic one, measured on one core for elu,
# Taylor, polynomial and random features; the crossover length is then right within a factor 1.5.
LINEAR_OVERHEAD = 1.2

FormChoice = Literal["auto", "quadratic", "linear"]


class KernelState(NamedTuple):
    """The decoding state: sums over all keys; `bound` sums the norms of key features if `cancels`."""

    memory: Float[Tensor, "batch kv_heads num_features value_dim"]
    total: Float[Tensor, "batch kv_heads num_features"]
    bound: Float[Tensor, "batch kv_heads"]
    position: Int[Tensor, " batch"]

    def select(self, index: Int[Tensor, " rows"]) -> Self:
        return select_rows(self, index)


class KernelMechanism(Mechanism):
    """Attention with a kernel in place of exp(score).

    `nonnegative` and `rows_sum_to_one` are declared by the kernel: a denominator that is negative, or
    below rounding noise, gives a row that does not sum to one. `form` is "auto", "quadratic" or
    "linear" (chunked when causal).
    """

    @validated
    def __init__(
        self,
        *,
        kernel: FeatureKernel,
        nonnegative: bool,
        rows_sum_to_one: bool,
        form: FormChoice,
        chunk_size: PositiveInt,
    ) -> None:
        super().__init__()
        self.kernel = kernel
        self.nonnegative = nonnegative
        self.rows_sum_to_one = rows_sum_to_one
        self.form = form
        self.chunk_size = chunk_size

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            masks=frozenset({"causal", "padding"}),
            nonnegative=self.nonnegative,
            rows_sum_to_one=self.rows_sum_to_one,
        )

    def form_for(
        self, *, query_length: int, key_length: int, key_dim: int, value_dim: int, causal: bool
    ) -> Form:
        """The form that a call of these sizes uses."""
        linear: Form = "chunked" if causal else "linear"
        if self.form != "auto":
            return "quadratic" if self.form == "quadratic" else linear
        every_pair = self.kernel.pair_cost(
            query_length=query_length, key_length=key_length, width=key_dim
        )
        quadratic = every_pair.matmul_flops + 2 * query_length * key_length * value_dim
        length, features = query_length + key_length, self.kernel.num_features(key_dim)
        made = self.kernel.feature_cost(queries=query_length, keys=key_length, width=key_dim)
        summed = made.matmul_flops + 2 * length * features * value_dim
        return "quadratic" if quadratic <= LINEAR_OVERHEAD * summed else linear

    def forward(self, query: Query, key: Key, value: Value, mask: Mask = NO_MASK) -> Output:
        self.validate_call(query, key, value, mask)
        key, value = repeat_heads(key, query.shape[1]), repeat_heads(value, query.shape[1])
        form = self.form_for(
            query_length=query.shape[2],
            key_length=key.shape[2],
            key_dim=key.shape[3],
            value_dim=value.shape[3],
            causal=mask.causal,
        )
        forms = {"quadratic": self._quadratic, "linear": self._linear, "chunked": self._chunked}
        return forms[form](query, key, value, mask)

    def weights(self, query: Query, key: Key, mask: Mask = NO_MASK) -> Weights:
        self.validate_call(query, key, None, mask)
        key = repeat_heads(key, query.shape[1])
        pairs, floor = self._pairs(query, key, mask), self._floor(query, key, mask)
        return pairs * inverse(pairs.sum(dim=-1), floor=floor)[..., None]

    @torch.no_grad()
    def _floor(self, query: Tensor, key: Tensor, mask: Mask) -> Tensor:
        """The smallest magnitude of each query's denominator."""
        if not self.kernel.cancels:
            return query.new_full((1, 1, 1), min_floor(query.dtype))
        norms = self._key_norms(key, mask)
        if not mask.causal:
            return noise_floor(self.kernel.norms(query) * norms.sum(dim=-1, keepdim=True))
        # Aligned at the end: a negative pad drops keys before the first query.
        ahead = query.shape[2] - key.shape[2]
        return noise_floor(self.kernel.norms(query) * pad(norms.cumsum(dim=-1), (ahead, 0)))

    def _pairs(self, query: Tensor, key: Tensor, mask: Mask) -> Tensor:
        pairs = self.kernel.pairwise(query, key)
        allowed = mask.boolean(query.shape[2], key.shape[2], device=query.device)
        return pairs if allowed is None else pairs.masked_fill(~allowed, 0.0)

    def _quadratic(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask) -> Tensor:
        pairs = self._pairs(query, key, mask)
        return average(pairs @ value, pairs.sum(dim=-1), floor=self._floor(query, key, mask))

    def _linear(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask) -> Tensor:
        memory, total = self._summed(key, value, mask)
        features = self.kernel.query_features(query)
        denominator = (features * total[:, :, None]).sum(dim=-1)
        return average(features @ memory, denominator, floor=self._floor(query, key, mask))

    def _chunked(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask) -> Tensor:
        keep = None if mask.lengths is None else mask.keep(key.shape[2])
        if keep is not None:
            # The kernel of a padded key might overflow.
            key = key.masked_fill(~keep[:, None, :, None], 0.0)
            value = value.masked_fill(~keep[:, None, :, None], 0.0)
        floor = self._floor(query, key, mask)
        query, key, kernel = self.kernel.chunked(query, key)
        return causal_kernel_average(
            query, key, value, kernel=kernel, keep=keep, floor=floor, chunk_size=self.chunk_size
        )

    def _summed(self, key: Tensor, value: Tensor, mask: Mask) -> tuple[Tensor, Tensor]:
        key_features = self.kernel.key_features(key)
        if mask.lengths is not None:
            # Filled, not multiplied by zero: features of a padded key may have overflowed.
            padded = ~mask.keep(key.shape[2])[:, None, :, None]
            key_features = key_features.masked_fill(padded, 0.0)
            value = value.masked_fill(padded, 0.0)
        return key_features.transpose(-2, -1) @ value, key_features.sum(dim=-2)

    def empty_state(self, key: Key, value: Value) -> KernelState:
        size = (*key.shape[:2], self.kernel.num_features(key.shape[-1]))
        return KernelState(
            memory=value.new_zeros(*size, value.shape[-1]),
            total=value.new_zeros(size),
            bound=value.new_zeros(size[:2]),
            position=torch.zeros(len(key), dtype=torch.long, device=key.device),
        )

    def extend(
        self, state: KernelState, key: Key, value: Value, mask: Mask = NO_MASK
    ) -> KernelState:
        self.validate_extend(key, value, mask)
        memory, total = self._summed(key, value, mask)
        taken = key.shape[2] if mask.lengths is None else mask.lengths.to(state.position)
        return KernelState(
            memory=state.memory + memory,
            total=state.total + total,
            bound=state.bound + self._bound(key, mask),
            position=state.position + taken,
        )

    @torch.no_grad()
    def _bound(self, key: Tensor, mask: Mask) -> Tensor:
        """What new keys add to the bound of a state."""
        if not self.kernel.cancels:
            return key.new_zeros(())
        return self._key_norms(key, mask).sum(dim=-1)

    def _key_norms(self, key: Tensor, mask: Mask) -> Tensor:
        norms = self.kernel.norms(key)
        if mask.lengths is None:
            return norms
        return norms.masked_fill(~mask.keep(key.shape[2])[:, None], 0.0)

    def read(self, state: KernelState, query: Query) -> Output:
        # Query heads that share a key/value head read the same sums, so they are grouped.
        kv_heads = state.memory.shape[1]
        grouped = query.unflatten(1, (kv_heads, -1)).flatten(2, 3)
        features = self.kernel.query_features(grouped)
        denominator = (features * state.total[:, :, None]).sum(dim=-1)
        floor = state.bound[:, :, None]
        floor = noise_floor(self.kernel.norms(grouped) * floor if self.kernel.cancels else floor)
        output = average(features @ state.memory, denominator, floor=floor)
        return output.unflatten(2, (-1, query.shape[2])).flatten(1, 2)

    @property
    def declares_cost(self) -> bool:
        own = type(self.kernel).feature_cost
        return type(self).cost is not KernelMechanism.cost or own is not FeatureKernel.feature_cost

    def cost(self, shape: AttentionShape) -> Cost:
        if not self.declares_cost:
            return super().cost(shape)
        form = self.form_for(
            query_length=shape.query_length,
            key_length=shape.key_length,
            key_dim=shape.key_dim,
            value_dim=shape.value_dim,
            causal=shape.causal,
        )
        guard, once = self._guard_cost(shape), self.kernel.constant_ops(shape.key_dim)
        if form == "quadratic":
            one_head = self._pair_cost(shape)
            once += boolean_ops(shape) + (shape.pairs if shape.causal else 0)
        elif form == "linear":
            one_head = self._full_cost(shape)
        else:
            one_head = self.kernel.causal_cost(shape, chunk_size=self.chunk_size)
        heads = shape.batch_heads
        features = self.kernel.num_features(shape.key_dim)
        # One key per key/value head, and one query per head.
        step = (
            self.kernel.feature_cost(
                queries=shape.batch_heads, keys=shape.batch_kv_heads, width=shape.key_dim
            ).matmul_flops
            + 2 * (shape.batch_heads + shape.batch_kv_heads) * features * shape.value_dim
        )
        return Cost(
            matmul_flops=heads * one_head.matmul_flops,
            transcendental_ops=heads * (one_head.transcendental_ops + guard.transcendental_ops),
            elementwise_ops=heads * (one_head.elementwise_ops + guard.elementwise_ops) + once,
            backward_matmul_flops=heads * one_head.backward_matmul_flops,
            step_matmul_flops=step,
            memory=heads * one_head.memory,
            parameters=self.num_parameters,
            state=shape.batch_kv_heads * (features * (shape.value_dim + 1) + 1),
            sequential_steps=one_head.sequential_steps,
            max_path_length=1,
        )

    def _guard_cost(self, shape: AttentionShape) -> Cost:
        """The cost of `_floor` for one head."""
        if not self.kernel.cancels:
            return Cost()
        vectors = shape.query_length + shape.key_length
        return Cost(
            transcendental_ops=vectors,  # the square root of every norm
            # The norms, those of keys summed, times those of queries, scaled and clamped.
            elementwise_ops=vectors * self.kernel.norm_ops(shape.key_dim)
            + shape.key_length
            + 3 * shape.query_length,
        )

    def _pair_cost(self, shape: AttentionShape) -> Cost:
        matmul_flops = 2 * shape.pairs * shape.value_dim
        return self.kernel.pair_cost(
            query_length=shape.query_length, key_length=shape.key_length, width=shape.key_dim
        ) + Cost(
            matmul_flops=matmul_flops,
            # In every form, the division is one reciprocal per query.
            transcendental_ops=shape.query_length,
            # The sum of a row, and the mask.
            elementwise_ops=average_ops(shape.query_length, shape.value_dim)
            + (2 if shape.causal else 1) * shape.pairs,
            backward_matmul_flops=2 * matmul_flops,
            memory=(shape.pairs if shape.causal else 0) + 2 * shape.query_length * shape.value_dim,
            sequential_steps=2,
        )

    def _full_cost(self, shape: AttentionShape) -> Cost:
        length = shape.query_length + shape.key_length
        features = self.kernel.num_features(shape.key_dim)
        matmul_flops = 2 * length * features * shape.value_dim
        made = self.kernel.feature_cost(
            queries=shape.query_length, keys=shape.key_length, width=shape.key_dim
        )
        return made + Cost(
            matmul_flops=matmul_flops,
            transcendental_ops=shape.query_length,
            # Key features are summed, query features multiplied by the sum.
            elementwise_ops=average_ops(shape.query_length, shape.value_dim)
            + (shape.key_length + 2 * shape.query_length) * features,
            backward_matmul_flops=2 * matmul_flops,
            memory=features * (shape.query_length + shape.value_dim)
            + 2 * shape.query_length * shape.value_dim,
            sequential_steps=2,
        )
