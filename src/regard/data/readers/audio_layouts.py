"""Layouts of audio folders: those of `folder_layouts.py`, and two datasets.

ljspeech        metadata.csv with lines id|text|normalised text, and wavs/id.wav
fsdd            DIGIT_SPEAKER_TAKE.wav: the Free Spoken Digit Dataset; takes 0 to 4 are its test split, if
                there are others too
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from regard.data.readers.folder_layouts import (
    METADATA_FILES,
    Item,
    Layout,
    Media,
    first_line,
    metadata_file,
    metadata_text,
)
from regard.data.readers.text_file import RowErrors, nonblank_lines
from regard.data.splits import Split

LJSPEECH_FOLDER, LJSPEECH_SPEAKER = "wavs", "LJ"
FSDD_NAME = re.compile(r"(?P<digit>[0-9])_(?P<speaker>[^_]+)_(?P<take>[0-9]+)\.wav", re.IGNORECASE)
FSDD_FOLDER = "recordings"  # in a clone of its repository
FSDD_TEST_TAKES = range(5)
DIGIT_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


class AudioMedia(Media):
    """Sound files."""

    def own_layout(self, folder: Path) -> Layout | None:
        """LJ Speech or FSDD."""
        if any((folder / name).exists() for name in METADATA_FILES):
            path = metadata_file(folder, root=folder)
            has_wavs = path.suffix == ".csv" and (folder / LJSPEECH_FOLDER).exists()
            if not has_wavs or "|" not in first_line(path):
                return None
            return Layout(
                name="ljspeech",
                folder=folder,
                sources=((path, None),),
                read=_ljspeech_items,
                has_label=False,
            )
        for place in (folder, folder / FSDD_FOLDER):
            files = self.files(place)
            if files and all(FSDD_NAME.fullmatch(name) for name in files):
                splits = {_fsdd_split(name) for name in files}
                return Layout(
                    name="fsdd",
                    folder=folder,
                    sources=((place, None),),
                    read=_fsdd_items,
                    splits=("train", "test") if len(splits) == 2 else (),
                )
            strays = [name for name in files if not FSDD_NAME.fullmatch(name)]
            if named := len(files) - len(strays):
                others = f"{named:,} files named DIGIT_SPEAKER_TAKE.wav, but also '{strays[0]}'"
                raise self.unknown_layout(folder, f"has {others}")
        return None


AUDIO = AudioMedia(
    name="audio",
    noun="recording",
    suffixes=(".wav", ".mp3", ".flac", ".ogg", ".opus", ".m4a", ".aac", ".aiff"),
    layouts={
        "metadata": (
            "metadata.csv or metadata.jsonl with columns file_name and transcription, text or label"
        ),
        "label_folders": "LABEL/recording.wav",
        "ljspeech": "metadata.csv with lines id|text|normalised text, and wavs/id.wav",
        "fsdd": "DIGIT_SPEAKER_TAKE.wav",
    },
    text_columns=("transcription", "text", "transcript", "sentence"),
)


def _ljspeech_items(
    path: Path, folder: Path, split: Split | None, errors: RowErrors
) -> Iterator[Item]:
    """Lines id|text|normalised text; the normalised text, where there is one, is the transcript."""
    del folder, split
    for line, text in nonblank_lines(metadata_text(path).lines(errors=errors)):
        name, *texts = text.split("|")
        if not texts:
            reason = "too few columns: 1, id|text is needed"
            errors.report(path=path, line=line, reason=reason)
            continue
        yield Item(
            source=path,
            line=line,
            file=f"{LJSPEECH_FOLDER}/{name}.wav",
            text=texts[1] if len(texts) > 1 and texts[1].strip() else texts[0],
            speaker=LJSPEECH_SPEAKER,
        )


def _fsdd_items(
    place: Path, folder: Path, split: Split | None, errors: RowErrors
) -> Iterator[Item]:
    """Files named by digit, speaker and take; the transcript is the word of the digit."""
    del split, errors
    prefix = place.relative_to(folder)
    names = AUDIO.files(place)
    has_splits = len({_fsdd_split(name) for name in names}) == 2
    for line, name in enumerate(names, start=1):
        found = FSDD_NAME.fullmatch(name)
        assert found is not None, name  # own_layout checked
        word = DIGIT_WORDS[int(found["digit"])]
        yield Item(
            source=place,
            line=line,
            file=(prefix / name).as_posix(),
            text=word,
            label=found["digit"],
            speaker=found["speaker"],
            split=_fsdd_split(name) if has_splits else None,
            words=(word,),
        )


def _fsdd_split(name: str) -> Split:
    found = FSDD_NAME.fullmatch(name)
    assert found is not None, name  # own_layout checked
    return "test" if int(found["take"]) in FSDD_TEST_TAKES else "train"
