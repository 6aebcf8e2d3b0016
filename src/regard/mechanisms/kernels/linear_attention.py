"""The family of kernel attention: weights ∝ κ(q, k) = φ(q)·φ(k), so keys can be summed up once.

    out_i = Σ_j κ(q_i, k_j) v_j / Σ_j κ(q_i, k_j)        (Katharopoulos et al. 2020)

Three ways to the same numbers; `form_for` says which one a call takes:

    quadratic   every pair, κ in the open; cheapest for short sequences
    linear      φ(Q) (φ(K)ᵀ V): one sum over all keys
    chunked     causal: pairs within a chunk, a running sum across chunks

The state for decoding is the running sum, of a size that does not grow. A member is given its kernel.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal, NamedTuple, Self

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import pad

from regard.core.cost import AttentionShape, Cost
from regard.core.errors import RegardError
from regard.core.masks import NO_MASK, Mask
from regard.core.mechanism import (
    Capabilities,
    Mechanism,
    refuse_misextended,
    repeat_heads,
    select_rows,
)
from regard.core.normalise import average, inverse, least_floor, noise_floor
from regard.core.registry import unknown_name
from regard.mechanisms.kernels.chunked import (
    ChunkKernel,
    DotProduct,
    causal_average_cost,
    causal_kernel_average,
)
from regard.mechanisms.scores.softmax import average_arithmetic, boolean_arithmetic

# Kernels that are products of features, κ(q, k) = φ(q)·φ(k), as kernel attention uses them.


class FeatureKernel(nn.Module, ABC):
    """A kernel given by its features, which are cheap enough to be kept whole."""

    # Whether features have signs, so that a sum of them can be far smaller than what went into it.
    cancels: bool = False

    @abstractmethod
    def num_features(self, width: int) -> int:
        """How many features a vector of this width has."""

    @abstractmethod
    def query_features(
        self, inputs: Float[Tensor, "*batch length width"]
    ) -> Float[Tensor, "*batch length num_features"]:
        """φ of queries. A factor on all features of one query cancels in attention."""

    @abstractmethod
    def key_features(
        self, inputs: Float[Tensor, "*batch length width"]
    ) -> Float[Tensor, "*batch length num_features"]:
        """φ of keys."""

    @abstractmethod
    def feature_cost(self, *, queries: int, keys: int, width: int) -> Cost:
        """What computing the features of so many queries and keys takes."""

    def constant_arithmetic(self, width: int) -> int:
        """Arithmetic of making features however many there are, once a call."""
        del width
        return 0

    def pairwise(
        self,
        query: Float[Tensor, "*batch query_length width"],
        key: Float[Tensor, "*batch key_length width"],
    ) -> Float[Tensor, "*batch query_length key_length"]:
        """The kernel of every query with every key."""
        return self.query_features(query) @ self.key_features(key).mT

    def norms(self, inputs: Float[Tensor, "*batch length width"]) -> Float[Tensor, "*batch length"]:
        """The length of each feature vector, √κ(x, x); needed of kernels that cancel."""
        raise NotImplementedError

    def norm_arithmetic(self, width: int) -> int:
        """What the length of one feature vector takes beside its square root."""
        raise NotImplementedError

    def pair_cost(self, *, query_length: int, key_length: int, width: int) -> Cost:
        """What `pairwise` takes."""
        features = self.feature_cost(queries=query_length, keys=key_length, width=width)
        pairs = query_length * key_length
        products = 2 * pairs * self.num_features(width)
        return features + Cost(products=products, backward_products=2 * products, memory=pairs)

    def chunked(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor, ChunkKernel]:
        """What the causal scan is given: queries, keys, and the kernel between them."""
        return self.query_features(query), self.key_features(key), DotProduct()

    def causal_cost(self, shape: AttentionShape, *, chunk_size: int) -> Cost:
        """What the causal scan takes for one head, the features included."""
        features = self.num_features(shape.key_dim)
        made = self.feature_cost(
            queries=shape.query_length, keys=shape.key_length, width=shape.key_dim
        )
        return made + causal_average_cost(
            query_length=shape.query_length,
            key_length=shape.key_length,
            pair_width=features,
            num_features=features,
            value_dim=shape.value_dim,
            chunk_size=chunk_size,
        )


Form = Literal["quadratic", "linear", "chunked"]
# An operation takes this much longer in sums of features than pair by pair; measured on one core for
# elu, Taylor, polynomial and random features, where the forms then cross within a factor 1.5.
LINEAR_OVERHEAD = 1.2

FORM_CHOICES = ("auto", "quadratic", "linear")


class KernelState(NamedTuple):
    """The sums over the keys taken in."""

    memory: Float[Tensor, "batch kv_heads num_features value_dim"]
    total: Float[Tensor, "batch kv_heads num_features"]
    # The sum of the lengths of the feature vectors, of kernels that cancel.
    bound: Float[Tensor, "batch kv_heads"]
    position: Int[Tensor, " batch"]

    def select(self, index: Int[Tensor, " rows"]) -> Self:
        """The state whose row r is this state's row index[r]."""
        return select_rows(self, index)


