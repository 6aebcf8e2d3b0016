"""Recipes: those shipped are whole, and a user's own is read or refused."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from regard.core.errors import RegardError
from regard.models import build_model
from regard.runs.spec import RECIPES, RunSpec, merged, read_recipe, shipped_recipes
from regard.tasks import TASKS


@pytest.mark.parametrize("name", shipped_recipes())
def test_a_shipped_recipe_is_a_spec_whose_model_can_be_built(name: str) -> None:
    spec = RunSpec.from_sections(read_recipe(name))
    assert name.split("-", maxsplit=1)[0] == spec.task
    sizes = {"model_dim", "hidden_dim", "embedding_dim", "feed_forward_dim"} & set(
        spec.model_options
    )
    narrow = {"model": dict.fromkeys(sizes, 16)}  # the shapes fit or not whatever the width
    small = RunSpec.from_sections(merged(spec.as_sections(), narrow))
    one_vocabulary = getattr(spec.task_options, "shared_vocabulary", True)
    numbers = {"source_vocabulary": 20, "target_vocabulary": 20 if one_vocabulary else 30}
    if TASKS[spec.task].reads == "texts":
        numbers = {"vocabulary": 20, "classes": 3}
    model = build_model(small.model, **numbers, **small.model_options)
    assert sum(parameter.numel() for parameter in model.parameters()) > 0
    assert RunSpec.from_sections(spec.as_sections()) == spec


def test_every_task_has_a_recipe_of_its_name() -> None:
    assert set(TASKS) <= set(shipped_recipes())


def test_recipes_are_part_of_the_package() -> None:
    """The wheel takes all files below src/regard, whatever they end in."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel == {"packages": ["src/regard"]}
    assert RECIPES.folder.is_relative_to(Path(__file__).parents[2] / "src/regard")


def test_an_unknown_recipe_lists_the_known() -> None:
    with pytest.raises(RegardError, match=r"Unknown recipe 'pronouce'. Did you mean 'pronounce'\?"):
        read_recipe("pronouce")


def test_a_recipe_of_ones_own_is_read(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text('[model]\nname = "recurrent"\n')
    assert read_recipe(str(own)) == {"model": {"name": "recurrent"}}


def test_a_recipe_that_is_not_there_or_not_toml_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"cannot be read \(No such file"):
        read_recipe(str(tmp_path / "none.toml"))
    broken = tmp_path / "broken.toml"
    for content in (b"[model\n", b"\xff\xfe"):
        broken.write_bytes(content)
        with pytest.raises(RegardError, match="is not TOML"):
            read_recipe(str(broken))
