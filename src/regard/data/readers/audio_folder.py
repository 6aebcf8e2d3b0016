"""Recordings with a label or a transcript each, from a folder in one of the known layouts.

    reader = AudioFolderReader(path=Path("digits"), target="text", without_speakers=("lucas",))
    for row in reader.rows(errors=RowErrors(skip=True)):
        row.input, row.target, row.line          an AudioClip, "three", 1

`audio_layouts.py` lists the layouts. The header of every file is checked, and no samples are decoded but
floating-point ones, once. A file outside of the folder is never opened.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Literal, NamedTuple, Self
from unicodedata import normalize

from regard.core.errors import RegardError
from regard.core.registry import lookup, unknown_name
from regard.data.audio.clips import AudioClip, Part
from regard.data.audio.wav import MAX_SECONDS, AudioFileError, validate_wav
from regard.data.readers.audio_layouts import Layout, Recording, find_layout
from regard.data.readers.text_file import Row, RowErrors
from regard.data.readers.text_reader import text_error
from regard.data.splits import Split

AudioTarget = Literal["label", "text"]
TARGETS: dict[str, AudioTarget] = {"label": "label", "text": "text"}
TARGET_NAMES = {"label": "label", "text": "transcript"}


class _RowFaultError(Exception):
    """Why a recording is a bad row, and the way out."""

    def __init__(self, reason: str, hint: str) -> None:
        super().__init__(reason)
        self.hint = hint


class SplitRow(NamedTuple):
    """A row, and the split that the folder puts it in; None if it has no splits."""

    split: Split | None
    row: Row


@dataclass(frozen=True, kw_only=True)
class AudioFolderReader:
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

    path: Path
    target: str | None = None
    split: Split | None = None
    speakers: tuple[str, ...] | None = None
    without_speakers: tuple[str, ...] = ()
    max_seconds: float = MAX_SECONDS

    def __post_init__(self) -> None:
        if self.target is not None:
            lookup("target of audio", self.target, TARGETS)

    def layout(self) -> Layout:
        """The layout of the folder; raises if it is not known."""
        return find_layout(self.path)

    def splits(self) -> tuple[Split, ...]:
        """The splits of the folder; empty if it has none."""
        return self.layout().splits

    def with_split(self, split: Split) -> Self:
        """A reader of one split of the folder."""
        known = self.splits()
        if split not in known:
            has = f"the splits {', '.join(known)}" if known else "no splits"
            raise RegardError(
                f"split={split}: '{self.path}' has {has}. Hold out a part of the training split instead, "
                "or give a folder of its own."
            )
        return replace(self, split=split)

    def all_speakers(self) -> list[str]:
        """The names of all speakers of the folder; empty where they are not known."""
        errors = RowErrors(skip=True)
        found = {item.speaker for item in self.layout().recordings(errors=errors)}
        return sorted(found - {""})

    def target_kind(self, layout: Layout) -> AudioTarget:
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

    def rows(self, *, errors: RowErrors) -> Iterator[Row]:
        """All valid rows: a clip, and its label or transcript."""
        return (row for _, row in self.split_rows(errors=errors))

    def split_rows(self, *, errors: RowErrors) -> Iterator[SplitRow]:
        """As `rows`, with the split of each."""
        layout = self.layout()
        kind = self.target_kind(layout)
        self._validate_speakers()
        if self.split is not None:
            self.with_split(self.split)
        return self._valid_rows(layout, kind, errors=errors)

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

    def _is_selected(self, item: Recording) -> bool:
        return (
            (self.split is None or item.split == self.split)
            and (self.speakers is None or item.speaker in self.speakers)
            and item.speaker not in self.without_speakers
        )

    def _valid_rows(
        self, layout: Layout, kind: AudioTarget, *, errors: RowErrors
    ) -> Iterator[SplitRow]:
        root = self.path.resolve()
        usable, count_before, listed_before = 0, errors.count, len(errors.rows)
        for item in layout.recordings(errors=errors):
            if layout.splits and item.split is None and self.split in (None, "train"):
                reason = f"in no split: '{item.file}'"
                hint = f"Put the file into one of the folders {', '.join(layout.splits)}"
                errors.report(path=item.source, line=item.line, reason=reason, hint=hint)
                continue
            if not self._is_selected(item):
                continue
            try:
                row = Row(self._clip(item, root), _target(item, kind), item.line)
            except _RowFaultError as fault:
                errors.report(path=item.source, line=item.line, reason=str(fault), hint=fault.hint)
            else:
                usable += 1
                yield SplitRow(item.split, row)
        if not usable:
            found = [*errors.rows[listed_before:], None][0]
            why = f" ({errors.count - count_before:,} errors; the first: {found})" if found else ""
            chosen = f" of {', '.join(self.speakers)}" if self.speakers else ""
            if self.without_speakers:
                chosen = f" without {', '.join(self.without_speakers)}"
            where = f" in the split {self.split}" if self.split else ""
            raise RegardError(
                f"'{self.path}' has no valid recording{chosen}{where}{why}. Check the folder with: regard "
                f"data describe {self.path}"
            )

    def _clip(self, item: Recording, root: Path) -> AudioClip:
        """The clip of a recording whose file lies in the folder and has a valid header."""
        path = self._path(item.file, root)
        try:
            validate_wav(path, max_seconds=self.max_seconds)
        except AudioFileError as error:
            raise _RowFaultError(
                f"{error.kind}: '{item.file}': {error.details}", error.way_out
            ) from error
        return AudioClip(
            name=item.file,
            parts=(Part(path),),
            speaker=item.speaker,
            words=item.words,
            max_seconds=self.max_seconds,
        )

    def _path(self, file: str, root: Path) -> Path:
        """The path of a file in the folder; a path that leads out of it is a fault."""
        if reason := text_error("file name", file):
            raise _RowFaultError(reason, "Rename the file")
        inside = "Put the file into the folder, and give its path in the folder"
        if PurePosixPath(file).is_absolute() or PureWindowsPath(file).drive:
            raise _RowFaultError(f"absolute path: '{file}'", inside)
        if ".." in PurePosixPath(file).parts or ".." in PureWindowsPath(file).parts:
            raise _RowFaultError(f"path with '..': '{file}'", inside)
        path = self.path / file
        try:
            is_inside = path.resolve().is_relative_to(root)
        except (OSError, RuntimeError) as error:  # circular links
            raise _RowFaultError(f"unreadable file: '{file}': {error}", "Check the file") from error
        if not is_inside:
            raise _RowFaultError(
                f"link out of the folder: '{file}'",
                "Copy the file that it leads to into the folder",
            )
        return path


def _target(item: Recording, kind: AudioTarget) -> str:
    """The label or transcript in NFC, without white space around it."""
    name = TARGET_NAMES[kind]
    text = normalize("NFC", (item.text if kind == "text" else item.label) or "").strip()
    if not text:
        raise _RowFaultError(f"missing {name}: '{item.file}'", f"Add the {name}")
    if reason := text_error(name, text):
        raise _RowFaultError(reason, f"Fix the {name}")
    return text
