"""Linear attention with the feature map φ(x) = elu(x) + 1 (Katharopoulos et al. 2020).

It has key_dim positive features, so the linear form pays off early. It does not approximate softmax.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from regard.core.cost import AttentionShape, Cost
from regard.core.options import PositiveInt, validated
from regard.mechanisms.kernels.chunked import ChunkKernel, DotProduct
from regard.mechanisms.kernels.linear_attention import (
    FeatureKernel,
    Features,
    FormChoice,
    KernelMechanism,
    Vectors,
)


class EluKernel(FeatureKernel):
    """φ(x) = x + 1 above zero, exp(x) below: elu(x) + 1 without its rounding error near zero."""

    def num_features(self, width: int) -> int:
        return width

    def features(self, inputs: Vectors) -> Features:
        return inputs.clamp(max=0).exp() + inputs.relu()

    query_features = features
    key_features = features

    def feature_cost(self, *, queries: int, keys: int, width: int) -> Cost:
        numbers = (queries + keys) * width
        # A clamp on each side of zero, and the sum.
        return Cost(transcendental_ops=numbers, elementwise_ops=3 * numbers, memory=numbers)

    def chunked(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor, ChunkKernel]:
        return query, key, _EluChunks()

    def causal_cost(self, shape: AttentionShape, *, chunk_size: int) -> Cost:
        # Queries before the first key are skipped.
        skipped = max(shape.query_length - shape.key_length, 0)
        without = self.feature_cost(queries=skipped, keys=0, width=shape.key_dim)
        whole = super().causal_cost(shape, chunk_size=chunk_size)
        return replace(
            whole,
            transcendental_ops=whole.transcendental_ops - without.transcendental_ops,
            elementwise_ops=whole.elementwise_ops - without.elementwise_ops,
        )


class _EluChunks(DotProduct):
    """φ chunk by chunk; its derivative is min(φ, 1)."""

    is_transforming = True

    def transform(self, inputs: Tensor, *, out: Tensor) -> None:
        torch.clamp(inputs, max=0, out=out).exp_().add_(inputs.relu())

    def transform_gradient(self, kept: Tensor, gradient: Tensor) -> Tensor:
        return gradient.mul_(kept.clamp(max=1))


class EluAttention(KernelMechanism):
    """weight ∝ (elu(query) + 1) · (elu(key) + 1)   (Katharopoulos et al. 2020, sec. 3.2)."""

    @validated
    def __init__(self, *, form: FormChoice = "auto", chunk_size: PositiveInt = 64) -> None:
        super().__init__(
            kernel=EluKernel(),
            nonnegative=True,
            rows_sum_to_one=True,
            form=form,
            chunk_size=chunk_size,
        )
