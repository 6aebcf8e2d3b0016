"""Training runs: learning, the record, resuming, errors."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.factories.toy_pronunciation import TINY, pronunciation, tiny_sections, write_dictionary

from regard.core.errors import RegardError
from regard.runs.build import build_task
from regard.runs.folder import RunFolder
from regard.runs.load import load
from regard.runs.spec import RunSpec
from regard.runs.train import begin_run, resume_run
from regard.training.callbacks import StepMetrics
from regard.training.loop import train


def trained_run(sections: dict[str, Any], path: Path) -> RunFolder:
    folder = RunFolder(path)
    assert begin_run(RunSpec.from_sections(sections), folder) is not None
    return folder


class Stop:
    """Interrupts a run after a number of steps, as Ctrl-C does."""

    def __init__(self, after: int) -> None:
        self.after = after

    def on_step_end(self, info: StepMetrics) -> None:
        if info.step == self.after:
            signal.raise_signal(signal.SIGINT)

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


def test_toy_language_is_learned(learned: RunFolder) -> None:
    record = json.loads(learned.record.read_text())
    # Ten seeds, three kinds of kernels (ATEN_CPU_CAPABILITY):
    assert (
        record["scores"]["validation"]["exact_match_error"] <= 20.0
    )  # ten seeds: 0 to 12; untrained: 100
    assert record["scores"]["test"]["per"] <= 10.0  # ten seeds: 0 to 4.2; untrained: 100 or more
    assert record["scores"]["validation"]["loss"] < 0.2  # ten seeds: 0.001 to 0.101; untrained: 2.3
    first = next(row for row in load(learned.path).metrics if "loss" in row)
    assert first["loss"] > 0.5  # it was not known before; ten seeds: 1.5 to 1.8


def test_record(learned: RunFolder) -> None:
    record = json.loads(learned.record.read_text())
    assert record["spec"] == json.loads(learned.spec.read_text())
    assert record["data"] == json.loads(learned.data.read_text())
    data = record["data"]
    assert data["train_pairs"] + data["validation_items"] + data["test_items"] == 300
    assert data["row_errors"] == 0
    assert record["outcome"]["steps"] == record["spec"]["training"]["steps"]
    assert record["outcome"]["stop_reason"] == "budget"
    assert set(record["versions"]) == {"regard", "torch", "python"}
    assert record["threads"] == 1


def test_loaded_run_repeats_the_scored_predictions(learned: RunFolder) -> None:
    run = load(learned.path)
    part = build_task(run.spec, preprocessor=run.preprocessor).dataset.validation
    predicted = run.predict(part.inputs)
    wrong = sum(
        guess not in answers for guess, answers in zip(predicted, part.references, strict=True)
    )
    assert run.record["scores"]["validation"]["exact_match_error"] == pytest.approx(
        100 * wrong / len(part)
    )
    assert wrong <= 5  # of 25; ten seeds: 0 to 3; untrained: 25


def compare(folder: RunFolder, other: RunFolder) -> None:
    assert folder.model.read_bytes() == other.model.read_bytes()
    assert folder.metrics.read_bytes() == other.metrics.read_bytes()
    records = [json.loads(one.record.read_text()) for one in (folder, other)]
    assert records[0]["scores"] == records[1]["scores"]
    assert records[0]["data"] == records[1]["data"]


@pytest.mark.parametrize("after", [1, 3, 5])
def test_interrupted_run_is_bit_reproducible(after: int, words: Path, tmp_path: Path) -> None:
    sections = tiny_sections(words, model={"dropout": 0.3})
    whole = trained_run(sections, tmp_path / "whole")
    folder = RunFolder(tmp_path / "stopped")
    assert begin_run(RunSpec.from_sections(sections), folder, callbacks=[Stop(after)]) is None
    assert not folder.record.exists()
    assert resume_run(folder) is not None
    compare(whole, folder)


KILLED = """
import json, os, signal, sys, torch
from pathlib import Path
torch.set_num_threads(1)
from regard.runs.folder import RunFolder
from regard.runs.spec import RunSpec
from regard.runs.train import begin_run

class Kill:
    def on_step_end(self, info):
        if info.step == 5:
            os.kill(os.getpid(), signal.SIGKILL)
    def __getattr__(self, name):
        return lambda *_: None

