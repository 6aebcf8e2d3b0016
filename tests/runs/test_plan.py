"""What a run will take: counted on real steps, priced on a made-up machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.factories.calibration import made_up_calibration
from tests.factories.toy_language import tiny_sections, toy_sections

from regard.core.errors import RegardError
from regard.models.seq2seq.recurrent import SCORES
from regard.runs import plan as planning, profile as evaluation_price, profile as trainee_file
from regard.runs.build import build_spec_model, build_task
from regard.runs.plan import (
    CHARACTERS,
    GREATEST,
    SMALLEST,
    Plan,
    designs,
    largest,
    made_up_task,
    mechanism_of,
    plan_beside,
    plan_run,
    scaled,
    steps_within,
)
from regard.runs.profile import (
    NOT_EVALUATED,
    NoRoomError,
    StepPrice,
    Trainee,
    WorkPrice,
    middles,
    price_by_rows,
)
from regard.runs.spec import RunSpec
from regard.training.loop import BatchStream
from regard.training.options import TrainingOptions

CALIBRATION = made_up_calibration()
QUICK = {"name": "recurrent", "embedding_dim": 4, "hidden_dim": 8, "mechanism": "dot"}
QUICK |= {"wiring": "after"}


@pytest.fixture(autouse=True)
def few_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tracing is slow where every shape is checked."""
    monkeypatch.setattr(planning, "SAMPLES", 1)
    monkeypatch.setattr(evaluation_price, "GREEDY_SAMPLES", 1)


def spec_of(pairs: Path, **changes: Any) -> RunSpec:
    return RunSpec.from_sections(tiny_sections(pairs, **{"model": QUICK, **changes}))


@pytest.mark.parametrize("kind", ["recurrent", "transformer"])
def test_a_plan_adds_up(words: Path, kind: str) -> None:
    spec = RunSpec.from_sections(toy_sections(words, kind=kind))
    task = build_task(spec)
    plan = plan_run(spec, task, CALIBRATION)
    model = Trainee(spec, task).model
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
    # Weights and two moments of each, in four bytes.
    assert plan.memory.kept >= 12 * plan.parameters
    assert plan.memory.step >= 4 * plan.parameters
    assert plan.memory.peak > plan.memory.process + plan.memory.kept + plan.memory.step - 1
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


def test_planning_leaves_no_trace_in_the_weights(words: Path) -> None:
    spec = spec_of(words)
    task = build_task(spec)
    ours = Trainee(spec, task)
    before = [parameter.detach().clone() for parameter in ours.model.parameters()]
    ours.step_price(CALIBRATION, samples=2, most=1e12)
    for was, parameter in zip(before, ours.model.parameters(), strict=True):
        assert torch.equal(was, parameter)


def test_a_step_that_is_not_run_whole_is_priced_the_same(words: Path) -> None:
    spec = spec_of(words)
    ours = Trainee(spec, made_up_task(spec, length=5))
    whole = ours.step_price(CALIBRATION, samples=1, most=1e12)
    part = ours.step_price(CALIBRATION, samples=1, most=whole.declared / 2)
    assert part.price.seconds == pytest.approx(whole.price.seconds, rel=0.02)
    assert part.price.operations == pytest.approx(whole.price.operations, rel=0.02)
    assert part.price.peak_bytes == pytest.approx(whole.price.peak_bytes, rel=0.05)


def test_accumulated_batches_make_a_longer_step(words: Path) -> None:
    spec = spec_of(words)
    task = build_task(spec)
    one = plan_run(spec, task, CALIBRATION, evaluated=False)
    three = plan_run(
        replace(spec, training=replace(spec.training, accumulate=3)),
        task,
        CALIBRATION,
        evaluated=False,
    )
    assert three.tokens_per_step == pytest.approx(3 * one.tokens_per_step)
    assert 2 * one.seconds_per_step < three.seconds_per_step < 3.1 * one.seconds_per_step


@pytest.mark.parametrize("averaging", ["none", "exponential", "last"])
def test_averages_are_kept_too(words: Path, averaging: str) -> None:
    spec = spec_of(words, training={"averaging": averaging, "average_last": 4})
    ours = Trainee(spec, build_task(spec))
    ours.step_price(CALIBRATION, samples=1, most=1e12)
    copies = {"none": 3, "exponential": 4, "last": 7}[averaging]
    counters = 4 * len(ours.stepper.parameters)  # of steps, one beside each pair of moments
    generator = torch.get_rng_state().nbytes
    assert ours.kept_bytes == copies * ours.weight_bytes + counters + generator


STEP = StepPrice(WorkPrice(2.0, 0.0, 0.0), tokens=10.0, declared=100.0)


@pytest.mark.parametrize(
    ("budget", "steps"),
    [
        ({"steps": 7}, 7),
        ({"tokens": 95}, 10),
        ({"operations": 1000.0}, 10),
        ({"seconds": 30.0}, 10),  # a step takes 2 s, and its part of the evaluation 1 s
        ({"steps": 7, "tokens": 30}, 3),
        ({"seconds": 0.1}, 1),
    ],
)
def test_the_first_budget_to_end_gives_the_steps(budget: dict[str, Any], steps: int) -> None:
    options = TrainingOptions(evaluate_every=10, **budget)
    evaluation = NOT_EVALUATED._replace(each_seconds=9.0)
    assert steps_within(options, STEP, evaluation, checkpoint=1.0) == steps


