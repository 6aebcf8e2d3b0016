"""Linear attention with φ(x) = elu(x) + 1 (Katharopoulos et al. 2020), the plainest positive feature.

As many features as the key is wide, so the linear form wins early; it does not resemble softmax.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from regard.core.cost import AttentionShape, Cost
from regard.mechanisms.kernels.chunked import ChunkKernel, DotProduct
from regard.mechanisms.kernels.linear_attention import FeatureKernel, KernelMechanism


class EluKernel(FeatureKernel):
    """φ(x) = x + 1 above zero, exp(x) below: elu(x) + 1 without its rounding error near zero."""

    def num_features(self, width: int) -> int:
        return width

    def features(
        self, inputs: Float[Tensor, "*batch length width"]
    ) -> Float[Tensor, "*batch length width"]:
        """The same for queries and keys."""
        return inputs.clamp(max=0).exp() + inputs.relu()

    query_features = features
    key_features = features

    def feature_cost(self, *, queries: int, keys: int, width: int) -> Cost:
        numbers = (queries + keys) * width
        # Each side of zero is cut off once, and the two added.
        return Cost(functions=numbers, arithmetic=3 * numbers, memory=numbers)

    def chunked(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor, ChunkKernel]:
        return query, key, _EluChunks()

    def causal_cost(self, shape: AttentionShape, *, chunk_size: int) -> Cost:
        # Queries before the first key are left out.
        left_out = max(shape.query_length - shape.key_length, 0)
        without = self.feature_cost(queries=left_out, keys=0, width=shape.key_dim)
        whole = super().causal_cost(shape, chunk_size=chunk_size)
        return replace(
            whole,
            functions=whole.functions - without.functions,
            arithmetic=whole.arithmetic - without.arithmetic,
        )


class _EluChunks(DotProduct):
    """φ made chunk by chunk; its slope, the smaller of φ and one, is read off the result."""

    is_transforming = True

    def transform(self, inputs: Tensor, *, out: Tensor) -> None:
        torch.clamp(inputs, max=0, out=out).exp_().add_(inputs.relu())

    def transform_gradient(self, kept: Tensor, gradient: Tensor) -> Tensor:
        return gradient.mul_(kept.clamp(max=1))


class EluAttention(KernelMechanism):
    """weight ∝ (elu(query) + 1) · (elu(key) + 1)   (Katharopoulos et al. 2020, sec. 3.2)."""

    def __init__(self, *, form: str = "auto", chunk_size: int = 64) -> None:
        super().__init__(
            kernel=EluKernel(),
            nonnegative=True,
            rows_sum_to_one=True,
            form=form,
            chunk_size=chunk_size,
        )
