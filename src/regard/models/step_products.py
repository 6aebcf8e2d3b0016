"""A linear map used at every step of a loop, whose weight gradient is one product for all steps.

Left to autograd, a loop adds up one gradient of the size of the weight a step, which takes longer than
the steps themselves. Here the steps multiply by the weight as a constant. What each step starts
from passes through one place whose gradient is that of all steps side by side, and there the weight's
gradient is computed at once.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.core.first_order import first_order


class _Gathered(torch.autograd.Function):
    """The identity on `starts`; its backward also gives the gradient of the weight."""

    @staticmethod
    def forward(ctx: Any, starts: Tensor, weight: Tensor, inputs: list[Tensor]) -> Tensor:
        del weight
        ctx.inputs = inputs
        return starts.view_as(starts)

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        (gradient,) = gradients
        inputs = torch.stack(ctx.inputs, dim=1)
        return gradient, gradient.flatten(0, 1).t() @ inputs.flatten(0, 1), None


class StepProducts:
    """start_t + W input_t for the steps t = 0, 1, … of one loop, in order."""

    def __init__(
        self,
        starts: Float[Tensor, "batch length out_width"],
        weight: Float[Tensor, "out_width width"],
    ) -> None:
        self._inputs: list[Tensor] = []
        gathered: Any = _Gathered.apply(starts, weight, self._inputs)  # type: ignore[no-untyped-call]
        self._starts = iter(gathered.unbind(dim=1))
        self._weight = weight.detach().t()

    def __call__(self, x: Float[Tensor, "batch width"]) -> Float[Tensor, "batch out_width"]:
        """The next step's."""
        self._inputs.append(x.detach())
        return torch.addmm(next(self._starts), x, self._weight)
