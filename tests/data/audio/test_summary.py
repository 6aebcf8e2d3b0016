"""`regard data describe FOLDER`: hours, rates, durations, speakers, splits, labels and transcripts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.factories.command_line import regard
from tests.factories.sounds import sine, write_wav

import regard as package
from regard.core.errors import RegardError
from regard.data.readers.describe import describe_file


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = ["file_name,text,speaker"]
    for split, count in (("train", 3), ("test", 2)):
        for number in range(count):
            # The first recording of both splits is the same.
            tone = sine(
                300 + (0 if number == 0 else 10 * number + count), seconds=0.5 * (number + 1)
            )
            rate = 8000 if split == "train" and number == 2 else 16_000
            write_wav(tmp_path / split / f"{number}.wav", tone, sample_rate=rate)
            rows.append(f"{split}/{number}.wav,number {number},{'ab'[number % 2]}")
    (tmp_path / "metadata.csv").write_text("\n".join([*rows, "train/absent.wav,x,a"]))
    return tmp_path


def test_json(folder: Path) -> None:
    found = json.loads(regard("data", "describe", folder, "--json").stdout)
    assert (found["format"], found["rows"], found["distinct_inputs"]) == ("metadata", 5, 4)
    assert found["duplicate_rows"] == 1
    audio = found["audio"]
    # 0.5 + 1.0 + 3.0 seconds (24,000 samples at 8 kHz), and 0.5 + 1.0.
    assert audio["hours"] == pytest.approx(6 / 3600)
    assert audio["seconds"] == {
        "min": 0.5,
        "median": 1.0,
        "mean": 1.2,
        "quantile_95": 3.0,
        "max": 3.0,
    }
    assert audio["sample_rates"] == {"8000": 1, "16000": 4}
    assert audio["speakers"] == {"a": 3, "b": 2}
    assert audio["splits"] == {"train": 3, "test": 2}
    assert audio["recordings_in_several_splits"] == 1
    assert found["transcript"]["words"]["max"] == 2
    assert found["row_errors"]["by_reason"] == {"missing file": 1}


def test_text(folder: Path) -> None:
    done = regard("data", "describe", folder)
    assert (done.returncode, done.stderr) == (0, "")
    for line in (
        f"{folder} (metadata)",
        "rows                       5",
        "bad rows                   1",
        "audio seconds            0.50    1.00    1.20    3.00    3.00",
        "transcript characters       8       8     8.0       8       8",
        "duration: 6.00 s",
        "sample rates: 8,000 Hz 1, 16,000 Hz 4",
        "2 speakers: a 3, b 2",
        "splits: train 3, test 2; 1 recording occurs in several",
        "transcript: 4 distinct words: number 5, 0 2, 1 2, 2 1",
    ):
        assert line in done.stdout.splitlines(), done.stdout


def test_labels(tmp_path: Path) -> None:
    for label in ("yes", "no"):
        write_wav(tmp_path / label / "1.wav", sine(440, seconds=0.1))
    found = describe_file(str(tmp_path))
    shown = found.as_text()
    assert "2 labels in 2 rows (no 1, yes 1)" in shown
    assert "sample rate: 16,000 Hz" in shown
    assert "speaker" not in shown
    assert "split" not in shown
    # The same sound with two labels: no duplicate row, but one distinct input.
    assert (found.distinct_inputs, found.duplicate_rows) == (1, 0)
    assert (
        describe_file(str(tmp_path), target="text").as_json()["transcript"]["distinct_words"] == 2
    )


def test_options_that_a_folder_does_not_have(tmp_path: Path) -> None:
    write_wav(tmp_path / "yes" / "1.wav", np.zeros(10))
    with pytest.raises(RegardError, match="is a folder of audio, which has no header"):
        package.data.describe(tmp_path, header=True)
    with pytest.raises(RegardError, match="--target number: a recording has a label or a text"):
        package.data.describe(tmp_path, target="number")


def test_a_folder_without_audio(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("a\tb\n")
    done = regard("data", "describe", tmp_path)
    assert done.returncode == 2
    assert "is a folder, not a file, and has no known audio layout" in done.stderr
    assert "Traceback" not in done.stderr
