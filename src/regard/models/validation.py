"""Validation of model options (`model.…` in a recipe), sequence lengths, and the padding mask.

Options are checked here under the name a user sets; `layers/validation.py` checks layers' arguments.
"""

from __future__ import annotations

import math

from jaxtyping import Int
from torch import Tensor

from regard.core.errors import RegardError
from regard.core.masks import NO_MASK, Mask, Padding


def validate_sizes(**sizes: object) -> None:
    """Require integers of 1 or more; None is an unset option.

    >>> validate_sizes(model_dim=64, attention_dim=None)
    """
    for name, size in sizes.items():
        if size is not None and not _is_integer(size, least=1):
            raise RegardError(f"model.{name}={size!r}: it must be an integer, 1 or more.")


def validate_sizes_or_zero(**sizes: object) -> None:
    """Require integers of 0 or more, where 0 turns a component off."""
    for name, size in sizes.items():
        if not _is_integer(size, least=0):
            raise RegardError(f"model.{name}={size!r}: it must be an integer, 0 (off) or more.")


def validate_fractions(**fractions: object) -> None:
    """Require dropout rates: at least 0 and below 1; None is an unset option."""
    for name, fraction in fractions.items():
        if fraction is not None and not _is_number(fraction, below=1.0):
            raise RegardError(f"model.{name}={fraction!r}: it must be a number from 0 to below 1.")


def validate_loss_weights(**weights: object) -> None:
    """Require finite loss weights of 0 or more."""
    for name, weight in weights.items():
        if not _is_number(weight, below=math.inf):
            raise RegardError(
                f"model.{name}={weight!r}: it must be a finite number, 0 (off) or more."
            )


def _is_integer(value: object, *, least: int) -> bool:
    # bool is a subclass of int.
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_number(value: object, *, below: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < below


HINTS = {
    "tokens": "Remove empty rows.",
    "source": "An empty source still has END.",
}


def validate_lengths(
    tokens: Int[Tensor, "batch length"], lengths: Int[Tensor, " rows"], *, name: str = "tokens"
) -> None:
    """Require one length per row, from 1 to the padded length."""
    argument = "lengths" if name == "tokens" else f"{name}_lengths"
    if lengths.shape != tokens.shape[:1]:
        raise RegardError(
            f"{name} has {tokens.shape[0]} rows and {argument} the shape {tuple(lengths.shape)}: pass one "
            "length per row."
        )
    if not lengths.numel():
        return
    shortest, longest = (int(length) for length in lengths.aminmax())
    if shortest < 1 or longest > tokens.shape[1]:
        raise RegardError(
            f"{argument} range from {shortest} to {longest}, but {name} is padded to {tokens.shape[1]}: a "
            f"length must be from 1 to that. {HINTS[name]}"
        )


def padding_mask(
    tokens: Int[Tensor, "batch length"], lengths: Int[Tensor, " rows"], *, name: str = "tokens"
) -> Mask:
    """The padding mask; no mask, which is faster, if no row is padded."""
    validate_lengths(tokens, lengths, name=name)
    if not lengths.numel() or int(lengths.min()) == tokens.shape[1]:
        return NO_MASK
    return Padding(lengths)
