"""Files with a label or a text each, from a folder in one of the known layouts.

`folder_layouts.py` lists the layouts. A file outside of the folder is never opened. What is read of a file
is left to subclasses: `AudioFolderReader`, `ImageFolderReader`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, ClassVar, Literal, NamedTuple, Self
from unicodedata import normalize

from regard.core.errors import RegardError
from regard.data.media_files import MediaFileError
from regard.data.readers.folder_layouts import Item, Layout, Media
from regard.data.readers.text_file import Row, RowErrors
from regard.data.readers.text_reader import text_error
from regard.data.splits import Split

MediaTarget = Literal["label", "text"]
TARGET_NAMES = {"label": "label", "text": "transcript"}


class _RowFaultError(Exception):
    """Why a file is a bad row, and the way out."""

    def __init__(self, reason: str, hint: str) -> None:
        super().__init__(reason)
        self.hint = hint


class SplitRow(NamedTuple):
    """A row, and the split that the folder puts it in; None if it has no splits."""

    split: Split | None
    row: Row


@dataclass(frozen=True, kw_only=True)
class MediaFolderReader(ABC):
    """The files of a folder; `split` is the one to read, by default all."""

    media: ClassVar[Media]

    path: Path
    split: Split | None = None

    def layout(self) -> Layout:
        """The layout of the folder; raises if it is not known."""
        return self.media.find_layout(self.path)

    def splits(self) -> tuple[Split, ...]:
        """The splits of the folder; empty if it has none."""
        return self.layout().splits

    def with_split(self, split: Split) -> Self:
        """A reader of one split of the folder."""
        known = self.splits()
        if split not in known:
            has = f"the splits {', '.join(known)}" if known else "no splits"
            way_out = "Hold out a part of the training split instead, or give a folder of its own."
            if split == "train":
                way_out = (
                    "Add a folder 'train', or name the folder whose files are to be trained on."
                )
            raise RegardError(f"split={split}: '{self.path}' has {has}. {way_out}")
        return replace(self, split=split)

    def target_kind(self, layout: Layout) -> MediaTarget:
        """What is read beside a file; raises if the folder does not have it."""
        del layout
        return "label"

    @abstractmethod
    def read_input(self, item: Item, path: Path) -> Any:
        """What a row has as its input; raises `MediaFileError`."""

    def is_selected(self, item: Item) -> bool:
        """Whether an item is read."""
        return self.split is None or item.split == self.split

    def rows(self, *, errors: RowErrors) -> Iterator[Row]:
        """All valid rows: a file, and its label or text."""
        return (row for _, row in self.split_rows(errors=errors))

    def split_rows(self, *, errors: RowErrors) -> Iterator[SplitRow]:
        """As `rows`, with the split of each."""
        layout = self.layout()
        kind = self.target_kind(layout)
        if self.split is not None:
            self.with_split(self.split)
        return self._valid_rows(layout, kind, errors=errors)

    def _valid_rows(
        self, layout: Layout, kind: MediaTarget, *, errors: RowErrors
    ) -> Iterator[SplitRow]:
        root = self.path.resolve()
        usable, count_before, listed_before = 0, errors.count, len(errors.rows)
        for item in layout.items(errors=errors):
            if layout.splits and item.split is None and self.split in (None, "train"):
                reason = f"in no split: '{item.file}'"
                hint = f"Put the file into one of the folders {', '.join(layout.splits)}"
                errors.report(path=item.source, line=item.line, reason=reason, hint=hint)
                continue
            if not self.is_selected(item):
                continue
            try:
                found = self._read(item, root)
                row = Row(found, _target(item, kind), item.line)
            except _RowFaultError as fault:
                errors.report(path=item.source, line=item.line, reason=str(fault), hint=fault.hint)
            else:
                usable += 1
                yield SplitRow(item.split, row)
        if not usable:
            first = [*errors.rows[listed_before:], None][0]
            why = f" ({errors.count - count_before:,} errors; the first: {first})" if first else ""
            raise RegardError(
                f"'{self.path}' has no valid {self.media.noun}{self.selection()}{why}. Check the folder "
                f"with: regard data describe {self.path}"
            )

    def selection(self) -> str:
        """What is selected, in words that follow the noun."""
        return f" in the split {self.split}" if self.split else ""

    def _read(self, item: Item, root: Path) -> Any:
        """The input of an item whose file lies in the folder."""
        path = self._path(item.file, root)
        try:
            return self.read_input(item, path)
        except MediaFileError as error:
            raise _RowFaultError(
                f"{error.kind}: '{item.file}': {error.details}", error.way_out
            ) from error

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


def _target(item: Item, kind: MediaTarget) -> str:
    """The label or transcript in NFC, without white space around it."""
    name = TARGET_NAMES[kind]
    text = normalize("NFC", (item.text if kind == "text" else item.label) or "").strip()
    if not text:
        raise _RowFaultError(f"missing {name}: '{item.file}'", f"Add the {name}")
    if reason := text_error(name, text):
        raise _RowFaultError(reason, f"Fix the {name}")
    return text
