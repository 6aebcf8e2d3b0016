"""Augmentation of features: SpecAugment, frequency warp, time stretch, equalisation, noise and gain.

    mask_time, mask_frequency     SpecAugment (Park et al. 2019): blocks of frames or bands become the mean
    warp_frequency                vocal tract length: band b is read from band factor · b
    stretch_time                  tempo without pitch
    equalize                      frequency response: a smooth curve over the bands in the log domain
    add_noise                     noise in the log domain: log(exp(x) + exp(noise))
    change_gain                   loudness: a constant in the log domain

All are functions of log-mel frames (frames, bands), before they are normalised, and leave their argument as
it is. `augment` draws what `AugmentOptions` allow: the same generator gives the same frames. Speed
perturbation, which changes the pitch, acts on samples: `AudioClip.samples(speed=1.1)`.
"""

from __future__ import annotations

import math
from typing import Annotated, ClassVar

import numpy as np
from jaxtyping import Float, Float32
from pydantic import AfterValidator

from regard.core.errors import RegardError
from regard.core.options import (
    NonNegativeFloat,
    NonNegativeInt,
    Options,
    PositiveFraction,
    PositiveInt,
    Probability,
)
from regard.data.audio.features import NEPERS_PER_DB

Frames = Float[np.ndarray, "frames bands"]
NUM_COSINES = 3  # of an equalisation: a tilt, a hollow and a wave


def _validate_range(value: tuple[float, float] | None) -> tuple[float, float] | None:
    if value is not None and not 0 <= value[0] <= value[1]:
        raise ValueError("give two distances from the peak in dB, the smaller one first: [20, 40].")
    return value


DecibelRange = Annotated[tuple[float, float], AfterValidator(_validate_range)]


class AugmentOptions(Options):
    """What training examples are varied by; all of it is off by default.

    Args:
        time_masks, time_width: Number of masked blocks of frames, and the maximum number of frames of each.
        time_fraction: Maximum fraction of the frames that one block masks.
        freq_masks, freq_width: Number of masked blocks of bands, and the maximum number of bands of each.
        freq_warp: Maximum change of the frequency axis, such as 0.1 for factors from 0.9 to 1.1.
        time_stretch: Maximum change of the tempo, as a fraction.
        equalize_db: Maximum tilt of the frequency response, in dB at either end; finer curves have less.
        noise_db: Range of a noise floor, in dB below the loudest value, such as [20, 40].
        gain_db: Maximum change of the loudness, in dB.
    """

    SECTION: ClassVar[str] = "augment"

    time_masks: NonNegativeInt = 0
    time_width: PositiveInt = 20
    time_fraction: PositiveFraction = 0.2
    freq_masks: NonNegativeInt = 0
    freq_width: PositiveInt = 10
    freq_warp: Probability = 0.0
    time_stretch: Probability = 0.0
    equalize_db: NonNegativeFloat = 0.0
    noise_db: DecibelRange | None = None
    gain_db: NonNegativeFloat = 0.0

    @property
    def is_off(self) -> bool:
        """Whether nothing is varied."""
        amounts = (
            self.time_masks,
            self.freq_masks,
            self.freq_warp,
            self.time_stretch,
            self.equalize_db,
            self.gain_db,
        )
        return not any(amounts) and self.noise_db is None


def augment(
    features: Frames, options: AugmentOptions, *, generator: np.random.Generator
) -> Float32[np.ndarray, "new_frames bands"]:
    """Varied features: stretched, warped, equalised, louder or softer, noisy, then masked."""
    found = features.astype(np.float32, copy=False)
    if options.time_stretch:
        rate = 1.0 + generator.uniform(-options.time_stretch, options.time_stretch)
        found = stretch_time(found, rate=rate)
    if options.freq_warp:
        factor = 1.0 + generator.uniform(-options.freq_warp, options.freq_warp)
        found = warp_frequency(found, factor=factor)
    if options.equalize_db:
        largest = options.equalize_db / np.arange(1, NUM_COSINES + 1)
        found = equalize(found, curve_db=generator.uniform(-largest, largest))
    if options.gain_db:
        found = change_gain(found, gain_db=generator.uniform(-options.gain_db, options.gain_db))
    if options.noise_db is not None:
        found = add_noise(found, noise_db=generator.uniform(*options.noise_db), generator=generator)
    if options.time_masks:
        width = min(options.time_width, int(options.time_fraction * len(found)))
        found = mask_time(found, num_masks=options.time_masks, max_width=width, generator=generator)
    if options.freq_masks:
        found = mask_frequency(
            found,
            num_masks=options.freq_masks,
            max_width=options.freq_width,
            generator=generator,
        )
    return found


