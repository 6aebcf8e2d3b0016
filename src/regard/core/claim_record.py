"""What came out when a statement was run: the verdict, the figures behind it, and a picture's numbers.

Plain values only, so that a page can be drawn later, without what decided it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from regard.core.errors import RegardError

Verdict = Literal["holds", "fails", "holds if"]
VERDICTS: tuple[Verdict, ...] = ("holds", "fails", "holds if")

Value = float | int | str | bool


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
    """A statement and what came out. `settings` are the parameters it was run with."""

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
    notes: tuple[str, ...] = field(default=())

    def as_json(self) -> str:
        """All of it; `picture` says its kind."""
        record = asdict(self)
        if self.finding is not None:
            record["finding"]["picture"]["kind"] = type(self.finding.picture).__name__
        return json.dumps(record, ensure_ascii=False)

    def figure(self, name: str) -> Any:
        """One of the figures behind the verdict."""
        if self.finding is None or name not in self.finding.figures:
            known = () if self.finding is None else tuple(self.finding.figures)
            raise RegardError(
                f"The claim '{self.name}' has no figure '{name}'. It has: {', '.join(known) or 'none'}."
            )
        return self.finding.figures[name]
