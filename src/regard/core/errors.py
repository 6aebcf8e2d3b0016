"""The one error a user's mistake raises: it names the thing, the value, the rule and the way out."""

from __future__ import annotations


class RegardError(ValueError):
    """A mistake in what was asked. The command line prints it without a traceback."""


class LackingError(RegardError):
    """Nothing is wrong with what was asked, but something it needs is not here, such as a package."""
