"""Scores that never look at a key: location attention and the synthesizers.

They weigh positions, not contents, so they are bounded by a maximum length and remember only values.
"""

from __future__ import annotations

from typing import ClassVar

from jaxtyping import Float, Int
from torch import Tensor

from regard.core.cost import AttentionShape
from regard.core.errors import RegardError
from regard.core.mechanism import Capabilities, Role
from regard.mechanisms.scored import ScoredMechanism


class KeylessMechanism(ScoredMechanism):
    """A scored mechanism over at most `max_length` positions, whose keys are not used."""

    # Scores of pairs of positions mean nothing between two sequences; a member may say "self" alone.
    roles: ClassVar[frozenset[Role]] = frozenset({"self", "cross"})

    def __init__(self, *, max_length: int) -> None:
        super().__init__()
        if max_length < 1:
            raise RegardError(f"{self.name} has max_length={max_length}; it must be 1 or more.")
        self.max_length = max_length

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            roles=self.roles, score_bias=True, position_aware=True, max_length=self.max_length
        )

    def remember(
        self, key: Float[Tensor, "batch kv_heads key_length key_dim"]
    ) -> Float[Tensor, "batch kv_heads key_length 0"]:
        return key[..., :0]

    def remembered_numbers(self, shape: AttentionShape) -> int:
        return 0


def picked_in_step(shape: AttentionShape, max_length: int) -> int:
    """How many columns `pick_columns` multiplies with while decoding."""
    # The rows of a batch may stand at different positions, and then share all the columns.
    return shape.key_length + 1 if shape.batch_size == 1 else max_length


def pick_columns(
    rows: Float[Tensor, "batch heads query_length width"],
    columns: Float[Tensor, "_heads width max_length"],
    key_positions: Int[Tensor, "_rows key_length"],
) -> Float[Tensor, "batch heads query_length key_length"]:
    """rows @ columns, for the columns at the keys' positions (which may differ between rows)."""
    positions = key_positions.clamp(min=0)
    if len(positions) == 1:
        return rows @ columns.index_select(-1, positions[0])
    every = rows @ columns
    return every.gather(-1, positions[:, None, None, :].expand(*every.shape[:3], -1))
