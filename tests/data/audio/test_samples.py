"""Resampling, speed, trimming of silence, and the level of the background."""

from __future__ import annotations

import numpy as np
import pytest
from tests.factories.sounds import sine

from regard.core.errors import RegardError
from regard.data.audio.samples import background_level, resample, trim_silence


def peak_hz(samples: np.ndarray, *, sample_rate: int) -> float:
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
    return float(np.fft.rfftfreq(len(samples), 1 / sample_rate)[spectrum.argmax()])


@pytest.mark.parametrize(
    ("rate", "new_rate"), [(8000, 16_000), (44_100, 16_000), (22_050, 8000), (16_001, 16_000)]
)
def test_a_tone_keeps_its_frequency_and_duration(rate: int, new_rate: int) -> None:
    tone = sine(440, seconds=1.0, sample_rate=rate).astype(np.float32)
    found = resample(tone, rate=rate, new_rate=new_rate)
    assert found.dtype == np.float32
    assert abs(len(found) - new_rate) <= 1
    assert peak_hz(found, sample_rate=new_rate) == pytest.approx(440, abs=1)
    middle = found[new_rate // 4 : -new_rate // 4]
    assert np.abs(middle).max() == pytest.approx(0.5, rel=0.01)


def test_frequencies_above_half_of_the_new_rate_are_removed() -> None:
    found = resample(sine(7000, sample_rate=16_000), rate=16_000, new_rate=8000)
    assert np.abs(found[500:-500]).max() < 0.01


def test_speed_is_shorter_and_higher() -> None:
    tone = sine(440, seconds=1.0)
    found = resample(tone, rate=16_000, new_rate=16_000, speed=1.1)
    assert len(found) == -(-16_000 * 10 // 11)
    assert peak_hz(found, sample_rate=16_000) == pytest.approx(484, abs=1)
    slow = resample(tone, rate=16_000, new_rate=16_000, speed=0.9)
    assert peak_hz(slow, sample_rate=16_000) == pytest.approx(396, abs=1)


def test_same_rate_is_the_same_array() -> None:
    tone = sine(440).astype(np.float32)
    assert resample(tone, rate=16_000, new_rate=16_000) is tone


def test_a_ratio_without_a_common_divisor_needs_little_memory() -> None:
    tone = sine(440, seconds=0.1, sample_rate=383_987)
    found = resample(tone, rate=383_987, new_rate=16_000, speed=1.03)
    assert abs(len(found) - 1600 / 1.03) <= 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"speed": 0.0}, r"speed=0\.0"),
        ({"speed": float("nan")}, "speed=nan"),
        ({"new_rate": 16}, "new_rate=16"),
        ({"rate": 10**9}, "rate=1000000000"),
    ],
)
def test_invalid_rates(options: dict, message: str) -> None:
    with pytest.raises(RegardError, match=message):
        resample(sine(440), **{"rate": 16_000, "new_rate": 8000, **options})


def test_silence_at_both_ends_is_trimmed() -> None:
    quiet = 1e-4 * np.random.default_rng(0).standard_normal(8000)
    samples = np.concatenate([quiet, sine(440, seconds=0.5), quiet])
    kept = trim_silence(samples, sample_rate=16_000, trim_db=40.0)
    # The tone, and at most half a window (200 samples) on either side.
    assert 8000 <= len(kept) <= 8400
    start = np.flatnonzero(samples == kept[0])[0]
    assert 7800 <= start <= 8000
    assert len(trim_silence(samples, sample_rate=16_000, trim_db=100.0)) == len(samples)


def test_a_pause_inside_stays() -> None:
    tone = sine(440, seconds=0.1)
    samples = np.concatenate([tone, np.zeros(8000), tone])
    assert len(trim_silence(samples, sample_rate=16_000, trim_db=30.0)) > 11_000


def test_digital_silence_and_single_samples_stay() -> None:
    silence = np.zeros(100)
    assert trim_silence(silence, sample_rate=16_000, trim_db=30.0) is silence
    assert trim_silence(np.ones(1), sample_rate=16_000, trim_db=30.0).tolist() == [1.0]
    with pytest.raises(RegardError, match=r"trim_db=0\.0"):
        trim_silence(np.ones(4), sample_rate=16_000, trim_db=0.0)


def test_background_is_the_quietest_tenth() -> None:
    loud, quiet = np.full(9 * 160, 0.5), np.full(160, 5e-4)
    samples = np.concatenate([loud, quiet]).astype(np.float32)
    assert background_level(samples, sample_rate=16_000) == pytest.approx(5e-4)
    assert background_level(samples[:1440], sample_rate=16_000) == pytest.approx(1e-3)
    silence = np.zeros(3, dtype=np.float32)
    assert background_level(silence, sample_rate=16_000) == pytest.approx(1e-5)
