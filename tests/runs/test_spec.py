"""Specs: every key is checked, and what was asked for comes back in full."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.factories.toy_language import tiny_sections

from regard.core.errors import RegardError
from regard.runs.spec import RunSpec, merged, require_sections, settings_as_sections


@pytest.mark.parametrize(
    ("changes", "complaint"),
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
        ({"model": {"num_layers": "abc"}}, "model.num_layers='abc': it must be a valid integer"),
        ({"model": {"num_layers": True}}, "model.num_layers=True"),
        ({"model": {"num_layers": 1.5}}, "model.num_layers=1.5"),
        ({"model": {"mechanism": 3}}, "model.mechanism=3: it must be a valid string"),
        ({"task": {"skip_bad_rows": "perhaps"}}, "task.skip_bad_rows='perhaps'"),
        ({"training": {"steps": 0}}, "steps is 0"),
        ({"training": {"steps": None}}, "no budget"),
        ({"training": {"device": "abacus"}}, "Unknown device 'abacus'"),
        ({"training": 3}, "The section 'training' is 3"),
        ({"task": "pronounce"}, "The section 'task' is 'pronounce'"),
        ({"seed": -1}, "seed=-1"),
        ({"seed": True}, "seed=True"),
        ({"seed": 2**63}, f"seed={2**63}"),
        ({"task": {"lowercase": "target"}}, "Unknown choice for task.lowercase 'target'"),
        ({"task": {"beam_size": 0}}, "task.beam_size=0"),
        ({"task": {"label_smoothing": 1.0}}, "task.label_smoothing=1.0"),
        ({"task": {"length_penalty": -1.0}}, "task.length_penalty=-1.0"),
        ({"task": {"length_penalty": float("nan")}}, "task.length_penalty=nan"),
        (
            {"task": {"shared_vocabulary": True, "lowercase": "no"}},
            "source_tokens is 'characters' and target_tokens is 'words'",
        ),
        (
            {"task": {"shared_vocabulary": True, "target_tokens": "characters"}},
            "task.lowercase='source' does not go with task.shared_vocabulary",
        ),
    ],
)
def test_what_no_run_can_be_is_refused(changes: dict[str, Any], complaint: str) -> None:
    sections = tiny_sections(Path("words.dict"))
    with pytest.raises(RegardError) as error:
        RunSpec.from_sections(merged(sections, changes))
    assert complaint in str(error.value)


@pytest.mark.parametrize("sections", [None, [], "task", 3, ["task"]])
def test_what_is_not_a_table_is_refused(sections: Any) -> None:
    with pytest.raises(RegardError, match="table of the sections task, model, training"):
        require_sections(sections)


@pytest.mark.parametrize("section", ["task", "model"])
def test_a_section_without_a_name_is_refused(section: str) -> None:
    sections = tiny_sections(Path("words.dict"))
    del sections[section]
    with pytest.raises(RegardError, match=f"'{section}' has no name. Write one, such as {section}"):
        RunSpec.from_sections(sections)


def test_a_spec_comes_back_from_json() -> None:
    sections = tiny_sections(Path("words.dict"), seed=7)
    spec = RunSpec.from_sections(sections)
    written = json.loads(json.dumps(spec.as_sections()))
    assert RunSpec.from_sections(written) == spec
    assert written["task"]["max_length"] == 64  # a default, written out
    assert written["training"]["beta2"] == 0.98
    assert written["seed"] == 7


def test_numbers_may_be_written_as_people_do() -> None:
    changes = settings_as_sections(["training.steps=1e3", "training.learning_rate=1"])
    training = RunSpec.from_sections(merged(tiny_sections(Path("w.dict")), changes)).training
    assert (training.steps, training.learning_rate) == (1000, 1.0)
    assert isinstance(training.steps, int)


def test_none_is_nothing_where_there_is_no_such_choice() -> None:
    changes = settings_as_sections(["training.averaging=none", "training.clip_norm=none"])
    training = RunSpec.from_sections(merged(tiny_sections(Path("w.dict")), changes)).training
    assert training.averaging == "none"
    assert training.clip_norm is None


def test_settings_become_sections() -> None:
    settings = ["model.a=1", "model.b=x=y", "task.c=true", "seed = 4", "model.d={'k': [1]}"]
    assert settings_as_sections(settings) == {
        "model": {"a": 1, "b": "x=y", "d": {"k": [1]}},
        "task": {"c": True},
        "seed": 4,
    }


@pytest.mark.parametrize(
    "setting", ["model.num_layers", "=3", "model.=3", ".x=3", "model=3", "task=x", "training=3"]
)
def test_a_setting_of_another_form_is_refused(setting: str) -> None:
    with pytest.raises(
        RegardError, match=r"SECTION\.OPTION=VALUE, such as --set model\.num_layers"
    ):
        settings_as_sections([setting])


def test_a_section_after_a_value_is_refused() -> None:
    with pytest.raises(RegardError, match="'seed' was given a value of its own"):
        settings_as_sections(["seed=3", "seed.x=1"])


def test_merging_keeps_what_is_not_named() -> None:
    before = {"model": {"name": "a", "x": 1, "y": 2}, "seed": 1}
    assert merged(before, {"model": {"y": 3}}) == {
        "model": {"name": "a", "x": 1, "y": 3},
        "seed": 1,
    }
    assert merged(before, {"model": {"name": "b", "z": 3}})["model"] == {"name": "b", "z": 3}
    assert merged(before, {"model": {"name": "a", "z": 3}})["model"]["x"] == 1
    assert before == {"model": {"name": "a", "x": 1, "y": 2}, "seed": 1}
