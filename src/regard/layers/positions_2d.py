"""Position encodings of a grid of patches, by name: `build_position_2d`.

    sinusoidal   half of the features by row, half by column, added     (He et al. 2022, appendix)
    rotary       half of each head rotated by row, half by column       (Heo et al. 2024)
    learned      a learned vector per patch, added                      (Dosovitskiy et al. 2021)
    none

Patches are numbered row by row: patch t is at row t // columns, column t % columns.
"""

from __future__ import annotations

from typing import Annotated

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from regard.core.cost import Cost
from regard.core.options import NonNegativeInt, PositiveFloat, PositiveInt, validated
from regard.core.registry import build_from_signature, lookup
from regard.layers.cost import SequenceShape, forward_cost
from regard.layers.positions import LearnedPositions, NoPositions, SinusoidalPositions, angles
from regard.layers.rotary import Rotary
from regard.layers.validation import validate_sequence

FourfoldInt = Annotated[int, Field(ge=4, multiple_of=4)]  # pairs of features by row, and by column


class SinusoidalPositions2D(nn.Module):
    """Adds (PE(row), PE(column)) to the patches, each of half the width; PE as of `SinusoidalPositions`."""

    @validated
    def __init__(
        self, *, model_dim: FourfoldInt, columns: PositiveInt, base: PositiveFloat = 10_000.0
    ) -> None:
        super().__init__()
        self.model_dim = model_dim
        self.columns = columns
        self.axis = SinusoidalPositions(model_dim=model_dim // 2, base=base)

    def forward(
        self, x: Float[Tensor, "batch patches model_dim"]
    ) -> Float[Tensor, "batch patches model_dim"]:
        validate_sequence("SinusoidalPositions2D", x, width=self.model_dim)
        return x + self.table(torch.arange(x.shape[1], device=x.device)).to(x.dtype)

    def table(self, patches: Int[Tensor, " patches"]) -> Float[Tensor, "patches _"]:
        """The encoding of patches by their number, in float64."""
        row, column = patches // self.columns, patches % self.columns
        return torch.cat([self.axis.table(row), self.axis.table(column)], dim=-1)

    def cost(self, shape: SequenceShape) -> Cost:
        """The cost of `forward`, counted."""
        return forward_cost(self, shape, width=self.model_dim)


class Rotary2D(Rotary):
    """Rotates the first half of the pairs of each head by the patch's row, the second half by its column.

    The dot product of a query and a key depends on the offsets of their rows and columns only. The first
    `num_prefix` positions, such as a class token, are not rotated.
    """

    @validated
    def __init__(
        self,
        *,
        head_dim: FourfoldInt,
        columns: PositiveInt,
        num_prefix: NonNegativeInt = 0,
        base: PositiveFloat = 100.0,
    ) -> None:
        super().__init__(head_dim=head_dim, base=base)
        self.columns = columns
        self.num_prefix = num_prefix

    def angles(
        self, positions: Int[Tensor, "*batch length"]
    ) -> Float[Tensor, "*batch length pairs"]:
        """The angle of each pair at these positions of the sequence."""
        patch = (positions - self.num_prefix).clamp(min=0)
        axes = (patch // self.columns, patch % self.columns)
        return torch.cat(
            [angles(axis, width=self.head_dim // 2, base=self.base) for axis in axes], dim=-1
        )


POSITIONS_2D: dict[str, type[nn.Module]] = {
    "sinusoidal": SinusoidalPositions2D,
    "learned": LearnedPositions,
    "rotary": Rotary2D,
    "none": NoPositions,
}


def build_position_2d(
    name: str, *, model_dim: int, head_dim: int, grid: tuple[int, int], num_prefix: int = 0
) -> nn.Module:
    """Build a position encoding of a grid of (rows, columns) by name.

    `Rotary2D` is passed to each `MultiHead`, the others are applied to the patches alone.
    """
    rows, columns = grid
    sizes = {
        "model_dim": model_dim,
        "head_dim": head_dim,
        "columns": columns,
        "max_length": rows * columns,
        "num_prefix": num_prefix,
    }
    built: nn.Module = build_from_signature(
        lookup("position", name, POSITIONS_2D), what=f"position '{name}'", sizes=sizes, options={}
    )
    return built
