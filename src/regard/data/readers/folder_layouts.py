"""Layouts of folders of recordings or images: the files, what stands beside each, and its split.

    metadata        metadata.csv or metadata.jsonl with file_name, and label or another target (the
                    `audiofolder` and `imagefolder` of Hugging Face)
    label_folders   LABEL/file

Both may lie in folders train, validation and test; `audio_layouts.py` has more for recordings. A layout
names files; it does not open them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from regard.core.errors import RegardError
from regard.data.readers.formats import (
    JsonColumnError,
    csv_records,
    json_field,
    json_records,
)
from regard.data.readers.text_file import RowErrors, TextFile, nonblank_lines
from regard.data.splits import SPLIT_ORDER, Split

METADATA_FILES = ("metadata.csv", "metadata.jsonl")
FILE_COLUMN, LABEL_COLUMN = "file_name", "label"
SPEAKER_COLUMNS = ("speaker", "speaker_id")
MAX_LINE_BYTES = 1_000_000
MAX_KEY_ROWS = 1_000
MAX_SEARCHED = 10_000
# Name of a folder → the split in it, as Hugging Face has them.
SPLIT_FOLDERS: dict[str, Split] = {
    "train": "train",
    "training": "train",
    "validation": "validation",
    "valid": "validation",
    "dev": "validation",
    "val": "validation",
    "test": "test",
    "testing": "test",
    "eval": "test",
}


class Item(NamedTuple):
    """A file that a folder lists, relative to the folder, and what is known of it.

    `source` and `line` are where it is listed: a line of a metadata file, or a place in the order of files.
    """

    source: Path
    line: int
    file: str
    text: str | None = None
    label: str | None = None
    speaker: str = ""
    split: Split | None = None
    words: tuple[str, ...] = ()


ReadItems = Callable[[Path, Path, Split | None, RowErrors], Iterator[Item]]
"""The items of a source in a folder, with its split."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The layout of a folder, the splits that it has, and whether its items have texts and labels.

    `sources` are its metadata files, or the folders of its files, each with its split.
    """

    name: str
    folder: Path
    sources: tuple[tuple[Path, Split | None], ...]
    read: ReadItems
    splits: tuple[Split, ...] = ()
    has_text: bool = True
    has_label: bool = True

    def items(self, *, errors: RowErrors) -> Iterator[Item]:
        """All items in order; lines that cannot be read are reported."""
        for source, split in self.sources:
            yield from self.read(source, self.folder, split, errors)


@dataclass(frozen=True, kw_only=True)
class Media:
    """What kind of files a folder has, and which layouts are known of them.

    name          such as "audio", which is also the name of the folder in messages
    noun          one file in words
    suffixes      of their names, in lower case
    text_columns  columns of a metadata file that are an alternative to the label
    layouts       name → description
    """

    name: str
    noun: str
    suffixes: tuple[str, ...]
    layouts: Mapping[str, str]
    text_columns: tuple[str, ...] = ()

    def own_layout(self, folder: Path) -> Layout | None:
        """A layout that only this kind of file has, if the folder has it."""
        del folder
        return None

    def find_layout(self, folder: Path) -> Layout:
        """The layout of a folder; raises if there is no such folder, or its layout is not known."""
        visible = [name for name in self._names(folder) if not name.startswith(".")]
        if not visible:
            raise self.unknown_layout(folder, "is empty")
        if _metadata_names(folder):
            return self.own_layout(folder) or self._metadata_layout(folder)
        split_folders = [
            (folder / name, SPLIT_FOLDERS[name.lower()])
            for name in sorted(visible, key=_split_order)
            if name.lower() in SPLIT_FOLDERS and (folder / name).is_dir()
        ]
        labels = self.label_folders(folder)
        # A folder "train" of files, beside a folder "car", is a label.
        has_content = any(
            _metadata_names(place) or self.label_folders(place) for place, _ in split_folders
        )
        if has_content or (split_folders and all(name.lower() in SPLIT_FOLDERS for name in labels)):
            return self._split_layout(folder, split_folders)
        if found := self.own_layout(folder):
            return found
        if labels:
            return self._label_layout(folder, ((folder, None),))
        raise self.unknown_layout(folder, f"has no known {self.name} layout")

    def unknown_layout(self, folder: Path, why: str) -> RegardError:
        """The error for a folder without a layout."""
        known = "; ".join(self.layouts.values())
        return RegardError(
            f"'{folder}' is a folder, not a file, and {why}. An {self.name} folder has one of these: "
            f"{known}. Metadata and folders of labels may lie in folders train, validation and test."
        )

    def files(self, folder: Path) -> list[str]:
        """The names of files of this kind in a folder, in order; none if there is no such folder."""
        names = self._names(folder) if folder.is_dir() else []
        return [
            name
            for name in names
            if name.lower().endswith(self.suffixes) and not name.startswith(".")
        ]

    def label_folders(self, folder: Path) -> list[str]:
        """The names of folders with such files; one that begins with . or _ is not a label."""
        names = self._names(folder)
        return [name for name in names if name[0] not in "._" and self.files(folder / name)]

    def _names(self, folder: Path) -> list[str]:
        try:
            return sorted(path.name for path in folder.iterdir())
        except FileNotFoundError as error:
            raise RegardError(f"There is no folder '{folder}'. Check the path.") from error
        except NotADirectoryError as error:
            raise RegardError(
                f"'{folder}' is a file; {self.noun}s are read from a folder. Name the folder that it "
                "lies in."
            ) from error
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise RegardError(
                f"'{folder}' cannot be read: {reason}. Check its permissions."
            ) from error

    def _metadata_layout(self, folder: Path) -> Layout:
        """A folder with a metadata file, whose files may lie in folders of splits."""
        path = metadata_file(folder, root=folder)
        has_text, has_label = self._columns(path)
        read = partial(_metadata_items, text_columns=self.text_columns)
        found = {
            item.split
            for item in read(path, folder, None, RowErrors(skip=True))
            if item.split is not None
        }
        return Layout(
            name="metadata",
            folder=folder,
            sources=((path, None),),
            read=read,
            splits=_ordered(found),
            has_text=has_text,
            has_label=has_label,
        )

    def _label_layout(self, folder: Path, sources: tuple[tuple[Path, Split | None], ...]) -> Layout:
        splits = _ordered({split for _, split in sources if split is not None})
        return Layout(
            name="label_folders",
            folder=folder,
            sources=sources,
            read=self._labelled_items,
            splits=splits,
        )

    def _split_layout(self, folder: Path, split_folders: list[tuple[Path, Split]]) -> Layout:
        """Folders train, validation and test, all with metadata or all with folders of labels."""
        with_metadata = [place for place, _ in split_folders if _metadata_names(place)]
        if not with_metadata:
            without = [place.name for place, _ in split_folders if not self.label_folders(place)]
            if without:
                raise self.unknown_layout(
                    folder, f"its folder '{without[0]}' has neither metadata nor folders of labels"
                )
            return self._label_layout(folder, tuple(split_folders))
        for place, _ in split_folders:
            if place not in with_metadata:
                raise RegardError(
                    f"'{place}' has no {' or '.join(METADATA_FILES)}, but '{with_metadata[0]}' has. Give "
                    "every split such a file, or none."
                )
        sources = tuple(
            (metadata_file(place, root=folder), split) for place, split in split_folders
        )
        columns = [self._columns(path) for path, _ in sources]
        return Layout(
            name="metadata",
            folder=folder,
            sources=sources,
            read=partial(_metadata_items, text_columns=self.text_columns),
            splits=_ordered({split for _, split in split_folders}),
            has_text=all(text for text, _ in columns),
            has_label=all(label for _, label in columns),
        )

    def _columns(self, path: Path) -> tuple[bool, bool]:
        """Whether a metadata file has a column of texts, and one of labels; raises if it has neither."""
        errors = RowErrors(skip=True)
        if path.suffix == ".csv":
            names = list(next(csv_records(metadata_text(path), errors=errors), (0, []))[1])
        else:  # a key may be missing in some rows
            first = islice(json_records(metadata_text(path), errors=errors), MAX_KEY_ROWS)
            names = list(
                dict.fromkeys(key for _, row in first if isinstance(row, dict) for key in row)
            )
        has_text = any(name in names for name in self.text_columns)
        if FILE_COLUMN not in names or not (has_text or LABEL_COLUMN in names):
            wanted = " or ".join([*filter(None, [", ".join(self.text_columns[:2])]), LABEL_COLUMN])
            others = "; or ".join(["", *list(self.layouts.values())[2:]])
            raise RegardError(
                f"'{path}' has the columns {', '.join(map(str, names[:10])) or 'none'}. It needs "
                f"{FILE_COLUMN}, and {wanted}{others}."
            )
        return has_text, LABEL_COLUMN in names

    def _labelled_items(
        self, place: Path, folder: Path, split: Split | None, errors: RowErrors
    ) -> Iterator[Item]:
        """The files of every folder of a label; the label is the text too, as of spoken commands."""
        del errors
        prefix = place.relative_to(folder)
        labels = self.label_folders(place)
        files = ((label, name) for label in labels for name in self.files(place / label))
        for line, (label, name) in enumerate(files, start=1):
            file = (prefix / label / name).as_posix()
            yield Item(place, line, file, text=label, label=label, split=split)


def has_files(folder: Path, media: Media) -> bool:
    """Whether any of the first files in a folder, or in the folders of it, is of this kind."""
    paths = islice(folder.rglob("*"), MAX_SEARCHED)
    return any(path.name.lower().endswith(media.suffixes) for path in paths)


def _metadata_names(folder: Path) -> list[str]:
    return [name for name in METADATA_FILES if (folder / name).exists()]


def _split_order(name: str) -> tuple[int, str]:
    split = SPLIT_FOLDERS.get(name.lower())
    return (SPLIT_ORDER.index(split) if split else len(SPLIT_ORDER), name)


def _ordered(splits: set[Split]) -> tuple[Split, ...]:
    return tuple(split for split in SPLIT_ORDER if split in splits)


def metadata_file(folder: Path, *, root: Path) -> Path:
    """The metadata file of a folder, which must be one, and lie in the root."""
    found = [folder / name for name in _metadata_names(folder)]
    if len(found) > 1:
        raise RegardError(
            f"'{folder}' has both {' and '.join(METADATA_FILES)}. Remove one of them."
        )
    if not found[0].resolve().is_relative_to(root.resolve()):
        raise RegardError(
            f"'{found[0]}' is a link that leads out of the folder. Copy the file into it."
        )
    return found[0]


def metadata_text(path: Path) -> TextFile:
    """A metadata file as lines."""
    return TextFile(path=path, max_line_bytes=MAX_LINE_BYTES)


def first_line(path: Path) -> str:
    """The first line of a metadata file that is not blank."""
    lines = nonblank_lines(metadata_text(path).lines(errors=RowErrors(skip=True)))
    return next(lines, (0, ""))[1]


def _metadata_items(
    path: Path,
    folder: Path,
    split: Split | None,
    errors: RowErrors,
    *,
    text_columns: tuple[str, ...],
) -> Iterator[Item]:
    """The rows of metadata.csv or metadata.jsonl; without a split, it is the first folder of a file."""
    prefix = path.parent.relative_to(folder).as_posix()
    for line, fields in _metadata_fields(path, errors, text_columns):
        file = fields.get(FILE_COLUMN, "")
        top = file.partition("/")
        own = split or (SPLIT_FOLDERS.get(top[0].lower()) if top[1] else None)
        yield Item(
            source=path,
            line=line,
            file=file if prefix == "." or not file or file.startswith("/") else f"{prefix}/{file}",
            text=next((fields[name] for name in text_columns if name in fields), None),
            label=fields.get(LABEL_COLUMN),
            speaker=next((fields[name].strip() for name in SPEAKER_COLUMNS if name in fields), ""),
            split=own,
        )


def _metadata_fields(
    path: Path, errors: RowErrors, text_columns: tuple[str, ...]
) -> Iterator[tuple[int, dict[str, str]]]:
    """Line and known columns of every row."""
    known = (FILE_COLUMN, *text_columns, LABEL_COLUMN, *SPEAKER_COLUMNS)
    if path.suffix == ".csv":
        records = csv_records(metadata_text(path), errors=errors)
        names: list[str] = next(records, (0, []))[1]
        for line, fields in records:
            if len(fields) != len(names):
                reason = f"wrong number of columns: {len(fields)}, the header has {len(names)}"
                errors.report(path=path, line=line, reason=reason, hint="Check commas and quotes")
                continue
            yield (
                line,
                {name: field for name, field in zip(names, fields, strict=True) if name in known},
            )
        return
    for line, value in json_records(metadata_text(path), errors=errors):
        if not isinstance(value, dict):
            errors.report(path=path, line=line, reason=f"not an object: {type(value).__name__}")
            continue
        try:
            found = {
                name: json_field(value, name, kinds=(int,) if name in known[-3:] else ())
                for name in known
                if value.get(name) is not None
            }
        except JsonColumnError as error:
            errors.report(path=path, line=line, reason=str(error), hint=error.hint)
            continue
        yield line, found
