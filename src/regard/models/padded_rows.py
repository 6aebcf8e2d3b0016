"""The mask of rows that were padded at their end to one length."""

from __future__ import annotations

from jaxtyping import Int
from torch import Tensor

from regard.core.errors import RegardError
from regard.core.masks import NO_MASK, Mask, Padding


def padding_mask(tokens: Int[Tensor, "batch length"], lengths: Int[Tensor, " rows"]) -> Mask:
    """Padding where some row is padded; no mask, which is faster, where none is."""
    if lengths.shape != tokens.shape[:1]:
        raise RegardError(
            f"tokens have {tokens.shape[0]} rows and lengths the shape {tuple(lengths.shape)}: "
            "give one length a row."
        )
    if not lengths.numel():
        return NO_MASK
    shortest, longest = (int(length) for length in lengths.aminmax())
    if shortest < 1 or longest > tokens.shape[1]:
        raise RegardError(
            f"lengths go from {shortest} to {longest} and tokens have {tokens.shape[1]} places: a "
            "length must be from 1 to that. Leave out rows without a token."
        )
    return Padding(lengths) if shortest < tokens.shape[1] else NO_MASK
