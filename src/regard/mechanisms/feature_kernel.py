"""Kernels that are products of features, κ(q, k) = φ(q)·φ(k), as kernel attention uses them."""

from __future__ import annotations

from abc import ABC, abstractmethod

from jaxtyping import Float
from torch import Tensor, nn

from regard.core.cost import AttentionShape, Cost
from regard.mechanisms.chunk_cuts import causal_average_cost
from regard.mechanisms.chunk_kernels import ChunkKernel, DotProduct


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
