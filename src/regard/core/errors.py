"""Exceptions for user errors. A message names the option, its value, the rule and the way out."""

from __future__ import annotations


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
