"""The picture of a recording: its frames as a small spectrogram, its words, and audio that a page can play.

Log-mel frames are drawn from 50 dB below the loudest cell. Of other features, such as MFCC, each is drawn
from -2.5 to 2.5 deviations. Bands and frames beyond a maximum are averaged.
"""

from __future__ import annotations

import base64
import io
import math
import wave
from dataclasses import replace

import numpy as np
from jaxtyping import Float, Float32, UInt8

from regard.core.records.sound import SoundRecord, WordRecord
from regard.data.audio.clips import AudioClip
from regard.data.audio.features import FeatureOptions, normalize_utterance
from regard.data.audio.samples import resample

MAX_BANDS, MAX_COLUMNS = 80, 300
RANGE_DB, RANGE_DEVIATIONS = 50.0, 2.5
AUDIO_RATE, AUDIO_SECONDS, AUDIO_PEAK = 8_000, 6.0, 0.9
MAX_WIDE_SAMPLES = 36_000  # longer audio has 8 bits, not 16: all is below 100 kB in base64


def sound_record(
    frames: Float32[np.ndarray, "frames features"],
    options: FeatureOptions,
    *,
    name: str,
    clip: AudioClip | None = None,
) -> SoundRecord:
    """The record of frames that the options describe; without a clip they are any features."""
    is_log_mel = clip is not None and options.features == "log_mel"
    cells = spectrogram(frames, is_log_mel=is_log_mel)
    picture = SoundRecord(
        name=name,
        spectrogram=base64.b64encode(cells.tobytes()).decode("ascii"),
        num_bands=len(cells),
        bands="features",
        low="1",
        high=str(frames.shape[1]),
        frames=len(frames),
        note="The data has features only, so there is no recording to play.",
    )
    if clip is None:
        return picture
    seconds = len(frames) * options.hop_seconds
    rate, trim_db = options.sample_rate, options.trim_db
    samples = clip.samples(sample_rate=rate, trim_db=trim_db)
    words = clip.word_intervals(sample_rate=rate, trim_db=trim_db) if clip.words[1:] else []
    top = rate / 2 if options.max_hz is None else options.max_hz
    is_cut = len(samples) > AUDIO_SECONDS * rate
    return replace(
        picture,
        bands="log-mel bands" if is_log_mel else "MFCC",
        low=_hz(options.min_hz) if is_log_mel else picture.low,
        high=_hz(top) if is_log_mel else picture.high,
        seconds=seconds,
        words=tuple(
            WordRecord(word=each.word, start=each.start, end=min(each.end, seconds))
            for each in words
            if each.start < seconds
        ),
        audio=playable(samples, sample_rate=rate),
        note=f"The first {AUDIO_SECONDS:g} seconds can be played." if is_cut else "",
    )


def _hz(number: float) -> str:
    return f"{number / 1000:g} kHz" if number >= 1000 else f"{number:g} Hz"


def spectrogram(
    frames: Float32[np.ndarray, "frames features"], *, is_log_mel: bool
) -> UInt8[np.ndarray, "bands columns"]:
    """The cells of the picture, the lowest band first."""
    if is_log_mel:
        span = RANGE_DB / 10 * math.log(10)  # natural logarithms of power
        low = frames.max() - span
    else:
        frames = normalize_utterance(frames)
        low, span = -RANGE_DEVIATIONS, 2 * RANGE_DEVIATIONS
    small = averaged(averaged(frames, MAX_COLUMNS).T, MAX_BANDS)
    return (255 * ((small - low) / span).clip(0.0, 1.0)).round().astype(np.uint8)


def averaged(
    values: Float[np.ndarray, "rows columns"], maximum: int
) -> Float[np.ndarray, "fewer columns"]:
    """At most `maximum` rows: means of neighbours.

    >>> averaged(np.array([[0.0], [2.0], [4.0]]), 2).tolist()
    [[0.0], [3.0]]
    """
    if len(values) <= maximum:
        return values
    starts = np.arange(maximum) * len(values) // maximum
    counts = np.diff(starts, append=len(values))
    return np.add.reduceat(values, starts, axis=0) / counts[:, None]


def playable(samples: Float32[np.ndarray, " samples"], *, sample_rate: int) -> bytes:
    """A small WAV file of the first seconds, at most 8 kHz, as loud as it can be."""
    rate = min(AUDIO_RATE, sample_rate)
    kept = samples[: round(AUDIO_SECONDS * sample_rate)]
    sound = resample(kept, rate=sample_rate, new_rate=rate)
    peak = max(float(np.abs(sound).max(initial=0.0)), 1e-6)
    sound = AUDIO_PEAK * sound / peak
    is_wide = len(sound) <= MAX_WIDE_SAMPLES
    encoded = (
        (32767 * sound).astype("<i2") if is_wide else (127 * sound + 128).round().astype(np.uint8)
    )
    file = io.BytesIO()
    with wave.open(file, "wb") as target:
        target.setnchannels(1)
        target.setsampwidth(encoded.itemsize)
        target.setframerate(rate)
        target.writeframes(encoded.tobytes())
    return file.getvalue()
