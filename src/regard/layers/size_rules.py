"""The rules for the numbers a layer is built with."""

from __future__ import annotations

from regard.core.errors import RegardError


def require_positive(what: str, **sizes: object) -> None:
    """Refuse sizes that are not whole numbers, 1 or more.

    >>> require_positive("MultiHead", model_dim=64, num_heads=4)
    """
    for name, size in sizes.items():
        # True is an integer to Python, and never a size.
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise RegardError(f"{what} has {name}={size!r}; it must be a whole number, 1 or more.")


def require_dropout(what: str, dropout: object) -> None:
    """Refuse a share of dropped features that is none, or that leaves nothing."""
    if isinstance(dropout, bool) or not isinstance(dropout, int | float) or not 0 <= dropout < 1:
        raise RegardError(
            f"{what} has dropout={dropout!r}; it must be a number from 0 (none) to below 1 (all)."
        )
