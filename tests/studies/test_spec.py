"""Study specs: sweeps, variants, keys, validation."""

from __future__ import annotations

from typing import Any

import pytest

from regard.core.batches import ImageSpec
from regard.core.errors import RegardError
from regard.models import build_model
from regard.runs.spec import spec_key
from regard.studies.spec import StudySpec, builtin_studies, read_study


def study(**sections: Any) -> StudySpec:
    return StudySpec.from_sections({"recipe": "pronounce-quick", **sections})


def test_sweep_is_a_grid() -> None:
    found = study(sweep={"mechanism": ["dot", "additive"], "training.learning_rate": [1e-3, 2e-3]})
    assert [variant.name for variant in found.variants] == [
        "dot · learning_rate=0.001",
        "dot · learning_rate=0.002",
        "additive · learning_rate=0.001",
        "additive · learning_rate=0.002",
    ]
    spec = found.run_spec(found.variants[2], seed=7)
    assert (spec.model_options["mechanism"], spec.training.learning_rate) == ("additive", 1e-3)
    assert spec.seed == 7
    assert found.baseline == "dot · learning_rate=0.001"


def test_runs_are_ordered_by_seed() -> None:
    found = study(sweep={"cell": ["lstm", "gru"]}, seeds=[4, 9], learning_rates=[1e-3, 3e-3])
    compared = [run for run in found.runs() if not run.is_tuning]
    named = [(run.seed, run.variant, run.learning_rate) for run in compared]
    assert named[:4] == [(4, "lstm", 1e-3), (4, "lstm", 3e-3), (4, "gru", 1e-3), (4, "gru", 3e-3)]
    assert len(named) == 8
    assert {run.spec.training.learning_rate for run in found.runs()} == {1e-3, 3e-3}
    assert len({run.key for run in found.runs()}) == 8 + 3 * 4


def test_learning_rates_are_tuned_with_other_seeds_than_those_compared() -> None:
    tuned = study(seeds=4, learning_rates=[1e-3, 3e-3], tuning_seeds=2)
    assert len(tuned.tuning_seeds) == 2
    assert not set(tuned.tuning_seeds) & set(tuned.seeds)
    assert {run.seed for run in tuned.runs() if run.is_tuning} == set(tuned.tuning_seeds)
    # More seeds do not change the tuning.
    more = study(seeds=40, learning_rates=[1e-3, 3e-3], tuning_seeds=2)
    assert more.tuning_seeds == tuned.tuning_seeds
    assert study(seeds=4, learning_rates=[1e-3]).tuning_seeds == ()
    with pytest.raises(RegardError, match="tuning_seeds=2: there is nothing to tune"):
        study(seeds=4, tuning_seeds=2)
    with pytest.raises(RegardError, match="tuning_seeds: 3 is one of the seeds"):
        study(seeds=4, learning_rates=[1e-3, 3e-3], tuning_seeds=[3, 7])


def test_a_budget_that_is_not_steps_needs_evaluations_at_fractions_of_it() -> None:
    budget = {"steps": None, "flops": 1e9}
    with pytest.raises(RegardError, match=r"training\.evaluate_every=50 steps"):
        study(training={**budget, "evaluate_every": 50})
    study(training={**budget, "evaluate_every": 0.25})
    study(training={"steps": 100, "evaluate_every": 50})


def test_variants_differ_in_their_changes_only() -> None:
    found = study(sweep={"cell": ["lstm", "gru"]}, training={"steps": 50}, seeds=1)
    one, other = (run.spec.as_sections() for run in found.runs())
    assert one["model"].pop("cell") == "lstm"
    assert other["model"].pop("cell") == "gru"
    assert one == other
    assert one["training"]["steps"] == 50
    assert one["threads"] == 1


def test_key_depends_on_the_whole_spec() -> None:
    first = study(seeds=1).runs()[0].spec
    assert spec_key(first) == spec_key(study(seeds=1).runs()[0].spec)
    for change in ({"training": {"steps": 1999}}, {"task": {"beam_size": 3}}, {"seeds": [1]}):
        assert spec_key(study(**{"seeds": 1, **change}).runs()[0].spec) != spec_key(first)


def test_model_name_is_applied_before_its_options() -> None:
    sweep = {"mechanism": ["scaled_dot", "additive"], "model.name": ["transformer"]}
    found = study(sweep=sweep)
    options = [found.run_spec(variant, seed=0).model_options for variant in found.variants]
    assert [each["mechanism"] for each in options] == ["scaled_dot", "additive"]
    assert all("hidden_dim" not in each for each in options)


def test_sections_contain_the_recipe() -> None:
    original = study(sweep={"cell": ["lstm", "gru"]}, seeds=2)
    assert "recipe" not in original.sections
    again = StudySpec.from_sections(original.sections)
    assert [run.key for run in again.runs()] == [run.key for run in original.runs()]


