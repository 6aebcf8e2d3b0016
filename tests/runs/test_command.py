"""The command that repeats a run."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.factories.command_line import regard
from tests.factories.toy_pronunciation import tiny_sections

from regard import api
from regard.api.options import given_options, run_spec
from regard.runs.command import training_command
from regard.runs.folder import RunFolder
from regard.runs.plugins import load_plugins
from regard.runs.spec import RunSpec, builtin_recipes, merge_sections, read_recipe, spec_key
from regard.runs.train import begin_run, resume_run


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], RunSpec]:
    """The spec that a command line asks for, without training."""
    found: list[RunSpec] = []

    def train(
        task: str | None = None,
        *,
        seed: int | None = None,
        init_from: str | None = None,
        plugin: Any = (),
        tensorboard: bool = False,
        callbacks: Any = (),
        log: Any = None,
        **options: Any,
    ) -> None:
        found.append(run_spec(task, given_options(options), seed=seed, init_from=init_from))

    def parse(command: str) -> RunSpec:
        monkeypatch.setattr(api, "train", train)
        result = regard(*shlex.split(command)[1:])
        assert result.returncode == 130, result.stderr  # as an interrupted run
        return found[-1]

    return parse


@pytest.mark.parametrize("recipe", builtin_recipes())
def test_every_recipe(recipe: str, parsed: Callable[[str], RunSpec]) -> None:
    spec = RunSpec.from_sections({**read_recipe(recipe), "seed": 3, "threads": 2})
    command = training_command(spec)
    assert parsed(command) == spec
    if recipe == spec.task:
        assert command == f"regard train {recipe} --seed 3 --threads 2"


def test_unusual_options(parsed: Callable[[str], RunSpec], tmp_path: Path) -> None:
    sections = tiny_sections(
        tmp_path / "it's here.dict",
        task={"metrics": ["cer"], "source_column": "3"},
        training={"steps": None, "tokens": 500, "patience": 3, "clip_norm": None},
    )
    spec = RunSpec.from_sections(sections)
    assert spec_key(parsed(training_command(spec))) == spec_key(spec)
    # A run on all cores is repeated with as many threads as it had.
    assert parsed(training_command(spec, threads=7)).threads == 7
    without = RunSpec.from_sections({**read_recipe("closed_book_qa"), "pretraining": None})
    assert parsed(training_command(without)) == without


@pytest.mark.usefixtures("no_plugins")
def test_plugins(parsed: Callable[[str], RunSpec]) -> None:
    """A task of a user has no recipe of its own."""
    target = f"{Path(__file__).parents[2] / 'examples/my_task.py'}:SpelledNumbers"
    load_plugins([target])
    sections = merge_sections(read_recipe("translate"), {"task": {"name": "SpelledNumbers"}})
    spec = RunSpec.from_sections(sections)
    command = training_command(spec)
    assert f"--plugin {target}" in command
    assert parsed(command) == spec


def test_same_bits(words: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = RunFolder(tmp_path / "run")
    begin_run(RunSpec.from_sections({**tiny_sections(words), "seed": 5, "threads": 1}), folder)
    record = resume_run(folder, extend=3)
    assert record is not None
    spec = RunSpec.from_sections(record["spec"])
    steps = [each["steps"] for each in record["extended_from"]]
    first, more = training_command(spec, extended_from=steps).split(" && ")
    assert "--steps 6 " in first
    assert more == "regard train --resume runs/pronounce-again --extend 3"
    for command in (first, more):
        result = regard(*shlex.split(command)[1:])
        assert result.returncode == 0, result.stderr
    again = RunFolder(Path("runs/pronounce-again"))
    assert again.model.read_bytes() == folder.model.read_bytes()
    assert json.loads(again.record.read_text())["scores"] == record["scores"]


def test_warm_start(
    words: Path, tmp_path: Path, parsed: Callable[[str], RunSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = RunFolder(tmp_path / "before")
    begin_run(RunSpec.from_sections(tiny_sections(words)), before)
    sections = tiny_sections(words, model={"dropout": 0.25}, init_from=str(before.path))
    spec = RunSpec.from_sections(sections)
    command = training_command(spec)
    assert "--set model.dropout=0.25" in command
    assert "model.hidden_dim" not in command
    assert parsed(command) == spec
    before.path.rename(tmp_path / "moved")
    command = training_command(spec)  # all options of the model, since the initial run is gone
    assert "--set model.hidden_dim=8" in command
    with pytest.raises(AssertionError, match="is not a run"):
        parsed(command)