def test_designs_are_all_that_fit(words: Path) -> None:
    spec = spec_of(words)
    task = build_task(spec)
    made = {(one.model, one.model_options["mechanism"]): one for one in designs(spec)}
    assert {name for model, name in made if model == "recurrent"} == {"none", *SCORES}
    transformers = {name for model, name in made if model == "transformer"}
    assert {"scaled_dot", "additive", "elu", "taylor", "window"} <= transformers
    assert "retention" not in transformers  # it reads the past only
    for design in made.values():
        build_spec_model(design, task.corpus.vocabularies)
    plan = plan_run(spec, task, CALIBRATION)
    own = plan_beside(plan, made[("recurrent", "dot")], task, CALIBRATION)
    assert own == plan
    other = plan_beside(plan, made[("transformer", "elu")], task, CALIBRATION)
    assert (other.model, other.mechanism) == ("transformer", "elu")
    # As much slower as its steps are.
    ratio = other.evaluation.each_seconds / plan.evaluation.each_seconds
    assert ratio == pytest.approx(other.seconds_per_step / plan.seconds_per_step)


def test_designs_of_a_transformer_drop_what_belonged_to_its_mechanism(words: Path) -> None:
    options: dict[str, Any] = {"name": "transformer", "model_dim": 16, "num_heads": 2}
    own: dict[str, Any] = {
        "cross_mechanism": "elu",
        "mechanism": "window",
        "mechanism_options": {"radius": 3},
    }
    spec = spec_of(words, model={**options, "tie": "target", **own})
    made = {(one.model, one.model_options["mechanism"]): one for one in designs(spec)}
    assert "cross_mechanism" not in made[("transformer", "dot")].model_options
    assert made[("transformer", "dot")].model_options["model_dim"] == 16
    assert made[("recurrent", "dot")].model_options["hidden_dim"] == 16
    assert mechanism_of(spec) == "encoder window, decoder window, cross elu"


def test_widths_are_scaled_together_and_stay_divisible(words: Path) -> None:
    options = {"name": "transformer", "model_dim": 48, "num_heads": 4, "feed_forward_dim": 96}
    spec = spec_of(words, model={**options, "tie": "target"})
    for size in (SMALLEST, -1, 0, 1, 4, GREATEST):
        given = scaled(spec, size).model_options
        assert given["model_dim"] % 8 == 0
        assert given["num_heads"] == 4
    doubled = scaled(spec, 4).model_options
    assert (doubled["model_dim"], doubled["feed_forward_dim"]) == (96, 192)
    assert scaled(spec, 0) is spec


@pytest.mark.parametrize("most", [SMALLEST, -5, -1, 0, 1, 6, 7, GREATEST - 1, GREATEST, 99])
def test_the_largest_that_fits_is_found(most: int) -> None:
    tried: list[int] = []

    def at(size: int) -> int | None:
        tried.append(size)
        return size

    def fits(size: int | None) -> bool:
        return size is not None and size <= most

    best, worst = largest(at, fits)
    assert best == min(most, GREATEST)
    assert worst == (None if most >= GREATEST else most + 1)
    assert len(tried) == len(set(tried)) <= 10


def test_where_nothing_fits_the_smallest_is_told() -> None:
    def as_it_is(size: int) -> int:
        return size

    assert largest(as_it_is, lambda _: False) == (None, SMALLEST)


def test_a_line_through_two_parts_gives_the_whole() -> None:
    asked = []

    def price(rows: int) -> WorkPrice:
        asked.append(rows)
        return WorkPrice(3.0 + 2 * rows, 10.0 * rows, 1.0)

    assert price_by_rows(price, rows=100, most=10) == WorkPrice(203.0, 1000.0, 1.0)
    assert asked == [5, 10]
    assert price_by_rows(price, rows=4, most=10) == WorkPrice(11.0, 40.0, 1.0)
    assert price_by_rows(price, rows=1, most=0).seconds == 5.0


def test_middles_stand_for_equal_parts() -> None:
    assert middles(12, 3) == [2, 6, 10]


def test_a_plan_without_data(words: Path) -> None:
    spec = spec_of(words, task={"source_tokens": "characters", "target_tokens": "subwords"})
    task = made_up_task(spec, length=9)
    vocabularies = task.corpus.vocabularies
    assert vocabularies.source.size == CHARACTERS
    assert vocabularies.target.size == spec.task_options.vocabulary_size
    batches = task.epoch(0)
    assert len(batches) == 1
    assert batches[0].source.shape == (384 // 21, 10)
    assert batches[0].target.shape == (384 // 21, 11)
    plan: Plan = plan_run(spec, task, CALIBRATION, evaluated=False)
    assert plan.tokens_per_step == batches[0].num_tokens
    with pytest.raises(RegardError, match=r"--length 500: .* task\.batch_tokens=384"):
        made_up_task(spec, length=500)


def test_a_model_beyond_the_memory_is_refused_before_it_is_built(
    words: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = spec_of(words)
    monkeypatch.setattr(trainee_file, "free_bytes", lambda: 1000)
    with pytest.raises(NoRoomError, match=r"parameters, and takes .* Choose smaller widths"):
        Trainee(spec, build_task(spec))


def test_another_device_is_refused(words: Path) -> None:
    spec = spec_of(words, training={"device": "cuda"})
    with pytest.raises(RegardError, match=r"Set training\.device=cpu"):
        Trainee(spec, build_task(spec))
