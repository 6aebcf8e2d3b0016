"""The feature cache: keys, bounds, permissions, damage, and two processes at once."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.factories.sounds import sine, write_wav

from regard.core.errors import RegardError
from regard.data.audio.cache import (
    FeatureCache,
    cached_features,
    default_cache,
    feature_key,
)
from regard.data.audio.clips import AudioClip, Part
from regard.data.audio.features import FeatureOptions

OPTIONS = FeatureOptions(num_bands=20)


@pytest.fixture
def clip(tmp_path: Path) -> AudioClip:
    return AudioClip(name="a", parts=(Part(write_wav(tmp_path / "a.wav", sine(440))),))


@pytest.fixture
def cache(tmp_path: Path) -> FeatureCache:
    return FeatureCache(folder=tmp_path / "cache")


def array(value: float, *, frames: int = 10) -> np.ndarray:
    return np.full((frames, 20), value, dtype=np.float32)


def files(cache: FeatureCache) -> list[str]:
    return sorted(path.name for path in cache.folder.iterdir())


def size(cache: FeatureCache) -> int:
    return sum(path.stat().st_size for path in cache.folder.iterdir())


def test_features_are_computed_once(
    clip: AudioClip, cache: FeatureCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = cached_features(clip, OPTIONS, cache=cache)
    np.testing.assert_array_equal(first, cached_features(clip, OPTIONS))
    assert files(cache) == [f"{feature_key(clip, OPTIONS)}.npy"]
    monkeypatch.setattr(AudioClip, "samples", None)
    np.testing.assert_array_equal(first, cached_features(clip, OPTIONS, cache=cache))


def test_files_are_readable_without_pickle(clip: AudioClip, cache: FeatureCache) -> None:
    features = cached_features(clip, OPTIONS, cache=cache)
    stored = np.load(cache.folder / files(cache)[0], allow_pickle=False)
    np.testing.assert_array_equal(stored, features)


def test_every_setting_and_the_content_change_the_key(tmp_path: Path, clip: AudioClip) -> None:
    changes = {
        "features": "mfcc",
        "sample_rate": 8000,
        "num_bands": 21,
        "num_coefficients": 12,
        "window_ms": 24.0,
        "hop_ms": 9.0,
        "fft_size": 1024,
        "min_hz": 1.0,
        "max_hz": 7000.0,
        "trim_db": 30.0,
        "top_db": 40.0,
    }
    assert set(changes) == set(FeatureOptions.model_fields)
    keys = {feature_key(clip, OPTIONS.replace(**{name: changes[name]})) for name in changes}
    keys |= {feature_key(clip, OPTIONS), feature_key(clip, OPTIONS, speed=1.1)}
    write_wav(tmp_path / "a.wav", sine(441))
    keys.add(feature_key(clip, OPTIONS))
    assert len(keys) == len(changes) + 3


def test_the_folder_is_private(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "cache"
    FeatureCache(folder=folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o777)
    cache = FeatureCache(folder=folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    cache.put("a", array(1))
    assert stat.S_IMODE((folder / "a.npy").stat().st_mode) == 0o600


def test_links_files_and_folders_of_others_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(RegardError, match="link' cannot be used: it is a symbolic link"):
        FeatureCache(folder=tmp_path / "link")
    (tmp_path / "file").write_text("")
    with pytest.raises(RegardError, match=r"file' cannot be used: .*REGARD_CACHE"):
        FeatureCache(folder=tmp_path / "file")
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(RegardError, match="it belongs to another user"):
        FeatureCache(folder=tmp_path / "real")


def test_the_least_recently_used_files_are_removed(tmp_path: Path) -> None:
    one = FeatureCache(folder=tmp_path / "one")
    one.put("a", array(0))
    each = size(one)
    cache = FeatureCache(folder=tmp_path / "cache", max_bytes=5 * each)
    for number in range(5):
        cache.put(f"{number}", array(number))
        os.utime(cache.folder / f"{number}.npy", (number, number))
    assert cache.get("0") is not None  # now the most recently used
    cache.put("5", array(5))
    assert files(cache) == ["0.npy", "3.npy", "4.npy", "5.npy"]
    for number in range(100):
        cache.put(f"more {number}", array(number))
        assert size(cache) <= cache.max_bytes
    cache.put("too large", array(0, frames=1000))
    assert "too large.npy" not in files(cache)
    cache.clear()
    assert files(cache) == []


def test_what_others_write_counts(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    first = FeatureCache(folder=folder, max_bytes=100_000)
    second = FeatureCache(folder=folder, max_bytes=100_000)
    for number in range(200):
        first.put(f"first {number}", array(number))
        second.put(f"second {number}", array(number))
        assert size(first) <= 1.25 * first.max_bytes


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda content: content[:-40],
    "empty": lambda content: content[:0],
    "one bit": lambda content: content[:200] + bytes([content[200] ^ 1]) + content[201:],
    "rubbish": lambda content: b"rubbish" * len(content),
    "longer": lambda content: content + b"x",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_computed_again(
    clip: AudioClip, cache: FeatureCache, damage: str
) -> None:
    features = cached_features(clip, OPTIONS, cache=cache)
    path = cache.folder / files(cache)[0]
    content = path.read_bytes()
    path.write_bytes(DAMAGE[damage](content))
    assert cache.get(path.stem) is None
    np.testing.assert_array_equal(cached_features(clip, OPTIONS, cache=cache), features)
    assert path.read_bytes() == content


def test_another_kind_of_array_is_no_hit(cache: FeatureCache, clip: AudioClip) -> None:
    key = feature_key(clip, OPTIONS)
    cache.put(key, np.zeros((3, 7), dtype=np.float32))
    assert cached_features(clip, OPTIONS, cache=cache).shape[1] == 20
    (cache.folder / "folder.npy").mkdir()
    assert cache.get("folder") is None


def test_a_full_or_missing_disk_is_no_error(
    cache: FeatureCache, clip: AudioClip, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    assert len(cached_features(clip, OPTIONS, cache=cache)) == 51
    assert files(cache) == []  # no temporary file stays
    cache.folder.rmdir()
    assert len(cached_features(clip, OPTIONS, cache=cache)) == 51


def test_files_of_killed_writers_are_removed(cache: FeatureCache) -> None:
    old, new = cache.folder / ".regard.old", cache.folder / ".regard.new"
    for path in (old, new):
        path.write_text("half")
    os.utime(old, (0, 0))
    cache.put("a", array(1))
    assert files(cache) == [".regard.new", "a.npy"]


def test_the_default_folder_and_the_switch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    monkeypatch.delenv("REGARD_FEATURE_CACHE", raising=False)
    cache = default_cache()
    assert cache is not None
    assert cache.folder == tmp_path / "regard" / "features"
    monkeypatch.setenv("REGARD_FEATURE_CACHE", "off")
    assert default_cache() is None
    monkeypatch.delenv("REGARD_FEATURE_CACHE")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "file"))
    assert default_cache() is None  # features are then computed each time


def test_invalid_size(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="max_bytes=0"):
        FeatureCache(folder=tmp_path, max_bytes=0)


WRITER = """
import sys
from pathlib import Path
import numpy as np
from regard.data.audio.cache import FeatureCache

cache = FeatureCache(folder=Path(sys.argv[1]), max_bytes=30_000)
for number in [*range(60)] * 5:
    key = f"{number:032x}"
    expected = np.full((10, 20), number, dtype=np.float32)
    found = cache.get(key)
    assert found is None or (found == expected).all(), number
    cache.put(key, expected)
"""


def test_two_processes(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path / "cache")]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(2)]
    errors = [process.communicate(timeout=60)[1].decode() for process in running]
    assert [process.returncode for process in running] == [0, 0], errors
    found = [path for path in (tmp_path / "cache").iterdir() if path.suffix != ".npy"]
    assert found == []
    assert sum(path.stat().st_size for path in (tmp_path / "cache").iterdir()) <= 1.25 * 30_000
