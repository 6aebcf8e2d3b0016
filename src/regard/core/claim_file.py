"""Records of claims as a file: a JSON list, so that a page can be drawn without deciding anything anew.

A file may come from anywhere, so every field is checked where it is read (`checked_fields`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from regard.core.checked_fields import (
    Check,
    Checks,
    FieldError,
    choice,
    listed,
    number,
    read_fields,
    seconds,
    text,
    truth,
    values,
    word,
    wrong_field,
)
from regard.core.claim_record import (
    VERDICTS,
    ClaimRecord,
    Curve,
    CurvePicture,
    Finding,
    MatrixPicture,
    Picture,
)
from regard.core.errors import RegardError


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
