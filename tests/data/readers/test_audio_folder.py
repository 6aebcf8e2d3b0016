"""Audio folders: every layout, splits, speakers, bad rows, and paths that lead out of the folder."""

from __future__ import annotations

import gzip
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.factories.sounds import sine, wav_bytes, write_wav

from regard.core.errors import RegardError
from regard.data.audio.clips import joined_clips
from regard.data.readers.audio_folder import AudioFolderReader
from regard.data.readers.text_file import Reader, RowErrors

TONE = sine(440, seconds=0.05)


def write(folder: Path, *files: str, metadata: str = "", name: str = "metadata.csv") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number, file in enumerate(files):
        write_wav(folder / file, sine(300 + 10 * number, seconds=0.05))
    if metadata:
        (folder / name).write_text(metadata, encoding="utf-8")
    return folder


def read(folder: Path, **options: Any) -> list[tuple[str, str, int]]:
    rows = AudioFolderReader(path=folder, **options).rows(errors=RowErrors())
    return [(row.input.name, row.target, row.line) for row in rows]


def bad_rows(folder: Path, **options: Any) -> tuple[list[str], list[tuple[int, str]]]:
    errors = RowErrors(skip=True)
    rows = list(AudioFolderReader(path=folder, **options).rows(errors=errors))
    return [row.input.name for row in rows], [(row.line, row.reason) for row in errors.rows]


def test_metadata_csv(tmp_path: Path) -> None:
    metadata = 'file_name,transcription,speaker_id\na.wav,"Hello, world",ann\nsub/b.wav, Ok ,bob\n'
    folder = write(tmp_path, "a.wav", "sub/b.wav", metadata=metadata)
    assert read(folder) == [("a.wav", "Hello, world", 2), ("sub/b.wav", "Ok", 3)]
    reader = AudioFolderReader(path=folder)
    assert isinstance(reader, Reader)
    assert reader.all_speakers() == ["ann", "bob"]
    clip = next(reader.rows(errors=RowErrors())).input
    assert (clip.speaker, len(clip.samples(sample_rate=16_000))) == ("ann", 800)
    assert read(folder, speakers=("bob",)) == read(folder, without_speakers=("ann",))
    assert read(folder, speakers=("bob",))[0][0] == "sub/b.wav"


def test_metadata_jsonl_with_texts_and_labels(tmp_path: Path) -> None:
    rows = [
        {"file_name": "a.wav", "text": "cafe\u0301", "label": 1, "speaker": 7},
        {"file_name": "b.wav", "text": "tea", "label": 2, "speaker": 8},
    ]
    metadata = "\n".join(map(json.dumps, rows))
    folder = write(tmp_path, "a.wav", "b.wav", metadata=metadata, name="metadata.jsonl")
    assert read(folder, target="text") == [("a.wav", "café", 1), ("b.wav", "tea", 2)]
    assert read(folder, target="label") == [("a.wav", "1", 1), ("b.wav", "2", 2)]
    assert read(folder) == read(folder, target="text")
    assert AudioFolderReader(path=folder).all_speakers() == ["7", "8"]


def test_label_folders(tmp_path: Path) -> None:
    folder = write(tmp_path, "yes/1.wav", "no/2.wav", "no/1.WAV", "_background_noise_/x.wav")
    (folder / "README.md").write_text("about")
    expected = [("no/1.WAV", "no", 1), ("no/2.wav", "no", 2), ("yes/1.wav", "yes", 3)]
    assert read(folder) == read(folder, target="text") == expected
    assert AudioFolderReader(path=folder).splits() == ()
    assert AudioFolderReader(path=folder).all_speakers() == []


@pytest.mark.parametrize("validation", ["validation", "valid", "dev", "val"])
def test_split_folders(tmp_path: Path, validation: str) -> None:
    folder = write(tmp_path, "train/a/1.wav", f"{validation}/a/2.wav", "test/a/3.wav")
    reader = AudioFolderReader(path=folder)
    assert reader.splits() == ("train", "validation", "test")
    assert len(read(folder)) == 3
    found = list(reader.with_split("validation").rows(errors=RowErrors()))
    assert [row.input.name for row in found] == [f"{validation}/a/2.wav"]
    assert len(read(folder / "train")) == 1


def test_a_label_may_be_called_train(tmp_path: Path) -> None:
    folder = write(tmp_path, "train/1.wav", "car/1.wav")
    assert [row[1] for row in read(folder)] == ["car", "train"]


