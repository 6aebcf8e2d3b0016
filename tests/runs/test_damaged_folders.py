"""Run folders that are killed at any write, moved, linked or initialised from themselves."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.factories.command_line import regard
from tests.factories.toy_pronunciation import tiny_sections

from regard.core.atomic_write import atomic_write
from regard.core.errors import RegardError
from regard.runs import train as train_module
from regard.runs.folder import RunFolder, read_predictions
from regard.runs.load import load
from regard.runs.spec import RunSpec
from regard.runs.train import begin_run, resume_run
from regard.tasks.task import Task
from regard.training.callbacks import Callback, StepMetrics
from regard.training.process import folder_lock


def spec_of(words: Path, **changes: Any) -> RunSpec:
    return RunSpec.from_sections(tiny_sections(words, threads=1, **changes))


def trained(words: Path, path: Path, **changes: Any) -> RunFolder:
    folder = RunFolder(path)
    assert begin_run(spec_of(words, **changes), folder) is not None
    return folder


class Killed(BaseException):
    """In place of SIGKILL."""


def run_killed_at(
    number: int, words: Path, folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> bool:
    """Train, and stop before write `number` of any file; False if there are fewer."""
    left = [number]

    def dying(*arguments: Any) -> None:
        if not left[0]:
            raise Killed
        left[0] -= 1
        atomic_write(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr("regard.core.manifest.atomic_write", dying)
        try:
            begin_run(spec_of(words), folder)
        except Killed:
            return True
    return False


def compare_killed(
    numbers: Any, words: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> int:
    whole = trained(words, tmp_path / "whole")
    for number in numbers:
        folder = RunFolder(tmp_path / str(number))
        if not run_killed_at(number, words, folder, monkeypatch):
            return int(number)
        if not folder.record.exists() and folder.spec.exists():
            assert resume_run(folder) is not None
        elif not folder.spec.exists():  # the same command again
            assert begin_run(spec_of(words), folder) is not None
        assert folder.model.read_bytes() == whole.model.read_bytes()
        assert folder.metrics.read_bytes() == whole.metrics.read_bytes()
        records = [load(one.path).record for one in (folder, whole)]
        assert records[0]["scores"] == records[1]["scores"]
        assert read_predictions(folder) == read_predictions(whole)
    return -1


def test_kill_at_some_writes(words: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Around the spec, a checkpoint, the model and the record."""
    assert compare_killed([1, 2, 11, 12, 14, 15, 30], words, tmp_path, monkeypatch) == -1


