"""Linear attention with φ(x) = elu(x) + 1 (Katharopoulos et al. 2020), the plainest positive feature.

As many features as the key is wide, so the linear form wins early; it does not resemble softmax.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.core.cost import Cost
from regard.mechanisms.feature_kernel import FeatureKernel
from regard.mechanisms.kernel import KernelMechanism


class EluKernel(FeatureKernel):
    """φ(x) = x + 1 above zero, exp(x) below: elu(x) + 1 without its rounding error near zero."""

    def num_features(self, width: int) -> int:
        return width

    def features(
        self, inputs: Float[Tensor, "*batch length width"]
    ) -> Float[Tensor, "*batch length width"]:
        """The same for queries and keys."""
        features: Tensor = _EluPlusOne.apply(inputs)  # type: ignore[no-untyped-call]
        return features

    query_features = features
    key_features = features

    def feature_cost(self, *, length: int, width: int) -> Cost:
        return Cost(functions=length * width, memory=length * width)


class _EluPlusOne(torch.autograd.Function):
    """Keeps only its result, from which the slope can be read off: the smaller of φ and one."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor) -> Tensor:
        features = inputs.clamp(max=0).exp_().add_(inputs.relu())
        ctx.save_for_backward(features)
        return features

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (features,) = ctx.saved_tensors
        return features.clamp(max=1).mul_(gradient)


class EluAttention(KernelMechanism):
    """weight ∝ (elu(query) + 1) · (elu(key) + 1)   (Katharopoulos et al. 2020, eq. 7)."""

    def __init__(self, *, form: str = "auto", chunk_size: int = 64) -> None:
        super().__init__(kernel=EluKernel(), signed=False, form=form, chunk_size=chunk_size)
