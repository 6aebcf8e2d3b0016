"""Features cached on disk, under a hash of the sound and of every setting that they depend on.

    cache = default_cache()                                   None if REGARD_FEATURE_CACHE=off
    frames = cached_features(clip, options, cache=cache)

The folder is the user's own (mode 0700) and bounded: the least recently used files are removed. A file is
replaced atomically, and ends in a hash of its content; a damaged one is computed again. So processes may
share the folder, and it may be deleted at any time.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import stat
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float32

from regard.core.atomic_write import TEMPORARY_PREFIX, user_cache_folder
from regard.core.errors import RegardError
from regard.data.audio.clips import AudioClip

if TYPE_CHECKING:
    from regard.data.audio.features import FeatureOptions

FORMAT = 1  # to be raised when the computation of features changes
VARIABLE = "REGARD_FEATURE_CACHE"
OFF = ("off", "0", "no", "false", "none")
MAX_BYTES = 1 << 30
# Processes share the folder, so what others wrote is counted after every so many bytes of one's own.
RECOUNT_FRACTION = 1 / 8
KEPT_FRACTION = 0.9  # by one removal, so that not every file that is written needs another
DIGEST_BYTES = 16
ABANDONED_SECONDS = 3600.0  # a temporary file of a killed writer
OWN_FOLDER = 0o700


class _File(NamedTuple):
    last_used: int
    size: int
    path: str


class FeatureCache:
    """A folder of feature arrays by key.

    Args:
        folder: Default: `regard/features` in the user's cache folder.
        max_bytes: Above it, the least recently used files are removed.
    """

    def __init__(self, *, folder: Path | None = None, max_bytes: int = MAX_BYTES) -> None:
        if max_bytes < 1:
            raise RegardError(f"max_bytes={max_bytes}: use 1 or more, or no cache (None).")
        self.folder = user_cache_folder() / "features" if folder is None else folder
        self.max_bytes = max_bytes
        self._total: int | None = None  # of the folder, when it was last counted, and written since
        self._written = 0
        try:
            self._make_folder()
        except OSError as error:
            raise self._folder_error(error.strerror or str(error)) from error

    def _make_folder(self) -> None:
        self.folder.mkdir(mode=OWN_FOLDER, parents=True, exist_ok=True)
        found = self.folder.lstat()
        if stat.S_ISLNK(found.st_mode):
            raise self._folder_error("it is a symbolic link")
        if hasattr(os, "getuid") and found.st_uid != os.getuid():
            raise self._folder_error(f"it belongs to another user, number {found.st_uid}")
        if stat.S_IMODE(found.st_mode) != OWN_FOLDER:
            self.folder.chmod(OWN_FOLDER)

    def _folder_error(self, why: str) -> RegardError:
        return RegardError(
            f"The feature cache '{self.folder}' cannot be used: {why}. Set REGARD_CACHE to a folder of "
            f"your own, or {VARIABLE}=off."
        )

    def get(self, key: str) -> Float32[np.ndarray, "frames features"] | None:
        """The stored array; None if there is none, or a damaged one."""
        path = self._path(key)
        try:
            content = path.read_bytes()
            found = _decode(content)
            if found is not None:
                os.utime(path)  # it was used now; the time of access is often not kept
        except OSError:
            return None
        return found

    def put(self, key: str, features: Float32[np.ndarray, "frames features"]) -> None:
        """Store an array; if the disk is full or read-only, nothing is stored."""
        content = _encode(features)
        if len(content) > self.max_bytes:
            return
        try:
            self._write(self._path(key), content)
            self._limit(len(content))
        except OSError:
            return

    def clear(self) -> None:
        """Remove every file."""
        for file in self._files():
            Path(file.path).unlink(missing_ok=True)
        self._total, self._written = None, 0

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.npy"

    def _write(self, path: Path, content: bytes) -> None:
        # Not flushed to disk, unlike `core.atomic_write`: what a power cut damages is computed again.
        descriptor, temporary = tempfile.mkstemp(dir=self.folder, prefix=TEMPORARY_PREFIX)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    def _limit(self, num_bytes: int) -> None:
        """Count what was written, and remove the least recently used files if there is too much."""
        self._written += num_bytes
        is_recent = self._written < RECOUNT_FRACTION * self.max_bytes
        if self._total is not None and is_recent and self._total + self._written <= self.max_bytes:
            return
        files = sorted(self._files())
        total = sum(file.size for file in files)
        if total > self.max_bytes:
            for file in files:
                if total <= KEPT_FRACTION * self.max_bytes:
                    break
                Path(file.path).unlink(missing_ok=True)
                total -= file.size
        self._total, self._written = total, 0

    def _files(self) -> list[_File]:
        """The files of the cache; those of killed writers are removed."""
        found = []
        with os.scandir(self.folder) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):  # removed by another process
                    state = entry.stat(follow_symlinks=False)
                    if entry.name.endswith(".npy"):
                        found.append(_File(state.st_mtime_ns, state.st_size, entry.path))
                    elif (
                        entry.name.startswith(TEMPORARY_PREFIX)
                        and time.time() - state.st_mtime > ABANDONED_SECONDS
                    ):
                        Path(entry.path).unlink()
        return found


def default_cache() -> FeatureCache | None:
    """The user's cache of features; None if it is switched off, or no folder can be made."""
    if os.environ.get(VARIABLE, "").lower() in OFF:
        return None
    folder = user_cache_folder() / "features"
    try:
        folder.mkdir(mode=OWN_FOLDER, parents=True, exist_ok=True)
    except OSError:  # a read-only home: features are computed each time
        return None
    return FeatureCache(folder=folder)


def cached_features(
    clip: AudioClip,
    options: FeatureOptions,
    *,
    speed: float = 1.0,
    cache: FeatureCache | None = None,
) -> Float32[np.ndarray, "frames features"]:
    """The features of a clip, from the cache if they are there; with no cache, and of uploads, computed."""

    def compute() -> np.ndarray:
        rate, trim_db = options.sample_rate, options.trim_db
        return options.extract(clip.samples(sample_rate=rate, trim_db=trim_db, speed=speed))

    if cache is None or not clip.is_on_disk:
        return compute()
    key = feature_key(clip, options, speed=speed)
    found = cache.get(key)
    if found is None or found.shape[1] != options.num_features:
        found = compute()
        cache.put(key, found)
    return found


def feature_key(clip: AudioClip, options: FeatureOptions, *, speed: float = 1.0) -> str:
    """A hash of everything that the features depend on."""
    settings = json.dumps([FORMAT, options.as_dict(), speed], sort_keys=True)
    content = f"{clip.content_hash()} {settings}"
    return hashlib.blake2b(content.encode("ascii"), digest_size=DIGEST_BYTES).hexdigest()


def _encode(features: np.ndarray) -> bytes:
    """A .npy file, and a hash of it at its end, which `numpy.load` does not read."""
    file = io.BytesIO()
    np.lib.format.write_array(file, np.ascontiguousarray(features), allow_pickle=False)
    content = file.getvalue()
    return content + _digest(content)


def _decode(content: bytes) -> np.ndarray | None:
    content, digest = content[:-DIGEST_BYTES], content[-DIGEST_BYTES:]
    if _digest(content) != digest:
        return None
    try:
        found = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
    except (ValueError, EOFError):
        return None
    return found if found.ndim == 2 and found.dtype == np.float32 else None


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=DIGEST_BYTES).digest()
