"""The positions of an attention layer: already built, or named and then built for its heads."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from regard.core.errors import RegardError
from regard.core.mechanism import ScoreBias
from regard.core.names import look_up
from regard.layers.head_sizes import HeadSizes
from regard.layers.positions import POSITIONS, build_position
from regard.layers.rotary import Rotary

NONE = "none"
# Classes, and these kinds of object, have a method `values` that has nothing to do with scores.
NO_SCORE_BIAS = (type, Mapping, Tensor)


def given_position(position: object, *, sizes: HeadSizes) -> Rotary | ScoreBias | None:
    """The positions themselves, or those of this name; "none" is None."""
    name = position if isinstance(position, str) else _name_of(position)
    if position is None or name == NONE:
        return None
    if name is not None and look_up("position", name, POSITIONS).acts_on == "tokens":
        raise RegardError(
            f"MultiHead has position '{name}', which is added to the tokens: it is given to the "
            "model, before its first block. A MultiHead takes those that act on heads or scores: "
            f"{', '.join(_inside_attention())}."
        )
    if isinstance(position, str):
        position = build_position(
            position,
            model_dim=sizes.model_dim,
            head_dim=sizes.head_dim,
            num_heads=sizes.num_heads,
        )
    if isinstance(position, Rotary):
        return position
    if isinstance(position, ScoreBias) and not isinstance(position, NO_SCORE_BIAS):
        return position
    what = (
        f"the class {position.__name__} as position: build it, e.g. {position.__name__}(…)"
        if isinstance(position, type)
        else f"a position of type {type(position).__name__}"
    )
    raise RegardError(
        f"MultiHead has {what}; it must be one of the names "
        f"{', '.join(_inside_attention())}, a built Rotary or a score bias such as Alibi, or None."
    )


def _name_of(position: object) -> str | None:
    """The name in the table of positions already built; None if they are not of the table."""
    kind = type(position).__name__
    return next((name for name, entry in POSITIONS.items() if entry.class_name == kind), None)


def _inside_attention() -> list[str]:
    return [name for name, entry in POSITIONS.items() if entry.acts_on != "tokens"]