class KernelMechanism(Mechanism):
    """Attention with a kernel in place of exp(score).

    `nonnegative` and `rows_sum_to_one` are what the kernel lets it promise: a denominator that is
    negative, or vanishes among rounding errors, leaves a row that sums to something else.
    `form` is "auto", or the form to be taken whatever the length ("linear" is chunked when causal).
    """

    def __init__(
        self,
        *,
        kernel: FeatureKernel,
        nonnegative: bool,
        rows_sum_to_one: bool,
        form: str,
        chunk_size: int,
    ) -> None:
        super().__init__()
        if form not in FORM_CHOICES:
            raise unknown_name(f"form of {self.name}", form, FORM_CHOICES)
        if chunk_size < 1:
            raise RegardError(f"{self.name} has chunk_size={chunk_size}; it must be 1 or more.")
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
        """Which way a call of these sizes goes."""
        linear: Form = "chunked" if causal else "linear"
        if self.form != "auto":
            return "quadratic" if self.form == "quadratic" else linear
        every_pair = self.kernel.pair_cost(
            query_length=query_length, key_length=key_length, width=key_dim
        )
        quadratic = every_pair.products + 2 * query_length * key_length * value_dim
        length, features = query_length + key_length, self.kernel.num_features(key_dim)
        made = self.kernel.feature_cost(queries=query_length, keys=key_length, width=key_dim)
        summed = made.products + 2 * length * features * value_dim
        return "quadratic" if quadratic <= LINEAR_OVERHEAD * summed else linear

    def forward(
        self,
        query: Float[Tensor, "batch heads query_length key_dim"],
        key: Float[Tensor, "batch kv_heads key_length key_dim"],
        value: Float[Tensor, "batch kv_heads key_length value_dim"],
        mask: Mask = NO_MASK,
    ) -> Float[Tensor, "batch heads query_length value_dim"]:
        self.admit(query, key, value, mask)
        key, value = repeat_heads(key, query.shape[1]), repeat_heads(value, query.shape[1])
        form = self.form_for(
            query_length=query.shape[2],
            key_length=key.shape[2],
            key_dim=key.shape[3],
            value_dim=value.shape[3],
            causal=mask.causal,
        )
        ways = {"quadratic": self._by_pairs, "linear": self._by_sums, "chunked": self._by_chunks}
        return ways[form](query, key, value, mask)

    def weights(
        self,
        query: Float[Tensor, "batch heads query_length key_dim"],
        key: Float[Tensor, "batch kv_heads key_length key_dim"],
        mask: Mask = NO_MASK,
    ) -> Float[Tensor, "batch heads query_length key_length"]:
        self.admit(query, key, None, mask)
        key = repeat_heads(key, query.shape[1])
        pairs, floor = self._pairs(query, key, mask), self._floor(query, key, mask)
        return pairs * inverse(pairs.sum(dim=-1), floor=floor)[..., None]

    @torch.no_grad()
    def _floor(self, query: Tensor, key: Tensor, mask: Mask) -> Tensor:
        """How near to zero the denominator of each query may come."""
        if not self.kernel.cancels:
            return query.new_full((1, 1, 1), least_floor(query.dtype))
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

    def _by_pairs(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask) -> Tensor:
        pairs = self._pairs(query, key, mask)
        return average(pairs @ value, pairs.sum(dim=-1), floor=self._floor(query, key, mask))

    def _by_sums(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask) -> Tensor:
        memory, total = self._summed(key, value, mask)
        features = self.kernel.query_features(query)
        denominator = (features * total[:, :, None]).sum(dim=-1)
        return average(features @ memory, denominator, floor=self._floor(query, key, mask))

    def _by_chunks(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask) -> Tensor:
        keep = None if mask.lengths is None else mask.keep(key.shape[2])
        if keep is not None:
            # A padded key may be of any size, and its kernel overflow.
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
            # Filled, not multiplied: features of a padded key may have overflowed.
            padded = ~mask.keep(key.shape[2])[:, None, :, None]
            key_features = key_features.masked_fill(padded, 0.0)
            value = value.masked_fill(padded, 0.0)
        return key_features.transpose(-2, -1) @ value, key_features.sum(dim=-2)

    def start(
        self,
        *,
        batch_size: int,
        num_kv_heads: int,
        key_dim: int,
        value_dim: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> KernelState:
        size = (batch_size, num_kv_heads, self.kernel.num_features(key_dim))
        return KernelState(
            memory=torch.zeros(*size, value_dim, dtype=dtype, device=device),
            total=torch.zeros(size, dtype=dtype, device=device),
            bound=torch.zeros(size[:2], dtype=dtype, device=device),
            position=torch.zeros(batch_size, dtype=torch.long, device=device),
        )

    def extend(
        self,
        state: KernelState,
        key: Float[Tensor, "batch kv_heads new_length key_dim"],
        value: Float[Tensor, "batch kv_heads new_length value_dim"],
        mask: Mask = NO_MASK,
    ) -> KernelState:
        refuse_misextended(key, value, mask)
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
        """What further keys add to the bound of a state."""
        if not self.kernel.cancels:
            return key.new_zeros(())
        return self._key_norms(key, mask).sum(dim=-1)

    def _key_norms(self, key: Tensor, mask: Mask) -> Tensor:
        norms = self.kernel.norms(key)
        if mask.lengths is None:
            return norms
        return norms.masked_fill(~mask.keep(key.shape[2])[:, None], 0.0)

    def read(
        self, state: KernelState, query: Float[Tensor, "batch heads query_length key_dim"]
    ) -> Float[Tensor, "batch heads query_length value_dim"]:
        # Query heads that share a key/value head read the same sums: put them side by side.
        kv_heads = state.memory.shape[1]
        grouped = query.unflatten(1, (kv_heads, -1)).flatten(2, 3)
        features = self.kernel.query_features(grouped)
        denominator = (features * state.total[:, :, None]).sum(dim=-1)
        floor = state.bound[:, :, None]
        floor = noise_floor(self.kernel.norms(grouped) * floor if self.kernel.cancels else floor)
        output = average(features @ state.memory, denominator, floor=floor)
        return output.unflatten(2, (-1, query.shape[2])).flatten(1, 2)

    def cost(self, shape: AttentionShape) -> Cost:
        form = self.form_for(
            query_length=shape.query_length,
            key_length=shape.key_length,
            key_dim=shape.key_dim,
            value_dim=shape.value_dim,
            causal=shape.causal,
        )
        costs = {
            "quadratic": self._pair_cost,
            "linear": self._full_cost,
            "chunked": self._chunk_cost,
        }
        one_head, rows = costs[form](shape), shape.rows
        guard, once = self._guard_cost(shape), self.kernel.constant_arithmetic(shape.key_dim)
        if form == "quadratic":
            once += boolean_arithmetic(shape) + (shape.pairs if shape.causal else 0)
        features = self.kernel.num_features(shape.key_dim)
        # In a step, a key/value head takes in one key, and each head reads for one query.
        step = (
            self.kernel.feature_cost(
                queries=shape.rows, keys=shape.kv_rows, width=shape.key_dim
            ).products
            + 2 * (shape.rows + shape.kv_rows) * features * shape.value_dim
        )
        return Cost(
            products=rows * one_head.products,
            functions=rows * (one_head.functions + guard.functions),
            arithmetic=rows * (one_head.arithmetic + guard.arithmetic) + once,
            backward_products=rows * one_head.backward_products,
            step_products=step,
            memory=rows * one_head.memory,
            parameters=self.num_parameters,
            state=shape.kv_rows * (features * (shape.value_dim + 1) + 1),
            sequential_steps=one_head.sequential_steps,
            longest_path=1,
        )

    def _guard_cost(self, shape: AttentionShape) -> Cost:
        """What `_floor` takes for one head."""
        if not self.kernel.cancels:
            return Cost()
        vectors = shape.query_length + shape.key_length
        return Cost(
            functions=vectors,  # a square root for the length of every feature vector
            # The lengths, those of keys summed up, times those of queries, scaled and clamped.
            arithmetic=vectors * self.kernel.norm_arithmetic(shape.key_dim)
            + shape.key_length
            + 3 * shape.query_length,
        )

    def _pair_cost(self, shape: AttentionShape) -> Cost:
        products = 2 * shape.pairs * shape.value_dim
        return self.kernel.pair_cost(
            query_length=shape.query_length, key_length=shape.key_length, width=shape.key_dim
        ) + Cost(
            products=products,
            # Here and in the other forms, the division is one reciprocal a query.
            functions=shape.query_length,
            # The sum of a row, and the mask.
            arithmetic=average_arithmetic(shape.query_length, shape.value_dim)
            + (2 if shape.causal else 1) * shape.pairs,
            backward_products=2 * products,
            memory=(shape.pairs if shape.causal else 0) + 2 * shape.query_length * shape.value_dim,
            sequential_steps=2,
        )

    def _full_cost(self, shape: AttentionShape) -> Cost:
        length = shape.query_length + shape.key_length
        features = self.kernel.num_features(shape.key_dim)
        products = 2 * length * features * shape.value_dim
        made = self.kernel.feature_cost(
            queries=shape.query_length, keys=shape.key_length, width=shape.key_dim
        )
        return made + Cost(
            products=products,
            functions=shape.query_length,
            # Features of keys are summed, those of queries multiplied with the sum.
            arithmetic=average_arithmetic(shape.query_length, shape.value_dim)
            + (shape.key_length + 2 * shape.query_length) * features,
            backward_products=2 * products,
            memory=features * (shape.query_length + shape.value_dim)
            + 2 * shape.query_length * shape.value_dim,
            sequential_steps=2,
        )

    def _chunk_cost(self, shape: AttentionShape) -> Cost:
        return self.kernel.causal_cost(shape, chunk_size=self.chunk_size)
