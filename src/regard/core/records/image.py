"""Image records: the pixels of a picture, and what a model made of it.

Pixels and feature maps are one byte per value, from 0 (black) to 255 (white), row by row, in base64.
"""

from __future__ import annotations

import base64
import binascii
import math
from dataclasses import dataclass

from regard.core.errors import RegardError
from regard.core.records.record import Record

Map = tuple[tuple[float, ...], ...]
LUMA = (0.299, 0.587, 0.114)  # of red, green, blue (ITU-R BT.601)


def _rows(text: str, *, count: int, width: int, what: str) -> list[bytes]:
    """`count` rows of `width` bytes."""
    try:
        values = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise RegardError(f"The {what} are not base64: {error}.") from error
    if min(count, width) < 1 or len(values) != count * width:
        raise RegardError(
            f"The {what} have {len(values)} bytes, but {count} rows of {width} are {count * width}. "
            "Pass one byte per value, and at least one."
        )
    return [values[row * width : (row + 1) * width] for row in range(count)]


@dataclass(frozen=True, kw_only=True)
class ImageRecord(Record):
    """What a page shows of an image.

    Args:
        name: Name of the image.
        pixels: The bytes in base64; those of one pixel are together.
        height, width: Size in pixels.
        channels: 1 for grey; 3 for red, green and blue.
    """

    name: str
    pixels: str
    height: int
    width: int
    channels: int

    def __post_init__(self) -> None:
        if self.channels not in (1, 3):
            raise RegardError(f"The image has {self.channels} channels. Pass 1 or 3.")
        self.rows()

    def rows(self) -> list[bytes]:
        """The rows, from top to bottom."""
        return _rows(
            self.pixels, count=self.height, width=self.width * self.channels, what="pixels"
        )

    def grey_rows(self) -> list[bytes]:
        """The rows in grey: the luminance of colours."""
        if self.channels == 1:
            return self.rows()
        return [
            bytes(
                round(sum(part * level for part, level in zip(LUMA, pixel, strict=True)))
                for pixel in zip(row[::3], row[1::3], row[2::3], strict=True)
            )
            for row in self.rows()
        ]


@dataclass(frozen=True, kw_only=True)
class FeatureMaps:
    """Activations of a layer: `count` maps, of which byte 0 is the value `low` and byte 255 is `high`."""

    levels: str
    count: int
    height: int
    width: int
    low: float
    high: float

    def __post_init__(self) -> None:
        self.maps()

    def maps(self) -> list[list[bytes]]:
        """The rows of every map."""
        number = self.count * self.height
        rows = _rows(self.levels, count=number, width=self.width, what="feature maps")
        return [rows[start : start + self.height] for start in range(0, number, self.height)]


@dataclass(frozen=True, kw_only=True)
class ClassifiedImage(Record):
    """An image, its predicted label, and what the model attended to.

    Args:
        label: Predicted label.
        probabilities: Probability of every label.
        reference: Reference label, if known.
        attention: Weights of the patches, one map per hop (or head); empty for a model without.
        feature_maps: Of the first convolution of a model that has them.
        image: The picture; None where several records share one.
    """

    label: str
    probabilities: dict[str, float]
    reference: str | None = None
    attention: tuple[Map, ...] = ()
    feature_maps: FeatureMaps | None = None
    image: ImageRecord | None = None

    def __post_init__(self) -> None:
        shapes = {tuple(map(len, each)) for each in self.attention}
        if len(shapes) > 1 or any(len(set(shape)) != 1 or shape[0] < 1 for shape in shapes):
            raise RegardError(
                f"The attention maps have rows of {sorted(shapes)} weights. Pass maps of one size, "
                "with rows of equal length."
            )
        for weight in (weight for each in self.attention for row in each for weight in row):
            if not math.isfinite(weight):
                raise RegardError(
                    f"The attention over the image has the weight {weight}; weights must be finite. "
                    "Look for an overflow where they were computed."
                )

    def mean_attention(self) -> Map:
        """The mean of the maps of all hops."""
        return tuple(
            tuple(sum(weights) / len(self.attention) for weights in zip(*rows, strict=True))
            for rows in zip(*self.attention, strict=True)
        )
