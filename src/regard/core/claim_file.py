"""Records of claims as a file: a JSON list, so that a page can be drawn without deciding anything anew."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.core.claim_record import (
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
    """The records of a file that `regard claims --out` wrote."""
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        return [record_from(each) for each in held]
    except OSError as error:
        raise RegardError(
            f"'{path}' cannot be read: {error.strerror}. Write it first, with "
            f"`regard claims --out {path}`."
        ) from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise RegardError(
            f"'{path}' does not hold records of claims ({type(error).__name__}: {error}). Give a file "
            "that `regard claims --out` wrote."
        ) from error


def record_from(held: Mapping[str, Any]) -> ClaimRecord:
    """The record that `ClaimRecord.as_json` spelled."""
    words = dict(held)
    finding = words.pop("finding")
    notes = tuple(words.pop("notes", ()))
    return ClaimRecord(
        **words, notes=notes, finding=None if finding is None else _finding_from(finding)
    )


def _finding_from(held: Mapping[str, Any]) -> Finding:
    words = dict(held)
    return Finding(**{**words, "picture": _picture_from(words["picture"])})


def _picture_from(held: Mapping[str, Any]) -> Picture:
    words = dict(held)
    kind = words.pop("kind")
    if kind == "MatrixPicture":
        words["values"] = tuple(tuple(row) for row in words["values"])
        for labels in ("row_labels", "column_labels"):
            words[labels] = tuple(words[labels])
        return MatrixPicture(**words)
    if kind == "CurvePicture":
        words["curves"] = tuple(_curve_from(curve) for curve in words["curves"])
        words["marks"] = tuple((place, name) for place, name in words["marks"])
        return CurvePicture(**words)
    raise ValueError(f"a picture of the kind {kind!r}")


def _curve_from(held: Mapping[str, Any]) -> Curve:
    numbers = {name: tuple(held[name]) for name in ("x", "y", "low", "high")}
    return Curve(**{**held, **numbers})
