"""Log-mel and MFCC features: pencil examples, batches, precision, and parity with SciPy and librosa."""

from __future__ import annotations

import math
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.fft import dct
from tests.factories.sounds import sine

from regard.core.errors import RegardError
from regard.data.audio.features import (
    FLOOR,
    FeatureOptions,
    dct_matrix,
    default_fft_size,
    hz_to_mel,
    log_mel,
    mel_filters,
    mel_to_hz,
    mfcc,
    normalize_level,
    normalize_utterance,
)
from regard.data.audio.wav import read_wav

NOISE = torch.from_numpy(np.random.default_rng(0).standard_normal((3, 8000)) * 0.1)


def test_shape_is_one_frame_per_hop_and_one_more() -> None:
    assert log_mel(NOISE[0], sample_rate=16_000).shape == (51, 80)
    assert log_mel(NOISE, sample_rate=8000, num_bands=23, hop_ms=20.0).shape == (3, 51, 23)
    assert log_mel(NOISE[0, :1], sample_rate=16_000).shape == (1, 80)
    assert mfcc(NOISE[:, None], sample_rate=16_000).shape == (3, 1, 51, 13)


@pytest.mark.parametrize("hz", [300.0, 1000.0, 3400.0])
@pytest.mark.parametrize("sample_rate", [8000, 16_000, 22_050])
def test_a_tone_is_loudest_in_the_band_around_it(hz: float, sample_rate: int) -> None:
    tone = torch.from_numpy(sine(hz, sample_rate=sample_rate))
    edges = mel_to_hz(np.linspace(0, hz_to_mel(sample_rate / 2), 42))
    loudest = int(log_mel(tone, sample_rate=sample_rate, num_bands=40)[25].argmax())
    assert edges[loudest] < hz < edges[loudest + 2]


def test_ten_times_the_amplitude_adds_log_100() -> None:
    louder = log_mel(NOISE * 10, sample_rate=16_000) - log_mel(NOISE, sample_rate=16_000)
    torch.testing.assert_close(louder, torch.full_like(louder, math.log(100)))


def test_digital_silence_is_the_floor() -> None:
    found = log_mel(torch.zeros(400), sample_rate=16_000)
    torch.testing.assert_close(found, torch.full_like(found, math.log(FLOOR)))


def test_a_batch_equals_its_clips() -> None:
    batch = mfcc(NOISE, sample_rate=16_000)
    for clip, expected in zip(NOISE, batch, strict=True):
        torch.testing.assert_close(mfcc(clip, sample_rate=16_000), expected)


def test_single_precision_equals_double_precision() -> None:
    # Quiet bands beside a loud tone: where the FFT in single precision would be off by more than 1e-3.
    tone = 1.8 * torch.from_numpy(sine(100, seconds=1.0)) + 1e-5 * torch.randn(16_000).double()
    double = log_mel(tone.float().double(), sample_rate=16_000)
    single = log_mel(tone.float(), sample_rate=16_000)
    assert (double.dtype, single.dtype) == (torch.float64, torch.float32)
    torch.testing.assert_close(single.double(), double, atol=1e-5, rtol=0)


def test_a_filter_is_a_triangle_of_area_one() -> None:
    # Two bands below 1 kHz, where mels are linear: edges at 0, 300, 600 and 900 Hz, one bin every 100 Hz.
    filters = mel_filters(1800, 18, 2, 0.0, 900.0)
    expected = np.array([[0, 1, 2, 3, 2, 1, 0, 0, 0, 0], [0, 0, 0, 0, 1, 2, 3, 2, 1, 0]]) / 3
    np.testing.assert_allclose(filters, expected.T * 2 / 600, atol=1e-12)
    assert filters.sum(axis=0) * 100 == pytest.approx([1.0, 1.0])


def test_mfcc_is_the_dct_of_the_bands() -> None:
    bands = log_mel(NOISE, sample_rate=16_000, num_bands=40).numpy()
    found = mfcc(NOISE, sample_rate=16_000, num_bands=40, num_coefficients=20).numpy()
    np.testing.assert_allclose(found, dct(bands, type=2, norm="ortho")[..., :20], atol=1e-10)


def test_the_default_fft_leaves_no_band_empty() -> None:
    assert default_fft_size(16_000, 400, 80, 0.0, 8000.0) == 512
    assert default_fft_size(8000, 200, 160, 0.0, 4000.0) == 512  # 256 would leave bands empty
    with pytest.raises(RegardError, match=r"num_bands=160: .* with fft_size=256.*Lower num_bands"):
        log_mel(NOISE, sample_rate=8000, num_bands=160, fft_size=256)
    with pytest.raises(RegardError, match="num_bands=1000"):
        log_mel(NOISE, sample_rate=8000, num_bands=1000)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window_ms": 0.01}, r"window_ms=0\.01"),
        ({"hop_ms": 0.01}, r"hop_ms=0\.01"),
        ({"fft_size": 256}, "fft_size=256: the window of 25.0 ms has 400"),
        ({"max_hz": 9000.0}, r"max_hz=9000\.0"),
        ({"min_hz": 500.0, "max_hz": 400.0}, r"min_hz=500\.0, max_hz=400\.0"),
        ({"num_coefficients": 81}, "num_coefficients=81"),
    ],
)
def test_invalid_arguments(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RegardError, match=message):
        mfcc(NOISE, sample_rate=16_000, **options)


