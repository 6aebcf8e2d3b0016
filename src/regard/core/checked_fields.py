"""Fields of a JSON object that may come from anywhere, each checked for its kind; a wrong one is named.

    read_fields(held, "finding", {"because": text, "seconds": seconds}, Finding)

A check is given what was read and its place, such as "finding.picture.curves[0].x", and gives back the
value or raises `FieldError`.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import Any, TypeVar

from regard.core.claim_record import NOT_FINITE, Value
from regard.core.errors import RegardError

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
