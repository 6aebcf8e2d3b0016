"""Operations on mono samples: resampling, trimming of silence, and the level of the background."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from jaxtyping import Float, Float32

from regard.core.errors import RegardError
from regard.data.audio.wav import MAX_RATE, MIN_RATE

# Resampling needs a filter of 20 coefficients per unit of the ratio's larger term. Ratios of common rates
# have terms below 1,000; the error of any other ratio is at most one part in 10⁴.
MAX_RATIO_TERM = 10_000
MAX_SPEED_TERM = 100
QUIET_FRACTION = 0.1  # of the frames of a recording: its background
QUIET_FRAME_SECONDS = 0.01
MIN_NOISE, MAX_NOISE = 1e-5, 1e-3  # root mean square: -100 to -60 dB of full scale


def resample(
    samples: Float[np.ndarray, " samples"], *, rate: int, new_rate: int, speed: float = 1.0
) -> Float32[np.ndarray, " resampled"]:
    """Samples at another rate, by a polyphase filter; a `speed` above 1 is shorter and higher in pitch.

    >>> len(resample(np.zeros(441, dtype=np.float32), rate=44_100, new_rate=16_000))
    160
    """
    if not (0.1 <= speed <= 10.0):
        raise RegardError(f"speed={speed}: use a factor from 0.1 to 10, such as 0.9 or 1.1.")
    for name, value in (("rate", rate), ("new_rate", new_rate)):
        if not MIN_RATE <= value <= MAX_RATE:
            raise RegardError(
                f"{name}={value}: a sample rate lies between {MIN_RATE:,} and {MAX_RATE:,} Hz. Use for "
                "example 16000."
            )
    ratio = Fraction(new_rate, rate) / Fraction(speed).limit_denominator(MAX_SPEED_TERM)
    ratio = ratio.limit_denominator(MAX_RATIO_TERM)
    if ratio == 1:
        return samples.astype(np.float32, copy=False)
    from scipy.signal import resample_poly

    found: np.ndarray = resample_poly(samples, ratio.numerator, ratio.denominator)
    return found.astype(np.float32, copy=False)


def trim_silence(
    samples: Float[np.ndarray, " samples"],
    *,
    sample_rate: int,
    trim_db: float,
    window_ms: float = 25.0,
) -> Float[np.ndarray, " kept"]:
    """The samples without silence at both ends: from the first to the last whose energy, averaged over a
    window, is at most `trim_db` below the peak. Digital silence stays as it is.
    """
    if not trim_db > 0:
        raise RegardError(f"trim_db={trim_db}: use a distance from the peak above 0, such as 30.")
    window = max(1, round(sample_rate * window_ms / 1000))
    before = window // 2
    # With a cumulative sum, the mean over any window is one subtraction.
    total = np.concatenate([[0.0], np.cumsum(np.square(samples, dtype=np.float64))])
    position = np.arange(len(samples))
    first = np.maximum(position - before, 0)
    last = np.minimum(position - before + window, len(samples))
    energy = total[last] - total[first]
    peak = energy.max(initial=0.0)
    if peak <= 0:
        return samples
    (loud,) = np.nonzero(energy >= peak * 10 ** (-trim_db / 10))
    return samples[loud[0] : loud[-1] + 1]


def background_level(samples: Float32[np.ndarray, " samples"], *, sample_rate: int) -> np.float32:
    """The root mean square of the quietest tenth of the frames of 10 ms, limited to -100 to -60 dB."""
    length = max(1, min(len(samples), round(QUIET_FRAME_SECONDS * sample_rate)))
    frames = samples[: len(samples) // length * length].reshape(-1, length)
    energy = np.sort(np.square(frames, dtype=np.float64).mean(axis=1))
    quiet = energy[: max(1, round(QUIET_FRACTION * len(energy)))].mean()
    return np.float32(np.clip(np.sqrt(quiet), MIN_NOISE, MAX_NOISE))
