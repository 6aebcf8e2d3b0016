"""The tables of names say what the classes, files and packages say."""

from __future__ import annotations

import importlib
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from regard.api.listing import KINDS, is_compatible, list_names
from regard.core import registry
from regard.core.traits import traits_of
from regard.models import MODELS, model_class
from regard.runs import spec
from regard.tasks import TASKS, task_class

EXAMPLE = Path(__file__).parents[2] / "examples" / "my_attention.py"


@pytest.mark.parametrize("kind", KINDS)
def test_every_record_has_a_name_a_summary_and_a_place(kind: str) -> None:
    for record in list_names(kind)[kind]:
        assert record["name"]
        assert record["summary"] == record["summary"].strip(" .")
        if "class_name" in record:
            module = importlib.import_module(record["module"])
            assert callable(getattr(module, record["class_name"]))
        elif "path" in record:
            assert Path(record["path"]).is_file()


def test_compatibility_is_that_of_the_classes() -> None:
    pairs = list(product(TASKS, MODELS))
    assert [is_compatible(*pair) for pair in pairs] == [spec.is_compatible(*pair) for pair in pairs]
    for name, model in MODELS.items():
        traits = traits_of(model_class(name))
        assert sorted(model.inputs) == sorted(traits.inputs)
        assert sorted(model.targets) == sorted(traits.targets)


@pytest.mark.parametrize("name", TASKS)
def test_metrics_and_datasets_of_a_task_are_those_of_its_class(name: str) -> None:
    [record] = [each for each in list_names("tasks")["tasks"] if each["name"] == name]
    kind = task_class(name)
    assert record["metrics"] == [metric.name for metric in kind.metrics]
    assert record["datasets"] == list(kind.datasets)


def test_recipes() -> None:
    [record] = [each for each in list_names("recipes")["recipes"] if each["name"] == "regression"]
    assert (record["summary"], record["task"], record["model"]) == (
        "a number from a text",
        "regression",
        "bilstm",
    )


def test_plugins(no_plugins: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of this process, and entry points, which are not imported."""
    point: Any = SimpleNamespace(value="pkg:Mine", dist=SimpleNamespace(name="pkg"))
    points = {"regard.models": {"mine": point}}
    monkeypatch.setattr(registry, "_entry_points", lambda group: points.get(group, {}))
    target = f"{EXAMPLE}:CosineAttention"
    assert list_names("plugins", plugin=[target])["plugins"] == [
        {"name": "CosineAttention", "summary": "mechanism, loaded", "target": target},
        {"name": "mine", "summary": "model, entry point of pkg", "target": "pkg:Mine"},
    ]
