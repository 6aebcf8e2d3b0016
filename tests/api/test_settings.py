"""`regard train --help-settings`: every key of `--set` has a type, a default and a meaning."""

from __future__ import annotations

import json
from typing import Annotated, Literal

import pytest
from pydantic import Field
from tests.factories.command_line import exit_code, regard as command

import regard
from regard.core.option_help import meanings_in, type_name
from regard.core.options import Options
from regard.models import MODELS
from regard.runs.spec import is_compatible
from regard.tasks import TASKS

COMPATIBLE = [(task, model) for task in TASKS for model in MODELS if is_compatible(task, model)]


@pytest.mark.parametrize(("task", "model"), COMPATIBLE)
def test_every_setting_is_explained(task: str, model: str) -> None:
    settings = regard.list_settings(task, set={"model.name": model})
    unexplained = [each.key for each in settings if not (each.meaning and each.type)]
    assert unexplained == []
    keys = [each.key for each in settings]
    assert len(set(keys)) == len(keys)
    assert {"seed", "threads", "training.device", "task.train_file"} <= set(keys)


def test_values_of_the_recipe_are_marked() -> None:
    found = {each.key: each for each in regard.list_settings("lm", set={"seed": 3})}
    assert found["seed"].default == 3
    assert found["seed"].from_recipe
    assert found["training.keep"].default in ("best", "last")
    assert found["training.epsilon"].from_recipe is False


def test_pretraining_and_mechanism_options() -> None:
    keys = {each.key for each in regard.list_settings("closed_book_qa")}
    assert {"pretraining.task.train_file", "pretraining.training.steps"} <= keys
    settings = regard.list_settings("translate", set={"model.mechanism": "window"})
    radius = next(each for each in settings if each.key == "model.mechanism_options.radius")
    assert radius.type == "int ≥ 0"


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["train", "classify", "--help-settings"]) == 0
    shown = capsys.readouterr().out
    assert "training.patience=" in shown
    assert "evaluations without improvement" in shown
    rows = json.loads(command("train", "classify", "--help-settings", "--json").stdout)
    assert [row["key"] for row in rows] == [each.key for each in regard.list_settings("classify")]
    for option in ("--out", "--resume", "--extend"):
        refused = command("train", "classify", "--help-settings", option, "3")
        assert refused.returncode == 2
        assert f"Remove {option}" in refused.stderr


def test_docstrings_are_read() -> None:
    class Base(Options):
        """Options.

        Args:
            first, second: Two sizes,
                in tokens.
        """

        first: int = 1
        second: int = 2

    class Table(Base):
        """More.

        second   another meaning; it continues
                 on this line
        third    of all
        """

        third: int = 3

    assert meanings_in(Table, ("first", "second", "third")) == {
        "first": "Two sizes, in tokens",
        "second": "Another meaning; it continues on this line",
        "third": "Of all",
    }


def test_types() -> None:
    assert type_name(Annotated[int, Field(ge=1)] | None) == "int ≥ 1 or none"
    assert type_name(Literal["best", "last"]) == "best|last"
    assert type_name(dict[str, int]) == "table"
