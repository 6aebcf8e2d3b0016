"""The kinds of positions, by name.

The table holds strings, so listing them does not import torch.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.cost import Cost
from regard.core.errors import RegardError
from regard.core.registry import construct, look_up
from regard.layers.cost import SequenceShape, require_shape
from regard.layers.validation import require_positive, require_sequence


@dataclass(frozen=True)
class Entry:
    """Where a kind of position lives and what it acts on.

    Those that act on tokens are added to them, before the first block: `position(x, start)`. Those
    that act on heads or scores are given to each `MultiHead` as its `position`.
    """

    module: str
    class_name: str
    acts_on: Literal["tokens", "heads", "scores"]
    summary: str
    reference: str


POSITIONS: dict[str, Entry] = {
    "sinusoidal": Entry(
        "positions",
        "SinusoidalPositions",
        "tokens",
        "fixed sines and cosines, added",
        "Vaswani et al. 2017",
    ),
    "learned": Entry(
        "positions",
        "LearnedPositions",
        "tokens",
        "a trained vector for each position, added",
        "Gehring et al. 2017",
    ),
    "rotary": Entry(
        "rotary", "Rotary", "heads", "queries and keys turned by their position", "Su et al. 2021"
    ),
    "alibi": Entry(
        "alibi", "Alibi", "scores", "scores lowered in line with the distance", "Press et al. 2022"
    ),
    "none": Entry(
        "positions",
        "NoPositions",
        "tokens",
        "order unseen, but for the mask",
        "Haviv et al. 2022",
    ),
}


def build_position(
    name: str,
    *,
    model_dim: int,
    head_dim: int,
    num_heads: int,
    max_length: int | None = None,
    **options: Any,
) -> nn.Module:
    """Positions by name. Sizes go to those that need them; options must be its own."""
    entry = look_up("position", name, POSITIONS)
    kind = getattr(importlib.import_module(f"regard.layers.{entry.module}"), entry.class_name)
    sizes = {
        "model_dim": model_dim,
        "head_dim": head_dim,
        "num_heads": num_heads,
        "max_length": max_length,
    }
    built: nn.Module = construct(kind, what=f"position '{name}'", sizes=sizes, options=options)
    return built


# Where the tokens of a piece of sequence stand: counted on from where the piece starts.


def token_positions(
    *, start: int | Int[Tensor, " batch"], length: int, device: torch.device
) -> Int[Tensor, "*batch {length}"]:
    """start, start + 1, …: one row, or a row for each example where `start` differs between them.

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


# The angles that sinusoidal and rotary positions share: position × base^(−2i/width).
#
# A wave for each pair of features, from one turn in 2π positions to one in 2π·base positions
# (Vaswani et al. 2017).


def frequencies(
    *, width: int, base: float, device: torch.device | None = None
) -> Float[Tensor, " pairs"]:
    """How far each pair of features turns from one position to the next, in radians."""
    exponents = torch.arange(0, width, 2, dtype=torch.float64, device=device) / width
    return base**-exponents


def angles(
    positions: Int[Tensor, "*batch length"], *, width: int, base: float
) -> Float[Tensor, "*batch length pairs"]:
    """The angle of every pair of features at every position.

    In float64: at position 10,000 a float32 angle would be wrong in its fourth decimal.
    """
    return positions.double()[..., None] * frequencies(
        width=width, base=base, device=positions.device
    )


def angle_arithmetic(*, length: int, width: int) -> int:
    """What the positions and their angles take: three numbers a wave, then a product each."""
    waves = width // 2
    return length + 3 * waves + length * waves


def require_pairs(what: str, width: object) -> None:
    """Refuse a width whose features do not come in pairs."""
    if isinstance(width, bool) or not isinstance(width, int) or width < 2 or width % 2:
        raise RegardError(
            f"{what} turn features in pairs, but the width is {width}. Choose an even width."
        )


# Sinusoidal positions: a fixed vector of sines and cosines is added to every token.
#
# PE(t) = (sin ω₀t, cos ω₀t, sin ω₁t, cos ω₁t, …),  ωᵢ = base^(−2i/model_dim)
#
# (Vaswani et al. 2017, section 3.5). Unlike learned positions there is nothing to learn and no
# greatest length, and moving by k positions is one linear map, whatever the position.


class SinusoidalPositions(nn.Module):
    """Adds PE(start), PE(start + 1), … to the tokens."""

    def __init__(self, *, model_dim: int, base: float = 10_000.0) -> None:
        super().__init__()
        require_pairs("Sinusoidal positions", model_dim)
        self.model_dim = model_dim
        self.base = base

    def forward(
        self, x: Float[Tensor, "batch length model_dim"], start: int | Int[Tensor, " batch"] = 0
    ) -> Float[Tensor, "batch length model_dim"]:
        require_sequence("SinusoidalPositions", x, width=self.model_dim)
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
        """What `forward` takes with one start for all examples."""
        require_shape("SinusoidalPositions", shape)
        table, moved = shape.length * self.model_dim, shape.rows * self.model_dim
        turned = angle_arithmetic(length=shape.length, width=self.model_dim)
        return Cost(functions=table, arithmetic=turned + moved, memory=table + moved)


# Learned positions: a trained vector for each position is added to every token.
#
# (Gehring et al. 2017; BERT and GPT). Unlike sinusoidal positions they end at a greatest length.


class LearnedPositions(nn.Module):
    """Adds the vectors of positions start, start + 1, … (all below `max_length`) to the tokens."""

    def __init__(self, *, model_dim: int, max_length: int = 512) -> None:
        super().__init__()
        require_positive("LearnedPositions", model_dim=model_dim, max_length=max_length)
        self.max_length = max_length
        self.embedding = nn.Embedding(max_length, model_dim)
        # As small as BERT's, so that at first a token's own vector is what is heard.
        nn.init.normal_(self.embedding.weight, std=0.02)

    def forward(
        self, x: Float[Tensor, "batch length model_dim"], start: int | Int[Tensor, " batch"] = 0
    ) -> Float[Tensor, "batch length model_dim"]:
        require_sequence("LearnedPositions", x, width=self.embedding.embedding_dim)
        end = (start if isinstance(start, int) else int(start.max())) + x.shape[1]
        if end > self.max_length:
            raise RegardError(
                f"Learned positions end at max_length={self.max_length}, but the input reaches "
                f"position {end}. Raise max_length, or choose positions without an end: "
                "sinusoidal, rotary, alibi, none."
            )
        positions = token_positions(start=start, length=x.shape[1], device=x.device)
        moved: Tensor = x + self.embedding(positions)
        return moved

    def cost(self, shape: SequenceShape) -> Cost:
        """What `forward` takes; looking a row up is no product."""
        require_shape("LearnedPositions", shape)
        width = self.embedding.embedding_dim
        return Cost(
            arithmetic=shape.length + shape.rows * width,
            memory=(shape.length + shape.rows) * width,
            parameters=self.max_length * width,
        )


# No positions: tokens pass as they are, and self-attention is blind to their order.


class NoPositions(nn.Module):
    """Adds nothing. Without a mask, what follows is equivariant to permutations of the tokens."""

    def forward(
        self, x: Float[Tensor, "batch length model_dim"], start: int | Int[Tensor, " batch"] = 0
    ) -> Float[Tensor, "batch length model_dim"]:
        return x

    def cost(self, shape: SequenceShape) -> Cost:
        """Nothing."""
        require_shape("NoPositions", shape)
        return Cost()
