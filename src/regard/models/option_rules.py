"""The rules for the options of a model, told by the names that a user gives them: model.word_dropout.

The layers of a model have rules of their own (`layers/size_rules.py`), in the layers' words: an option that
goes to a layer under another name is checked here before.
"""

from __future__ import annotations

import math

from regard.core.errors import RegardError


def require_sizes(**sizes: object) -> None:
    """Refuse what is not a whole number, 1 or more; None is an option that was not given.

    >>> require_sizes(model_dim=64, attention_dim=None)
    """
    for name, size in sizes.items():
        if size is not None and not _is_whole(size, least=1):
            raise RegardError(f"model.{name}={size!r}: it must be a whole number, 1 or more.")


def require_sizes_or_none(**sizes: object) -> None:
    """Refuse what is not a whole number, 0 or more, where 0 leaves something out."""
    for name, size in sizes.items():
        if not _is_whole(size, least=0):
            raise RegardError(
                f"model.{name}={size!r}: it must be 0, for none, or a whole number above."
            )


def require_shares(**shares: object) -> None:
    """Refuse a share of what is dropped that is none, or that leaves nothing; None is not given."""
    for name, share in shares.items():
        if share is not None and not _is_number(share, below=1.0):
            raise RegardError(
                f"model.{name}={share!r}: it must be a number from 0 (none) to below 1 (all)."
            )


def require_weights(**weights: object) -> None:
    """Refuse what a part of a loss cannot be multiplied by."""
    for name, weight in weights.items():
        if not _is_number(weight, below=math.inf):
            raise RegardError(
                f"model.{name}={weight!r}: it must be a number, 0 (for none) or more, and not infinite."
            )


def _is_whole(value: object, *, least: int) -> bool:
    # True is an integer to Python, and never a size.
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_number(value: object, *, below: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < below
