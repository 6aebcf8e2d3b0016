"""Plans of training runs: real steps, with a dummy calibration."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.factories.calibration import dummy_calibration
from tests.factories.sounds import write_digits
from tests.factories.toy_pronunciation import tiny_sections, toy_sections

from regard.core.errors import RegardError
from regard.models.seq2seq.recurrent import SCORES
from regard.runs import plan as planning, profile
from regard.runs.build import build_spec_model, build_task
from regard.runs.plan import (
    CHARACTERS,
    MAX_SIZE,
    MIN_SIZE,
    Plan,
    alternatives,
    dummy_task,
    largest_fitting,
    mechanism_name,
    plan_alternative,
    plan_decoding,
    plan_run,
    scale_widths,
    steps_within,
)
from regard.runs.profile import (
    NOT_EVALUATED,
    InsufficientMemoryError,
    StepEstimate,
    StepProfiler,
    WorkEstimate,
    evenly_spaced,
    extrapolate_batch_size,
)
from regard.runs.spec import RunSpec
from regard.training.loop import BatchStream
from regard.training.options import TrainingOptions

CALIBRATION = dummy_calibration()
QUICK = {"name": "recurrent", "embedding_dim": 4, "hidden_dim": 8, "mechanism": "dot"}
QUICK |= {"attention_style": "luong"}


@pytest.fixture(autouse=True)
def few_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer traces, which are slow with shape checks."""
    monkeypatch.setattr(planning, "SAMPLES", 1)
    monkeypatch.setattr(profile, "GREEDY_SAMPLES", 1)


def spec_of(pairs: Path, **changes: Any) -> RunSpec:
    return RunSpec.from_sections(tiny_sections(pairs, **{"model": QUICK, **changes}))


