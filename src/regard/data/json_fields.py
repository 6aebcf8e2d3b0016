"""A text out of a JSON value: under a key of an object, or at a place of a list."""

from __future__ import annotations

JSON_KEYS = ("source", "target")
"""The keys that columns 0 and 1 mean in an object."""


class MisfitError(ValueError):
    """A JSON value that does not hold the texts that were asked for."""

    def __init__(self, reason: str, *, hint: str = "") -> None:
        super().__init__(reason)
        self.hint = hint


def json_text(value: object, column: int | str) -> str:
    """The text under a key of an object or at a place of a list."""
    if isinstance(value, dict):
        known = isinstance(column, int) and column < len(JSON_KEYS)
        key = JSON_KEYS[int(column)] if known else str(column)
        if key not in value:
            raise MisfitError(
                f"missing key: '{key}' (keys there: {', '.join(list(value)[:10]) or 'none'})",
                hint="Name the keys with --source-column and --target-column, fix the line",
            )
        found = value[key]
    elif isinstance(value, list):
        if not isinstance(column, int) or column >= len(value):
            raise MisfitError(f"missing key: the list has no place '{column}' (from 0)")
        found = value[column]
    else:
        raise MisfitError(f"not an object or a list: {type(value).__name__}")
    if not isinstance(found, str):
        raise MisfitError(f"value not a text: column '{column}' is {type(found).__name__}")
    return found
