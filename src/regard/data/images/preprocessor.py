"""The preprocessor of images with labels: one size and number of channels, standardised by channel.

Examples hold pixels as they are stored, one byte each for images of 8 bits. They are scaled to [0, 1] and
standardised when a batch is collated, after augmentation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from regard.core.batches import ImageInput
from regard.core.errors import RegardError
from regard.core.records.image import ImageRecord
from regard.data.examples import Examples, Ragged
from regard.data.images.picture import image_record
from regard.data.images.pixels import (
    ImageFile,
    Pixels,
    as_file,
    as_pixels,
    image_facts,
    pixels_key,
    prepared,
    unit_scale,
)
from regard.data.item_preprocessor import EncodedInput, ItemPreprocessor
from regard.data.labels import unseen_labels_note
from regard.data.media_files import file_stamp
from regard.data.preprocessor import Encoded, Standardizer, Truncation
from regard.data.readers.text_file import Row, RowErrors
from regard.data.splits import EvalSplit

EVAL_VALUES = 1 << 19  # pixel values in a batch of an evaluation: 668 images of 28×28
MAX_CACHE_BYTES = 1 << 28

Images = Float[Tensor, "batch channels height width"]


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageExamples(Examples):
    """Examples whose inputs are images: `inputs.values` has the shape (images, channels, height, width).

    A batch of `max_tokens` has so many images.
    """

    standardizer: Standardizer = field(default_factory=lambda: Standardizer((0.0,), (1.0,)))

    @property
    def target_lengths(self) -> Int64[np.ndarray, " examples"]:
        """Labels do not count."""
        return np.zeros(len(self), dtype=np.int64)

    @property
    def eval_batch_tokens(self) -> int:
        """Images in a batch of an evaluation."""
        return max(1, EVAL_VALUES // max(1, int(np.prod(self.inputs.values.shape[1:]))))

    def scaled(self, rows: Int64[np.ndarray, " rows"]) -> Images:
        """Pixels from 0 to 1."""
        return torch.from_numpy(unit_scale(self.inputs.values[rows]))

    def standardized(self, images: Images) -> Images:
        """Every channel with mean 0 and deviation 1 over the training split."""
        mean, scale = (
            torch.tensor(values, dtype=images.dtype)[:, None, None]
            for values in (self.standardizer.mean, self.standardizer.scale)
        )
        return (images - mean) / scale

    def collate_inputs(self, rows: Int64[np.ndarray, " rows"]) -> ImageInput:
        """The images of these examples."""
        return ImageInput(self.standardized(self.scaled(rows)))


class ImagePreprocessor(ItemPreprocessor):
    """Images with labels. An input is an image file, its path, or an array of pixels.

    The options `channels` and `image_size` convert and resize all images. Without them, images of one size
    are needed, and they are grey if all training images are.
    """

    unit: ClassVar[str] = "images"
    truncates: ClassVar[bool] = False
    has_pictures: ClassVar[bool] = True
    label_hint: ClassVar[str] = "Give images of another label, such as a second folder."

    @classmethod
    def key(cls, options: Any, value: Any) -> str:
        """A hash of the pixels."""
        del options
        if isinstance(value, np.ndarray):
            return pixels_key(value)
        return as_file(value).content_hash()

    @classmethod
    def fit_inputs(cls, options: Any, inputs: Iterator[Any]) -> Standardizer:
        """Mean and deviation of every channel, size and number of channels, in one pass."""
        first: tuple[str, tuple[int, int]] | None = None
        has_colour = False

        def values() -> Iterator[Float[np.ndarray, "pixels channels"]]:
            nonlocal first, has_colour
            for value in inputs:
                pixels = as_pixels(value)
                size, name = (pixels.shape[0], pixels.shape[1]), _name(value)
                first = first or (name, size)
                if options.image_size is None and size != first[1]:
                    raise _different_sizes(first[0], first[1], name, size)
                has_colour |= pixels.shape[2] > 1
                whole = prepared(pixels, channels=options.channels or 3, size=options.image_size)
                yield unit_scale(whole).reshape(-1, whole.shape[2])

        found = Standardizer.fit(values())
        channels = options.channels or (3 if has_colour else 1)
        size = options.image_size or (first[1] if first else (1, 1))
        return Standardizer(found.mean[:channels], found.scale[:channels], size)

    def encode(self, rows: Iterable[Row], *, path: Path, errors: RowErrors) -> Iterator[Encoded]:
        """Pixels with class ids; an image of another size, or with an unknown label, is malformed."""
        return super().encode(self._of_one_size(rows, path, errors), path=path, errors=errors)

    def _of_one_size(self, rows: Iterable[Row], path: Path, errors: RowErrors) -> Iterator[Row]:
        for row in rows:
            image = row.input
            facts = image_facts(image) if isinstance(image, np.ndarray) else image.facts()
            size = facts[:2]
            if self.options.image_size is None and size != self.input.size:
                errors.report(
                    path=path,
                    line=row.line,
                    reason=f"other size: {_size(size)} pixels, those of training have "
                    f"{_size(self.input.size)}",
                    hint=f"Resize all with --set task.image_size={list(self.input.size)}",
                )
            else:
                yield row

    def _encode(self, inputs: Sequence[Any]) -> list[EncodedInput]:
        return [EncodedInput(self.pixels(value), None) for value in inputs]

    def pixels(self, value: Any) -> Pixels:
        """The pixels of an input, as the model takes them."""
        options = self.options
        pixels = prepared(as_pixels(value), channels=len(self.input), size=options.image_size)
        if pixels.shape[:2] != self.input.size:
            raise RegardError(
                f"{_name(value)} has {_size(pixels.shape)} pixels, but the model takes "
                f"{_size(self.input.size)}. Resize it, or train with --set "
                f"task.image_size={list(self.input.size)}."
            )
        return pixels

    def examples(self, encoded: Iterable[Encoded]) -> ImageExamples:
        """Training examples."""
        pairs = [(each.input, each.target) for each in encoded]
        found = self._stacked([pixels for pixels, _ in pairs])
        return replace(found, targets=np.array([label for _, label in pairs], dtype=np.int64))

    def encode_inputs(self, inputs: Sequence[Any]) -> ImageExamples:
        """Images without labels."""
        return self._stacked([self._cached_pixels(value) for value in inputs])

    @cached_property
    def _cache(self) -> dict[tuple[Path, tuple[int, int, int]], Pixels]:
        return {}

    def _cached_pixels(self, value: Any) -> Pixels:
        """As `_pixels`; those of files are kept, since a split is evaluated many times."""
        if not isinstance(value, ImageFile):
            return self.pixels(value)
        try:
            key = (value.path, file_stamp(value.path))
        except OSError:
            return self.pixels(value)  # which says why
        if key not in self._cache:
            found = self.pixels(value)
            if (len(self._cache) + 1) * found.nbytes > MAX_CACHE_BYTES:
                return found
            self._cache[key] = found
        return self._cache[key]

    def _stacked(self, images: Sequence[Pixels]) -> ImageExamples:
        """Images in one array; of mixed types, float32."""
        if len({pixels.dtype for pixels in images}) > 1:
            images = [unit_scale(pixels) for pixels in images]
        empty = np.zeros((0, *self.input.size, len(self.input)), dtype=np.uint8)
        values = np.stack(images) if images else empty
        values = np.ascontiguousarray(values.transpose(0, 3, 1, 2))
        values.flags.writeable = False
        offsets = np.arange(len(values) + 1)
        return ImageExamples(inputs=Ragged(values, offsets), standardizer=self.input)

    def picture(self, value: Any, *, name: str) -> ImageRecord:
        """The pixels that the model takes."""
        return image_record(self.pixels(value), name=name)

    def truncation(self, inputs: Sequence[Any]) -> Truncation:
        """Nothing is truncated."""
        del inputs
        return Truncation()

    def notes(self, split: EvalSplit) -> list[str]:
        """Labels unseen in training."""
        note = unseen_labels_note(split.references, self.target.labels, unit=self.unit)
        return [note] if note else []

    def split(self, rows: Iterable[Row], *, path: Path) -> EvalSplit:
        """Items with the names of their files."""
        found = EvalSplit.of(kept := list(rows), path=path)
        names = (
            row.input.name if isinstance(row.input, ImageFile) else name
            for row, name in zip(kept, found.names, strict=True)
        )
        return replace(found, names=tuple(names))


def _name(value: Any) -> str:
    return "An array" if isinstance(value, np.ndarray) else f"'{as_file(value).name}'"


def _size(size: Sequence[int]) -> str:
    return f"{size[0]}×{size[1]}"


def _different_sizes(
    name: str, size: tuple[int, int], other: str, other_size: tuple[int, int]
) -> RegardError:
    return RegardError(
        f"{name} has {_size(size)} pixels and {other} {_size(other_size)} (height×width); a model takes "
        f"images of one size. Resize all, as with --set task.image_size={list(size)}."
    )