def test_split_folders_with_metadata(tmp_path: Path) -> None:
    for split in ("train", "test"):
        metadata = f"file_name,text\nclips/1.wav,{split} text\n"
        write(tmp_path / split, "clips/1.wav", metadata=metadata)
    assert read(tmp_path) == [
        ("train/clips/1.wav", "train text", 2),
        ("test/clips/1.wav", "test text", 2),
    ]
    assert read(tmp_path, split="test")[0][1] == "test text"
    (tmp_path / "train" / "metadata.csv").unlink()
    with pytest.raises(RegardError, match=r"train' has no metadata\.csv"):
        read(tmp_path)


def test_one_metadata_file_for_several_splits(tmp_path: Path) -> None:
    metadata = "file_name,text\ntrain/1.wav,one\ntest/2.wav,two\n"
    folder = write(tmp_path, "train/1.wav", "test/2.wav", metadata=metadata)
    assert AudioFolderReader(path=folder).splits() == ("train", "test")
    assert read(folder, split="test") == [("test/2.wav", "two", 3)]


def test_ljspeech(tmp_path: Path) -> None:
    metadata = 'LJ-1|In 1945, "so|In nineteen forty-five, "so\nLJ-2|Yes.\nLJ-3|raw|\n'
    folder = write(tmp_path, "wavs/LJ-1.wav", "wavs/LJ-2.wav", "wavs/LJ-3.wav", metadata=metadata)
    assert read(folder) == [
        ("wavs/LJ-1.wav", 'In nineteen forty-five, "so', 1),
        ("wavs/LJ-2.wav", "Yes.", 2),
        ("wavs/LJ-3.wav", "raw", 3),
    ]
    with pytest.raises(RegardError, match=r"target=label: .* has no labels"):
        read(folder, target="label")
    with pytest.raises(RegardError, match=r"split=test: .* has no splits"):
        AudioFolderReader(path=folder).with_split("test")


@pytest.mark.parametrize("place", ["", "recordings"])
def test_fsdd(tmp_path: Path, place: str) -> None:
    names = ["3_ann_0.wav", "3_ann_4.wav", "3_ann_5.wav", "7_bob_12.wav"]
    write(tmp_path / place, *names)
    prefix = f"{place}/" if place else ""
    files = [f"{prefix}{name}" for name in names]
    assert [row[0] for row in read(tmp_path)] == files
    assert [row[1] for row in read(tmp_path)] == ["3", "3", "3", "7"]
    assert [row[1] for row in read(tmp_path, target="text")] == ["three"] * 3 + ["seven"]
    reader = AudioFolderReader(path=tmp_path)
    assert reader.splits() == ("train", "test")
    assert [row[0] for row in read(tmp_path, split="test")] == files[:2]
    assert [row[0] for row in read(tmp_path, split="train")] == files[2:]
    assert reader.all_speakers() == ["ann", "bob"]
    (row,) = AudioFolderReader(path=tmp_path, speakers=("bob",)).rows(errors=RowErrors())
    assert (row.input.words, row.input.transcript) == (("seven",), "seven")
    with pytest.raises(RegardError, match=r"split=validation: .* has the splits train, test"):
        reader.with_split("validation")


@pytest.mark.parametrize("takes", [(0, 4), (5, 12)])
def test_fsdd_of_one_split_has_none(tmp_path: Path, takes: tuple[int, ...]) -> None:
    write(tmp_path, *(f"3_ann_{take}.wav" for take in takes))
    assert AudioFolderReader(path=tmp_path).splits() == ()
    assert len(read(tmp_path)) == 2