sections = json.loads(sys.argv[1])
begin_run(RunSpec.from_sections(sections), RunFolder(Path(sys.argv[2])), callbacks=[Kill()])
"""


def test_killed_run_is_bit_reproducible(words: Path, tmp_path: Path) -> None:
    sections = tiny_sections(words)
    whole = trained_run(sections, tmp_path / "whole")
    folder = RunFolder(tmp_path / "killed")
    command = [sys.executable, "-c", KILLED, json.dumps(sections), str(folder.path)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert folder.checkpoint.exists()
    assert resume_run(folder) is not None
    compare(whole, folder)


def test_run_killed_before_its_first_checkpoint_restarts(
    words: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = trained_run(tiny_sections(words), tmp_path / "whole")
    folder = RunFolder(tmp_path / "killed")

    def die(**_: object) -> None:
        raise SystemExit

    monkeypatch.setattr("regard.runs.train.train", die)
    with pytest.raises(SystemExit):
        begin_run(RunSpec.from_sections(tiny_sections(words)), folder)
    assert folder.spec.exists()
    monkeypatch.setattr("regard.runs.train.train", train)
    assert resume_run(folder) is not None
    compare(whole, folder)


def test_a_finished_run_is_not_resumed(learned: RunFolder) -> None:
    before = learned.model.read_bytes()
    with pytest.raises(RegardError, match="is finished"):
        resume_run(learned)
    assert learned.model.read_bytes() == before


def test_run_killed_before_its_record_is_evaluated(words: Path, tmp_path: Path) -> None:
    folder = trained_run(tiny_sections(words), tmp_path / "run")
    record = json.loads(folder.record.read_text())
    folder.record.unlink()
    again = resume_run(folder)
    assert again is not None
    assert again["scores"] == record["scores"]


def stopped_run(sections: dict[str, Any], path: Path) -> RunFolder:
    folder = RunFolder(path)
    begin_run(RunSpec.from_sections(sections), folder, callbacks=[Stop(2)])
    return folder


def test_changed_data_is_refused(words: Path, tmp_path: Path) -> None:
    folder = stopped_run(tiny_sections(words), tmp_path / "run")
    before = words.read_text()
    checkpoint = folder.checkpoint.read_bytes()
    words.write_text(before + "fffff  F F F F F\nfefefe  F EH F EH F EH\n")
    with pytest.raises(RegardError, match=r"data changed since the run .*_fingerprint"):
        resume_run(folder)
    assert folder.checkpoint.read_bytes() == checkpoint
    words.write_text(before)
    assert resume_run(folder) is not None


def test_changed_validation_data_is_refused(words: Path, tmp_path: Path) -> None:
    validation = tmp_path / "validation.dict"
    validation.write_text("ab  AH B\n")
    folder = stopped_run(
        tiny_sections(words, task={"validation_file": str(validation)}), tmp_path / "run"
    )
    validation.write_text("ab  AH AH\n")
    with pytest.raises(RegardError, match=r"data changed .*\(validation_fingerprint;"):
        resume_run(folder)


def test_deleted_data_is_an_error(words: Path, tmp_path: Path) -> None:
    folder = stopped_run(tiny_sections(words), tmp_path / "run")
    words.unlink()
    with pytest.raises(RegardError, match=r"There is no file .*words\.dict"):
        resume_run(folder)


def test_existing_run_is_refused_and_unchanged(words: Path, tmp_path: Path) -> None:
    folder = trained_run(tiny_sections(words), tmp_path / "run")
    before = {file.name: file.read_bytes() for file in folder.path.iterdir()}
    with pytest.raises(RegardError, match=r"already contains a run.*--resume .*run.*--out"):
        begin_run(RunSpec.from_sections(tiny_sections(words)), folder)
    assert {file.name: file.read_bytes() for file in folder.path.iterdir()} == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": {"validation_fraction": 0.0}}, "validation"),
        ({"task": {"max_length": 1}}, "max_length"),
        ({"task": {"max_length": 1, "skip_bad_rows": True}}, "validation split"),
        ({"task": {"batch_tokens": 3}}, "max_tokens=3"),
        ({"task": {"metric": "bleu"}}, "Unknown metric 'bleu'"),
        ({"task": {"source_tokens": "letters"}}, "task.source_tokens=letters"),
        ({"model": {**TINY, "mechanism": "location", "max_length": 2}}, "max_length=2"),
        ({"model": {**TINY, "mechanism": "dott"}}, "Unknown mechanism 'dott'"),
        ({"model": {**TINY, "hidden_dim": 0}}, "hidden_dim=0"),
        ({"model": {"name": "transformer", "tie": "all"}}, "tie='all'"),
        ({"training": {"device": "cuda"}}, "training.device=cuda: this machine has no such device"),
    ],
)
def test_error_leaves_no_folder(
    changes: dict[str, Any], message: str, words: Path, tmp_path: Path
) -> None:
    if message == "tie='all'":  # vocabularies of different sizes
        words.write_text(words.read_text() + "ag  AH G\nagg  AH G G\nagh  AH GG HH\n")
    if "cuda" in message:
        import torch

        if torch.cuda.is_available():
            pytest.skip("cuda is available")
    with pytest.raises(RegardError) as error:
        begin_run(
            RunSpec.from_sections(tiny_sections(words, **changes)), RunFolder(tmp_path / "runs/run")
        )
    assert message in str(error.value)
    assert not (tmp_path / "runs/run").exists()


def test_error_leaves_other_files(words: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("mine")
    sections = tiny_sections(words, task={"batch_tokens": 3})
    with pytest.raises(RegardError, match="max_tokens=3"):
        begin_run(RunSpec.from_sections(sections), RunFolder(tmp_path / "mine"))
    assert [file.name for file in (tmp_path / "mine").iterdir()] == ["notes.txt"]


def test_concurrently_started_run_is_not_overwritten(
    words: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder(tmp_path / "run")

    def build_slowly(spec: RunSpec, **kwargs: Any) -> Any:
        folder.make()
        folder.spec.write_text("another")
        return build_task(spec, **kwargs)

    monkeypatch.setattr("regard.runs.train.build_task", build_slowly)
    with pytest.raises(RegardError, match="already contains a run"):
        begin_run(RunSpec.from_sections(tiny_sections(words)), folder)
    assert folder.spec.read_text() == "another"


def test_bad_rows_are_listed_and_counted(tmp_path: Path) -> None:
    words = write_dictionary(tmp_path / "words.dict", count=120)
    lines = words.read_text().splitlines()
    lines[3] = "alone"
    lines[7] = "abcdefabcdef  " + pronunciation("abcdefabcdef")
    lines[11] = "abab  " + pronunciation("abab") + "\x07"
    words.write_text("\n".join(lines) + "\n")
    sections = tiny_sections(words, task={"max_length": 8})
    with pytest.raises(RegardError, match=r"words\.dict:4: .*--skip-bad-rows"):
        trained_run(sections, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    logged: list[str] = []
    sections["task"]["skip_bad_rows"] = True
    folder = RunFolder(tmp_path / "run")
    record = begin_run(RunSpec.from_sections(sections), folder, log=logged.append)
    assert record is not None
    assert record["data"]["row_errors"] == 3
    listed = folder.row_errors.read_text().splitlines()
    assert [line.split(":")[1] for line in listed] == ["4", "8", "12"]
    assert "task.max_length" in listed[1]
    assert any("3 bad rows skipped" in line and str(folder.row_errors) in line for line in logged)


def test_flops_budget(words: Path, tmp_path: Path) -> None:
    free = {"steps": None, "flops": 1.0}
    folder = trained_run(tiny_sections(words, training=free), tmp_path / "run")
    assert json.loads(folder.record.read_text())["outcome"]["steps"] == 1


@pytest.mark.parametrize("name", ["data.json", "checkpoint.safetensors", "tensorboard/x"])
def test_files_that_would_be_overwritten_are_refused(tmp_path: Path, name: str) -> None:
    mine = tmp_path / "own" / name
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    sections = tiny_sections(write_dictionary(tmp_path / "words.dict"))
    with pytest.raises(RegardError, match="overwritten"):
        begin_run(RunSpec.from_sections(sections), RunFolder(tmp_path / "own"))
    assert mine.read_text() == "mine"


def test_two_vocabularies_of_one_size_are_not_tied(tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("ab\tcd\nba\tdc\n")
    sections = {
        "task": {
            "name": "translate",
            "train_file": str(pairs),
            "validation_file": str(pairs),
            "source_tokens": "characters",
            "target_tokens": "characters",
        },
        "model": {"name": "transformer", "model_dim": 8, "num_heads": 2},
        "training": {"steps": 1},
    }
    with pytest.raises(RegardError, match=r"model\.tie='all'.*shared_vocabulary"):
        begin_run(RunSpec.from_sections(sections), RunFolder(tmp_path / "run"))
    assert not (tmp_path / "run").exists()
