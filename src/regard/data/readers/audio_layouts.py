"""Layouts of audio folders: the recordings, what is said in each, who speaks, and in which split it is.

    metadata        metadata.csv or metadata.jsonl with file_name and transcription, text or label, and
                    optionally speaker (the `audiofolder` of Hugging Face)
    label_folders   LABEL/recording.wav
    ljspeech        metadata.csv with lines id|text|normalised text, and wavs/id.wav
    fsdd            DIGIT_SPEAKER_TAKE.wav: the Free Spoken Digit Dataset; takes 0 to 4 are its test split

The first two may lie in folders train, validation and test. A layout names files; it does not open
them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

from regard.core.errors import RegardError
from regard.data.readers.formats import (
    JsonColumnError,
    csv_records,
    json_field,
    json_records,
)
from regard.data.readers.text_file import RowErrors, TextFile, nonblank_lines
from regard.data.splits import Split

LayoutName = Literal["metadata", "label_folders", "ljspeech", "fsdd"]
LAYOUTS: dict[LayoutName, str] = {
    "metadata": "metadata.csv or metadata.jsonl with columns file_name and transcription, text or label",
    "label_folders": "LABEL/recording.wav",
    "ljspeech": "metadata.csv with lines id|text|normalised text, and wavs/id.wav",
    "fsdd": "DIGIT_SPEAKER_TAKE.wav",
}
METADATA_FILES = ("metadata.csv", "metadata.jsonl")
FILE_COLUMN, LABEL_COLUMN = "file_name", "label"
TEXT_COLUMNS = ("transcription", "text", "transcript", "sentence")
SPEAKER_COLUMNS = ("speaker", "speaker_id")
MAX_LINE_BYTES = 1_000_000
MAX_KEY_ROWS = 1_000
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
SPLIT_ORDER: tuple[Split, ...] = ("train", "validation", "test")
AUDIO_SUFFIXES = (".wav", ".mp3", ".flac", ".ogg", ".opus", ".m4a", ".aac", ".aiff")
LJSPEECH_FOLDER, LJSPEECH_SPEAKER = "wavs", "LJ"
FSDD_NAME = re.compile(r"(?P<digit>[0-9])_(?P<speaker>[^_]+)_(?P<take>[0-9]+)\.wav", re.IGNORECASE)
FSDD_FOLDER = "recordings"  # in a clone of its repository
FSDD_TEST_TAKES = range(5)
DIGIT_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


class Recording(NamedTuple):
    """A recording that a folder lists: its file, relative to the folder, and what is known of it.

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


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The layout of a folder, the splits that it has, and whether its recordings have texts and labels.

    `sources` are its metadata files, or the folders of its recordings, each with its split.
    """

    name: LayoutName
    folder: Path
    sources: tuple[tuple[Path, Split | None], ...]
    splits: tuple[Split, ...] = ()
    has_text: bool = True
    has_label: bool = True

    def recordings(self, *, errors: RowErrors) -> Iterator[Recording]:
        """All recordings in order; lines that cannot be read are reported."""
        for source, split in self.sources:
            yield from RECORDINGS[self.name](source, self.folder, split, errors)


def find_layout(folder: Path) -> Layout:
    """The layout of a folder; raises if there is no such folder, or its layout is not known."""
    visible = [name for name in _names(folder) if not name.startswith(".")]
    if not visible:
        raise unknown_layout(folder, "is empty")
    if _metadata_names(folder):
        return _metadata_layout(folder, visible)
    split_folders = [
        (folder / name, SPLIT_FOLDERS[name.lower()])
        for name in sorted(visible, key=_split_order)
        if name.lower() in SPLIT_FOLDERS and (folder / name).is_dir()
    ]
    labels = label_folders(folder)
    # A folder "train" of recordings, beside a folder "car", is a label.
    has_content = any(_metadata_names(place) or label_folders(place) for place, _ in split_folders)
    if has_content or (split_folders and all(name.lower() in SPLIT_FOLDERS for name in labels)):
        return _split_layout(folder, split_folders)
    for place in (folder, folder / FSDD_FOLDER):
        files = audio_files(place)
        if files and all(FSDD_NAME.fullmatch(name) for name in files):
            return Layout(
                name="fsdd", folder=folder, sources=((place, None),), splits=("train", "test")
            )
        if strays := [name for name in files if not FSDD_NAME.fullmatch(name)]:
            named = len(files) - len(strays)
            if named:
                others = f"{named:,} files named DIGIT_SPEAKER_TAKE.wav, but also '{strays[0]}'"
                raise unknown_layout(folder, f"has {others}")
    if labels:
        return Layout(name="label_folders", folder=folder, sources=((folder, None),))
    raise unknown_layout(folder, "has no known audio layout")


def unknown_layout(folder: Path, why: str) -> RegardError:
    """The error for a folder without a layout."""
    known = "; ".join(LAYOUTS.values())
    return RegardError(
        f"'{folder}' is a folder, not a file, and {why}. An audio folder has one of these: {known}. The "
        "first two may lie in folders train, validation and test."
    )


def audio_files(folder: Path) -> list[str]:
    """The names of sound files in a folder, in order; none if there is no such folder."""
    names = _names(folder) if folder.is_dir() else []
    return [
        name for name in names if name.lower().endswith(AUDIO_SUFFIXES) and not name.startswith(".")
    ]


def label_folders(folder: Path) -> list[str]:
    """The names of folders with sound files; one that begins with . or _ is not a label."""
    names = _names(folder)
    return [name for name in names if name[0] not in "._" and audio_files(folder / name)]


def _names(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir())
    except FileNotFoundError as error:
        raise RegardError(f"There is no folder '{folder}'. Check the path.") from error
    except NotADirectoryError as error:
        raise RegardError(
            f"'{folder}' is a file; audio is read from a folder. Name the folder that it lies in."
        ) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise RegardError(f"'{folder}' cannot be read: {reason}. Check its permissions.") from error


def _metadata_names(folder: Path) -> list[str]:
    return [name for name in METADATA_FILES if (folder / name).exists()]


def _split_order(name: str) -> tuple[int, str]:
    split = SPLIT_FOLDERS.get(name.lower())
    return (SPLIT_ORDER.index(split) if split else len(SPLIT_ORDER), name)


def _ordered(splits: set[Split]) -> tuple[Split, ...]:
    return tuple(split for split in SPLIT_ORDER if split in splits)


def _metadata_layout(folder: Path, names: list[str]) -> Layout:
    """A folder with a metadata file, whose recordings may lie in folders of splits."""
    path = _metadata_file(folder, root=folder)
    if path.suffix == ".csv" and LJSPEECH_FOLDER in names and "|" in _first_line(path):
        return Layout(name="ljspeech", folder=folder, sources=((path, None),), has_label=False)
    has_text, has_label = _columns(path)
    found = {
        item.split
        for item in _metadata_recordings(path, folder, None, RowErrors(skip=True))
        if item.split is not None
    }
    return Layout(
        name="metadata",
        folder=folder,
        sources=((path, None),),
        splits=_ordered(found),
        has_text=has_text,
        has_label=has_label,
    )


def _split_layout(folder: Path, split_folders: list[tuple[Path, Split]]) -> Layout:
    """Folders train, validation and test, all with metadata or all with folders of labels."""
    with_metadata = [place for place, _ in split_folders if _metadata_names(place)]
    splits = _ordered({split for _, split in split_folders})
    if not with_metadata:
        without = [place.name for place, _ in split_folders if not label_folders(place)]
        if without:
            raise unknown_layout(
                folder, f"its folder '{without[0]}' has neither metadata nor folders of labels"
            )
        return Layout(
            name="label_folders", folder=folder, sources=tuple(split_folders), splits=splits
        )
    for place, _ in split_folders:
        if place not in with_metadata:
            raise RegardError(
                f"'{place}' has no {' or '.join(METADATA_FILES)}, but '{with_metadata[0]}' has. Give every "
                "split such a file, or none."
            )
    sources = tuple((_metadata_file(place, root=folder), split) for place, split in split_folders)
    columns = [_columns(path) for path, _ in sources]
    return Layout(
        name="metadata",
        folder=folder,
        sources=sources,
        splits=splits,
        has_text=all(text for text, _ in columns),
        has_label=all(label for _, label in columns),
    )


def _metadata_file(folder: Path, *, root: Path) -> Path:
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


def _text_file(path: Path) -> TextFile:
    return TextFile(path=path, max_line_bytes=MAX_LINE_BYTES)


def _first_line(path: Path) -> str:
    lines = nonblank_lines(_text_file(path).lines(errors=RowErrors(skip=True)))
    return next(lines, (0, ""))[1]


def _columns(path: Path) -> tuple[bool, bool]:
    """Whether a metadata file has a column of transcripts, and one of labels; raises if it has neither."""
    errors = RowErrors(skip=True)
    if path.suffix == ".csv":
        names = list(next(csv_records(_text_file(path), errors=errors), (0, []))[1])
    else:  # a key may be missing in some rows
        first = islice(json_records(_text_file(path), errors=errors), MAX_KEY_ROWS)
        names = list(dict.fromkeys(key for _, row in first if isinstance(row, dict) for key in row))
    has_text = any(name in names for name in TEXT_COLUMNS)
    if FILE_COLUMN not in names or not (has_text or LABEL_COLUMN in names):
        raise RegardError(
            f"'{path}' has the columns {', '.join(map(str, names[:10])) or 'none'}. It needs "
            f"{FILE_COLUMN}, and {', '.join(TEXT_COLUMNS[:2])} or {LABEL_COLUMN}; or lines id|text beside "
            f"a folder {LJSPEECH_FOLDER}."
        )
    return has_text, LABEL_COLUMN in names


def _metadata_recordings(
    path: Path, folder: Path, split: Split | None, errors: RowErrors
) -> Iterator[Recording]:
    """The rows of metadata.csv or metadata.jsonl; without a split, it is the first folder of a file."""
    prefix = path.parent.relative_to(folder).as_posix()
    for line, fields in _metadata_fields(path, errors):
        file = fields.get(FILE_COLUMN, "")
        top = file.partition("/")
        own = split or (SPLIT_FOLDERS.get(top[0].lower()) if top[1] else None)
        yield Recording(
            source=path,
            line=line,
            file=file if prefix == "." or not file or file.startswith("/") else f"{prefix}/{file}",
            text=next((fields[name] for name in TEXT_COLUMNS if name in fields), None),
            label=fields.get(LABEL_COLUMN),
            speaker=next((fields[name].strip() for name in SPEAKER_COLUMNS if name in fields), ""),
            split=own,
        )


def _metadata_fields(path: Path, errors: RowErrors) -> Iterator[tuple[int, dict[str, str]]]:
    """Line and known columns of every row."""
    known = (FILE_COLUMN, *TEXT_COLUMNS, LABEL_COLUMN, *SPEAKER_COLUMNS)
    if path.suffix == ".csv":
        records = csv_records(_text_file(path), errors=errors)
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
    for line, value in json_records(_text_file(path), errors=errors):
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


def _ljspeech_recordings(
    path: Path, folder: Path, split: Split | None, errors: RowErrors
) -> Iterator[Recording]:
    """Lines id|text|normalised text; the normalised text, where there is one, is the transcript."""
    del folder, split
    for line, text in nonblank_lines(_text_file(path).lines(errors=errors)):
        name, *texts = text.split("|")
        if not texts:
            reason = "too few columns: 1, id|text is needed"
            errors.report(path=path, line=line, reason=reason)
            continue
        yield Recording(
            source=path,
            line=line,
            file=f"{LJSPEECH_FOLDER}/{name}.wav",
            text=texts[1] if len(texts) > 1 and texts[1].strip() else texts[0],
            speaker=LJSPEECH_SPEAKER,
        )


def _labelled_recordings(
    place: Path, folder: Path, split: Split | None, errors: RowErrors
) -> Iterator[Recording]:
    """The files of every folder of a label; the label is the transcript too, as of spoken commands."""
    del errors
    prefix = place.relative_to(folder)
    files = ((label, name) for label in label_folders(place) for name in audio_files(place / label))
    for line, (label, name) in enumerate(files, start=1):
        file = (prefix / label / name).as_posix()
        yield Recording(place, line, file, text=label, label=label, split=split)


def _fsdd_recordings(
    place: Path, folder: Path, split: Split | None, errors: RowErrors
) -> Iterator[Recording]:
    """Files named by digit, speaker and take; the transcript is the word of the digit."""
    del split, errors
    prefix = place.relative_to(folder)
    for line, name in enumerate(audio_files(place), start=1):
        found = FSDD_NAME.fullmatch(name)
        assert found is not None, name  # find_layout checked
        word = DIGIT_WORDS[int(found["digit"])]
        yield Recording(
            source=place,
            line=line,
            file=(prefix / name).as_posix(),
            text=word,
            label=found["digit"],
            speaker=found["speaker"],
            split="test" if int(found["take"]) in FSDD_TEST_TAKES else "train",
            words=(word,),
        )


RECORDINGS = {
    "metadata": _metadata_recordings,
    "label_folders": _labelled_recordings,
    "ljspeech": _ljspeech_recordings,
    "fsdd": _fsdd_recordings,
}
