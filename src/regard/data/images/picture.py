"""The picture of an image: its pixels as the model takes them, made smaller if they are large."""

from __future__ import annotations

import base64

import numpy as np

from regard.core.records.image import ImageRecord
from regard.data.images.pixels import MAX_8_BITS, Pixels, prepared, unit_scale

MAX_SIDE = 128


def image_record(pixels: Pixels, *, name: str) -> ImageRecord:
    """The record of pixels, of at most `MAX_SIDE` in both directions."""
    height, width, channels = pixels.shape
    factor = min(1.0, MAX_SIDE / max(height, width))
    size = max(1, round(height * factor)), max(1, round(width * factor))
    small = prepared(pixels, channels=channels, size=size)
    levels = np.rint(MAX_8_BITS * unit_scale(small)).astype(np.uint8)
    return ImageRecord(
        name=name,
        pixels=base64.b64encode(levels.tobytes()).decode("ascii"),
        height=size[0],
        width=size[1],
        channels=channels,
    )
