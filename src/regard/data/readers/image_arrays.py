"""Images with labels in .npz files, and such arrays of embedded datasets.

    train_images, train_labels, val_images, val_labels, test_images, test_labels      (MedMNIST)
    images or x, labels or y                                                          without splits

Images have the shape (number, height, width), or with 1 or 3 channels (number, height, width, channels);
labels (number,) or (number, 1), integers or strings. `images/pixels.py` has the types of pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from regard.core.errors import RegardError
from regard.data.images.pixels import scaled_pixels
from regard.data.media_files import file_stamp
from regard.data.readers.arrays import read_npz
from regard.data.readers.folder_layouts import SPLIT_FOLDERS
from regard.data.readers.media_folder import SplitRow
from regard.data.readers.text_file import Row, RowErrors, file_exists
from regard.data.splits import SPLIT_ORDER, Split

IMAGES, LABELS = ("images", "x", "X"), ("labels", "y", "Y")


class LabelledImages(NamedTuple):
    """Pixels (number, height, width, channels), and one label per image."""

    images: np.ndarray
    labels: np.ndarray


Splits = dict[Split | None, LabelledImages]
"""Images by split; the key is None without splits."""


@dataclass(frozen=True, kw_only=True)
class ImageArrayReader:
    """Labelled images in memory; a row is a view of the array.

    `load` returns the arrays; by default, those of the .npz file `path`. `split` is the one to read, by
    default all.
    """

    path: Path
    split: Split | None = None
    load: Callable[[], Splits] | None = None
    notice: str = ""

    def arrays(self) -> Splits:
        """The images by split."""
        if self.load is not None:
            return self.load()
        if not file_exists(self.path):
            raise RegardError(f"There is no file '{self.path}'. Check the path.")
        return _read_file(self.path, file_stamp(self.path))

    def splits(self) -> tuple[Split, ...]:
        """The splits of the file; empty if it has none."""
        found = self.arrays()
        return tuple(split for split in SPLIT_ORDER if split in found)

    def with_split(self, split: Split) -> Self:
        """A reader of one split."""
        return replace(self, split=split)

    def rows(self, *, errors: RowErrors) -> Iterator[Row]:
        """All valid rows: pixels (height, width, channels) and a label, as text."""
        return (row for _, row in self.split_rows(errors=errors))

    def split_rows(self, *, errors: RowErrors) -> Iterator[SplitRow]:
        """As `rows`, with the split of each."""
        for split, (images, labels) in self.arrays().items():
            if self.split in (None, split):
                for number, (image, label) in enumerate(zip(images, labels, strict=True), start=1):
                    name = label_name(label)
                    reason = "" if name else f"invalid label: {label}"
                    if image.dtype.kind == "f" and not np.isfinite(image).all():
                        reason = "pixels that are not finite"
                    if reason:
                        hint = "Fix the row"
                        errors.report(path=self.path, line=number, reason=reason, hint=hint)
                    else:
                        yield SplitRow(split, Row(image, name, number))


def label_name(label: np.generic) -> str:
    """A label as text; empty of a missing one: a negative number, a fraction, NaN, or no characters.

    >>> label_name(np.float32(3)), label_name(np.int8(-1))
    ('3', '')
    """
    if label.dtype.kind in "US":
        return str(label.astype(str)).strip()
    number = float(label)
    return str(int(number)) if number >= 0 and number.is_integer() else ""


@lru_cache(maxsize=1)  # the splits of a file are views of one array
def _read_file(path: Path, stamp: tuple[int, int, int]) -> Splits:
    del stamp
    pairs: dict[Split | None, tuple[str, str]] = {}

    def choose(names: Sequence[str]) -> list[str]:
        for name in names:
            prefix, _, rest = name.rpartition("_")
            if rest == "images" and (split := SPLIT_FOLDERS.get(prefix)):
                pairs[split] = (name, f"{prefix}_labels")
        if not pairs:
            first = [
                next((key for key in keys if key in names), keys[0]) for keys in (IMAGES, LABELS)
            ]
            pairs[None] = (first[0], first[1])
        return [name for pair in pairs.values() for name in pair]

    wanted = "images and labels, or train_images, train_labels, val_images and so on"
    found = read_npz(path, choose, wanted=wanted)
    return {
        split: labelled_images(found[image], found[label], name=f"'{path}'")
        for split, (image, label) in pairs.items()
    }


def labelled_images(images: np.ndarray, labels: np.ndarray, *, name: str) -> LabelledImages:
    """Checked arrays; `name` is for messages."""
    if images.ndim == 4 and images.shape[1] in (1, 3) and images.shape[3] not in (1, 3):
        images = images.transpose(0, 2, 3, 1)  # as PyTorch has them
    if images.ndim not in (3, 4) or (images.ndim == 4 and images.shape[3] not in (1, 3)):
        raise RegardError(
            f"The images of {name} have the shape {images.shape}. Give (number, height, width), or with "
            "1 or 3 channels (number, height, width, channels)."
        )
    if labels.shape not in ((len(images),), (len(images), 1)):
        raise RegardError(
            f"{name} has {len(images):,} images and labels of shape {labels.shape}. Give one label per "
            "image."
        )
    if labels.dtype.kind not in "biufUS":
        raise RegardError(f"The labels of {name} are {labels.dtype}. Give integers or strings.")
    if not images[:1].size:
        raise RegardError(f"{name} has no pixels: its images have the shape {images.shape}.")
    try:
        return LabelledImages(
            scaled_pixels(images[..., None] if images.ndim == 3 else images), labels.reshape(-1)
        )
    except RegardError as error:
        raise RegardError(f"{name}: {error}") from error


def has_images(path: Path) -> bool:
    """Whether a .npz file has images, rather than sequences of frames."""
    names: list[str] = []

    def choose(found: Sequence[str]) -> list[str]:
        names.extend(found)
        return []

    read_npz(path, choose, wanted="images and labels")
    return bool(names) and not {"lengths", "values"} & set(names)
