"""Positive random features: an unbiased, always positive estimate of exp(q·k/√d) (Choromanski et al. 2021).

    φ(x) = exp(w·x − ‖x‖²/2) / √m for m random directions w, drawn orthogonal in blocks

The Performer's kernel (FAVOR+). Unlike Taylor's, its error is random, and its variance grows quickly with
the norms of queries and keys; in float32, at width 64, it needs ‖k‖² below about 70·√d. Stabilising
constants are fixed or per query: a maximum over keys would depend on future keys.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.core.cost import Cost
from regard.core.mechanism import first_order_only
from regard.core.options import PositiveFloat, PositiveInt, validated
from regard.mechanisms.kernels.linear_attention import (
    FeatureKernel,
    Features,
    FormChoice,
    KernelMechanism,
    Vectors,
)


class RandomFeatureKernel(FeatureKernel):
    """An estimate of exp(scale · q·k) from random directions, which are a buffer of the module."""

    directions: Tensor

    def __init__(self, *, directions: Float[Tensor, "num_features width"], scale: float) -> None:
        super().__init__()
        self.register_buffer("directions", directions)
        self.scale = scale

    def num_features(self, width: int) -> int:
        return len(self.directions)

    def query_features(self, inputs: Vectors) -> Features:
        # A factor on one query's features cancels in its denominator.
        return self._features(inputs, None)

    def key_features(self, inputs: Vectors) -> Features:
        # ‖w‖²/2 bounds every exponent from above; half of it centres the range that occurs. A
        # constant factor on all keys cancels in the denominator.
        return self._features(inputs, self.directions.square().sum(dim=1).max() / 4)

    def _features(self, inputs: Tensor, shift: Tensor | None) -> Tensor:
        features: Tensor = _PositiveFeatures.apply(  # type: ignore[no-untyped-call]
            inputs * self.scale**0.5, self.directions, shift
        )
        return features

    def feature_cost(self, *, queries: int, keys: int, width: int) -> Cost:
        features = len(self.directions)
        numbers = (queries + keys) * features
        # All are scaled. The exponents of a query are shifted by their maximum, those of a key by half
        # its squared norm and the constant.
        elementwise_ops = queries * (width + 2 * features) + keys * (3 * width + features + 2)
        return Cost(
            matmul_flops=2 * numbers * width,
            transcendental_ops=numbers,
            elementwise_ops=elementwise_ops,
            # The directions need no gradient.
            backward_matmul_flops=2 * numbers * width,
            memory=numbers,
        )

    def constant_ops(self, width: int) -> int:
        # The square of each direction, their maximum, and a quarter of it.
        return len(self.directions) * (2 * width + 1) + 1


class _PositiveFeatures(torch.autograd.Function):
    """exp(w·x − ‖x‖²/2 − shift); `shift` defaults to the largest exponent of the row.

    Hand-written because the result is many times wider than its input: all steps are in place, and only
    the result is saved.
    """

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, directions: Tensor, shift: Tensor | None) -> Tensor:
        exponents = inputs @ directions.T
        if shift is None:
            # ‖x‖²/2 is constant in a row, so the shift would cancel it.
            exponents -= exponents.amax(dim=-1, keepdim=True)
        else:
            exponents -= inputs.square().sum(dim=-1, keepdim=True) / 2 + shift
        features = exponents.exp_()
        ctx.save_for_backward(inputs, directions, features)
        ctx.is_shifted_by_row = shift is None
        return features

    @staticmethod
    @first_order_only
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        inputs, directions, features = ctx.saved_tensors
        by_exponent = gradient * features
        by_input = by_exponent @ directions
        if not ctx.is_shifted_by_row:
            by_input -= inputs * by_exponent.sum(dim=-1, keepdim=True)
        return by_input, None, None


class RandomFeatureAttention(KernelMechanism):
    """weight ∝ an estimate of exp(scale · query · key) from `num_features` random directions.

    `seed` fixes the directions. `scale` defaults to 1/√key_dim.
    """

    @validated
    def __init__(
        self,
        *,
        key_dim: PositiveInt,
        num_features: PositiveInt = 128,
        scale: PositiveFloat | None = None,
        seed: int = 0,
        form: FormChoice = "auto",
        chunk_size: PositiveInt = 64,
    ) -> None:
        generator = torch.Generator().manual_seed(seed)
        directions = _orthogonal_directions(num_features, key_dim, generator)
        factor = key_dim**-0.5 if scale is None else scale
        super().__init__(
            kernel=RandomFeatureKernel(directions=directions, scale=factor),
            nonnegative=True,
            # All features of a key with a large norm may underflow.
            rows_sum_to_one=False,
            form=form,
            chunk_size=chunk_size,
        )


def _orthogonal_directions(count: int, width: int, generator: torch.Generator) -> Tensor:
    """Rows orthogonal within blocks of `width`, with the norms of Gaussian vectors."""
    blocks = []
    for _ in range(-(-count // width)):
        square = torch.randn(width, width, generator=generator, dtype=torch.float64)
        rotation, triangle = torch.linalg.qr(square)
        # Without the signs the rotations would not be uniform, and the estimate biased.
        blocks.append((rotation * triangle.diagonal().sign()).T)
    lengths = torch.randn(count, width, generator=generator, dtype=torch.float64).norm(dim=1)
    return (torch.cat(blocks)[:count] * lengths[:, None]).float()
