"""The kinds of positions, by name.

The table holds strings, so listing them does not import torch.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from regard.core.construction import construct
from regard.core.names import look_up

if TYPE_CHECKING:
    from torch import nn


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
        "sinusoidal",
        "SinusoidalPositions",
        "tokens",
        "fixed sines and cosines, added",
        "Vaswani et al. 2017",
    ),
    "learned": Entry(
        "learned",
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
        "no_positions",
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