@pytest.mark.stress
def test_kill_at_every_write(words: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compare_killed(range(200), words, tmp_path, monkeypatch) >= 30


class Remove(Callback):
    """Moves the run folder away during training."""

    def __init__(self, folder: Path, *, step: int) -> None:
        self.folder, self.step = folder, step

    def on_step_end(self, info: StepMetrics) -> None:
        if info.step == self.step:
            self.folder.rename(self.folder.with_name("moved"))


@pytest.mark.parametrize("step", [1, 6])
def test_folder_moved_during_training_is_an_error(words: Path, tmp_path: Path, step: int) -> None:
    folder = RunFolder(tmp_path / "run")
    with pytest.raises(RegardError, match=r"run' .*(removed|moved)"):
        begin_run(spec_of(words), folder, callbacks=[Remove(folder.path, step=step)])
    assert not folder.path.exists()


def test_folder_exchanged_during_training_is_not_written(words: Path, tmp_path: Path) -> None:
    """Another run in its place before the first checkpoint must not continue from it."""
    other = trained(words, tmp_path / "other", seed=5)
    before = {path.name: path.read_bytes() for path in other.path.iterdir()}
    folder = RunFolder(tmp_path / "run")

    class Exchange(Callback):
        def on_step_end(self, info: StepMetrics) -> None:
            if info.step == 1:
                folder.path.rename(tmp_path / "moved")
                other.path.rename(folder.path)

    with pytest.raises(RegardError, match="exchanged while it was used"):
        begin_run(spec_of(words), folder, callbacks=[Exchange()])
    assert {path.name: path.read_bytes() for path in folder.path.iterdir()} == before


def test_fingerprint_of_the_initial_run_is_that_of_the_start(words: Path, tmp_path: Path) -> None:
    first = trained(words, tmp_path / "first", training={"keep": "last"})
    spec = spec_of(words, init_from=str(first.path))
    folder = RunFolder(tmp_path / "second")

    class Stop(Callback):
        def on_evaluate(self, info: Any) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        begin_run(spec, folder, callbacks=[Stop()])
    started = json.loads(folder.data.read_text())["init_fingerprint"]
    resume_run(first, extend=3)
    record = resume_run(folder)
    assert record is not None
    assert record["data"]["init_fingerprint"] == started
    again = RunFolder(tmp_path / "third")
    assert begin_run(spec, again) is not None
    assert json.loads(again.data.read_text())["init_fingerprint"] != started


def test_scoring_holds_the_lock(
    words: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, refused = RunFolder(tmp_path / "run"), []
    details = Task.details

    def locked(*arguments: Any) -> Any:
        with pytest.raises(RegardError, match="Another process"), folder_lock(folder.path):
            pass
        refused.append(True)
        return details(*arguments)

    monkeypatch.setattr(Task, "details", locked)
    assert begin_run(spec_of(words), folder) is not None
    assert refused


@pytest.mark.parametrize("name", ["metrics.jsonl", "tensorboard", "pretraining", "record.json"])
def test_link_is_not_written_through(words: Path, tmp_path: Path, name: str) -> None:
    folder = trained(words, tmp_path / "run")
    folder.manifest.remove([folder.record])
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("mine")
    (folder.path / name).unlink(missing_ok=True)
    (folder.path / name).symlink_to(elsewhere)
    for use in (lambda: resume_run(folder), lambda: load(folder.path)):
        with pytest.raises(RegardError, match=f"{name}' is a symbolic link"):
            use()
    assert elsewhere.read_text() == "mine"


def test_link_in_a_new_folder_is_refused(words: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/model.safetensors").symlink_to(tmp_path / "nowhere")
    with pytest.raises(RegardError, match=r"model\.safetensors' is a symbolic link"):
        trained(words, tmp_path / "run")


def test_linked_run_folder_is_used(words: Path, tmp_path: Path) -> None:
    folder = trained(words, tmp_path / "run")
    (tmp_path / "latest").symlink_to(folder.path)
    assert load(tmp_path / "latest").predict(["abc"]) == load(folder.path).predict(["abc"])


def test_cycle_of_initial_runs_is_refused(words: Path, tmp_path: Path) -> None:
    first = trained(words, tmp_path / "first")
    second = trained(words, tmp_path / "second", init_from=str(first.path))
    third = trained(words, tmp_path / "third", init_from=str(second.path))
    shutil.rmtree(first.path)
    third.path.rename(first.path)  # second → first → second
    with pytest.raises(RegardError, match="leads back to itself"):
        trained(words, tmp_path / "new", init_from=str(second.path))
    second.manifest.remove([second.record])
    with pytest.raises(RegardError, match="leads back to itself"):
        resume_run(second)


def test_unfinished_initial_run_is_refused(words: Path, tmp_path: Path) -> None:
    folder = trained(words, tmp_path / "run")
    folder.manifest.remove([folder.record])
    result = regard("train", "pronounce", "--init-from", folder.path, "--train-file", words)
    assert result.returncode == 2
    assert f"is not finished. Finish it first: regard train --resume {folder.path}" in result.stderr


def test_record_of_another_run_is_refused(words: Path, tmp_path: Path) -> None:
    folder = trained(words, tmp_path / "run")
    other = trained(words, tmp_path / "other", seed=1)
    shutil.copyfile(other.record, folder.record)
    with pytest.raises(RegardError, match=r"record\.json' was modified, damaged or exchanged"):
        load(folder.path)


def test_run_without_manifest_is_refused(words: Path, tmp_path: Path) -> None:
    folder = trained(words, tmp_path / "run")
    folder.manifest.path.unlink()
    for use in (lambda: load(folder.path), lambda: resume_run(folder)):
        with pytest.raises(RegardError, match=r"has no manifest\.json.*Restore it"):
            use()


def test_key_in_the_manifest_is_that_of_the_spec(words: Path, tmp_path: Path) -> None:
    """A spec that is rewritten together with its hash, for example by a script."""
    folder = trained(words, tmp_path / "run")
    spec = json.loads(folder.spec.read_text())
    spec["seed"] = 5
    folder.write_json(folder.spec, spec)
    with pytest.raises(RegardError, match=r"spec\.json' is not the spec of this run"):
        load(folder.path)


def test_temporary_files_are_removed(words: Path, tmp_path: Path) -> None:
    folder = trained(words, tmp_path / "run")
    folder.manifest.remove([folder.record])
    (folder.path / ".regard.left").write_text("half")
    assert resume_run(folder) is not None
    assert not list(folder.path.glob(".regard.*"))
    assert train_module.read_spec(folder) == spec_of(words)
