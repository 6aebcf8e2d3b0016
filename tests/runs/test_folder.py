"""Predictions in a run's folder: what is scored is what is kept, and it can be had again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.factories.toy_language import tiny_sections

from regard.core.errors import RegardError
from regard.runs.folder import Predictions, RunFolder, read_predictions, write_predictions
from regard.runs.load import load
from regard.runs.spec import RunSpec
from regard.runs.train import begin_run, resume_run
from regard.tasks.seq2seq.pronounce import Pronounce


def finished(words: Path, path: Path, **changes: Any) -> RunFolder:
    folder = RunFolder(path)
    assert begin_run(RunSpec.from_sections(tiny_sections(words, **changes)), folder) is not None
    return folder


@pytest.mark.parametrize("part", ["validation", "test"])
def test_what_is_kept_is_what_was_scored(learned: RunFolder, part: str) -> None:
    run, kept = load(learned.path), read_predictions(learned, part)
    assert len(kept) == run.record["data"][f"{part}_items"]
    scores = Pronounce.scores(kept.predicted, kept.answers)
    assert scores.items() <= run.record["scores"][part].items()
    assert run.predict(kept.sources[:5]) == list(kept.predicted[:5])


def test_a_part_without_items_has_a_file_without_rows(words: Path, tmp_path: Path) -> None:
    folder = finished(words, tmp_path / "run", task={"test_share": 0.0})
    assert folder.predictions["test"].read_text() == ""
    assert len(read_predictions(folder, "test")) == 0
    assert len(read_predictions(folder, "validation")) > 0


def test_any_text_comes_back_as_it_was(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    odd = ("a\u2028b", 'quo"te\n', "\x85", "naïve 猫")
    write_predictions(folder, "validation", sources=odd, predicted=odd, answers=[odd] * 4)
    expected = Predictions(sources=odd, predicted=odd, answers=(odd,) * 4)
    assert read_predictions(folder, "validation") == expected


def test_the_record_comes_last(
    words: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped while predictions are written, a run is not finished, and goes on."""

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


def test_a_run_from_before_predictions_were_kept_is_scored_again(
    words: Path, tmp_path: Path
) -> None:
    folder = finished(words, tmp_path / "run")
    kept, record = read_predictions(folder), json.loads(folder.record.read_text())
    for path in folder.predictions.values():
        path.unlink()
    with pytest.raises(
        RegardError, match=r"Remove its record\.json and score it again: regard train"
    ):
        read_predictions(folder)
    # The way out that the error names.
    folder.record.unlink()
    with pytest.raises(RegardError, match=r"stopped before it was written: regard train --resume"):
        read_predictions(folder)
    again = resume_run(folder)
    assert again is not None
    assert again["scores"] == record["scores"]
    assert read_predictions(folder) == kept


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "is not JSON"),
        ("[1]\n", "has a row that is not a source, a prediction and answers"),
        ('{"source": "a", "predicted": "b", "answers": []}\n', "has a row that is not"),
        ('{"source": "a", "predicted": 3, "answers": ["b"]}\n', "has a row that is not"),
    ],
)
def test_a_changed_file_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    folder = RunFolder(tmp_path)
    folder.predictions["validation"].write_text(text)
    with pytest.raises(RegardError, match=complaint):
        read_predictions(folder, "validation")


def test_an_unknown_part_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"Unknown part 'train'\. Choose from: validation, test"):
        read_predictions(RunFolder(tmp_path), "train")
