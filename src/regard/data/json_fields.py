"""A text or a label out of a JSON value: under a key of an object, or at a place of a list."""

from __future__ import annotations

import json

JSON_KEYS = ("source", "target")
"""The keys that columns 0 and 1 mean in an object."""


class MisfitError(ValueError):
    """A JSON value that does not hold the texts that were asked for."""

    def __init__(self, reason: str, *, hint: str = "") -> None:
        super().__init__(reason)
        self.hint = hint


def json_text(value: object, column: int | str) -> str:
    """The text under a key of an object or at a place of a list; a line of it ends as in a file here.

    >>> json_text({"source": "one\\r\\ntwo"}, 0)
    'one\\ntwo'
    """
    found = _found(value, column)
    if not isinstance(found, str):
        raise MisfitError(f"value not a text: column '{column}' is {type(found).__name__}")
    return found.replace("\r\n", "\n")


def json_label(value: object, column: int | str) -> str:
    """The label there: a text, or a whole number or truth value as JSON writes it.

    >>> json_label({"label": 1}, "label"), json_label({"label": True}, "label")
    ('1', 'true')
    """
    found = _found(value, column)
    if isinstance(found, int):  # which a truth value is too
        return json.dumps(found)
    if not isinstance(found, str):
        raise MisfitError(
            f"value not a label: column '{column}' is {type(found).__name__}",
            hint="Write it as a text or a whole number",
        )
    return found.replace("\r\n", "\n")


def _found(value: object, column: int | str) -> object:
    if isinstance(value, dict):
        known = isinstance(column, int) and column < len(JSON_KEYS)
        key = JSON_KEYS[int(column)] if known else str(column)
        if key not in value:
            raise MisfitError(
                f"missing key: '{key}' (keys there: {', '.join(list(value)[:10]) or 'none'})",
                hint="Name the keys with --source-column and --target-column, fix the line",
            )
        return value[key]
    if isinstance(value, list):
        if not isinstance(column, int) or column >= len(value):
            raise MisfitError(f"missing key: the list has no place '{column}' (from 0)")
        return value[column]
    raise MisfitError(f"not an object or a list: {type(value).__name__}")
