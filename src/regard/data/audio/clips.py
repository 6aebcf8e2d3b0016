"""Clips: recordings by name, with their speaker, read when they are needed; and clips joined to strings.

    three.wav                            AudioClip(name="three.wav", parts=(Part(…),), words=("three",))
    three.wav  0.2 s  one.wav            two parts: "three one", with the borders of both words

A clip holds paths, so that a dataset of any size fits in memory, and a hash of its content identifies it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32

from regard.core.errors import RegardError
from regard.data.audio.samples import background_level, resample, trim_silence
from regard.data.audio.wav import MAX_SECONDS, AudioFileError, read_wav, validate_wav
from regard.data.media_files import (
    MAX_CHECKED_FILES,
    MediaBytes,
    MediaPath,
    file_stamp,
    opened,
)

HASH_BYTES = 16
MAX_PAUSE_SECONDS = 60.0


@dataclass(frozen=True)
class Part:
    """A recording, and the seconds of silence before it."""

    path: MediaPath
    pause: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.pause <= MAX_PAUSE_SECONDS:
            raise RegardError(
                f"pause={self.pause}: a pause lasts 0 to {MAX_PAUSE_SECONDS:g} seconds. Use such a value."
            )


class WordInterval(NamedTuple):
    """A word, and when it begins and ends in its clip, in seconds."""

    word: str
    start: float
    end: float


class _Piece(NamedTuple):
    """A pause, and the samples after it."""

    pause: Float32[np.ndarray, " pause"]
    samples: Float32[np.ndarray, " samples"]


@dataclass(frozen=True)
class AudioClip:
    """One recording, or several joined.

    Args:
        name: What people are shown: a path relative to its folder, or a made name.
        parts: The recordings, each with the pause before it.
        speaker: Who speaks; empty if not known.
        words: The word that each part says; empty if not known.
        max_seconds: Longer recordings are refused.
    """

    name: str
    parts: tuple[Part, ...]
    speaker: str = ""
    words: tuple[str, ...] = ()
    max_seconds: float = MAX_SECONDS

    def __post_init__(self) -> None:
        if not self.parts:
            raise RegardError(f"The clip '{self.name}' has no parts. Give at least one recording.")
        if self.words and len(self.words) != len(self.parts):
            raise RegardError(
                f"The clip '{self.name}' has {len(self.words)} words and {len(self.parts)} parts. Give one "
                "word per part, or none."
            )

    @property
    def is_on_disk(self) -> bool:
        """Whether all parts are files, rather than uploads."""
        return not any(isinstance(part.path, MediaBytes) for part in self.parts)

    @property
    def transcript(self) -> str:
        """The words, with a space between them."""
        return " ".join(self.words)

    def samples(
        self, *, sample_rate: int, trim_db: float | None = None, speed: float = 1.0
    ) -> Float32[np.ndarray, " samples"]:
        """The samples of all parts, each trimmed, and the pauses between them.

        A `speed` of 1.1 is resampled to be shorter and higher, pauses included.
        """
        pieces = self._pieces(sample_rate=sample_rate, trim_db=trim_db, speed=speed)
        return np.concatenate([each for piece in pieces for each in piece])

    def word_intervals(
        self, *, sample_rate: int, trim_db: float | None = None, speed: float = 1.0
    ) -> list[WordInterval]:
        """When each word begins and ends in `samples` of the same arguments; empty without words."""
        found: list[WordInterval] = []
        if not self.words:
            return found
        end = 0
        pieces = self._pieces(sample_rate=sample_rate, trim_db=trim_db, speed=speed)
        for word, piece in zip(self.words, pieces, strict=True):
            start = end + len(piece.pause)
            end = start + len(piece.samples)
            found.append(WordInterval(word, start / sample_rate, end / sample_rate))
        return found

    def _pieces(self, *, sample_rate: int, trim_db: float | None, speed: float) -> Iterator[_Piece]:
        # Digital silence would be the floor of the log-mel, which no microphone records and which a model
        # would learn as the sign of a joint. So a pause is noise as quiet as the recording's background.
        seeded = any(part.pause for part in self.parts)
        generator = np.random.default_rng(int(self.content_hash(), 16)) if seeded else None
        for part in self.parts:
            sound = read_wav(part.path, max_seconds=self.max_seconds)
            samples = resample(
                sound.samples, rate=sound.sample_rate, new_rate=sample_rate, speed=speed
            )
            pause = np.zeros(0, dtype=np.float32)
            if generator is not None and part.pause:
                length = round(part.pause / speed * sample_rate)
                level = background_level(samples, sample_rate=sample_rate)
                pause = level * generator.standard_normal(length, dtype=np.float32)
            if trim_db is not None:
                samples = trim_silence(samples, sample_rate=sample_rate, trim_db=trim_db)
            yield _Piece(pause, samples)

    def seconds(self) -> float:
        """The duration before trimming, pauses included, from the headers of the files."""
        headers = (validate_wav(part.path, max_seconds=self.max_seconds) for part in self.parts)
        return sum(header.seconds for header in headers) + sum(part.pause for part in self.parts)

    def content_hash(self) -> str:
        """A hash of the bytes of the files, of their order and of the pauses: equal for the same sound."""
        digest = hashlib.blake2b(digest_size=HASH_BYTES)
        for part in self.parts:
            digest.update(f"{file_hash(part.path)} {part.pause!r}\n".encode("ascii"))
        return digest.hexdigest()


def file_hash(path: MediaPath) -> str:
    """A hash of the bytes of a file, remembered until the file changes."""
    if isinstance(path, MediaBytes):
        return hashlib.blake2b(path.content, digest_size=HASH_BYTES).hexdigest()
    with opened(path, AudioFileError):  # which says why a file cannot be read
        return _file_hash(path, file_stamp(path))


@lru_cache(maxsize=MAX_CHECKED_FILES)
def _file_hash(path: Path, stamp: tuple[int, int, int]) -> str:
    del stamp
    with path.open("rb") as file:
        return hashlib.file_digest(
            file, lambda: hashlib.blake2b(digest_size=HASH_BYTES)
        ).hexdigest()


def joined_clips(
    clips_by_speaker: Mapping[str, Sequence[AudioClip]],
    *,
    num_strings: int,
    min_words: int,
    max_words: int,
    pause_range: tuple[float, float],
    seed: int | Sequence[int],
) -> list[AudioClip]:
    """Strings of words, such as digits: clips of one speaker, joined with pauses of random length.

    The speaker, the number of words, the clips and the pauses are drawn uniformly; they depend on the seed
    and on the names of the clips only. Use another seed for each split: from other takes of the same words,
    one seed draws the same strings. The transcript of a clip is the words of its parts.
    """
    if not (num_strings >= 0 and 1 <= min_words <= max_words):
        raise RegardError(
            f"num_strings={num_strings}, min_words={min_words}, max_words={max_words}: use 0 or more "
            "strings, and 1 or more words, as min_words=3, max_words=5."
        )
    shortest, longest = pause_range
    if not 0 <= shortest <= longest <= MAX_PAUSE_SECONDS:
        raise RegardError(
            f"pause_range={pause_range}: give the shortest and the longest pause in seconds, such as "
            "(0.05, 0.3)."
        )
    clips = {
        speaker: sorted(clips_by_speaker[speaker], key=lambda clip: clip.name)
        for speaker in sorted(clips_by_speaker)
        if clips_by_speaker[speaker]
    }
    if num_strings and not clips:
        raise RegardError("clips_by_speaker: there are no clips. Give at least one.")
    for clip in (clip for own in clips.values() for clip in own):
        if not clip.words:
            raise RegardError(
                f"The clip '{clip.name}' has no words, so that a string of it has no transcript. Set "
                "AudioClip.words."
            )
    generator = np.random.default_rng(seed)
    speakers = list(clips)
    found = []
    for number in range(num_strings):
        speaker = speakers[generator.integers(len(speakers))]
        count = int(generator.integers(min_words, max_words + 1))
        chosen = [
            clips[speaker][index] for index in generator.integers(len(clips[speaker]), size=count)
        ]
        pauses = generator.uniform(shortest, longest, size=count).round(3).tolist()
        parts: list[Part] = []
        for clip, pause in zip(chosen, pauses, strict=True):
            first = replace(clip.parts[0], pause=pause if parts else 0.0)
            parts += [first, *clip.parts[1:]]
        words = tuple(word for clip in chosen for word in clip.words)
        found.append(
            AudioClip(
                name=f"{speaker}/{number:05d}",
                parts=tuple(parts),
                speaker=speaker,
                words=words,
                max_seconds=max(clip.max_seconds for clip in chosen),
            )
        )
    return found
