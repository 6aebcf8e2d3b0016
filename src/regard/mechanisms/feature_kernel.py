"""Kernels that are products of features, κ(q, k) = φ(q)·φ(k), as kernel attention uses them."""

from __future__ import annotations

from abc import ABC, abstractmethod

from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.core.cost import AttentionShape, Cost
from regard.mechanisms.chunk_cuts import causal_average_cost
from regard.mechanisms.chunk_kernels import DotProduct
from regard.mechanisms.chunked_kernel import causal_kernel_average


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

    def causal_average(
        self,
        query: Float[Tensor, "batch heads query_length width"],
        key: Float[Tensor, "batch heads key_length width"],
        value: Float[Tensor, "batch heads key_length value_dim"],
        *,
        keep: Bool[Tensor, "batch key_length"] | None,
        floor: Float[Tensor, "#batch #heads #query_length"],
        chunk_size: int,
    ) -> Float[Tensor, "batch heads query_length value_dim"]:
        """Kernel attention over each query's past."""
        return causal_kernel_average(
            self.query_features(query),
            self.key_features(key),
            value,
            kernel=DotProduct(),
            keep=keep,
            floor=floor,
            chunk_size=chunk_size,
        )

    def causal_cost(self, shape: AttentionShape, *, chunk_size: int) -> Cost:
        """What `causal_average` takes for one head."""
        length, features = shape.query_length + shape.key_length, self.num_features(shape.key_dim)
        return self.feature_cost(length=length, width=shape.key_dim) + causal_average_cost(
            query_length=shape.query_length,
            key_length=shape.key_length,
            pair_width=features,
            num_features=features,
            value_dim=shape.value_dim,
            chunk_size=chunk_size,
        )
