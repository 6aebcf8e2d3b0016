"""Log-mel and MFCC features: × real time, and against librosa; WAV files to features, and from the cache.

Clips are noise of a few lengths and rates; the time does not depend on what is said in them. Both systems
take the same arrays, and use the same window, hop, FFT and bands.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tests.factories.sounds import write_wav

from benchmarks.measurement import Call, Measurement, median_seconds
from regard.data import (
    AudioClip,
    FeatureCache,
    FeatureOptions,
    Part,
    cached_features,
    log_mel,
    mfcc,
)

# Sample rate, seconds, FFT size: a spoken digit, a sentence, a long sentence of LJ Speech.
CLIPS = ((8_000, 0.45, 256), (16_000, 5.0, 512), (22_050, 10.0, 1024))
NUM_BANDS, WINDOW_MS, HOP_MS, NUM_COEFFICIENTS = 80, 25.0, 10.0, 13
FLOOR = 1e-10
MIN_REAL_TIME, MIN_SPEED, TOLERANCE = 200.0, 0.95, 1e-4
REPEATS = 60


def audio() -> Iterator[Measurement]:
    """Seconds of sound per second, then the ratio of librosa's time to ours, and the largest difference."""
    for rate, seconds, _ in CLIPS:
        yield from _real_time(rate, seconds)
    import librosa

    for rate, seconds, fft_size in CLIPS:
        yield from _against_librosa(librosa, rate, seconds, fft_size)


def _noise(rate: int, seconds: float) -> np.ndarray:
    generator = np.random.default_rng(rate)
    return (0.1 * generator.standard_normal(round(rate * seconds))).astype(np.float32)


def _real_time(rate: int, seconds: float) -> Iterator[Measurement]:
    samples = _noise(rate, seconds)
    options = FeatureOptions(sample_rate=rate)
    with tempfile.TemporaryDirectory() as folder:
        path = write_wav(Path(folder) / "a.wav", samples, sample_rate=rate)
        clip = AudioClip(name="a.wav", parts=(Part(path),))
        cache = FeatureCache(folder=Path(folder) / "cache")
        calls: dict[str, Call] = {
            "log-mel": partial(options.extract, samples),
            "WAV file to log-mel": partial(cached_features, clip, options),
            "log-mel from the cache": partial(cached_features, clip, options, cache=cache),
        }
        times = median_seconds([*calls.values()], repeats=REPEATS)
    for name, time in zip(calls, times, strict=True):
        yield Measurement(
            f"{name}, {seconds:g} s at {rate:,} Hz, × real time",
            seconds / time,
            MIN_REAL_TIME,
            larger_is_better=True,
            detail=f"{time * 1e3:.2f} ms",
        )


def _against_librosa(
    librosa: Any, rate: int, seconds: float, fft_size: int
) -> Iterator[Measurement]:
    samples = _noise(rate, seconds)
    tensor = torch.from_numpy(samples)
    ours = {
        "log-mel": partial(log_mel, tensor, sample_rate=rate),
        "MFCC": partial(mfcc, tensor, sample_rate=rate),
    }

    def their_log_mel() -> np.ndarray:
        power = librosa.feature.melspectrogram(
            y=samples,
            sr=rate,
            n_fft=fft_size,
            win_length=round(rate * WINDOW_MS / 1000),
            hop_length=round(rate * HOP_MS / 1000),
            n_mels=NUM_BANDS,
            pad_mode="constant",
        )
        return np.log(np.maximum(power, FLOOR))

    def their_mfcc() -> np.ndarray:
        found: np.ndarray = librosa.feature.mfcc(S=their_log_mel(), n_mfcc=NUM_COEFFICIENTS)
        return found

    for (name, own), theirs in zip(ours.items(), (their_log_mel, their_mfcc), strict=True):
        difference = float(np.abs(own().numpy() - theirs().T).max())
        yield Measurement(
            f"{name}, difference from librosa, {rate:,} Hz, / {TOLERANCE:g}",
            difference / TOLERANCE,
            1.0,
            larger_is_better=False,
        )
        own_time, their_time = median_seconds([own, theirs], repeats=REPEATS)
        yield Measurement(
            f"{name}, {seconds:g} s at {rate:,} Hz, speed against librosa",
            their_time / own_time,
            MIN_SPEED,
            larger_is_better=True,
            detail=f"{own_time * 1e3:.2f} ms, librosa {their_time * 1e3:.2f} ms",
        )
