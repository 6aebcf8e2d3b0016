"""Exceptions for user errors, and text that is safe to print in a terminal.

A message names the option, its value, the rule and the way out.
"""

from __future__ import annotations

import re

# What a terminal acts on instead of showing it: C0 except newline and tab, DEL, C1, characters that
# reorder or annotate text (bidirectional controls); and lone surrogates, which cannot be encoded.
CONTROLS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ufff9-\ufffb\ud800-\udfff]"
)


class RegardError(ValueError):
    """Invalid input or options. The command line prints it without a traceback."""


class MissingDependencyError(RegardError):
    """A valid request needs a package or a file that is not installed."""


def described(value: object) -> str:
    """A value in an error message: itself if it is short, else its type.

    >>> described(None), described("causal"), described([0] * 99)
    ('None', "'causal'", 'a list')
    """
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if value is None or isinstance(value, str | int | float):
        return repr(value)
    return f"a {type(value).__name__}"


def printable_lines(text: str) -> str:
    """The text for a terminal: control characters as escapes; lines and tabs stay.

    >>> print(printable_lines("\\x1b[31mred\\r \\u202egnp.exe"))
    \\x1b[31mred\\r \\u202egnp.exe
    """
    return CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)