def mask_time(
    features: Frames, *, num_masks: int, max_width: int, generator: np.random.Generator
) -> Frames:
    """Blocks of 0 to `max_width` frames become the mean of all features."""
    return _mask(features, num_masks=num_masks, max_width=max_width, axis=0, generator=generator)


def mask_frequency(
    features: Frames, *, num_masks: int, max_width: int, generator: np.random.Generator
) -> Frames:
    """Blocks of 0 to `max_width` bands become the mean of all features."""
    return _mask(features, num_masks=num_masks, max_width=max_width, axis=1, generator=generator)


def _mask(
    features: np.ndarray,
    *,
    num_masks: int,
    max_width: int,
    axis: int,
    generator: np.random.Generator,
) -> np.ndarray:
    if num_masks < 0 or max_width < 0:
        raise RegardError(f"num_masks={num_masks}, max_width={max_width}: use 0 or more of each.")
    length = features.shape[axis]
    width = generator.integers(0, min(max_width, length) + 1, size=num_masks)
    start = generator.integers(0, length - width + 1)
    position = np.arange(length)
    masked = ((position >= start[:, None]) & (position < (start + width)[:, None])).any(axis=0)
    mean = features.mean(dtype=np.float64).astype(features.dtype)
    return np.where(masked[:, None] if axis == 0 else masked, mean, features)


def warp_frequency(features: Frames, *, factor: float) -> Frames:
    """Band b is what was at band factor · b, interpolated linearly; beyond the last band, the last.

    >>> warp_frequency(np.array([[0.0, 1.0, 2.0, 3.0]]), factor=1.5).tolist()
    [[0.0, 1.5, 3.0, 3.0]]
    """
    if not factor > 0:
        raise RegardError(f"factor={factor}: use a factor above 0, such as 0.9 or 1.1.")
    bands = features.shape[1]
    return _interpolate(features.T, np.minimum(np.arange(bands) * factor, bands - 1)).T


def stretch_time(features: Frames, *, rate: float) -> Float[np.ndarray, "new_frames bands"]:
    """Faster (rate above 1) or slower, interpolated linearly between frames; both ends stay.

    >>> stretch_time(np.array([[0.0], [2.0], [4.0]]), rate=0.6).T.tolist()
    [[0.0, 1.0, 2.0, 3.0, 4.0]]
    """
    if not rate > 0:
        raise RegardError(f"rate={rate}: use a rate above 0, such as 0.9 or 1.1.")
    frames = len(features)
    return _interpolate(features, np.linspace(0, frames - 1, max(1, round(frames / rate))))


def _interpolate(values: np.ndarray, position: np.ndarray) -> np.ndarray:
    """Rows at fractional positions."""
    low = position.astype(np.int64)
    high = np.minimum(low + 1, len(values) - 1)
    weight = (position - low).astype(values.dtype)[:, None]
    return values[low] * (1 - weight) + values[high] * weight


def equalize(features: Frames, *, curve_db: Float[np.ndarray, " cosines"]) -> Frames:
    """Louder or softer by a curve over the bands: cosines of 1, 2, … half periods with these amplitudes.

    >>> equalize(np.zeros((1, 3)), curve_db=np.array([10.0])).round(2).tolist()
    [[1.99, 0.0, -1.99]]
    """
    bands = features.shape[1]
    order = np.arange(1, len(curve_db) + 1)[:, None]
    cosines = np.cos(math.pi / bands * order * (np.arange(bands) + 0.5))
    return features + (curve_db @ cosines * NEPERS_PER_DB).astype(features.dtype)


def add_noise(
    features: Frames, *, noise_db: float, generator: np.random.Generator
) -> Float32[np.ndarray, "frames bands"]:
    """White noise whose mean power is `noise_db` below the loudest value.

    The power of white noise in a frequency of one frame has an exponential distribution.
    """
    level = float(features.max()) - noise_db * NEPERS_PER_DB
    noise = np.log(generator.standard_exponential(features.shape, dtype=np.float32) + 1e-10)
    return np.logaddexp(features.astype(np.float32, copy=False), noise + np.float32(level))


def change_gain(features: Frames, *, gain_db: float) -> Frames:
    """Louder by `gain_db`, or softer if it is negative.

    >>> change_gain(np.zeros((1, 1)), gain_db=10.0).round(4).tolist()
    [[2.3026]]
    """
    return features + features.dtype.type(gain_db * NEPERS_PER_DB)
