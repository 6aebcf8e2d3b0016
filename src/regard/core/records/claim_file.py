"""Records of claims as a file: a JSON list, so that a page can be drawn without deciding anything anew.

A file may come from anywhere, so every field is checked where it is read (`checked_fields`).
"""

from __future__ import annotations

import json
import math
import reprlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from regard.core.errors import RegardError
from regard.core.records.claim import (
    NOT_FINITE,
    VERDICTS,
    ClaimRecord,
    Curve,
    CurvePicture,
    Finding,
    MatrixPicture,
    Picture,
    Value,
)

# Fields of a JSON object that may come from anywhere, each checked for its kind; a wrong one is
# named.
#
# A check is given what was read and its place, such as "finding.picture.curves[0].x", and gives
# back the value or raises `FieldError`.


Check = Callable[[Any, str], Any]
Checks = Mapping[str, Check]
Made = TypeVar("Made")


class FieldError(ValueError):
    """What is wrong with a field; whoever reads the file says which file it is."""


def read_fields(held: Any, place: str, checks: Checks, kind: type[Made]) -> Made:
    """The dataclass `kind`, made of the fields of a JSON object; those with a default may be absent."""
    if not isinstance(held, dict):
        raise wrong_field(place or "it", held, "an object")
    for name in held:
        if name not in checks:
            raise FieldError(f"there is no such field: {_inside(place, name)}")
    optional = {field.name for field in fields(kind) if field.default is not MISSING}  # type: ignore[arg-type]
    found = {}
    for name, check in checks.items():
        if name in held:
            found[name] = check(held[name], _inside(place, name))
        elif name not in optional:
            raise FieldError(f"the field {_inside(place, name)} is missing")
    try:
        return kind(**found)
    except RegardError as error:
        raise FieldError(f"{place or 'it'} is wrong: {error}") from error


def wrong_field(place: str, held: Any, rule: str) -> FieldError:
    """The error for a value that breaks a rule, to be raised."""
    return FieldError(f"{place} is {reprlib.repr(held)}, and must be {rule}")


def text(held: Any, place: str) -> str:
    """Any text that can be written again."""
    if not isinstance(held, str):
        raise wrong_field(place, held, "a text")
    try:
        held.encode()
    except UnicodeEncodeError as error:
        raise FieldError(f"{place} has half a character at {error.start + 1}") from error
    return held


def word(held: Any, place: str) -> str:
    """A name, without spaces in it and without what cannot be seen."""
    if text(held, place).split() != [held] or not held.isprintable():
        raise wrong_field(place, held, "one word")
    return str(held)


def truth(held: Any, place: str) -> bool:
    """True or false."""
    if not isinstance(held, bool):
        raise wrong_field(place, held, "true or false")
    return held


def number(held: Any, place: str) -> float:
    """A number, also one that is not finite and spelled as `ClaimRecord` spells it."""
    if isinstance(held, str) and held in NOT_FINITE:
        return float(held)
    if isinstance(held, bool) or not isinstance(held, int | float):
        raise wrong_field(place, held, "a number")
    try:
        return float(held)
    except OverflowError as error:
        raise wrong_field(place, held, "below 10³⁰⁸") from error


def seconds(held: Any, place: str) -> float:
    """A time that passed."""
    found = number(held, place)
    if not (math.isfinite(found) and found >= 0):
        raise wrong_field(place, held, "0 or more")
    return found


def values(held: Any, place: str) -> dict[str, Value]:
    """Names with a number, a text or a truth each."""
    if not isinstance(held, dict):
        raise wrong_field(place, held, "an object")
    found: dict[str, Value] = {}
    for name, value in held.items():
        inside = _inside(place, name)
        text(name, inside)
        if not isinstance(value, bool | int | float | str):
            raise wrong_field(inside, value, "a number, a text, true or false")
        if isinstance(value, bool | int):
            found[name] = value
        else:
            is_text = isinstance(value, str) and value not in NOT_FINITE
            found[name] = text(value, inside) if is_text else number(value, inside)
    return found


def choice(*names: str) -> Check:
    """A check: one of these texts."""

    def check(held: Any, place: str) -> str:
        if not isinstance(held, str) or held not in names:
            raise wrong_field(place, held, f"one of {', '.join(names)}")
        return held

    return check


