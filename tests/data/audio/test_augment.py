"""Augmentation: pencil examples, determinism, and what stays as it is."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from regard.core.errors import RegardError
from regard.data.audio.augment import (
    AugmentOptions,
    add_noise,
    augment,
    change_gain,
    equalize,
    mask_frequency,
    mask_time,
    stretch_time,
    warp_frequency,
)

FEATURES = np.random.default_rng(1).normal(-5.0, 3.0, (60, 20)).astype(np.float32)
ALL = AugmentOptions(
    time_masks=2,
    freq_masks=2,
    freq_warp=0.1,
    time_stretch=0.1,
    equalize_db=6.0,
    noise_db=(20.0, 40.0),
    gain_db=6.0,
)


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_all_is_off_by_default() -> None:
    options = AugmentOptions()
    assert options.is_off
    assert augment(FEATURES, options, generator=generator()) is FEATURES
    assert not ALL.is_off


@pytest.mark.parametrize(
    "name", ["time_masks", "freq_masks", "freq_warp", "time_stretch", "equalize_db", "gain_db"]
)
def test_each_kind_alone(name: str) -> None:
    options = AugmentOptions(**{name: getattr(ALL, name)})
    assert not options.is_off
    found = augment(FEATURES, options, generator=generator())
    assert found.shape != FEATURES.shape or (found != FEATURES).any()


def test_the_same_generator_gives_the_same_frames() -> None:
    before = FEATURES.copy()
    first = augment(FEATURES, ALL, generator=generator(7))
    np.testing.assert_array_equal(first, augment(FEATURES, ALL, generator=generator(7)))
    other = augment(FEATURES, ALL, generator=generator(8))
    assert other.shape != first.shape or (other != first).any()
    np.testing.assert_array_equal(FEATURES, before)
    assert first.dtype == np.float32
    assert np.isfinite(first).all()


def test_time_masks_are_blocks_of_whole_frames() -> None:
    widths = set()
    for seed in range(200):
        found = mask_time(FEATURES, num_masks=1, max_width=4, generator=generator(seed))
        changed = (found != FEATURES).any(axis=1)
        rows = np.flatnonzero(changed)
        widths.add(len(rows))
        if len(rows):
            assert rows[-1] - rows[0] == len(rows) - 1
            np.testing.assert_allclose(found[rows], FEATURES.mean(), rtol=1e-6)
    assert widths == {0, 1, 2, 3, 4}


def test_frequency_masks_are_blocks_of_whole_bands() -> None:
    found = mask_frequency(FEATURES, num_masks=3, max_width=5, generator=generator())
    changed = (found != FEATURES).any(axis=0)
    assert 1 <= changed.sum() <= 15
    assert (found != FEATURES)[:, changed].all()


def test_a_mask_reaches_both_ends_and_may_be_wider_than_the_clip() -> None:
    ends = set()
    for seed in range(300):
        found = mask_time(FEATURES[:5], num_masks=1, max_width=99, generator=generator(seed))
        ends |= set(np.flatnonzero((found != FEATURES[:5]).any(axis=1)))
    assert ends == {0, 1, 2, 3, 4}
    with pytest.raises(RegardError, match="max_width=-1"):
        mask_time(FEATURES, num_masks=1, max_width=-1, generator=generator())


def test_a_fraction_limits_time_masks_of_short_clips() -> None:
    options = AugmentOptions(time_masks=1, time_width=100, time_fraction=0.1)
    for seed in range(50):
        found = augment(FEATURES, options, generator=generator(seed))
        assert (found != FEATURES).any(axis=1).sum() <= 6


def test_frequency_warp() -> None:
    ramp = np.arange(5.0)[None] * 10
    assert warp_frequency(ramp, factor=0.5).tolist() == [[0, 5, 10, 15, 20]]
    assert warp_frequency(ramp, factor=2.0).tolist() == [[0, 20, 40, 40, 40]]
    np.testing.assert_array_equal(warp_frequency(FEATURES, factor=1.0), FEATURES)
    with pytest.raises(RegardError, match=r"factor=0\.0"):
        warp_frequency(ramp, factor=0.0)


def test_time_stretch() -> None:
    ramp = np.arange(4.0)[:, None]
    assert stretch_time(ramp, rate=4 / 7).T.tolist() == [[0, 0.5, 1, 1.5, 2, 2.5, 3]]
    assert stretch_time(ramp, rate=2.0).T.tolist() == [[0, 3]]
    assert stretch_time(ramp[:1], rate=3.0).tolist() == [[0]]
    assert stretch_time(FEATURES, rate=0.9).dtype == np.float32
    with pytest.raises(RegardError, match=r"rate=0\.0"):
        stretch_time(ramp, rate=0.0)


def test_noise_raises_quiet_values_to_its_level() -> None:
    features = np.full((400, 50), -23.0, dtype=np.float32)
    features[0, 0] = 5.0
    found = add_noise(features, noise_db=30.0, generator=generator())
    expected = 5.0 - 3 * math.log(10)
    assert np.log(np.exp(found[1:]).mean()) == pytest.approx(expected, abs=0.05)
    assert found[0, 0] == pytest.approx(5.0, abs=0.02)
    assert (found >= features).all()


def test_gain() -> None:
    found = change_gain(FEATURES, gain_db=20.0)
    np.testing.assert_allclose(found - FEATURES, math.log(100), rtol=1e-5)
    assert found.dtype == np.float32


def test_equalisation_is_a_sum_of_cosines_over_the_bands() -> None:
    found = equalize(np.ones((2, 4)), curve_db=np.array([0.0, 10.0]))
    half = math.log(10) * math.sqrt(0.5)
    np.testing.assert_allclose(found, [[1 + half, 1 - half, 1 - half, 1 + half]] * 2)
    tilted = equalize(FEATURES, curve_db=np.array([6.0, 3.0, 2.0])) - FEATURES
    np.testing.assert_allclose(tilted, tilted[:1].repeat(60, 0), atol=1e-5)
    assert tilted[0, 0] == pytest.approx(11 * math.log(10) / 10, abs=0.1)
    assert tilted.dtype == np.float32


def test_equalisation_stays_within_its_limits() -> None:
    silence = np.zeros((1, 50), dtype=np.float32)
    options = AugmentOptions(equalize_db=10.0)
    for seed in range(50):
        found = augment(silence, options, generator=generator(seed))
        assert np.abs(found).max() <= (1 + 1 / 2 + 1 / 3) * math.log(10)
        assert abs(found.mean()) < 1e-5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time_masks": -1}, r"augment\.time_masks=-1"),
        ({"freq_warp": 1.0}, r"augment\.freq_warp=1\.0"),
        ({"noise_db": (40.0, 20.0)}, r"augment\.noise_db=\(40\.0, 20\.0\): .*smaller one first"),
        ({"mask": 1}, r"Unknown option 'augment\.mask'"),
    ],
)
def test_invalid_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RegardError, match=message):
        AugmentOptions(**options)


def test_options_of_a_recipe() -> None:
    values: dict[str, Any] = {"noise_db": [20, 40.0]}
    assert AugmentOptions(**values).noise_db == (20.0, 40.0)
    values["noise_db"] = "none"
    assert AugmentOptions(**values).noise_db is None
