"""Costs with their growth: the operations at twice the length over those at the length itself."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from regard.core.cost import Cost
from regard.core.records import MechanismRecord


class Priced(NamedTuple):
    """A declared cost, and by what factor the operations grow when the length doubles."""

    length: int
    cost: Cost
    form: str | None
    growth: float


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