def test_listed_variants_drop_options_of_another_model() -> None:
    variants = [
        {"name": "recurrent", "set": []},
        {"name": "small", "set": ["model.name=transformer", "model.model_dim=32"]},
    ]
    found = study(variants=variants)
    options = found.run_spec(found.variant("small"), seed=0).model_options
    assert options["model_dim"] == 32
    assert "hidden_dim" not in options
    assert found.run_spec(found.variant("recurrent"), seed=0).model == "recurrent"


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"ovr": {}}, "ovr"),
        ({"sweep": {"mechanism": []}}, "sweep={'mechanism': \\[\\]}"),
        ({"sweep": {"mechanism": "dot"}}, "sweep={'mechanism': 'dot'}"),
        ({"sweep": ["dot"]}, r"sweep=\['dot'\]: it must be a table"),
        ({"sweep": {"celll": ["lstm"]}}, "In the variant 'lstm': .*model.celll"),
        ({"sweep": {"cell": ["lstm", "lstm"]}}, "Two variants are named 'lstm'"),
        ({"variants": [{"name": "a", "sett": []}]}, "variants="),
        ({"variants": [{"set": []}]}, "variants="),
        ({"seeds": 0}, "seeds=0"),
        ({"seeds": [1, 1]}, r"seeds=\[1, 1\]"),
        ({"seeds": True}, "seeds=True"),
        ({"seeds": "five"}, "seeds=five"),
        ({"match": "speed"}, "speed"),
        ({"baseline": "gru"}, "gru"),
        ({"learning_rates": [0.0]}, "learning_rates"),
        ({"learning_rates": 1e-3}, "learning_rates"),
        ({"learning_rates": [1e-3, 1e-3]}, "learning_rates="),
        (
            {"sweep": {"training.learning_rate": [1e-3, 2e-3]}, "learning_rates": [1e-3]},
            "have the same options",
        ),
        ({"sweep": {"hidden_dim": [256, 256.0]}}, "have the same options"),
        ({"variants": 3}, "variants=3"),
        ({"variants": [{"name": "a", "set": "model.cell=gru"}]}, "variants="),
        ({"training": {"steps": 0}}, "In the variant 'only': training.steps=0"),
    ],
)
def test_invalid_specs(sections: dict[str, Any], message: str) -> None:
    with pytest.raises(RegardError, match=message):
        study(**sections)


def test_builtin_studies_are_valid() -> None:
    assert {
        *("first-look", "scores", "recurrent-or-transformer", "mechanisms"),
        *("heads", "positions", "approximation", "speech_decoders", "speech_encoder"),
        *("convnet_learning_rates", "convnet_downsampling", "convnet-or-transformer"),
        *("image_mechanisms", "image_pooling"),
    } <= set(builtin_studies())
    for name in builtin_studies():
        found = StudySpec.from_sections(read_study(name))
        assert found.question.endswith("?")
        assert len(found.variants) >= 2
        assert len(found.seeds) >= 5 or name == "first-look"


@pytest.mark.parametrize("name", ["speech_decoders", "ljspeech_decoders"])
def test_decoders_of_speech_share_their_encoder(name: str) -> None:
    study = StudySpec.from_sections(read_study(name))
    specs = [study.run_spec(variant, seed=0) for variant in study.variants]
    assert [spec.model for spec in specs] == [
        *("transformer", "transformer_recurrent", "transformer_recurrent", "ctc")
    ]
    for option in ("model_dim", "num_heads", "num_layers", "feed_forward_dim", "dropout", "stem"):
        assert len({str(spec.model_options[option]) for spec in specs}) == 1
    assert {spec.model_options["mechanism"] for spec in specs} == {"scaled_dot"}
    assert len({str(spec.task_options) for spec in specs}) == 1
    assert len({spec.training.steps for spec in specs}) == 1


def test_downsampling_of_the_convnet_changes_no_parameters_but_missing_padding_does() -> None:
    """28×28 grey pixels and 4 labels: 576 or 400 inputs of the first fully connected layer."""
    study = StudySpec.from_sections(read_study("convnet_downsampling"))
    counts = []
    for variant in study.variants:
        spec = study.run_spec(variant, seed=0)
        source = ImageSpec(1, *spec.task_options.image_size)
        model = build_model(spec.model, source=source, outputs=4, **spec.model_options)
        counts.append(sum(parameter.numel() for parameter in model.parameters()))
    assert counts == [224_892, 224_892, 168_572]


def test_convnet_and_transformers_share_a_budget_of_flops() -> None:
    study = StudySpec.from_sections(read_study("convnet-or-transformer"))
    specs = [study.run_spec(variant, seed=0) for variant in study.variants]
    assert [spec.model for spec in specs] == ["convnet", *["vision_transformer"] * 2]
    assert {(spec.training.steps, spec.training.flops) for spec in specs} == {(None, 5e11)}
    assert len({str(spec.task_options) for spec in specs}) == 1


def test_unknown_and_malformed_files(tmp_path: Any) -> None:
    with pytest.raises(RegardError, match="scores"):
        read_study("scorse")
    with pytest.raises(RegardError, match="cannot be read"):
        read_study(str(tmp_path / "none.toml"))
    broken = tmp_path / "broken.toml"
    broken.write_text("question = ")
    with pytest.raises(RegardError, match="is not TOML"):
        read_study(str(broken))
