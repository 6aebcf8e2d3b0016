"""Pixels of images, from files (with Pillow) or arrays: (height, width, 1 or 3 channels).

    8 bits             uint8, 0 to 255
    16 bits, floats    float32, from 0 to 1: 16-bit values are divided by 65,535

`unit_scale` makes both float32 from 0 to 1. Of files, a palette, CMYK and other colour spaces become RGB,
and what is transparent becomes white. A camera's orientation is applied. Every error of a file is an
`ImageFileError`.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import numpy as np
import torch
from jaxtyping import Float32, UInt8
from torch.nn import functional as F

from regard.core.errors import MissingDependencyError, RegardError
from regard.data.media_files import (
    MAX_CHECKED_FILES,
    MediaFileError,
    MediaPath,
    file_stamp,
    opened,
)
from regard.data.splits import array_key

# Height, width and channels; without names, since a function may change them.
Pixels = UInt8[np.ndarray, "_ _ _"] | Float32[np.ndarray, "_ _ _"]

# What Pillow may decode; others run programs, as EPS does, or are rarely tested.
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
GREY_MODES = ("1", "L", "LA", "La")
MAX_8_BITS, MAX_16_BITS = 255, 65_535
LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)  # of red, green, blue (ITU-R BT.601)
SAVE_AGAIN = "Save it again, as PNG or JPEG"


class ImageFileError(MediaFileError):
    """An image file that cannot be used."""

    what = "an image"


class ImageFacts(NamedTuple):
    """Size, channels and a hash of the pixels."""

    height: int
    width: int
    channels: int
    key: str


@dataclass(frozen=True)
class ImageFile:
    """An image file, decoded when it is needed; `name` is what people are shown."""

    name: str
    path: Path

    def pixels(self) -> Pixels:
        """The decoded pixels."""
        return read_image(self.path)

    def facts(self) -> ImageFacts:
        """Size, channels and hash; the file is decoded once, until it changes."""
        try:
            stamp = file_stamp(self.path)
        except (OSError, ValueError):
            return image_facts(self.pixels())  # which says why
        return _file_facts(self.path, stamp)

    def content_hash(self) -> str:
        """A hash of the pixels: the same of one picture in two lossless formats."""
        return self.facts().key


@lru_cache(maxsize=MAX_CHECKED_FILES)
def _file_facts(path: Path, stamp: tuple[int, int, int]) -> ImageFacts:
    del stamp
    return image_facts(read_image(path))


def image_facts(pixels: Pixels) -> ImageFacts:
    """The facts of decoded pixels."""
    height, width, channels = pixels.shape
    return ImageFacts(height, width, channels, pixels_key(pixels))


def pixels_key(pixels: Pixels) -> str:
    """A hash of pixels and their shape."""
    return f"{'×'.join(map(str, pixels.shape))}:{array_key(pixels)}"


def read_image(path: MediaPath, *, max_pixels: int | None = None) -> Pixels:
    """The pixels of an image file with one frame; one of more than `max_pixels` is not decoded."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise MissingDependencyError(
            "Image files are read with Pillow, which is not installed. Run: pip install 'regard[images]'"
        ) from error
    with opened(path, ImageFileError) as file, warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="PIL")  # of damaged metadata
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        try:
            with Image.open(cast(IO[bytes], file), formats=FORMATS) as image:
                if (frames := getattr(image, "n_frames", 1)) > 1:
                    details = f"{frames} frames; an image has one"
                    way_out = "Save one frame as PNG"
                    raise ImageFileError(path, "animated image", details, way_out=way_out)
                size = image.width * image.height
                if max_pixels is not None and size > max_pixels:
                    details = f"{size:,} pixels, the maximum is {max_pixels:,}"
                    raise ImageFileError(path, "too large", details, way_out="Make it smaller")
                return _decode(image, path)
        except RegardError:
            raise
        except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
            details = f"over {Image.MAX_IMAGE_PIXELS:,} pixels, the maximum of Pillow"
            raise ImageFileError(path, "too large", details, way_out="Make it smaller") from error
        except UnidentifiedImageError as error:
            details = f"its content is none of {', '.join(FORMATS)}"
            raise ImageFileError(path, "not an image", details, way_out=SAVE_AGAIN) from error
        except Exception as error:  # Pillow raises many kinds for damaged files
            raise ImageFileError(
                path, "damaged file", f"{error}".rstrip("."), way_out="Copy or download it again"
            ) from error


