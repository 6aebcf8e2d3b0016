"""A study is one spec, however it is written; every mistake in it is named before anything is trained."""

from __future__ import annotations

from typing import Any

import pytest

from regard.core.errors import RegardError
from regard.studies.spec import StudySpec, read_study, shipped_studies, spec_key


def study(**sections: Any) -> StudySpec:
    return StudySpec.from_sections({"recipe": "pronounce-quick", **sections})


def test_a_grid_has_a_variant_for_every_combination() -> None:
    found = study(over={"mechanism": ["dot", "additive"], "training.learning_rate": [1e-3, 2e-3]})
    assert [variant.name for variant in found.variants] == [
        "dot · learning_rate=0.001",
        "dot · learning_rate=0.002",
        "additive · learning_rate=0.001",
        "additive · learning_rate=0.002",
    ]
    spec = found.spec_of(found.variants[2], seed=7)
    assert (spec.model_options["mechanism"], spec.training.learning_rate) == ("additive", 1e-3)
    assert spec.seed == 7
    assert found.baseline == "dot · learning_rate=0.001"


def test_runs_come_seed_by_seed_with_every_rate() -> None:
    found = study(over={"cell": ["lstm", "gru"]}, seeds=[4, 9], learning_rates=[1e-3, 3e-3])
    told = [(run.seed, run.variant, run.learning_rate) for run in found.runs()]
    assert told[:4] == [(4, "lstm", 1e-3), (4, "lstm", 3e-3), (4, "gru", 1e-3), (4, "gru", 3e-3)]
    assert len(told) == 8
    assert {run.spec.training.learning_rate for run in found.runs()} == {1e-3, 3e-3}
    assert len({run.key for run in found.runs()}) == 8


def test_all_but_the_changes_is_the_same_for_every_variant() -> None:
    found = study(over={"cell": ["lstm", "gru"]}, training={"steps": 50}, seeds=1)
    one, other = (run.spec.as_sections() for run in found.runs())
    assert one["model"].pop("cell") == "lstm"
    assert other["model"].pop("cell") == "gru"
    assert one == other
    assert one["training"]["steps"] == 50
    assert one["threads"] == 1


def test_the_key_is_of_the_whole_spec() -> None:
    first = study(seeds=1).runs()[0].spec
    assert spec_key(first) == spec_key(study(seeds=1).runs()[0].spec)
    for change in ({"training": {"steps": 1999}}, {"task": {"beam_size": 3}}, {"seeds": [1]}):
        assert spec_key(study(**{"seeds": 1, **change}).runs()[0].spec) != spec_key(first)


def test_another_model_comes_before_its_options() -> None:
    over = {"mechanism": ["scaled_dot", "additive"], "model.name": ["transformer"]}
    found = study(over=over)
    options = [found.spec_of(variant, seed=0).model_options for variant in found.variants]
    assert options == [{"mechanism": "scaled_dot"}, {"mechanism": "additive"}]


def test_what_is_written_needs_no_recipe() -> None:
    asked = study(over={"cell": ["lstm", "gru"]}, seeds=2)
    assert "recipe" not in asked.written
    again = StudySpec.from_sections(asked.written)
    assert [run.key for run in again.runs()] == [run.key for run in asked.runs()]


def test_variants_one_by_one_keep_nothing_of_another_model() -> None:
    variants = [
        {"name": "recurrent", "set": []},
        {"name": "small", "set": ["model.name=transformer", "model.model_dim=32"]},
    ]
    found = study(variants=variants)
    assert found.spec_of(found.variant("small"), seed=0).model_options == {"model_dim": 32}
    assert found.spec_of(found.variant("recurrent"), seed=0).model == "recurrent"


@pytest.mark.parametrize(
    ("sections", "told"),
    [
        ({"ovr": {}}, "ovr"),
        ({"over": {"mechanism": []}}, "must be a list of the values"),
        ({"over": {"mechanism": "dot"}}, "must be a list of the values"),
        ({"over": ["dot"]}, "must be a table of options"),
        ({"over": {"celll": ["lstm"]}}, "In the variant 'lstm': .*model.celll"),
        ({"over": {"cell": ["lstm", "lstm"]}}, "Two variants are called 'lstm'"),
        ({"variants": [{"name": "a", "sett": []}]}, "A variant is"),
        ({"variants": [{"set": []}]}, "A variant is"),
        ({"seeds": 0}, "seeds=0"),
        ({"seeds": [1, 1]}, r"seeds=\[1, 1\]"),
        ({"seeds": True}, "seeds=True"),
        ({"seeds": "five"}, "seeds='five'"),
        ({"match": "speed"}, "speed"),
        ({"baseline": "gru"}, "gru"),
        ({"learning_rates": [0.0]}, "learning_rates"),
        ({"learning_rates": 1e-3}, "learning_rates"),
        ({"learning_rates": [1e-3, 1e-3]}, "Name each once"),
        (
            {"over": {"training.learning_rate": [1e-3, 2e-3]}, "learning_rates": [1e-3]},
            "are the same in every option",
        ),
        ({"over": {"hidden_dim": [256, 256.0]}}, "are the same in every option"),
        ({"variants": 3}, "variants=3"),
        ({"variants": [{"name": "a", "set": "model.cell=gru"}]}, "A variant is"),
        ({"training": {"steps": 0}}, "In the variant 'only': steps is 0"),
    ],
)
def test_mistakes_are_named(sections: dict[str, Any], told: str) -> None:
    with pytest.raises(RegardError, match=told):
        study(**sections)


def test_shipped_studies_are_sound_and_ask_something() -> None:
    assert {
        *("first-look", "scores", "recurrent-or-transformer", "mechanisms"),
        *("heads", "positions", "approximation"),
    } <= set(shipped_studies())
    for name in shipped_studies():
        found = StudySpec.from_sections(read_study(name))
        assert found.question.endswith("?")
        assert len(found.variants) >= 2
        assert len(found.seeds) >= 5 or name == "first-look"


def test_unknown_and_broken_files_are_named(tmp_path: Any) -> None:
    with pytest.raises(RegardError, match="scores"):
        read_study("scorse")
    with pytest.raises(RegardError, match="cannot be read"):
        read_study(str(tmp_path / "none.toml"))
    broken = tmp_path / "broken.toml"
    broken.write_text("question = ")
    with pytest.raises(RegardError, match="is not TOML"):
        read_study(str(broken))
