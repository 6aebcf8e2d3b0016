"""What an arm of a study may cost: each measure with its words, its number and its units."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from regard.core.study_record import ArmRecord, StudyRecord
from regard.views.numbers import bytes_text, duration_text, humanised
from regard.views.study_arms import scored

# Figures that differ by less than this are one figure to a reader.
ALIKE = 1.005


class Measure(NamedTuple):
    """`units` are names and sizes, the smallest first; a chart takes the largest that fits."""

    key: str
    name: str
    meaning: str
    number: Callable[[ArmRecord], float]
    written: Callable[[float], str]
    units: tuple[tuple[str, float], ...]

    def text(self, arm: ArmRecord) -> str:
        """The figure of an arm; a dash where it is not known."""
        number = self.number(arm)
        return self.written(number) if number > 0 else "–"


_DECIMAL = (("", 1.0), ("thousand", 1e3), ("million", 1e6), ("10⁹", 1e9), ("10¹²", 1e12))

MEASURES = (
    Measure(
        "operations",
        "operations",
        "of one training, as the cost formulas count them",
        lambda arm: arm.operations or 0.0,
        lambda number: humanised(round(number)),
        (*_DECIMAL, ("10¹⁵", 1e15)),
    ),
    Measure(
        "time",
        "time",
        "of one training where it was run, evaluations included",
        lambda arm: arm.seconds or 0.0,
        duration_text,
        (("s", 1.0), ("minutes", 60.0), ("hours", 3600.0)),
    ),
    Measure(
        "memory",
        "memory",
        "of the largest step, with weights and moments",
        lambda arm: float(arm.peak_bytes),
        lambda number: bytes_text(round(number)),
        (("bytes", 1.0), ("KiB", 2.0**10), ("MiB", 2.0**20), ("GiB", 2.0**30)),
    ),
    Measure(
        "parameters",
        "parameters",
        "numbers that are trained",
        lambda arm: float(arm.parameters),
        lambda number: humanised(round(number)),
        _DECIMAL,
    ),
)


def unit_for(measure: Measure, largest: float) -> tuple[str, float]:
    """The largest unit of which the number has at least two."""
    fitting = [unit for unit in measure.units if largest >= 2 * unit[1]]
    return fitting[-1] if fitting else measure.units[0]


def priced(record: StudyRecord, measure: Measure) -> list[ArmRecord]:
    """The arms that have a score and this figure, the best first."""
    return [arm for arm in scored(record) if measure.number(arm) > 0]


def all_alike(arms: list[ArmRecord], measure: Measure) -> bool:
    """Whether the figures are the same for a reader."""
    numbers = [measure.number(arm) for arm in arms]
    return max(numbers) < ALIKE * min(numbers)


def front(record: StudyRecord, measure: Measure) -> list[ArmRecord]:
    """The arms that no other beats in score without costing more, from cheap to dear."""
    sign = 1 if record.lower_is_better else -1
    cheap_first = sorted(
        priced(record, measure), key=lambda arm: (measure.number(arm), sign * (arm.mean or 0.0))
    )
    found: list[ArmRecord] = []
    for arm in cheap_first:
        if not found or sign * (arm.mean or 0.0) < sign * (found[-1].mean or 0.0):
            found.append(arm)
    return found
