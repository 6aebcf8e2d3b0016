"""`regard train --folds`: the runs of all folds, their scores, and continuing after an interruption."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from tests.factories.command_line import exit_code
from tests.factories.images import write_classes

import regard
from regard.api import CrossValidation
from regard.training.callbacks import Callback, StepMetrics

TINY: dict[str, Any] = {
    "model.model_dim": 4,
    "model.num_heads": 1,
    "model.num_layers": 1,
    "model.stem": {"type": "patches", "patch_size": 2},
    "training.warmup_steps": 0,
    "task.validation_fraction": 0.3,
}


class Stop(Callback):
    """Interrupts the run of a fold after a step, as Ctrl-C does."""

    def __init__(self, *, fold: int) -> None:
        self.fold, self.seen = fold, -1

    def on_train_begin(self, info: Any) -> None:
        self.seen += 1

    def on_step_end(self, info: StepMetrics) -> None:
        if self.seen == self.fold:
            os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_classes(tmp_path_factory.mktemp("data") / "images"))


@pytest.fixture(scope="module")
def whole(data: str, tmp_path_factory: pytest.TempPathFactory) -> CrossValidation:
    """All folds, not interrupted."""
    found = cross_validate(data, out=tmp_path_factory.mktemp("whole") / "cv")
    assert isinstance(found, CrossValidation)
    return found


@pytest.fixture
def images(data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return data


def cross_validate(images: str, **options: Any) -> Any:
    options = {"folds": 3, "steps": 4, "set": TINY, "out": "cv", "threads": 1, "seed": 1, **options}
    return regard.cross_validate("image_classification", train_file=images, **options)


def flags(settings: dict[str, Any]) -> list[str]:
    return [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]


def test_each_fold_is_tested_once(whole: CrossValidation) -> None:
    assert [run.spec.task_options.fold for run in whole.runs] == [0, 1, 2]
    inputs = [
        json.loads(line)["input"]
        for run in whole.runs
        for line in run.folder.predictions["test"].read_text().splitlines()
    ]
    assert len(inputs) == len(set(inputs)) == 24
    assert whole.scores()["accuracy"] == [
        run.record["scores"]["test"]["accuracy"] for run in whole.runs
    ]
    assert len(whole.baselines()["majority baseline"]["accuracy"]) == 3


def test_a_fold_is_the_run_of_its_settings(images: str, whole: CrossValidation) -> None:
    settings = {**TINY, "task.num_folds": 3, "task.fold": 1}
    run = regard.train(
        "image_classification",
        train_file=images,
        steps=4,
        set=settings,
        out="one",
        threads=1,
        seed=1,
    )
    assert run is not None
    assert run.record["scores"] == whole.runs[1].record["scores"]


def test_interrupted_folds_continue(images: str, whole: CrossValidation) -> None:
    lines: list[str] = []
    assert cross_validate(images, out="cut", callbacks=[Stop(fold=1)], log=lines.append) is None
    assert lines[-1] == "fold 1 is not finished; the same command with --out cut continues"
    assert [Path("cut", f"fold-{fold}", "record.json").exists() for fold in range(3)] == [
        True,
        False,
        False,
    ]
    finished = Path("cut/fold-0/record.json").stat().st_mtime_ns
    again = cross_validate(images, out="cut")
    assert again.scores() == whole.scores()
    assert Path("cut/fold-0/record.json").stat().st_mtime_ns == finished


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"folds": 1}, "--folds 1: use 2 or more"),
        ({"folds": 30}, "num_folds=30: .* has 24 different inputs. Use fewer folds"),
        ({"set": {**TINY, "task.num_folds": 2}}, "--folds 3: remove task.num_folds"),
        ({"set": {**TINY, "task.fold": 1}}, "task.fold=1: there are none"),
    ],
)
def test_usage_errors(images: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(regard.RegardError, match=message):
        cross_validate(images, **options)
    assert not Path("cv").exists()


def test_folds_of_other_settings_are_refused(images: str, whole: CrossValidation) -> None:
    folder = whole.runs[0].folder.path.parent
    message = f"'{re.escape(str(folder))}/fold-0' contains a run with other settings"
    with pytest.raises(regard.RegardError, match=message):
        cross_validate(images, steps=5, out=folder)


def test_tasks_without_folds(images: str) -> None:
    with pytest.raises(regard.RegardError, match="the task 'parity' has no folds"):
        regard.cross_validate("parity", folds=3)


def test_command_line(images: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["train", "image_classification", "--train-file", images, "--folds", "3"]
    command += ["--steps", "4", "--seed", "1", "--threads", "1", "--out", "cv", *flags(TINY)]
    assert exit_code(command) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "test scores of 3 folds"
    assert exit_code([*command, "--json"]) == 0  # finished folds are read
    record = json.loads(capsys.readouterr().out)
    assert record["folders"] == ["cv/fold-0", "cv/fold-1", "cv/fold-2"]
    accuracies = record["scores"]["accuracy"]
    (shown,) = (line.split() for line in lines if line.startswith("accuracy"))
    assert [float(cell) for cell in shown[2:5]] == pytest.approx(
        [fmean(accuracies), min(accuracies), max(accuracies)], abs=0.01
    )
    for flag in (["--tensorboard"], ["--resume", "cv"], ["--extend", "3"], ["--init-from", "cv"]):
        assert exit_code([*command, *flag]) == 2
        assert f"Remove {flag[0]}." in capsys.readouterr().err
