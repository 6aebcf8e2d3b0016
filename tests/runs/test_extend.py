"""Extending a finished run by further steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from tests.factories.command_line import regard
from tests.factories.toy_pronunciation import tiny_sections

from regard import api
from regard.core.atomic_write import TEMPORARY_PREFIX, atomic_write
from regard.core.errors import RegardError
from regard.runs import train as module
from regard.runs.folder import RunFolder
from regard.runs.load import load
from regard.runs.spec import RunSpec, spec_key
from regard.runs.train import begin_run, resume_run


def trained(words: Path, path: Path, **changes: Any) -> RunFolder:
    folder = RunFolder(path)
    assert begin_run(RunSpec.from_sections(tiny_sections(words, **changes)), folder) is not None
    return folder


CONSTANT = {"schedule": "constant", "warmup_steps": 1}


def test_extended_run_equals_a_longer_one(words: Path, tmp_path: Path) -> None:
    """With a constant learning rate the budget does not affect the steps."""
    longer = trained(words, tmp_path / "longer", training={**CONSTANT, "steps": 9})
    folder = trained(words, tmp_path / "run", training=CONSTANT)
    before = json.loads(folder.record.read_text())
    result = regard("train", "--resume", folder.path, "--extend", 3)
    assert result.returncode == 0, result.stderr
    assert folder.model.read_bytes() == longer.model.read_bytes()
    assert folder.metrics.read_bytes() == longer.metrics.read_bytes()
    record = load(folder.path).record
    assert record["scores"] == load(longer.path).record["scores"]
    assert record["outcome"]["steps"] == record["spec"]["training"]["steps"] == 9
    earlier = spec_key(RunSpec.from_sections(before["spec"]))
    assert record["extended_from"] == [{"key": earlier, "steps": 6}]


def test_stopped_extension_is_resumed(
    words: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = trained(words, tmp_path / "whole")
    resume_run(whole, extend=4)
    folder = trained(words, tmp_path / "run")

    def die(**_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "train", die)
        with pytest.raises(KeyboardInterrupt):
            resume_run(folder, extend=4)
    assert not folder.record.exists()
    assert load(folder.path).predict(["abc"])  # as any unfinished run
    assert resume_run(folder) is not None
    assert folder.model.read_bytes() == whole.model.read_bytes()
    assert json.loads(folder.record.read_text())["extended_from"][0]["steps"] == 6


@pytest.mark.parametrize("after", range(3))
def test_kill_while_an_extension_begins(
    words: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """After the manifest, the spec, or the first removed file: it is said, and resumed."""
    folder = trained(words, tmp_path / "run")
    left = [after]

    def dying(call: Any) -> Any:
        def run(path: Path, *arguments: Any, **words: Any) -> Any:
            if not path.name.startswith(TEMPORARY_PREFIX):
                if not left[0]:
                    raise KeyboardInterrupt
                left[0] -= 1
            return call(path, *arguments, **words)

        return run

    with monkeypatch.context() as patch:
        patch.setattr(module, "atomic_write", dying(atomic_write))
        patch.setattr(Path, "unlink", dying(Path.unlink))
        with pytest.raises(KeyboardInterrupt):
            resume_run(folder, extend=2)
    with pytest.raises(RegardError, match=r"is being extended.*--resume"):
        load(folder.path)
    record = resume_run(folder)
    assert record is not None
    assert record["outcome"]["steps"] == 8
    assert record["extended_from"][0]["steps"] == 6
    assert load(folder.path).record == record


def test_twice(words: Path, tmp_path: Path) -> None:
    folder = trained(words, tmp_path / "run")
    for _ in range(2):
        record = resume_run(folder, extend=1)
    assert record is not None
    assert [one["steps"] for one in record["extended_from"]] == [6, 7]
    assert record["outcome"]["steps"] == 8


def test_errors_name_the_way_out(words: Path, tmp_path: Path) -> None:
    folder = trained(words, tmp_path / "run")
    with pytest.raises(RegardError, match=r"is finished.*--resume .*run --extend STEPS"):
        resume_run(folder)
    with pytest.raises(RegardError, match=r"is finished: .*--resume .*run --extend STEPS.*--out"):
        trained(words, tmp_path / "run")
    with pytest.raises(RegardError, match=r"Remove TASK, --seed, --threads, or"):
        api.train("pronounce", resume=folder.path, seed=1, threads=2)
    with pytest.raises(RegardError, match=r"--extend 3: .*--resume RUN"):
        api.train("pronounce", extend=3)
    with pytest.raises(RegardError, match="--extend 0"):
        resume_run(folder, extend=0)
    folder.manifest.remove([folder.record])
    with pytest.raises(RegardError, match=r"contains a run\. Resume it \(.*--resume .*run\), or"):
        trained(words, tmp_path / "run")


@pytest.mark.parametrize(
    ("training", "message"),
    [
        ({"tokens": 10**9}, "has the budget tokens.*training.steps"),
        ({"steps": None, "flops": 1.0}, "has the budget flops"),
        ({"steps": 60, "patience": 1, "learning_rate": 1e-12}, "early stopping.*patience=1"),
    ],
)
def test_other_budgets_are_refused(
    words: Path, tmp_path: Path, training: dict[str, Any], message: str
) -> None:
    folder = trained(words, tmp_path / "run", training=training)
    before = {path.name: path.read_bytes() for path in folder.path.iterdir()}
    with pytest.raises(RegardError, match=message):
        resume_run(folder, extend=3)
    assert {path.name: path.read_bytes() for path in folder.path.iterdir()} == before


def test_only_a_finished_run_is_extended(words: Path, tmp_path: Path) -> None:
    """Repeating an interrupted --extend must not extend again."""
    folder = trained(words, tmp_path / "run")
    folder.manifest.remove([folder.record])
    with pytest.raises(RegardError, match=r"--extend 4: .* is not finished.*--resume"):
        resume_run(folder, extend=4)
    assert json.loads(folder.spec.read_text())["training"]["steps"] == 6


def test_refused_extension_keeps_the_results(words: Path, tmp_path: Path) -> None:
    folder = trained(words, tmp_path / "run")
    before = {path.name: path.read_bytes() for path in folder.path.iterdir()}
    words.write_text(words.read_text() + "zzz  AH\n")
    with pytest.raises(RegardError, match="The data changed"):
        resume_run(folder, extend=4)
    assert {path.name: path.read_bytes() for path in folder.path.iterdir()} == before


def test_the_budget_of_an_extension_is_logged(words: Path, tmp_path: Path) -> None:
    lines: list[str] = []
    resume_run(trained(words, tmp_path / "run"), extend=2, log=lines.append)
    assert "extending the run from 6 to 8 steps" in lines


def test_predictions_of_an_unfinished_run_are_noted(
    words: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, notes = trained(words, tmp_path / "run"), list[str]()
    api.predict(folder.path, "abc", log=notes.append)
    assert notes == []
    monkeypatch.setattr(module, "train", lambda **_: Mock(stop_reason="interrupted"))
    assert resume_run(folder, extend=4) is None
    api.predict(folder.path, "abc", log=notes.append)
    assert notes == ["the run is not finished: step 6 of 10; its best checkpoint so far is used"]