def test_bad_rows_have_line_and_reason(tmp_path: Path) -> None:
    rows = [
        "a.wav,good",
        "absent.wav,x",
        "b.wav,",
        "text.wav,x",
        "long.wav,x",
        ",x",
        "b.wav,x,y",
        "nan.wav,x",
        "b.wav,bell \x07",
        "song.mp3,x",
        "b.wav,also good",
    ]
    folder = write(tmp_path, "a.wav", "b.wav", metadata="\n".join(["file_name,text", *rows]))
    (folder / "text.wav").write_text("no sound")
    (folder / "long.wav").write_bytes(wav_bytes(np.zeros(3 * 16_000)))
    (folder / "nan.wav").write_bytes(wav_bytes(np.full(9, np.nan), bits=32, is_float=True))
    (folder / "song.mp3").write_bytes(b"ID3 and so on")
    names, errors = bad_rows(folder, max_seconds=2.0)
    assert names == ["a.wav", "b.wav"]
    assert [line for line, _ in errors] == [*range(3, 12)]
    kinds = [
        "missing file: 'absent.wav'",
        "missing transcript: 'b.wav'",
        "not a WAV file: 'text.wav': it begins with 'no sound'",
        "too long: 'long.wav': 3.00 s",
        "empty file name",
        "wrong number of columns: 3",
        "samples not finite: 'nan.wav'",
        "control character: U+0007",
        "not a WAV file: 'song.mp3': it is MP3",
    ]
    for (_, reason), kind in zip(errors, kinds, strict=True):
        assert reason.startswith(kind), (reason, kind)
    with pytest.raises(RegardError, match=r"metadata\.csv:3: missing file: .*--skip-bad-rows"):
        read(folder)


def test_bad_json_rows(tmp_path: Path) -> None:
    lines = [
        '{"file_name": "a.wav", "text": "good"}',
        "[1]",
        "{",
        '{"file_name": "a.wav", "text": 3}',
        '{"file_name": "a.wav"}',
        '{"text": "x"}',
        '{"file_name": "a.wav", "text": null}',
    ]
    folder = write(tmp_path, "a.wav", metadata="\n".join(lines), name="metadata.jsonl")
    names, errors = bad_rows(folder)
    assert names == ["a.wav"]
    assert [reason.partition(":")[0] for _, reason in errors] == [
        "not an object",
        "not JSON",
        "value not a string",
        "missing transcript",
        "empty file name",
        "missing transcript",
    ]


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ("../secret.wav", "path with '..': '../secret.wav'"),
        ("sub/../../secret.wav", "path with '..'"),
        ("..\\secret.wav", "path with '..'"),
        ("{outside}", "absolute path"),
        ("C:\\secret.wav", "absolute path"),
        ("link.wav", "link out of the folder: 'link.wav'"),
        ("linked/secret.wav", "link out of the folder"),
        ("loop.wav", "unreadable file"),
    ],
)
def test_paths_that_lead_out_of_the_folder(tmp_path: Path, file: str, reason: str) -> None:
    outside = write_wav(tmp_path / "outside" / "secret.wav", TONE)
    write_wav(tmp_path / "secret.wav", TONE)
    file = file.format(outside=outside)
    folder = write(tmp_path / "data", "a.wav", metadata=f"file_name,text\n{file},x\na.wav,y\n")
    (folder / "link.wav").symlink_to(outside)
    (folder / "linked").symlink_to(outside.parent)
    (folder / "loop.wav").symlink_to(folder / "loop.wav")
    names, errors = bad_rows(folder)
    assert names == ["a.wav"]
    assert errors[0][0] == 2
    assert errors[0][1].startswith(reason)


def test_links_within_the_folder_and_to_it_are_followed(tmp_path: Path) -> None:
    folder = write(tmp_path / "data", "a.wav", metadata="file_name,text\nlink.wav,x\n")
    (folder / "link.wav").symlink_to("a.wav")
    (tmp_path / "shortcut").symlink_to(folder)
    assert read(tmp_path / "shortcut") == [("link.wav", "x", 2)]


def test_linked_label_folders_and_metadata_are_refused(tmp_path: Path) -> None:
    outside = write(tmp_path / "outside", "x.wav", metadata="file_name,text\nx.wav,y\n")
    folder = write(tmp_path / "data", "yes/1.wav")
    (folder / "no").symlink_to(outside)
    assert bad_rows(folder) == (["yes/1.wav"], [(1, "link out of the folder: 'no/x.wav'")])
    (folder / "metadata.csv").symlink_to(outside / "metadata.csv")
    with pytest.raises(RegardError, match=r"metadata\.csv' is a link that leads out"):
        read(folder)