@pytest.mark.parametrize("kind", ["recurrent", "transformer", "transformer_recurrent", "ctc"])
def test_a_plan_adds_up(words: Path, kind: str) -> None:
    spec = RunSpec.from_sections(toy_sections(words, kind=kind))
    task = build_task(spec)
    plan = plan_run(spec, task, CALIBRATION)
    model = StepProfiler(spec, task).model
    assert plan.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert (plan.model, plan.steps) == (kind, spec.training.steps)
    assert plan.evaluations == -(-plan.steps // spec.training.evaluate_every)
    assert plan.total_seconds == pytest.approx(
        plan.steps * plan.seconds_per_step
        + plan.evaluations * plan.evaluation.each_seconds
        + plan.evaluation.final_seconds
        + plan.checkpoint_seconds
    )
    assert plan.evaluation.final_seconds > plan.evaluation.each_seconds > 0
    # Parameters and two moments, four bytes each.
    assert plan.memory.training_state >= 12 * plan.parameters
    assert plan.memory.step >= 4 * plan.parameters
    assert (
        plan.memory.peak > plan.memory.process + plan.memory.training_state + plan.memory.step - 1
    )
    stated = plan.as_json()
    assert stated["seconds"]["total"] == plan.total_seconds
    assert stated["bytes"]["peak"] == plan.memory.peak


def test_tokens_are_those_of_an_epoch(words: Path) -> None:
    spec = spec_of(words)
    task = build_task(spec)
    plan = plan_run(spec, task, CALIBRATION, evaluated=False)
    stream = BatchStream(task, epoch=0, batch=0)
    batches = stream.take(len(task.epoch(0)))
    mean = sum(batch.num_tokens for batch in batches) / len(batches)
    assert plan.tokens_per_step == pytest.approx(mean)
    assert plan.evaluation == NOT_EVALUATED


def test_profiling_does_not_change_the_parameters(words: Path) -> None:
    spec = spec_of(words)
    task = build_task(spec)
    profiler = StepProfiler(spec, task)
    before = [parameter.detach().clone() for parameter in profiler.model.parameters()]
    profiler.estimate_step(CALIBRATION, samples=2, max_flops=1e12)
    for was, parameter in zip(before, profiler.model.parameters(), strict=True):
        assert torch.equal(was, parameter)


def test_a_step_extrapolated_from_smaller_batches_has_the_same_estimate(words: Path) -> None:
    spec = spec_of(words)
    profiler = StepProfiler(spec, dummy_task(spec, length=5))
    whole = profiler.estimate_step(CALIBRATION, samples=1, max_flops=1e12)
    part = profiler.estimate_step(CALIBRATION, samples=1, max_flops=whole.budget_flops / 2)
    assert part.estimate.seconds == pytest.approx(whole.estimate.seconds, rel=0.02)
    assert part.estimate.flops == pytest.approx(whole.estimate.flops, rel=0.02)
    assert part.estimate.peak_bytes == pytest.approx(whole.estimate.peak_bytes, rel=0.05)


def test_gradient_accumulation_makes_a_longer_step(words: Path) -> None:
    spec = spec_of(words)
    task = build_task(spec)
    one = plan_run(spec, task, CALIBRATION, evaluated=False)
    three = plan_run(
        replace(spec, training=spec.training.replace(accumulate=3)),
        task,
        CALIBRATION,
        evaluated=False,
    )
    assert three.tokens_per_step == pytest.approx(3 * one.tokens_per_step)
    assert 2 * one.seconds_per_step < three.seconds_per_step < 3.1 * one.seconds_per_step


@pytest.mark.parametrize("averaging", ["none", "exponential", "last"])
def test_the_training_state_includes_averages(words: Path, averaging: str) -> None:
    spec = spec_of(words, training={"averaging": averaging, "average_last": 4})
    profiler = StepProfiler(spec, build_task(spec))
    profiler.estimate_step(CALIBRATION, samples=1, max_flops=1e12)
    copies = {"none": 3, "exponential": 4, "last": 7}[averaging]
    counters = 4 * len(profiler.stepper.parameters)  # step counters, one per parameter
    assert profiler.training_state_bytes == copies * profiler.parameter_bytes + counters


STEP = StepEstimate(WorkEstimate(2.0, 0.0, 0.0), tokens=10.0, budget_flops=100.0)


@pytest.mark.parametrize(
    ("budget", "steps"),
    [
        ({"steps": 7}, 7),
        ({"tokens": 95}, 10),
        ({"flops": 1000.0}, 10),
        ({"seconds": 20.0}, 10),  # a step takes 2 s; evaluations are not part of the budget
        ({"steps": 7, "tokens": 30}, 3),
        ({"seconds": 0.1}, 1),
    ],
)
def test_the_first_exhausted_budget_limits_the_steps(budget: dict[str, Any], steps: int) -> None:
    assert steps_within(TrainingOptions(evaluate_every=10, **budget), STEP) == steps


def test_alternatives_are_all_compatible_mechanisms(words: Path) -> None:
    spec = spec_of(words)
    task = build_task(spec)
    made = {(one.model, one.model_options["mechanism"]): one for one in alternatives(spec)}
    assert {name for model, name in made if model == "recurrent"} == {"none", *SCORES}
    transformers = {name for model, name in made if model == "transformer"}
    assert {"scaled_dot", "additive", "elu", "taylor", "window"} <= transformers
    assert "retention" not in transformers  # causal only
    for alternative in made.values():
        build_spec_model(alternative, task.dataset.preprocessor)
    plan = plan_run(spec, task, CALIBRATION)
    own = plan_alternative(plan, made[("recurrent", "dot")], task, CALIBRATION)
    assert replace(own, options={**plan.options, **own.options}) == plan
    other = plan_alternative(plan, made[("transformer", "elu")], task, CALIBRATION)
    assert (other.model, other.mechanism) == ("transformer", "elu")
    # Scaled by the ratio of the step times.
    ratio = other.evaluation.each_seconds / plan.evaluation.each_seconds
    assert ratio == pytest.approx(other.seconds_per_step / plan.seconds_per_step)


SMALL_ENCODER = {"name": "text_encoder", "model_dim": 16, "num_heads": 2, "num_layers": 1}
SMALL_DECODER = {"name": "decoder_only", "model_dim": 16, "num_heads": 2, "num_layers": 1}
FAST = {"steps": 10, "evaluate_every": 5}


def sections_of(kind: str, folder: Path) -> dict[str, Any]:
    """A small run of a task; the file has a label or a number and a text per line."""
    labels = {"classify": ("even", "odd"), "regression": ("2", "3")}.get(kind, ("", ""))
    rows = [f"{labels[n % 2]}\tText number {n} is here." for n in range(60)]
    if kind in ("lm", "masked_lm"):
        rows = [f"Text number {n} is here. It has {n} words." for n in range(60)]
    file = folder / "data.tsv"
    file.write_text("\n".join(rows) + "\n")
    task = {"name": kind, "train_file": str(file), "batch_tokens": 256, "validation_fraction": 0.2}
    if kind != "regression":
        task |= {"vocabulary_size": 120, "max_length": 24}
    model = SMALL_DECODER if kind == "lm" else SMALL_ENCODER
    return {"task": task, "model": model, "training": FAST}


@pytest.mark.parametrize("kind", ["classify", "lm", "masked_lm", "regression"])
def test_every_kind_of_task_is_planned(kind: str, tmp_path: Path) -> None:
    spec = RunSpec.from_sections(sections_of(kind, tmp_path))
    task = build_task(spec)
    plan = plan_run(spec, task, CALIBRATION)
    batches = task.epoch(0)
    mean = sum(batch.num_tokens for batch in batches) / len(batches)
    assert plan.tokens_per_step == pytest.approx(mean)
    assert (plan.steps, plan.evaluations, plan.pretraining) == (10, 2, None)
    assert 0 < plan.evaluation.each_seconds < plan.total_seconds
    assert plan.flops_per_step > 3 * plan.parameters
    within = steps_within(
        TrainingOptions(flops=2 * plan.flops_per_step, evaluate_every=5),
        StepProfiler(spec, task).estimate_step(CALIBRATION, samples=1, max_flops=1e12),
    )
    assert within in (2, 3)
    for other in alternatives(spec):
        build_spec_model(other, task.dataset.preprocessor)


def test_classifiers_have_each_other_as_alternatives(tmp_path: Path) -> None:
    spec = RunSpec.from_sections(sections_of("classify", tmp_path))
    models = [one.model for one in alternatives(spec)]
    assert {"text_encoder", "bilstm", "structured", "convolutional", "bag_of_words"} == set(models)
    assert models.count("text_encoder") > 3  # mechanisms
    assert models.count("bilstm") == 1
    assert mechanism_name(list(alternatives(spec))[-1]) == "none"
    masked = RunSpec.from_sections(sections_of("masked_lm", tmp_path))
    assert {one.model for one in alternatives(masked)} == {"text_encoder"}


@pytest.fixture
def questions(tmp_path: Path) -> RunSpec:
    """Closed-book question answering with pre-training."""
    facts = [f"Person {n} lives in city {n % 5}." for n in range(40)]
    rows = [f"Where does person {n} live?\tcity {n % 5}" for n in range(40)]
    (tmp_path / "facts.txt").write_text("\n".join(facts) + "\n")
    (tmp_path / "pairs.tsv").write_text("\n".join(rows) + "\n")
    files = {"text": str(tmp_path / "facts.txt"), "pairs": str(tmp_path / "pairs.tsv")}
    words = {"source_tokens": "words", "target_tokens": "words", "batch_tokens": 200}
    before = {"name": "lm", "train_file": files["text"], "tokens": "words", "qa_fraction": 0.3}
    return RunSpec.from_sections(
        {
            "task": {"name": "closed_book_qa", "train_file": files["pairs"], **words},
            "model": SMALL_DECODER,
            "pretraining": {"task": before, "training": {**FAST, "steps": 30}},
            "training": FAST,
        }
    )


def test_pretraining_is_planned(questions: RunSpec) -> None:
    assert questions.pretraining is not None
    task, before = build_task(questions), build_task(questions.pretraining)
    plan = plan_run(questions, task, CALIBRATION, pretraining=before)
    assert plan.pretraining is not None
    assert plan.pretraining.steps == 30
    alone = plan_run(questions, task, CALIBRATION)
    assert plan.total_seconds == pytest.approx(alone.total_seconds + plan.pretraining.total_seconds)
    assert plan.peak_bytes == max(plan.memory.peak, plan.pretraining.memory.peak)
    assert plan.as_json()["pretraining"]["seconds"]["total"] == plan.pretraining.total_seconds
    other = next(one for one in alternatives(questions) if one.model_options["mechanism"] == "elu")
    quicker = plan_alternative(plan, other, task, CALIBRATION)
    ratio = quicker.seconds_per_step / plan.seconds_per_step
    assert quicker.pretraining is not None
    assert quicker.pretraining.seconds_per_step == pytest.approx(
        ratio * plan.pretraining.seconds_per_step
    )


@pytest.mark.parametrize(
    ("mechanism", "grows"), [("scaled_dot", True), ("retention", False), ("elu", False)]
)
def test_decoding_state(questions: RunSpec, mechanism: str, grows: bool) -> None:
    spec = replace(
        questions,
        model_options={**questions.model_options, "mechanism": mechanism},
        pretraining=None,
    )
    task = build_task(spec)
    short, long = (
        plan_decoding(spec, task, CALIBRATION, batch_size=2, length=length) for length in (8, 64)
    )
    assert short.mechanism == mechanism
    assert short.tokens_per_second == 2 / short.seconds_per_step
    assert short.as_json()["state_bytes"] == short.state_bytes > 0
    if grows:
        # Keys and values of one layer, in float32.
        assert long.state_bytes - short.state_bytes >= 2 * 2 * 16 * 4 * (64 - 8)
        assert long.peak_bytes > short.peak_bytes
    else:
        assert long.state_bytes == short.state_bytes
    twice = plan_decoding(spec, task, CALIBRATION, batch_size=4, length=8)
    assert twice.state_bytes == pytest.approx(2 * short.state_bytes, rel=0.01)


def test_decoding_of_an_encoder_decoder_includes_its_source(words: Path) -> None:
    spec = RunSpec.from_sections(toy_sections(words, kind="transformer"))
    task = build_task(spec)
    short, long = (
        plan_decoding(spec, task, CALIBRATION, batch_size=1, length=length) for length in (4, 8)
    )
    assert long.state_bytes > short.state_bytes


def test_ctc_is_planned_without_decoding_steps(words: Path) -> None:
    spec = RunSpec.from_sections(toy_sections(words, kind="ctc"))
    task = build_task(spec)
    with pytest.raises(RegardError, match=r"--decode.*'ctc' predicts all at once"):
        plan_decoding(spec, task, CALIBRATION, batch_size=1, length=4)
    # Also with the peak of a batch that is extrapolated from smaller ones.
    profiler = StepProfiler(spec, dummy_task(spec, length=5))
    whole = profiler.estimate_step(CALIBRATION, samples=1, max_flops=1e12)
    part = profiler.estimate_step(CALIBRATION, samples=1, max_flops=whole.budget_flops / 2)
    assert part.estimate.seconds == pytest.approx(whole.estimate.seconds, rel=0.02)
    assert part.estimate.peak_bytes == pytest.approx(whole.estimate.peak_bytes, rel=0.1)
    found = {(one.model, mechanism_name(one)) for one in alternatives(spec)}
    assert {
        ("ctc", "elu"),
        ("transformer", "scaled_dot"),
        ("transformer_recurrent", "window"),
    } <= found
    for other in alternatives(spec):
        build_spec_model(other, task.dataset.preprocessor)


def test_decoding_of_frames(tmp_path: Path) -> None:
    task = {"name": "speech_recognition", "train_file": str(write_digits(tmp_path / "digits"))}
    options = {"sample_rate": 8000, "num_bands": 8, "validation_fraction": 0.3}
    model = {"name": "transformer", "tie": "target", "model_dim": 16, "num_heads": 2}
    spec = RunSpec.from_sections(
        {"task": {**task, **options}, "model": model, "training": {"steps": 3}}
    )
    short, long = (
        plan_decoding(spec, build_task(spec), CALIBRATION, batch_size=1, length=length)
        for length in (8, 64)
    )
    assert long.state_bytes > short.state_bytes
    with pytest.raises(RegardError, match="--length 5 generates text pairs"):
        dummy_task(spec, length=5)


def test_decoding_of_a_classifier_is_refused(tmp_path: Path) -> None:
    spec = RunSpec.from_sections(sections_of("classify", tmp_path))
    with pytest.raises(RegardError, match=r"--decode.*classify"):
        plan_decoding(spec, build_task(spec), CALIBRATION, batch_size=1, length=4)


def test_alternatives_drop_the_options_of_the_mechanism(words: Path) -> None:
    options: dict[str, Any] = {"name": "transformer", "model_dim": 16, "num_heads": 2}
    own: dict[str, Any] = {
        "cross_mechanism": "elu",
        "mechanism": "window",
        "mechanism_options": {"radius": 3},
    }
    spec = spec_of(words, model={**options, "tie": "target", **own})
    made = {(one.model, one.model_options["mechanism"]): one for one in alternatives(spec)}
    assert "cross_mechanism" not in made[("transformer", "dot")].model_options
    assert made[("transformer", "dot")].model_options["model_dim"] == 16
    assert made[("recurrent", "dot")].model_options["hidden_dim"] == 16
    assert mechanism_name(spec) == "encoder window, decoder window, cross elu"


def test_widths_are_scaled_together_and_stay_divisible(words: Path) -> None:
    options = {"name": "transformer", "model_dim": 48, "num_heads": 4, "feed_forward_dim": 96}
    spec = spec_of(words, model={**options, "tie": "target"})
    for size in (MIN_SIZE, -1, 0, 1, 4, MAX_SIZE):
        given = scale_widths(spec, size).model_options
        assert given["model_dim"] % 8 == 0
        assert given["num_heads"] == 4
    doubled = scale_widths(spec, 4).model_options
    assert (doubled["model_dim"], doubled["feed_forward_dim"]) == (96, 192)
    assert scale_widths(spec, 0) is spec


@pytest.mark.parametrize("max_size", [MIN_SIZE, -5, -1, 0, 1, 6, 7, MAX_SIZE - 1, MAX_SIZE, 99])
def test_the_largest_size_that_fits_is_found(max_size: int) -> None:
    tried: list[int] = []

    def at(size: int) -> int | None:
        tried.append(size)
        return size

    def fits(size: int | None) -> bool:
        return size is not None and size <= max_size

    best, worst = largest_fitting(at, fits)
    assert best == min(max_size, MAX_SIZE)
    assert worst == (None if max_size >= MAX_SIZE else max_size + 1)
    assert len(tried) == len(set(tried)) <= 10


def test_if_nothing_fits_the_smallest_is_returned() -> None:
    def identity(size: int) -> int:
        return size

    assert largest_fitting(identity, lambda _: False) == (None, MIN_SIZE)


def test_large_batches_are_extrapolated_linearly() -> None:
    sizes = []

    def estimate(size: int) -> WorkEstimate:
        sizes.append(size)
        return WorkEstimate(3.0 + 2 * size, 10.0 * size, 1.0)

    assert extrapolate_batch_size(estimate, batch_size=100, max_size=10) == WorkEstimate(
        203.0, 1000.0, 1.0
    )
    assert sizes == [5, 10]
    assert extrapolate_batch_size(estimate, batch_size=4, max_size=10) == WorkEstimate(
        11.0, 40.0, 1.0
    )
    assert extrapolate_batch_size(estimate, batch_size=1, max_size=0).seconds == 5.0


def test_more_rows_are_not_less_work() -> None:
    def estimate(count: int) -> WorkEstimate:
        return WorkEstimate(10.0 / count, 1.0, 1.0)

    assert extrapolate_batch_size(estimate, batch_size=1000, max_size=10).seconds == 1.0


def test_evenly_spaced_indices() -> None:
    assert evenly_spaced(12, 3) == [2, 6, 10]


def test_a_plan_without_data(words: Path) -> None:
    spec = spec_of(words, task={"source_tokens": "characters", "target_tokens": "subwords"})
    task = dummy_task(spec, length=9)
    preprocessor = task.dataset.preprocessor
    assert preprocessor.input.size == CHARACTERS
    assert preprocessor.target.size == spec.task_options.vocabulary_size
    batches = task.epoch(0)
    assert len(batches) == 1
    assert batches[0].input.shape == (384 // 21, 10)
    assert batches[0].target.shape == (384 // 21, 11)
    plan: Plan = plan_run(spec, task, CALIBRATION, evaluated=False)
    assert plan.tokens_per_step == batches[0].num_tokens
    with pytest.raises(RegardError, match=r"--length 500.*384"):
        dummy_task(spec, length=500)


def test_a_model_larger_than_the_memory_is_rejected_before_it_is_built(
    words: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = spec_of(words)
    monkeypatch.setattr(profile, "free_bytes", lambda: 1000)
    with pytest.raises(InsufficientMemoryError, match=r"parameters"):
        StepProfiler(spec, build_task(spec))


def test_other_devices_are_rejected(words: Path) -> None:
    spec = spec_of(words, training={"device": "cuda"})
    with pytest.raises(RegardError, match=r"training\.device=cuda"):
        StepProfiler(spec, build_task(spec))
