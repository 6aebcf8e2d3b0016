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
    def feature_cost(self, *, length: int, width: int) -> Cost:
        """What computing the features of `length` vectors takes."""

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

    def pair_cost(self, *, query_length: int, key_length: int, width: int) -> Cost:
        """What `pairwise` takes."""
        features = self.feature_cost(length=query_length + key_length, width=width)
        pairs = query_length * key_length
        return features + Cost(products=2 * pairs * self.num_features(width), memory=pairs)

    def chunked(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor, ChunkKernel]:
        """What the causal scan is given: queries, keys, and the kernel between them."""
        return self.query_features(query), self.key_features(key), DotProduct()

    def causal_cost(self, shape: AttentionShape, *, chunk_size: int) -> Cost:
        """What the causal scan takes for one head, the features included."""
        length, features = shape.query_length + shape.key_length, self.num_features(shape.key_dim)
        return self.feature_cost(length=length, width=shape.key_dim) + causal_average_cost(
            query_length=shape.query_length,
            key_length=shape.key_length,
            pair_width=features,
            num_features=features,
            value_dim=shape.value_dim,
            chunk_size=chunk_size,
        )