def test_folders_without_a_layout(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"There is no folder '.*absent'"):
        read(tmp_path / "absent")
    with pytest.raises(
        RegardError, match=r"is empty.*metadata\.csv.*LABEL/recording.*wavs/id.*DIGIT"
    ):
        read(tmp_path)
    (tmp_path / ".hidden").write_text("")
    with pytest.raises(RegardError, match="is empty"):
        read(tmp_path)
    file = write_wav(tmp_path / "a.wav", TONE)
    with pytest.raises(RegardError, match=r"has no known audio layout.*LABEL/recording"):
        read(tmp_path)
    with pytest.raises(RegardError, match=r"a\.wav' is a file; recordings are read from a folder"):
        read(file)
    file.unlink()
    write(tmp_path / "train", "1.wav")
    with pytest.raises(RegardError, match="its folder 'train' has neither metadata nor"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ("name,text\na.wav,x\n", r"has the columns name, text\. It needs file_name"),
        ("file_name,words\na.wav,x\n", "It needs file_name, and transcription, text or label"),
        ("", r"metadata\.csv' is empty"),
    ],
)
def test_metadata_without_its_columns(tmp_path: Path, metadata: str, message: str) -> None:
    folder = write(tmp_path, "a.wav")
    (folder / "metadata.csv").write_text(metadata)
    with pytest.raises(RegardError, match=message):
        read(folder)


def test_an_unknown_target(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"Unknown target of audio 'txt'.*label, text"):
        read(tmp_path, target="txt")


def test_two_metadata_files(tmp_path: Path) -> None:
    folder = write(tmp_path, "a.wav", metadata="file_name,text\na.wav,x\n")
    (folder / "metadata.jsonl").write_text("{}")
    with pytest.raises(RegardError, match=r"both metadata\.csv and metadata\.jsonl"):
        read(folder)


def test_no_valid_recording(tmp_path: Path) -> None:
    folder = write(tmp_path, metadata="file_name,text,speaker\na.wav,x,ann\n")
    with pytest.raises(RegardError, match=r"no valid recording \(1 errors; the first: .*missing"):
        bad_rows(folder)
    with pytest.raises(RegardError, match="no valid recording without ann"):
        bad_rows(folder, without_speakers=("ann",))


def test_unknown_speakers(tmp_path: Path) -> None:
    folder = write(tmp_path / "digits", "3_george_5.wav")
    with pytest.raises(RegardError, match=r"Unknown speaker 'georg'\. Did you mean 'george'"):
        read(folder, speakers=("georg",))
    with pytest.raises(RegardError, match=r"speakers=ann: the speakers of .* are not known"):
        read(write(tmp_path / "labels", "yes/1.wav"), without_speakers=("ann",))


@pytest.fixture(scope="module")
def fsdd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fsdd")
    with tarfile.open(Path(os.environ["REGARD_DATA"]) / "fsdd" / "recordings.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.mark.data
def test_spoken_digits(fsdd: Path) -> None:
    reader = AudioFolderReader(path=fsdd, target="text", without_speakers=("lucas",))
    assert len(AudioFolderReader(path=fsdd).all_speakers()) == 5
    train = list(reader.with_split("train").rows(errors=RowErrors()))
    test = list(reader.with_split("test").rows(errors=RowErrors()))
    assert (len(train), len(test)) == (4 * 450, 4 * 50)
    assert {row.target for row in test} >= {"zero", "nine"}
    by_speaker: dict[str, list[Any]] = {}
    for row in test:
        by_speaker.setdefault(row.input.speaker, []).append(row.input)
    strings = joined_clips(
        by_speaker, num_strings=20, min_words=3, max_words=5, pause_range=(0.05, 0.3), seed=0
    )
    for clip in strings:
        (*_, last) = clip.word_intervals(sample_rate=8000, trim_db=30.0)
        assert round(last.end * 8000) == len(clip.samples(sample_rate=8000, trim_db=30.0))


@pytest.mark.data
def test_ljspeech_recordings(data_folder: Path, tmp_path: Path) -> None:
    archive_path = next((data_folder / "ljspeech").glob("*.tar.xz"))
    with tarfile.open(archive_path, mode="r|xz") as archive:  # a stream: the first few are enough
        wavs = (member for member in archive if member.name.endswith(".wav"))
        for member, _ in zip(wavs, range(3), strict=False):
            archive.extract(member, tmp_path, filter="data")
    (folder,) = {path.parent.parent for path in tmp_path.rglob("*.wav")}
    metadata = gzip.decompress((data_folder / "ljspeech" / "metadata.csv.gz").read_bytes())
    (folder / "metadata.csv").write_bytes(metadata)
    names, errors = bad_rows(folder)
    assert len(names) == 3
    assert len(errors) == 1000  # the first of 13,097 missing files
    assert errors[0][1].startswith("missing file")
