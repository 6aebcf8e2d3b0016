"""Costs with their growth: the operations at twice the length over those at the length itself.

Only costs of heads of one width can be compared, so whoever shows them goes through the widths.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from regard.core.cost import Cost
from regard.core.records import MechanismRecord, Survey


class Priced(NamedTuple):
    """A declared cost, and by what factor the operations grow when the length doubles."""

    length: int
    cost: Cost
    form: str | None
    growth: float


def head_widths(survey: Survey) -> list[int]:
    """The widths of heads at which mechanisms were priced, the widest first."""
    return sorted({record.cost_width for record in survey.mechanisms}, reverse=True)


def width_title(width: int) -> str:
    """What stands over costs of one width of heads."""
    return f"heads of width {width}"


def priced_lengths(record: MechanismRecord) -> list[Priced]:
    """Every length of the record whose double is there too, ascending."""
    return [
        Priced(
            length=now.length,
            cost=now.cost,
            form=now.form,
            growth=twice.cost.operations / max(now.cost.operations, 1),
        )
        for now, twice in pairwise(record.costs)
        if twice.length == 2 * now.length
    ]
