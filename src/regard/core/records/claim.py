"""What came out when a statement was run: the verdict, the figures behind it, and a picture's numbers.

Plain values only, so that a page can be drawn later, without what decided it. JSON has no infinity: numbers
that are not finite are written as the texts "Infinity", "-Infinity" and "NaN".
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from regard.core.errors import RegardError

Verdict = Literal["holds", "fails", "holds if"]
VERDICTS: tuple[Verdict, ...] = ("holds", "fails", "holds if")

Value = float | int | str | bool

NOT_FINITE = ("Infinity", "-Infinity", "NaN")


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One line of a picture; `low` and `high` bound a band about it where there is one."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    dashed: bool = False
    points_only: bool = False

    def __post_init__(self) -> None:
        for name, numbers in (("y", self.y), ("low", self.low), ("high", self.high)):
            if len(numbers) != len(self.x) and (numbers or name == "y"):
                raise RegardError(
                    f"The curve '{self.label}' has {len(self.x)} numbers in x and {len(numbers)} in "
                    f"{name}: there must be as many."
                )


@dataclass(frozen=True, kw_only=True)
class CurvePicture:
    """Lines over a common axis; a scale is "linear" or "log", `marks` are upright lines with a name."""

    title: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    x_scale: Literal["linear", "log"] = "linear"
    y_scale: Literal["linear", "log"] = "linear"
    marks: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class MatrixPicture:
    """A table of numbers, shaded; rows from top to bottom."""

    title: str
    values: tuple[tuple[float, ...], ...]
    row_labels: tuple[str, ...] = ()
    column_labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        lengths = sorted({len(row) for row in self.values})
        if len(lengths) > 1:
            raise RegardError(
                f"The picture '{self.title}' has rows of {lengths[0]} and of {lengths[-1]} numbers: all "
                "must have as many."
            )


Picture = CurvePicture | MatrixPicture


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What deciding a statement gave.

    because          one or two sentences in plain words, with the figures that decide
    figures          those figures by name, for tables and for tests
    boundary         of "holds if": the condition that was found
    counter_example  of "fails": an instance where it does not hold, with its numbers
    """

    verdict: Verdict
    because: str
    figures: Mapping[str, Value]
    picture: Picture
    boundary: str = ""
    counter_example: str = ""

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise RegardError(
                f"The verdict {self.verdict!r} is none: it must be one of {', '.join(VERDICTS)}."
            )
        if self.verdict == "holds if" and not self.boundary:
            raise RegardError("A statement that holds if … needs the condition: give boundary.")
        if self.verdict == "fails" and not self.counter_example:
            raise RegardError("A statement that fails needs an instance: give counter_example.")


@dataclass(frozen=True, kw_only=True)
class ClaimRecord:
    """A statement and what came out. `settings` are the parameters it was run with.

    Without a finding it was not run, and `waits` says why; or it failed to run, and `trouble` says how.
    """

    name: str
    topic: str
    statement: str
    formula: str
    source: str
    proof: str
    marked_wrong: bool
    trained: bool
    settings: Mapping[str, Value]
    code: str
    seconds: float
    finding: Finding | None
    waits: str = ""
    trouble: str = ""

    def __post_init__(self) -> None:
        if self.finding is None and not (self.waits or self.trouble):
            raise RegardError(
                f"The claim '{self.name}' has no finding: give waits, or trouble, to say why."
            )

    def as_json(self) -> str:
        """All of it, as `claim_file` reads it; `picture` says its kind."""
        record = asdict(self)
        if self.finding is not None:
            record["finding"]["picture"]["kind"] = type(self.finding.picture).__name__
        return json.dumps(_plain(record), ensure_ascii=False, allow_nan=False)

    def figure(self, name: str) -> Any:
        """One of the figures behind the verdict."""
        if self.finding is None or name not in self.finding.figures:
            known = () if self.finding is None else tuple(self.finding.figures)
            raise RegardError(
                f"The claim '{self.name}' has no figure '{name}'. It has: {', '.join(known) or 'none'}."
            )
        return self.finding.figures[name]


def _plain(value: Any) -> Any:
    """The value with a text in place of every number that is not finite."""
    if isinstance(value, dict):
        return {name: _plain(held) for name, held in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(held) for held in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
