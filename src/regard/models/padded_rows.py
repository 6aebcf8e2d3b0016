"""Rows that were padded at their end to one length: what lengths they may have, and their mask."""

from __future__ import annotations

from jaxtyping import Int
from torch import Tensor

from regard.core.errors import RegardError
from regard.core.masks import NO_MASK, Mask, Padding

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