def listed(check: Check) -> Check:
    """A check: a list, every part of which passes another check."""

    def each(held: Any, place: str) -> tuple[Any, ...]:
        if not isinstance(held, list):
            raise wrong_field(place, held, "a list")
        return tuple(check(part, f"{place}[{at}]") for at, part in enumerate(held))

    return each


def _inside(place: str, name: str) -> str:
    # A name out of a file may hold anything, and goes to a terminal.
    shown = name if name.isidentifier() else f"[{reprlib.repr(name)}]"
    return f"{place}.{shown}" if place else shown


def records_as_json(records: Sequence[ClaimRecord]) -> str:
    """All of them as a JSON list, a line a record."""
    return "[\n" + ",\n".join(record.as_json() for record in records) + "\n]"


def read_records(path: Path) -> list[ClaimRecord]:
    """The records of a file that `regard claims --out` wrote: one or more, each of another claim."""
    try:
        held = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse_constant)
        return _records_from(held)
    except OSError as error:
        raise RegardError(
            f"'{path}' cannot be read: {error.strerror}. Write it first, with "
            f"`regard claims --out {path}`."
        ) from error
    except (ValueError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise RegardError(
            f"'{path}' does not hold records of claims: {why.rstrip('.')}. Give a file that "
            "`regard claims --out` wrote."
        ) from error


def _records_from(held: Any) -> list[ClaimRecord]:
    if not isinstance(held, list):
        raise wrong_field("it", held, "a list of records")
    if not held:
        raise FieldError("its list is empty")
    records = []
    for place, each in enumerate(held, start=1):
        try:
            records.append(record_from(each))
        except FieldError as error:
            raise FieldError(f"in record {place}, {error}") from error
    name, times = Counter(record.name for record in records).most_common(1)[0]
    if times > 1:
        raise FieldError(f"it has {times} records of the claim '{name}'")
    return records


def record_from(held: Any) -> ClaimRecord:
    """The record that `ClaimRecord.as_json` spelled."""
    return read_fields(held, "", RECORD, ClaimRecord)


def _finding(held: Any, place: str) -> Finding | None:
    return None if held is None else read_fields(held, place, FINDING, Finding)


def _picture(held: Any, place: str) -> Picture:
    if not isinstance(held, dict):
        raise wrong_field(place, held, "an object")
    kind = choice("CurvePicture", "MatrixPicture")(held.get("kind"), f"{place}.kind")
    fields = {name: value for name, value in held.items() if name != "kind"}
    if kind == "MatrixPicture":
        return read_fields(fields, place, MATRIX, MatrixPicture)
    return read_fields(fields, place, CURVES, CurvePicture)


def _curve(held: Any, place: str) -> Curve:
    return read_fields(held, place, CURVE, Curve)


def _mark(held: Any, place: str) -> tuple[float, str]:
    if not isinstance(held, list) or len(held) != 2:
        raise wrong_field(place, held, "a list of a number and a name")
    return number(held[0], f"{place}[0]"), text(held[1], f"{place}[1]")


def _refuse_constant(name: str) -> NoReturn:
    raise FieldError(f'{name} is no number of JSON; it is written as "{name}"')


_NUMBERS: Check = listed(number)
_TEXTS: Check = listed(text)
_SCALE: Check = choice("linear", "log")

RECORD: Checks = {
    "name": word,
    "topic": text,
    "statement": text,
    "formula": text,
    "source": text,
    "proof": text,
    "marked_wrong": truth,
    "trained": truth,
    "settings": values,
    "code": text,
    "seconds": seconds,
    "finding": _finding,
    "waits": text,
    "trouble": text,
}
FINDING: Checks = {
    "verdict": choice(*VERDICTS),
    "because": text,
    "figures": values,
    "picture": _picture,
    "boundary": text,
    "counter_example": text,
}
CURVES: Checks = {
    "title": text,
    "x_label": text,
    "y_label": text,
    "curves": listed(_curve),
    "x_scale": _SCALE,
    "y_scale": _SCALE,
    "marks": listed(_mark),
}
CURVE: Checks = {
    "label": text,
    "x": _NUMBERS,
    "y": _NUMBERS,
    "low": _NUMBERS,
    "high": _NUMBERS,
    "dashed": truth,
    "points_only": truth,
}
MATRIX: Checks = {
    "title": text,
    "values": listed(_NUMBERS),
    "row_labels": _TEXTS,
    "column_labels": _TEXTS,
}
