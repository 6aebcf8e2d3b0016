"""Augmentation of images: shift, rotation, scale, flip, erasing and noise, for a whole batch at once.

    shift, rotate, scale     one affine map per image, read bilinearly; beyond the border, the border
    flip                     left and right exchanged
    erase                    random erasing (Zhong et al. 2020): a rectangle becomes the mean of its image
    noise                    normal noise, added to every pixel

Pixels are from 0 to 1, before they are standardised. Each image has random numbers of its own, a hash of
the seed and its row, so that its variant does not depend on the others in the batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, UInt64
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from regard.core.options import Fraction, NonNegativeFloat, NonNegativeInt, Options, Probability

MAX_LOG_ASPECT = math.log(3.3)  # of an erased rectangle
NUM_DRAWS = 9
MIN_UNIFORM = 1e-6  # so that noise is finite
GOLDEN = np.uint64(0x9E3779B97F4A7C15)

Images = Float[Tensor, "batch channels height width"]
Draws = Float[Tensor, " batch"]


class ImageAugmentOptions(Options):
    """What training images are varied by; all of it is off by default.

    Args:
        shift: Maximum shift in pixels, in both directions.
        rotate: Maximum rotation in degrees, either way.
        scale: Maximum change of size, such as 0.1 for factors from 0.9 to 1.1.
        flip: Probability that left and right are exchanged.
        erase: Maximum fraction of the image that a rectangle erases.
        noise: Standard deviation of noise, where white is 1.
    """

    SECTION: ClassVar[str] = "augment"

    shift: NonNegativeInt = 0
    rotate: Annotated[float, Field(ge=0, le=180)] = 0.0
    scale: Probability = 0.0
    flip: Fraction = 0.0
    erase: Probability = 0.0
    noise: NonNegativeFloat = 0.0

    @property
    def is_off(self) -> bool:
        """Whether nothing is varied."""
        return not any((self.shift, self.rotate, self.scale, self.flip, self.erase, self.noise))


class AffineMap(NamedTuple):
    """How each image is moved: pixels to the right and down, degrees counterclockwise, factor of size."""

    right: Draws
    down: Draws
    degrees: Draws
    factor: Draws


def augment_images(
    images: Images, options: ImageAugmentOptions, *, seed: Sequence[int], rows: Sequence[int]
) -> Images:
    """Varied images, of the same size; the image of a row depends on seed, row and options only."""
    count = images[0].numel() if options.noise else 0
    table = torch.from_numpy(row_uniforms(seed, rows, NUM_DRAWS + count)).to(images)
    table, for_noise = table[:, :NUM_DRAWS], table[:, NUM_DRAWS:]
    right, down, turn, grow, flipped, area, aspect, across, along = table.unbind(dim=1)
    if options.flip:
        images = flip_images(images, flipped < options.flip)
    if options.shift or options.rotate or options.scale:
        span = 2 * options.shift + 1
        move = AffineMap(
            right=(span * right).floor() - options.shift,
            down=(span * down).floor() - options.shift,
            degrees=(2 * turn - 1) * options.rotate,
            factor=1 + (2 * grow - 1) * options.scale,
        )
        images = move_images(images, move)
    if options.erase:
        images = erase_images(
            images,
            area=area * options.erase,
            aspect=((2 * aspect - 1) * MAX_LOG_ASPECT).exp(),
            across=across,
            along=along,
        )
    if options.noise:
        normal = torch.special.ndtri(for_noise.clamp(MIN_UNIFORM, 1 - MIN_UNIFORM))
        images = images + options.noise * normal.view_as(images)
    return images


def row_uniforms(
    seed: Sequence[int], rows: Sequence[int], count: int
) -> Float64[np.ndarray, "rows count"]:
    """Uniform random numbers in [0, 1) for each row: SplitMix64 (Steele et al. 2014), seeded by its hash.

    A generator of NumPy for each row would take longer than the augmentation.
    """
    start = np.random.SeedSequence(list(seed)).generate_state(1, np.uint64)
    of_row = _mixed(start + np.asarray(rows, dtype=np.uint64) * GOLDEN)
    steps = np.arange(1, count + 1, dtype=np.uint64) * GOLDEN
    return (_mixed(of_row[:, None] + steps) >> np.uint64(11)) * 2.0**-53


def _mixed(x: UInt64[np.ndarray, "..."]) -> UInt64[np.ndarray, "..."]:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def flip_images(images: Images, flipped: Bool[Tensor, " batch"]) -> Images:
    """Left and right exchanged, where `flipped`.

    >>> flip_images(torch.tensor([[[[1.0, 2.0, 3.0]]]]), torch.tensor([True])).flatten().tolist()
    [3.0, 2.0, 1.0]
    """
    return torch.where(flipped[:, None, None, None], images.flip(-1), images)


def move_images(images: Images, move: AffineMap) -> Images:
    """Images that are scaled and rotated about their centre, then shifted.

    >>> one, zero = torch.ones(1), torch.zeros(1)
    >>> row = torch.tensor([[[[1.0, 2.0, 3.0]]]])
    >>> move_images(row, AffineMap(right=one, down=zero, degrees=zero, factor=one)).flatten().tolist()
    [1.0, 1.0, 2.0]
    """
    height, width = images.shape[-2:]
    radians = move.degrees.deg2rad()
    cos, sin = radians.cos() / move.factor, radians.sin() / move.factor
    # Where each pixel is read from, in pixels from the centre: back by the shift, then turned back.
    back_x = -(cos * move.right - sin * move.down)
    back_y = -(sin * move.right + cos * move.down)
    # affine_grid measures from -1 to 1 across the image.
    rows = (
        torch.stack([cos, -sin * height / width, 2 * back_x / width], dim=1),
        torch.stack([sin * width / height, cos, 2 * back_y / height], dim=1),
    )
    grid = F.affine_grid(torch.stack(rows, dim=1), list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, padding_mode="border", align_corners=False)


def erase_images(
    images: Images, *, area: Draws, aspect: Draws, across: Draws, along: Draws
) -> Images:
    """A rectangle of each image becomes its mean.

    `area` is the fraction of the image, `aspect` height over width, where pixels are square; `across` and
    `along` are its place, from 0 (left, top) to 1 (right, bottom).
    """
    height, width = images.shape[-2:]
    pixels = area * height * width
    tall = (pixels * aspect).sqrt().round().clamp(max=height)
    wide = (pixels / aspect).sqrt().round().clamp(max=width)
    top, left = (along * (height - tall + 1)).floor(), (across * (width - wide + 1)).floor()
    top, left = torch.minimum(top, height - tall), torch.minimum(left, width - wide)
    y, x = torch.arange(height), torch.arange(width)
    in_rows = (y >= top[:, None]) & (y < (top + tall)[:, None])
    in_columns = (x >= left[:, None]) & (x < (left + wide)[:, None])
    erased = (in_rows[:, :, None] & in_columns[:, None, :])[:, None]
    return torch.where(erased, images.mean(dim=(2, 3), keepdim=True), images)
