"""Recordings with a label or a transcript each, from a folder in one of the known layouts.

    reader = AudioFolderReader(path=Path("digits"), target="text", without_speakers=("lucas",))
    for row in reader.rows(errors=RowErrors(skip=True)):
        row.input, row.target, row.line          an AudioClip, "three", 1

The header of every file is checked, and no samples are decoded but floating-point ones, once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from regard.core.errors import RegardError
from regard.core.registry import lookup, unknown_name
from regard.data.audio.clips import AudioClip, Part
from regard.data.audio.wav import MAX_SECONDS, validate_wav
from regard.data.readers.audio_layouts import AUDIO
from regard.data.readers.folder_layouts import Item, Layout, Media
from regard.data.readers.media_folder import (
    TARGET_NAMES,
    MediaFolderReader,
    MediaTarget,
    SplitRow,
)
from regard.data.readers.text_file import RowErrors

TARGETS: dict[str, MediaTarget] = {"label": "label", "text": "text"}


@dataclass(frozen=True, kw_only=True)
class AudioFolderReader(MediaFolderReader):
    """The recordings of a folder.

    Args:
        path: The folder.
        target: What a recording has beside it: "label", or "text" for its transcript. Default: what the
            folder has.
        split: The split to read; default: all.
        speakers: Read these speakers only.
        without_speakers: Leave these speakers out.
        max_seconds: A longer recording is a bad row.
    """

    media: ClassVar[Media] = AUDIO

    target: str | None = None
    speakers: tuple[str, ...] | None = None
    without_speakers: tuple[str, ...] = ()
    max_seconds: float = MAX_SECONDS

    def __post_init__(self) -> None:
        if self.target is not None:
            lookup("target of audio", self.target, TARGETS)

    def all_speakers(self) -> list[str]:
        """The names of all speakers of the folder; empty where they are not known."""
        errors = RowErrors(skip=True)
        found = {item.speaker for item in self.layout().items(errors=errors)}
        return sorted(found - {""})

    def target_kind(self, layout: Layout) -> MediaTarget:
        """What is read beside a recording; raises if the folder does not have it."""
        if self.target is None:
            has_transcripts = layout.name in ("metadata", "ljspeech") and layout.has_text
            return "text" if has_transcripts else "label"
        if not (layout.has_text if self.target == "text" else layout.has_label):
            other = "label" if self.target == "text" else "text"
            raise RegardError(
                f"target={self.target}: '{self.path}' has no {TARGET_NAMES[self.target]}s (its layout is "
                f"{layout.name}). Use target={other}."
            )
        return TARGETS[self.target]

    def split_rows(self, *, errors: RowErrors) -> Iterator[SplitRow]:
        """As `rows`, with the split of each."""
        self._validate_speakers()
        return super().split_rows(errors=errors)

    def _validate_speakers(self) -> None:
        given = (*(self.speakers or ()), *self.without_speakers)
        known = self.all_speakers() if given else []
        for name in given:
            if not known:
                raise RegardError(
                    f"speakers={name}: the speakers of '{self.path}' are not known. Add a column 'speaker' "
                    "to its metadata, or leave the option out."
                )
            if name not in known:
                raise unknown_name("speaker", name, known)

    def is_selected(self, item: Item) -> bool:
        """Whether a recording is of this split and these speakers."""
        return (
            super().is_selected(item)
            and (self.speakers is None or item.speaker in self.speakers)
            and item.speaker not in self.without_speakers
        )

    def selection(self) -> str:
        """The speakers and the split, in words."""
        chosen = f" of {', '.join(self.speakers)}" if self.speakers else ""
        if self.without_speakers:
            chosen = f" without {', '.join(self.without_speakers)}"
        return f"{chosen}{super().selection()}"

    def read_input(self, item: Item, path: Path) -> AudioClip:
        """The clip of a file with a valid header."""
        validate_wav(path, max_seconds=self.max_seconds)
        return AudioClip(
            name=item.file,
            parts=(Part(path),),
            speaker=item.speaker,
            words=item.words,
            max_seconds=self.max_seconds,
        )
