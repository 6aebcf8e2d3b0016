"""Exceptions for user errors. A message names the option, its value, the rule and the way out."""

from __future__ import annotations


class RegardError(ValueError):
    """Invalid input or options. The command line prints it without a traceback."""


class MissingDependencyError(RegardError):
    """A valid request needs a package or a file that is not installed."""