def test_no_samples() -> None:
    with pytest.raises(RegardError, match="samples: there are 0"):
        log_mel(NOISE[:, :0], sample_rate=16_000)


def test_options_extract_arrays() -> None:
    samples = NOISE[0].numpy()
    options = FeatureOptions(num_bands=40)
    found = options.extract(samples)
    assert found.dtype == np.float32
    assert found.shape == (51, options.num_features) == (51, 40)
    expected = log_mel(NOISE[0].float(), sample_rate=16_000, num_bands=40).numpy()
    np.testing.assert_array_equal(found, expected)
    cepstra = FeatureOptions(features="mfcc", num_coefficients=7)
    assert cepstra.extract(samples).shape == (51, cepstra.num_features)
    with pytest.raises(RegardError, match=r"features\.sample_rate=7"):
        FeatureOptions(sample_rate=7)


def test_an_utterance_is_normalised_by_band() -> None:
    features = np.random.default_rng(0).normal(3.0, 2.0, (50, 4)).astype(np.float32)
    features[:, 3] = -23.0
    found = normalize_utterance(features)
    np.testing.assert_allclose(found.mean(axis=0), 0.0, atol=1e-6)
    np.testing.assert_allclose(found[:, :3].std(axis=0), 1.0, atol=1e-5)
    assert not found[:, 3].any()
    assert not normalize_utterance(features[:1]).any()


def test_a_level_is_normalised_over_all_bands() -> None:
    features = np.random.default_rng(0).normal(3.0, 2.0, (50, 4)).astype(np.float32)
    features[:, 3] = -23.0
    found = normalize_level(features)
    assert found.mean() == pytest.approx(0.0, abs=1e-6)
    assert found.std() == pytest.approx(1.0, abs=1e-5)
    np.testing.assert_allclose(found * features.std() + features.mean(), features, atol=1e-4)
    assert not normalize_level(features[:, 3:]).any()


@pytest.mark.parametrize("features", ["log_mel", "mfcc"])
def test_quiet_bands_are_raised_to_the_level_below_the_loudest(features: Any) -> None:
    samples = NOISE.float().clone()
    samples[:, : samples.shape[1] // 2] *= 1e-4
    plain = log_mel(samples, sample_rate=16_000, num_bands=20)
    found = log_mel(samples, sample_rate=16_000, num_bands=20, top_db=30.0)
    for before, after in zip(plain, found, strict=True):
        least = before.max() - 3 * np.log(10)
        torch.testing.assert_close(after, before.clamp(min=float(least)))
        assert (after > before).any()
    options = FeatureOptions(features=features, num_bands=20, top_db=30.0)
    expected = found[0] if features == "log_mel" else found[0].double() @ dct_matrix(20, 13)
    np.testing.assert_allclose(options.extract(samples[0].numpy()), expected.numpy(), atol=1e-4)


def librosa_log_mel(librosa: Any, samples: np.ndarray, rate: int, fft_size: int) -> np.ndarray:
    power = librosa.feature.melspectrogram(
        y=samples,
        sr=rate,
        n_fft=fft_size,
        win_length=round(rate * 0.025),
        hop_length=round(rate * 0.01),
        n_mels=80,
        pad_mode="constant",
    )
    return np.log(np.maximum(power, FLOOR)).T


@pytest.mark.stress
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("rate", "fft_size"), [(8000, 256), (16_000, 512), (22_050, 1024)])
def test_equal_to_librosa(rate: int, fft_size: int, dtype: type) -> None:
    librosa = pytest.importorskip("librosa", reason="librosa is not installed")
    noise = np.random.default_rng(rate).standard_normal(2 * rate) * 0.1
    # Loud and quiet at once, as speech is.
    samples = noise * np.linspace(0, 1, 2 * rate) ** 4 + sine(220, seconds=2.0, sample_rate=rate)
    samples = samples.astype(dtype)
    assert_parity(librosa, samples, rate=rate, fft_size=fft_size)


def assert_parity(librosa: Any, samples: np.ndarray, *, rate: int, fft_size: int) -> None:
    bands = log_mel(torch.from_numpy(samples), sample_rate=rate).numpy()
    expected = librosa_log_mel(librosa, samples, rate, fft_size)
    np.testing.assert_allclose(bands, expected, atol=1e-4, rtol=0)
    cepstra = librosa.feature.mfcc(S=expected.T, n_mfcc=13).T
    found = mfcc(torch.from_numpy(samples), sample_rate=rate).numpy()
    np.testing.assert_allclose(found, cepstra, atol=1e-4, rtol=0)


@pytest.mark.stress
@pytest.mark.data
def test_equal_to_librosa_on_speech(data_folder: Path, tmp_path: Path) -> None:
    librosa = pytest.importorskip("librosa", reason="librosa is not installed")
    with tarfile.open(data_folder / "fsdd" / "recordings.tar.gz") as archive:
        members = archive.getmembers()[::100]
        archive.extractall(tmp_path, members=members, filter="data")
    for member in members:
        samples, rate = read_wav(tmp_path / member.name)
        assert_parity(librosa, samples, rate=rate, fft_size=256)
