"""Predictions in a run folder: they are the scored ones, and round-trip."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.factories.toy_pronunciation import tiny_sections

from regard.core.errors import RegardError
from regard.runs.folder import Predictions, RunFolder, read_predictions, write_predictions
from regard.runs.load import load
from regard.runs.spec import RunSpec
from regard.runs.train import begin_run, resume_run
from regard.tasks.pronounce import Pronounce


def finished(words: Path, path: Path, **changes: Any) -> RunFolder:
    folder = RunFolder(path)
    assert begin_run(RunSpec.from_sections(tiny_sections(words, **changes)), folder) is not None
    return folder


@pytest.mark.parametrize("split", ["validation", "test"])
def test_written_predictions_are_the_scored_ones(learned: RunFolder, split: str) -> None:
    run, stored = load(learned.path), read_predictions(learned, split)
    assert len(stored) == run.record["data"][f"{split}_items"]
    scores = Pronounce.scores(stored.predictions, stored.references)
    assert scores.items() <= run.record["scores"][split].items()
    assert run.predict(stored.inputs[:5]) == list(stored.predictions[:5])


def test_empty_split_has_an_empty_file(words: Path, tmp_path: Path) -> None:
    folder = finished(words, tmp_path / "run", task={"test_fraction": 0.0})
    assert folder.predictions["test"].read_text() == ""
    assert len(read_predictions(folder, "test")) == 0
    assert len(read_predictions(folder, "validation")) > 0


def test_round_trip_of_any_text(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.manifest.create()
    odd = ("a\u2028b", 'quo"te\n', "\x85", "naïve 猫")
    write_predictions(folder, "validation", inputs=odd, predictions=odd, references=[odd] * 4)
    expected = Predictions(inputs=odd, predictions=odd, references=(odd,) * 4)
    assert read_predictions(folder, "validation") == expected


def test_record_is_written_last(
    words: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run stopped while writing predictions is not finished, and can be resumed."""

    def fail(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("regard.runs.train.write_predictions", fail)
        with pytest.raises(KeyboardInterrupt):
            finished(words, tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    assert not folder.record.exists()
    assert resume_run(folder) is not None
    assert len(read_predictions(folder)) > 0


def test_run_without_predictions_is_evaluated_again(words: Path, tmp_path: Path) -> None:
    folder = finished(words, tmp_path / "run")
    stored, record = read_predictions(folder), json.loads(folder.record.read_text())
    for path in folder.predictions.values():
        path.unlink()
    with pytest.raises(RegardError, match=r"Remove its record\.json .*regard train"):
        read_predictions(folder)
    # The way out that the error names.
    folder.record.unlink()
    with pytest.raises(RegardError, match="regard train --resume"):
        read_predictions(folder)
    again = resume_run(folder)
    assert again is not None
    assert again["scores"] == record["scores"]
    assert read_predictions(folder) == stored


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "is not JSON"),
        ("[1]\n", "has a row without"),
        ('{"input": "a", "prediction": "b", "references": []}\n', "has a row without"),
        ('{"input": "a", "prediction": 3, "references": ["b"]}\n', "has a row without"),
    ],
)
def test_malformed_file_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    folder = RunFolder(tmp_path)
    folder.manifest.create()
    folder.write(folder.predictions["validation"], text)
    with pytest.raises(RegardError, match=complaint):
        read_predictions(folder, "validation")


def test_unknown_split_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="Unknown split 'train'"):
        read_predictions(RunFolder(tmp_path), "train")
