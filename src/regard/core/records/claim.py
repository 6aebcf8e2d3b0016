"""Records of claims: the verdict, the values behind it, and the data of its figure.

Records hold plain values only, so that pages can be drawn from a file without running a claim. Non-finite
numbers are written to JSON as the strings "Infinity", "-Infinity" and "NaN".
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, WrapValidator

from regard.core.errors import RegardError
from regard.core.records.record import Record, parse_json

Verdict = Literal["holds", "fails", "holds if"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
NOT_RUN, FAILED = "not run", "failed to run"


def _parse_number(value: Any, validate: Callable[[Any], Any]) -> Any:
    non_finite = isinstance(value, str) and value in ("Infinity", "-Infinity", "NaN")
    return float(value) if non_finite else validate(value)


Number = Annotated[float, WrapValidator(_parse_number)]
Value = Annotated[bool | int | Number | str, Field(union_mode="left_to_right")]


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One line of a figure; `low` and `high` bound an optional error band."""

    label: str
    x: tuple[Number, ...]
    y: tuple[Number, ...]
    low: tuple[Number, ...] = ()
    high: tuple[Number, ...] = ()
    dashed: bool = False
    points_only: bool = False

    def __post_init__(self) -> None:
        for name, numbers in (("y", self.y), ("low", self.low), ("high", self.high)):
            if len(numbers) != len(self.x) and (numbers or name == "y"):
                raise RegardError(
                    f"The curve '{self.label}' has {len(self.x)} numbers in x and {len(numbers)} in "
                    f"{name}; the lengths must be equal."
                )


@dataclass(frozen=True, kw_only=True)
class CurveFigure:
    """Lines over a common x axis; `marks` are labelled vertical lines."""

    title: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    x_scale: Literal["linear", "log"] = "linear"
    y_scale: Literal["linear", "log"] = "linear"
    marks: tuple[tuple[Number, str], ...] = ()
    kind: Literal["CurveFigure"] = "CurveFigure"


@dataclass(frozen=True, kw_only=True)
class MatrixFigure:
    """A matrix shown as a heatmap; the first row is at the top."""

    title: str
    values: tuple[tuple[Number, ...], ...]
    row_labels: tuple[str, ...] = ()
    column_labels: tuple[str, ...] = ()
    kind: Literal["MatrixFigure"] = "MatrixFigure"

    def __post_init__(self) -> None:
        lengths = sorted({len(row) for row in self.values})
        if len(lengths) > 1:
            raise RegardError(
                f"The figure '{self.title}' has rows of {lengths[0]} and of {lengths[-1]} numbers; all "
                "rows must have the same length."
            )


Figure = Annotated[CurveFigure | MatrixFigure, Field(discriminator="kind")]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of deciding a claim.

    reason           one or two sentences with the numbers that decide
    values           these numbers by name
    condition        of "holds if": the condition that was found; empty for other verdicts
    counter_example  of "fails": a case in which the statement is false, with its numbers; empty for others
    """

    verdict: Verdict
    reason: str
    values: Mapping[str, Value]
    figure: Figure
    condition: str = ""
    counter_example: str = ""

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise RegardError(
                f"Unknown verdict {self.verdict!r}: must be one of {', '.join(VERDICTS)}."
            )
        for verdict, name in (("holds if", "condition"), ("fails", "counter_example")):
            if self.verdict != verdict:
                object.__setattr__(self, name, "")
            elif not getattr(self, name):
                raise RegardError(f"The verdict '{verdict}' requires a {name}: pass {name}.")


@dataclass(frozen=True, kw_only=True)
class ClaimRecord(Record):
    """A claim and its finding; `settings` are the arguments it was run with.

    Without a finding, either `skip_reason` says why it was not run, or `error` is the error it raised.
    """

    name: Annotated[str, Field(pattern=r"^[^\s\p{C}\p{Z}]+$")]
    topic: str
    statement: str
    formula: str
    source: str
    proof: str
    known_false: bool
    trained: bool
    settings: Mapping[str, Value]
    code: str
    seconds: Annotated[float, Field(ge=0)]
    finding: Finding | None
    skip_reason: str = ""
    error: str = ""

    def __post_init__(self) -> None:
        if self.finding is None and not (self.skip_reason or self.error):
            raise RegardError(f"The claim '{self.name}' has no finding: set skip_reason or error.")

    @property
    def verdict(self) -> str:
        """The verdict, or "not run" or "failed to run"."""
        if self.finding is None:
            return FAILED if self.error else NOT_RUN
        return self.finding.verdict

    @property
    def is_expected(self) -> bool:
        """Whether a claim known to be false fails and another holds; not of an error."""
        return not self.error and (
            self.finding is None or (self.verdict == "fails") == self.known_false
        )

    def as_json(self) -> str:
        """Serialise the record as JSON, on one line."""
        return json.dumps(_plain(asdict(self)), ensure_ascii=False, allow_nan=False)

    def value(self, name: str) -> Any:
        """One of the values behind the verdict."""
        if self.finding is None or name not in self.finding.values:
            known = () if self.finding is None else tuple(self.finding.values)
            raise RegardError(
                f"The claim '{self.name}' has no value '{name}'. It has: {', '.join(known) or 'none'}."
            )
        return self.finding.values[name]


def _plain(value: Any) -> Any:
    """The value with every non-finite number replaced by a string."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def records_as_json(records: Sequence[ClaimRecord]) -> str:
    """A JSON list with one line per record."""
    return "[\n" + ",\n".join(record.as_json() for record in records) + "\n]"


def read_records(path: Path) -> list[ClaimRecord]:
    """Read a file written by `regard claims --out`: one or more records, at most one per claim."""
    problem = f"'{path}' is not a file of claim records"
    way_out = "Use a file written by `regard claims --out`."
    try:
        text = path.read_bytes()
    except OSError as error:
        raise RegardError(
            f"'{path}' cannot be read: {error.strerror}. Create it with "
            f"`regard claims --out {path}`."
        ) from error
    records: list[ClaimRecord] = parse_json(
        list[ClaimRecord], text, problem=problem, way_out=way_out
    )
    if not records:
        raise RegardError(f"{problem}: the list is empty. {way_out}")
    name, count = Counter(record.name for record in records).most_common(1)[0]
    if count > 1:
        raise RegardError(f"{problem}: it has {count} records of the claim '{name}'. {way_out}")
    return records
