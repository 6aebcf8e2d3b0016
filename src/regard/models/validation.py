"""The rules for the options of a model, told by the names that a user gives them: model.word_dropout.

The layers of a model have rules of their own (`layers/size_rules.py`), in the layers' words: an option that
goes to a layer under another name is checked here before.
"""

from __future__ import annotations

import math

from jaxtyping import Int
from torch import Tensor

from regard.core.errors import RegardError
from regard.core.masks import NO_MASK, Mask, Padding


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


# Rows that were padded at their end to one length: what lengths they may have, and their mask.


WAY_OUT = {
    "tokens": "Leave out rows without a token.",
    "source": "An empty source is its END alone.",
}


def require_lengths(
    tokens: Int[Tensor, "batch length"], lengths: Int[Tensor, " rows"], *, name: str = "tokens"
) -> None:
    """Refuse lengths that are not one a row, or not from 1 to the number of places."""
    of = "lengths" if name == "tokens" else f"{name}_lengths"
    if lengths.shape != tokens.shape[:1]:
        raise RegardError(
            f"There are {tokens.shape[0]} rows of {name}, and {of} has the shape "
            f"{tuple(lengths.shape)}: give one length a row."
        )
    if not lengths.numel():
        return
    shortest, longest = (int(length) for length in lengths.aminmax())
    if shortest < 1 or longest > tokens.shape[1]:
        raise RegardError(
            f"{of} go from {shortest} to {longest}, and {name} has {tokens.shape[1]} places: a length "
            f"must be from 1 to that. {WAY_OUT[name]}"
        )


def padding_mask(
    tokens: Int[Tensor, "batch length"], lengths: Int[Tensor, " rows"], *, name: str = "tokens"
) -> Mask:
    """Padding where some row is padded; no mask, which is faster, where none is."""
    require_lengths(tokens, lengths, name=name)
    if not lengths.numel() or int(lengths.min()) == tokens.shape[1]:
        return NO_MASK
    return Padding(lengths)
