"""Specs and recipes: validation, round trips, settings."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.factories.toy_pronunciation import tiny_sections

from regard.core.batches import FrameSpec, ImageSpec
from regard.core.errors import RegardError
from regard.models import build_model
from regard.runs.spec import (
    RECIPES,
    RunSpec,
    builtin_recipes,
    merge_sections,
    parse_settings,
    read_recipe,
    validate_sections,
)
from regard.tasks import TASKS, task_class


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tusk": {}}, "Unknown section 'tusk'. Did you mean 'task'?"),
        ({"task": {"name": "pronunce"}}, "Unknown task 'pronunce'. Did you mean 'pronounce'?"),
        ({"model": {"name": "recurent"}}, "Unknown model 'recurent'. Did you mean 'recurrent'?"),
        (
            {"task": {"beamsize": 3}},
            "Unknown option 'task.beamsize'. Did you mean 'task.beam_size'",
        ),
        ({"model": {"nam": "x"}}, "Unknown option 'model.nam'. Did you mean 'model.name'?"),
        ({"task": {"nmae": "x"}}, "Did you mean 'task.name'?"),
        ({"model": {"num_layer": 3}}, "Did you mean 'model.num_layers'?"),
        ({"model": {"source_vocabulary": 9}}, "Unknown option 'model.source_vocabulary'"),
        ({"training": {"step": 3}}, "Did you mean 'training.steps'?"),
        ({"model": {"num_layers": "abc"}}, "model.num_layers=abc: it must be an integer"),
        ({"model": {"num_layers": True}}, "model.num_layers=True"),
        ({"model": {"num_layers": 1.5}}, "model.num_layers=1.5"),
        ({"model": {"mechanism": 3}}, "model.mechanism=3: it must be text"),
        ({"task": {"skip_bad_rows": "perhaps"}}, "task.skip_bad_rows=perhaps"),
        ({"training": {"steps": 0}}, "training.steps=0"),
        ({"training": {"steps": None}}, "no budget"),
        ({"training": {"device": "abacus"}}, "training.device=abacus"),
        ({"training": 3}, "training=3"),
        ({"task": "pronounce"}, "task=pronounce"),
        ({"seed": -1}, "seed=-1"),
        ({"seed": True}, "seed=True"),
        ({"seed": 2**63}, f"seed={2**63}"),
        ({"task": {"lowercase": "target"}}, "task.lowercase=target"),
        ({"task": {"beam_size": 0}}, "task.beam_size=0"),
        ({"task": {"label_smoothing": 1.0}}, "task.label_smoothing=1.0"),
        ({"task": {"length_penalty": -1.0}}, "task.length_penalty=-1.0"),
        ({"task": {"length_penalty": float("nan")}}, "task.length_penalty=nan"),
        (
            {"task": {"shared_vocabulary": True}},
            "source_tokens is 'characters' and target_tokens is 'words'",
        ),
        (
            {"task": {"shared_vocabulary": True, "lowercase": "source"}},
            "task.lowercase='source'",
        ),
    ],
)
def test_invalid_specs(changes: dict[str, Any], message: str) -> None:
    sections = tiny_sections(Path("words.dict"))
    with pytest.raises(RegardError) as error:
        RunSpec.from_sections(merge_sections(sections, changes))
    assert message in str(error.value)


@pytest.mark.parametrize("sections", [None, [], "task", 3, ["task"]])
def test_non_table_is_refused(sections: Any) -> None:
    with pytest.raises(RegardError, match="table of the sections task, model, training"):
        validate_sections(sections)


@pytest.mark.parametrize("section", ["task", "model"])
def test_section_without_name_is_refused(section: str) -> None:
    sections = tiny_sections(Path("words.dict"))
    del sections[section]
    with pytest.raises(RegardError, match=f"'{section}' has no name"):
        RunSpec.from_sections(sections)


def test_json_round_trip() -> None:
    sections = tiny_sections(Path("words.dict"), seed=7)
    spec = RunSpec.from_sections(sections)
    written = json.loads(json.dumps(spec.as_sections()))
    assert RunSpec.from_sections(written) == spec
    assert written["task"]["max_length"] == 64  # a default, written out
    assert written["training"]["beta2"] == 0.98
    assert written["seed"] == 7


def test_numbers_are_converted() -> None:
    changes = parse_settings(["training.steps=1e3", "training.learning_rate=1"])
    training = RunSpec.from_sections(
        merge_sections(tiny_sections(Path("w.dict")), changes)
    ).training
    assert (training.steps, training.learning_rate) == (1000, 1.0)
    assert isinstance(training.steps, int)


def test_none_becomes_null() -> None:
    changes = parse_settings(["training.averaging=none", "training.clip_norm=none"])
    training = RunSpec.from_sections(
        merge_sections(tiny_sections(Path("w.dict")), changes)
    ).training
    assert training.averaging == "none"
    assert training.clip_norm is None


def test_parse_settings() -> None:
    settings = ["model.a=1", "model.b=x=y", "task.c=true", "seed = 4", "model.d={'k': [1]}"]
    assert parse_settings(settings) == {
        "model": {"a": 1, "b": "x=y", "d": {"k": [1]}},
        "task": {"c": True},
        "seed": 4,
    }


@pytest.mark.parametrize(
    "setting", ["model.num_layers", "=3", "model.=3", ".x=3", "model=3", "task=x", "training=3"]
)
def test_malformed_setting_is_refused(setting: str) -> None:
    with pytest.raises(
        RegardError, match=r"SECTION\.OPTION=VALUE, such as --set model\.num_layers"
    ):
        parse_settings([setting])


def test_section_after_a_value_is_refused() -> None:
    with pytest.raises(RegardError, match="'seed' already has a value"):
        parse_settings(["seed=3", "seed.x=1"])


def test_merge_keeps_other_keys() -> None:
    before = {"model": {"name": "a", "x": 1, "y": 2}, "seed": 1}
    assert merge_sections(before, {"model": {"y": 3}}) == {
        "model": {"name": "a", "x": 1, "y": 3},
        "seed": 1,
    }
    assert merge_sections(before, {"model": {"name": "b", "z": 3}})["model"] == {
        "name": "b",
        "z": 3,
    }
    assert merge_sections(before, {"model": {"name": "a", "z": 3}})["model"]["x"] == 1
    assert before == {"model": {"name": "a", "x": 1, "y": 2}, "seed": 1}


@pytest.mark.parametrize("name", builtin_recipes())
def test_builtin_recipe_builds_its_model(name: str) -> None:
    spec = RunSpec.from_sections(read_recipe(name))
    named_by_data = (
        *("spoken-digits", "fsdd", "fsdd-speakers", "digit-strings", "ljspeech"),
        *("images-convnet", "images-transformer"),
    )
    assert name in named_by_data or name.split("-", maxsplit=1)[0] == spec.task
    sizes = {"model_dim", "hidden_dim", "embedding_dim", "feed_forward_dim"} & set(
        spec.model_options
    )
    narrow = {
        "model": dict.fromkeys(sizes, 16)
    }  # whether shapes match does not depend on the width
    small = RunSpec.from_sections(merge_sections(spec.as_sections(), narrow))
    is_shared = getattr(spec.task_options, "shared_vocabulary", True)
    numbers: dict[str, Any] = {"source": 20, "target_vocabulary": 20 if is_shared else 30}
    if task_class(spec.task).target_kind != "sequence":
        numbers = {"source": 20, "outputs": 3}
    if task_class(spec.task).input_kind == "frames":
        numbers["source"] = FrameSpec(13)
    if task_class(spec.task).input_kind == "images":
        numbers["source"] = ImageSpec(1, 8, 8)
    model = build_model(small.model, **numbers, **small.model_options)
    assert sum(parameter.numel() for parameter in model.parameters()) > 0
    assert RunSpec.from_sections(spec.as_sections()) == spec


def test_every_task_has_a_recipe_of_its_name() -> None:
    assert set(TASKS) <= set(builtin_recipes())


def test_recipes_are_package_data() -> None:
    """The wheel includes all files below src/regard."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel == {"packages": ["src/regard"]}
    assert RECIPES.folder.is_relative_to(Path(__file__).parents[2] / "src/regard")


def test_unknown_recipe() -> None:
    with pytest.raises(RegardError, match=r"Unknown recipe 'pronouce'. Did you mean 'pronounce'\?"):
        read_recipe("pronouce")


def test_user_recipe_is_read(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text('[model]\nname = "recurrent"\n')
    assert read_recipe(str(own)) == {"model": {"name": "recurrent"}}


def test_missing_or_malformed_recipe_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"cannot be read \(No such file"):
        read_recipe(str(tmp_path / "none.toml"))
    broken = tmp_path / "broken.toml"
    for content in (b"[model\n", b"\xff\xfe"):
        broken.write_bytes(content)
        with pytest.raises(RegardError, match="is not TOML"):
            read_recipe(str(broken))
