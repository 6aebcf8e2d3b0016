"""Base class of records: written as JSON, read back and validated with pydantic.

Fields are validated strictly: no unknown or missing keys, no numbers in strings, no NaN. pydantic is
imported when the first record is read.
"""

from __future__ import annotations

import functools
import json
import reprlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from regard.core.errors import RegardError

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError


@dataclass(frozen=True, kw_only=True)
class Record:
    """A dataclass of plain values. `from_json` is the inverse of `as_json`.

    Nested dataclasses need no base class. Bytes, such as audio, are for pages only: JSON has null for
    them. `HOW_TO_MAKE` ends the errors of `from_json`.
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {
        "strict": True,
        "extra": "forbid",
        "allow_inf_nan": False,
    }
    INDENT: ClassVar[int | None] = None
    HOW_TO_MAKE: ClassVar[str] = ""

    def as_json(self) -> str:
        """Serialise the record as JSON."""
        return json.dumps(
            asdict(self),
            indent=self.INDENT,
            ensure_ascii=False,
            allow_nan=False,
            default=_left_out,
        )

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Load a record written by `as_json`."""
        problem = f"The text is not a valid {cls.__name__}"
        way_out = cls.HOW_TO_MAKE or f"Pass the output of `{cls.__name__}.as_json`."
        record: Self = parse_json(cls, text, problem=problem, way_out=way_out)
        return record


def _left_out(value: object) -> None:
    if not isinstance(value, bytes):
        raise TypeError(f"{type(value).__name__} is no value of a record")


def parse_json(kind: Any, text: str | bytes, *, problem: str, way_out: str) -> Any:
    """Parse JSON and validate it as `kind`. The error names the field and its value."""
    from pydantic import ValidationError

    try:
        return _adapter(kind).validate_json(text)
    except ValidationError as error:
        why = _describe(error, text).rstrip(".")
        raise RegardError(f"{problem}: {why}. {way_out}") from error


@functools.cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _describe(error: ValidationError, text: str | bytes) -> str:
    """The first invalid field: its path, its value and the rule."""
    first, *others = error.errors(include_url=False)
    if first["type"] == "json_invalid":
        return first["msg"]
    parsed, missing = json.loads(text), first["type"] == "missing"
    path = _field_path(first["loc"], parsed, missing=missing)
    if missing:
        return f"the field {path} is missing"
    if first["type"] == "unexpected_keyword_argument":
        return f"unknown field {path}"
    if first["type"] == "value_error":
        return f"{path}: {first['ctx']['error']}" if path else str(first["ctx"]["error"])
    # A union has one error per member. A message is like "Input should be a valid number".
    same = [first, *(other for other in others if _field_path(other["loc"], parsed) == path)]
    rule = " or ".join(fault["msg"].partition(" should ")[2] for fault in same)
    path = path or "it"
    return (
        f"{path} is {reprlib.repr(first['input'])}, must {rule}"
        if rule
        else f"{path}: {first['msg']}"
    )


def _field_path(loc: tuple[int | str, ...], value: Any, *, missing: bool = False) -> str:
    """A location such as "finding.figure.curves[0].x", without the names of union members."""
    path = ""
    for depth, step in enumerate(loc, start=1):
        try:
            value = value[step]
        except (IndexError, KeyError, TypeError):
            if not (missing and depth == len(loc)):
                continue
        # Keys may contain control characters, and errors are printed to a terminal.
        named = isinstance(step, str) and step.isidentifier()
        path += f".{step}" if named else f"[{reprlib.repr(step)}]"
    return path.removeprefix(".")
