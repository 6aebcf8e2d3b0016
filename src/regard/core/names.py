"""Looking a name up in a table, with an error that helps when it is not there."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import TypeVar

from regard.core.errors import RegardError

Entry = TypeVar("Entry")

MOST_SHOWN = 40
SHOWN_OF_MANY = 5


def unknown_name(kind: str, name: str, known: Iterable[str]) -> RegardError:
    """The error for a name that is not in a table: what was asked, the nearest name, all names.

    Of a long table the nearest few are named.

    >>> print(unknown_name("mechanism", "adittive", ["additive", "dot"]))
    Unknown mechanism 'adittive'. Did you mean 'additive'? Choose from: additive, dot.
    """
    choices = sorted(known)
    near = difflib.get_close_matches(name, choices, n=1)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    if len(choices) <= MOST_SHOWN:
        return RegardError(f"Unknown {kind} '{name}'.{hint} Choose from: {', '.join(choices)}.")
    # Nobody reads a screen full of names.
    some = difflib.get_close_matches(name, choices, n=SHOWN_OF_MANY, cutoff=0.0)
    return RegardError(
        f"Unknown {kind} '{name}'.{hint} The nearest of {len(choices)}: {', '.join(some)}."
    )


def look_up(kind: str, name: str, table: Mapping[str, Entry]) -> Entry:
    """The entry of `table` called `name`, or an error that lists the names there are."""
    if name not in table:
        raise unknown_name(kind, name, table)
    return table[name]
