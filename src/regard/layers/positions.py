"""Position encodings by name; sinusoidal, learned and no positions, which are added to embeddings.

Rotary positions and ALiBi have files of their own.
"""

from __future__ import annotations

import importlib
from typing import Annotated, Any

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from regard.core.cost import Cost
from regard.core.device import float64_on
from regard.core.errors import RegardError
from regard.core.options import PositiveFloat, PositiveInt, validated
from regard.core.registry import build_from_signature, lookup
from regard.layers.cost import SequenceShape, forward_cost, validate_sequence_shape
from regard.layers.names import POSITIONS
from regard.layers.validation import validate_sequence

EvenInt = Annotated[int, Field(ge=2, multiple_of=2)]  # features are rotated in pairs


def build_position(
    name: str,
    *,
    model_dim: int,
    head_dim: int,
    num_heads: int,
    max_length: int | None = None,
    **options: Any,
) -> nn.Module:
    """Build a position encoding by name. It gets the sizes it accepts; an unknown option is an error."""
    entry = lookup("position", name, POSITIONS)
    kind = getattr(importlib.import_module(f"regard.layers.{entry.module}"), entry.class_name)
    sizes = {
        "model_dim": model_dim,
        "head_dim": head_dim,
        "num_heads": num_heads,
        "max_length": max_length,
    }
    built: nn.Module = build_from_signature(
        kind, what=f"position '{name}'", sizes=sizes, options=options
    )
    return built


def token_positions(
    *, start: int | Int[Tensor, " batch"], length: int, device: torch.device
) -> Int[Tensor, "*batch {length}"]:
    """start, start + 1, …: one row, or one per example where `start` differs between them.

    >>> token_positions(start=torch.tensor([0, 4]), length=3, device=torch.device("cpu"))
    tensor([[0, 1, 2],
            [4, 5, 6]])
    """
    steps = torch.arange(length, device=device)
    if isinstance(start, int):
        return steps + start
    if start.numel():
        first, last = start.aminmax()
        if torch.equal(first, last):
            return steps + first
    return steps + start[:, None]


def frequencies(
    *, width: int, base: float, device: torch.device | None = None
) -> Float[Tensor, " pairs"]:
    """base^(−2i/width) for each pair of features: radians per position (Vaswani et al. 2017)."""
    dtype = torch.float64 if device is None else float64_on(device)
    exponents = torch.arange(0, width, 2, dtype=dtype, device=device) / width
    return base**-exponents


def angles(
    positions: Int[Tensor, "*batch length"], *, width: int, base: float
) -> Float[Tensor, "*batch length pairs"]:
    """position × frequency, for sinusoidal and rotary positions.

    In float64: at position 10,000 a float32 angle is wrong in the fourth decimal.
    """
    device = positions.device
    return positions.to(float64_on(device))[..., None] * frequencies(
        width=width, base=base, device=device
    )


class SinusoidalPositions(nn.Module):
    """Adds PE(start), PE(start + 1), … to the embeddings   (Vaswani et al. 2017, section 3.5).

    PE(t) = (sin ω₀t, cos ω₀t, sin ω₁t, cos ω₁t, …),  ωᵢ = base^(−2i/model_dim)

    No parameters and no maximum length; a shift by k positions is a linear map.
    """

    @validated
    def __init__(self, *, model_dim: EvenInt, base: PositiveFloat = 10_000.0) -> None:
        super().__init__()
        self.model_dim = model_dim
        self.base = base

    def forward(
        self, x: Float[Tensor, "batch length model_dim"], start: int | Int[Tensor, " batch"] = 0
    ) -> Float[Tensor, "batch length model_dim"]:
        validate_sequence("SinusoidalPositions", x, width=self.model_dim)
        positions = token_positions(start=start, length=x.shape[1], device=x.device)
        return x + self.table(positions).to(x.dtype)

    def table(self, positions: Int[Tensor, "*batch length"]) -> Float[Tensor, "*batch length _"]:
        """PE of the given positions, in float64.

        >>> SinusoidalPositions(model_dim=4).table(torch.tensor([0]))
        tensor([[0., 1., 0., 1.]], dtype=torch.float64)
        """
        turned = angles(positions, width=self.model_dim, base=self.base)
        return torch.stack([turned.sin(), turned.cos()], dim=-1).flatten(-2)

    def shift_matrix(self, shift: int) -> Float[Tensor, "_ _"]:
        """T⁽ᵏ⁾ with T⁽ᵏ⁾ PE(t) = PE(t + k) for every t: a rotation of each (sin, cos) pair."""
        turned = shift * frequencies(width=self.model_dim, base=self.base)
        sine, cosine = turned.sin(), turned.cos()
        matrix = torch.zeros(self.model_dim, self.model_dim, dtype=turned.dtype)
        matrix.diagonal().copy_(cosine.repeat_interleave(2))
        matrix.diagonal(1)[::2] = sine
        matrix.diagonal(-1)[::2] = -sine
        return matrix

    def cost(self, shape: SequenceShape) -> Cost:
        """The cost of `forward`, counted, with one start for all examples."""
        return forward_cost(self, shape, width=self.model_dim)


class LearnedPositions(nn.Module):
    """Adds learned vectors of positions start, start + 1, …, below `max_length`   (Gehring et al. 2017)."""

    @validated
    def __init__(self, *, model_dim: PositiveInt, max_length: PositiveInt = 512) -> None:
        super().__init__()
        self.max_length = max_length
        self.embedding = nn.Embedding(max_length, model_dim)
        # BERT's: small beside the token embeddings at the start of training.
        nn.init.normal_(self.embedding.weight, std=0.02)

    def forward(
        self, x: Float[Tensor, "batch length model_dim"], start: int | Int[Tensor, " batch"] = 0
    ) -> Float[Tensor, "batch length model_dim"]:
        validate_sequence("LearnedPositions", x, width=self.embedding.embedding_dim)
        positions = token_positions(start=start, length=x.shape[1], device=x.device)
        try:
            moved: Tensor = x + self.embedding(positions)
        except IndexError as error:  # the lookup checks the positions, so they are not read before
            raise RegardError(
                f"LearnedPositions has max_length={self.max_length}, but the input has "
                f"{int(positions.max()) + 1} positions. Raise max_length, or choose a position "
                "without a maximum: sinusoidal, rotary, alibi, none."
            ) from error
        return moved

    def cost(self, shape: SequenceShape) -> Cost:
        """The cost of `forward`, counted."""
        return forward_cost(self, shape, width=self.embedding.embedding_dim)


class NoPositions(nn.Module):
    """The identity. Without a mask, self-attention is then permutation-equivariant."""

    def forward(
        self, x: Float[Tensor, "batch length model_dim"], start: int | Int[Tensor, " batch"] = 0
    ) -> Float[Tensor, "batch length model_dim"]:
        return x

    def cost(self, shape: SequenceShape) -> Cost:
        """Zero."""
        validate_sequence_shape("NoPositions", shape)
        return Cost()