def _decode(image: Any, path: MediaPath) -> Pixels:
    """The pixels of a Pillow image of any mode."""
    from PIL import Image, ImageOps

    image.load()
    image = ImageOps.exif_transpose(image)
    mode = image.mode
    if mode[0] in "IF":  # 16 or 32 bits, or floating-point numbers; of one channel
        values = np.asarray(image)
        if values.dtype.kind in "iu" and values.min() >= 0 and values.max() <= MAX_16_BITS:
            values = values.astype(np.uint16)
        if not np.isfinite(values).all():
            raise ImageFileError(path, "pixels not finite", "NaN or infinite", way_out=SAVE_AGAIN)
        try:
            return scaled_pixels(values)[..., None]
        except RegardError as error:
            details = str(error).partition(". ")[0]
            raise ImageFileError(
                path, "pixels out of range", details, way_out=SAVE_AGAIN
            ) from error
    is_grey = mode in GREY_MODES
    if mode in ("RGBA", "RGBa", "LA", "La", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    values = np.asarray(image.convert("L" if is_grey else "RGB"))
    return values.reshape(*values.shape[:2], -1)


def scaled_pixels(values: np.ndarray) -> np.ndarray:
    """Arrays of one or several images as uint8, or as float32 from 0 to 1; what is not finite is kept.

    Integers of 16 bits are divided by 65,535. Other integers must be from 0 to 255, floating-point numbers
    from 0 to 1.
    """
    kind = values.dtype.kind
    if kind not in "biuf":
        raise RegardError(f"pixels are numbers, not {values.dtype}. Convert the array.")
    if values.dtype == np.uint8:
        return values
    finite = np.isfinite(values)
    low, high = (float(f(values, initial=0, where=finite)) for f in (np.min, np.max))
    full = MAX_16_BITS if values.dtype == np.uint16 else 1 if kind in "bf" else MAX_8_BITS
    if low < 0 or high > full:
        raise RegardError(
            f"pixels of type {values.dtype} are from {low:g} to {high:g}, but must be from 0 to {full:,}. "
            "Divide them by their full scale."
        )
    if kind == "f" or full == MAX_16_BITS:
        return values.astype(np.float32) / np.float32(full)
    return values.astype(np.uint8) * np.uint8(MAX_8_BITS // full)


def unit_scale(values: np.ndarray) -> np.ndarray:
    """Pixels as float32 from 0 to 1."""
    if values.dtype == np.uint8:
        return values.astype(np.float32) / MAX_8_BITS
    return values


def prepared(pixels: Pixels, *, channels: int, size: tuple[int, int] | None) -> Pixels:
    """Pixels with this number of channels, resized to height and width if they are given.

    Grey is repeated; colour becomes its luminance. Resizing is bilinear, with antialiasing.
    """
    found: np.ndarray = pixels
    if found.shape[2] < channels:
        found = np.repeat(found, channels, axis=2)
    elif found.shape[2] > channels:
        found = _like(found @ LUMA, found)[..., None]
    if size is not None and size != found.shape[:2]:
        # A copy: what Pillow decodes may be read-only, which torch warns about.
        planes = torch.from_numpy(np.array(found)).permute(2, 0, 1)[None].float()
        planes = F.interpolate(planes, size=size, mode="bilinear", antialias=True)
        found = _like(planes[0].permute(1, 2, 0).numpy(), found)
    return found


def _like(values: np.ndarray, original: np.ndarray) -> np.ndarray:
    """Float values in the type of the original pixels."""
    if original.dtype == np.uint8:
        return np.clip(np.rint(values), 0, MAX_8_BITS).astype(np.uint8)
    return np.clip(values, 0.0, 1.0).astype(np.float32)


def as_pixels(value: Any) -> Pixels:
    """The pixels of an input: an image file, its path, or an array (height, width[, channels])."""
    if isinstance(value, np.ndarray):
        if value.ndim not in (2, 3) or (value.ndim == 3 and value.shape[2] not in (1, 3)):
            raise RegardError(
                f"The array has the shape {value.shape}; an image is (height, width) or (height, width, "
                "channels) with 1 or 3 channels."
            )
        return scaled_pixels(value[..., None] if value.ndim == 2 else value)
    return as_file(value).pixels()


def as_file(value: Any) -> ImageFile:
    """An image file, or that of a path."""
    return value if isinstance(value, ImageFile) else ImageFile(str(value), Path(value))
