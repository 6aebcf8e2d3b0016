"""The check of layers to which only padding means something: they have an order of their own."""

from __future__ import annotations

from regard.core.errors import RegardError
from regard.core.masks import Mask
from regard.layers.sequence_input import require_mask


def refuse_all_but_padding(layer: str, mask: Mask) -> None:
    """Refuse what is no mask, and a mask with anything but `Padding(lengths)` in it."""
    require_mask(mask)
    foreign = mask.kinds - {"padding"}
    if foreign:
        raise RegardError(
            f"{layer} does not take the mask {mask}: of the kinds of mask it takes padding, not "
            f"{', '.join(sorted(foreign))}. Pass Padding(lengths), or no mask."
        )
