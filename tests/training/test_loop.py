"""The training loop: batches, budgets, scores, best checkpoint, early stopping."""

from __future__ import annotations

import json
import math
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.factories.toy_training import ToyBatch, ToyModel, ToyTask
from torch import nn

from regard.core.errors import RegardError
from regard.core.protocols import Loss
from regard.training.callbacks import Outcome
from regard.training.checkpoint import load_parameters, parameters_step
from regard.training.loop import CHECKPOINT, METRICS, MODEL, TIMING, BatchStream, train
from regard.training.options import TrainingOptions


def toy_options(**options: Any) -> TrainingOptions:
    defaults = {"learning_rate": 0.01, "warmup_steps": 5, "evaluate_every": 1000}
    return TrainingOptions(**{**defaults, **options})


def run(
    folder: Path, *, model: nn.Module | None = None, task: ToyTask | None = None, **options: Any
) -> Outcome:
    return train(
        model=model or ToyModel(),
        task=task or ToyTask(),
        options=toy_options(**options),
        folder=folder,
        seed=1,
    )


def rows(folder: Path, name: str = METRICS) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


class FixedScores(ToyTask):
    """Returns fixed scores, one per evaluation."""

    metric = "points"
    lower_is_better = False

    def __init__(self, *points: float) -> None:
        super().__init__()
        self.points = list(points)

    def evaluate(self, model: Any) -> dict[str, float]:
        return {"points": self.points.pop(0)}


def test_it_learns(tmp_path: Path) -> None:
    outcome = run(tmp_path, steps=300, evaluate_every=150)
    assert outcome.best["accuracy"] > 0.8  # ten seeds: 1.0; untrained: 0 to 0.18
    assert outcome.stop_reason == "budget"
    assert outcome.parameters == sum(one.numel() for one in ToyModel().parameters())


def test_files_and_rows(tmp_path: Path) -> None:
    outcome = run(
        tmp_path, steps=10, evaluate_every=4, log_every=3, schedule="constant", clip_norm=None
    )
    written = {METRICS, TIMING, CHECKPOINT, MODEL, "manifest.json"}
    assert {path.name for path in tmp_path.iterdir()} == written
    found = rows(tmp_path)
    assert [(row["step"], "validation" in row) for row in found] == [
        (3, False),
        (4, False),
        (4, True),
        (6, False),
        (8, False),
        (8, True),
        (9, False),
        (10, False),
        (10, True),
    ]
    assert list(found[0]) == [
        "step",
        "epoch",
        "tokens",
        "flops",
        "loss",
        "learning_rate",
        "gradient_norm",
    ]
    # Batches of 4, 5, 6, 4, 5 letters; what is read and what is predicted both count.
    assert [row["tokens"] for row in found if "tokens" in row] == [30, 38, 56, 78, 86, 96]
    assert [row["epoch"] for row in found if "epoch" in row] == [0, 0, 1, 1, 1, 1]
    assert found[0]["learning_rate"] == pytest.approx(0.01 * 3 / 5)
    assert found[2]["validation"].keys() == {"error", "accuracy"}
    assert found[-1]["validation"] == outcome.last
    assert (outcome.steps, outcome.tokens, outcome.epochs) == (10, 96, 2.0)
    timing = rows(tmp_path, TIMING)
    assert [list(row) for row in timing] == [
        ["step", "seconds", "evaluation_seconds", "tokens_per_second", "peak_bytes"]
    ] * 6
    peaks = [row["peak_bytes"] for row in timing]
    assert peaks == sorted(peaks)
    # Of a process that has loaded torch, in bytes: neither in kilobytes nor in pages.
    assert 1 << 26 < peaks[0] <= peaks[-1] < 1 << 38


def test_logged_loss_is_the_mean_over_its_steps(tmp_path: Path) -> None:
    """With a learning rate near zero, the losses are those of the initial parameters."""
    model, task = ToyModel(dropout=0.0), ToyTask()
    batches = [task.epoch(0)[index] for index in range(3)]
    total = sum(task.loss(model, batch).total.item() for batch in batches)
    run(tmp_path, model=ToyModel(dropout=0.0), steps=3, log_every=3, learning_rate=1e-30)
    mean = total / sum(batch.num_predictions for batch in batches)
    assert rows(tmp_path)[0]["loss"] == pytest.approx(mean)


def test_same_seed_is_bit_reproducible(tmp_path: Path) -> None:
    for name in ("one", "other"):
        run(tmp_path / name, steps=20, evaluate_every=7)
    one, other = tmp_path / "one", tmp_path / "other"
    assert (one / METRICS).read_bytes() == (other / METRICS).read_bytes()
    assert (one / MODEL).read_bytes() == (other / MODEL).read_bytes()


@pytest.mark.parametrize(
    ("budget", "steps"),
    [
        ({"steps": 7}, 7),
        ({"tokens": 50}, 6),  # 8 + 10 + 12 + 8 + 10 + 8
        ({"tokens": 48}, 5),
        ({"flops": 350.0}, 4),
        ({"steps": 7, "tokens": 50, "flops": 350.0}, 4),
    ],
)
def test_budgets(tmp_path: Path, budget: dict[str, Any], steps: int) -> None:
    outcome = train(
        model=ToyModel(),
        task=ToyTask(),
        options=toy_options(**budget),
        folder=tmp_path,
        seed=1,
        flops=lambda _: 100,
    )
    assert outcome.steps == steps
    assert outcome.flops == 100 * steps
    assert rows(tmp_path)[-1]["validation"] == outcome.last


@pytest.mark.parametrize(
    "budget", [{"steps": 40}, {"steps": 7}, {"tokens": 400}, {"flops": 3300.0}, {"seconds": 0.4}]
)
def test_a_fraction_gives_as_many_evaluations_under_every_budget(
    tmp_path: Path, budget: dict[str, float]
) -> None:
    train(
        model=ToyModel(),
        task=ToyTask(pause=0.002),
        options=toy_options(**budget, evaluate_every=0.2),
        folder=tmp_path,
        seed=1,
        flops=lambda _: 100,
    )
    assert sum("validation" in row for row in rows(tmp_path)) == 5


def test_a_fraction_of_steps_is_exact(tmp_path: Path) -> None:
    run(tmp_path, steps=30, evaluate_every=0.1)
    evaluated = [row["step"] for row in rows(tmp_path) if "validation" in row]
    assert evaluated == list(range(3, 31, 3))


class SlowEvaluation(ToyTask):
    """An evaluation takes longer than the budget."""

    def evaluate(self, model: Any) -> dict[str, float]:
        time.sleep(0.3)
        return super().evaluate(model)


def test_a_budget_of_seconds_counts_training_only(tmp_path: Path) -> None:
    task = SlowEvaluation(pause=0.01)
    outcome = run(tmp_path, task=task, seconds=0.25, evaluate_every=0.5)
    assert sum("validation" in row for row in rows(tmp_path)) == 2
    assert outcome.seconds >= 0.25
    assert outcome.evaluation_seconds >= 0.6
    assert rows(tmp_path, TIMING)[-1]["seconds"] == pytest.approx(outcome.seconds, abs=1e-3)


def test_budget_of_seconds(tmp_path: Path) -> None:
    outcome = run(tmp_path, task=ToyTask(pause=0.01), seconds=0.3, schedule="linear")
    assert 0.3 <= outcome.seconds < 5
    assert 1 <= outcome.steps <= 30
    assert outcome.stop_reason == "budget"


def test_budget_of_flops_needs_a_flops_function(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"flops=1e\+06"):
        run(tmp_path, flops=1e6)


def test_gradient_accumulation_equals_one_large_batch(tmp_path: Path) -> None:
    class Joined(ToyTask):
        """Two toy batches of different sizes as one."""

        def epoch(self, number: int) -> Any:
            halves = super().epoch(number)
            return [
                ToyBatch(
                    0,
                    torch.cat([halves[index].inputs, halves[index + 1].inputs]),
                    torch.cat([halves[index].targets, halves[index + 1].targets]),
                )
                for index in range(0, len(halves), 2)
            ]

    whole, halves = ToyModel(dropout=0.0), ToyModel(dropout=0.0)
    run(tmp_path / "whole", model=whole, task=Joined(batches=4), steps=6, evaluate_every=2)
    task = ToyTask(batches=4)
    run(tmp_path / "halves", model=halves, task=task, steps=6, accumulate=2, evaluate_every=2)
    assert task.seen == [0, 1, 2, 3, 1000, 1001, 1002, 1003, 2000, 2001, 2002, 2003]
    for one, other in zip(whole.parameters(), halves.parameters(), strict=True):
        torch.testing.assert_close(one, other)
    for row, same in zip(rows(tmp_path / "whole"), rows(tmp_path / "halves"), strict=True):
        assert row.get("loss") == pytest.approx(same.get("loss"))
        assert row.get("tokens") == same.get("tokens")


def test_best_checkpoint_is_saved(tmp_path: Path) -> None:
    outcome = run(tmp_path, task=FixedScores(1.0, 3.0, 2.0, 3.0), steps=8, evaluate_every=2)
    assert parameters_step(tmp_path / MODEL) == 4
    assert (outcome.best, outcome.last) == ({"points": 3.0}, {"points": 3.0})


def test_last_checkpoint_is_saved_with_keep_last(tmp_path: Path) -> None:
    model, other = ToyModel(), ToyModel()
    run(tmp_path, model=model, task=FixedScores(3.0, 2.0), steps=4, evaluate_every=2, keep="last")
    assert parameters_step(tmp_path / MODEL) == 4
    load_parameters(other, tmp_path / MODEL)
    for one, two in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(one, two)


def test_nan_scores_are_never_the_best(tmp_path: Path) -> None:
    outcome = run(tmp_path, task=FixedScores(math.nan, 0.5, math.nan), steps=6, evaluate_every=2)
    assert outcome.best == {"points": 0.5}
    assert parameters_step(tmp_path / MODEL) == 4
    run(tmp_path / "never", task=FixedScores(math.nan), steps=2)
    assert parameters_step(tmp_path / "never" / MODEL) == 2
    assert rows(tmp_path / "never")[-1] == {"step": 2, "validation": {"points": None}}


def test_early_stopping(tmp_path: Path) -> None:
    task = FixedScores(1.0, 2.0, 2.0, 1.5, 9.0)
    outcome = run(tmp_path, task=task, steps=100, evaluate_every=3, patience=2)
    assert outcome.stop_reason == "patience"
    assert outcome.steps == 12
    assert outcome.best == {"points": 2.0}
    assert task.points == [9.0]


def test_averaged_parameters_are_evaluated_and_saved(tmp_path: Path) -> None:
    class RecordingTask(ToyTask):
        seen_bias = torch.zeros(0)

        def evaluate(self, model: Any) -> dict[str, float]:
            self.seen_bias = model.hidden.bias.clone()
            return super().evaluate(model)

    model, task, saved = ToyModel(), RecordingTask(), ToyModel()
    run(tmp_path, model=model, task=task, steps=30, averaging="exponential", average_decay=0.9)
    load_parameters(saved, tmp_path / MODEL)
    assert torch.equal(saved.hidden.bias, task.seen_bias)
    assert not torch.equal(model.hidden.bias, task.seen_bias)


def test_nan_loss_raises_and_leaves_the_checkpoint(tmp_path: Path) -> None:
    class Breaking(ToyTask):
        def loss(self, model: Any, batch: ToyBatch) -> Loss:
            loss = super().loss(model, batch)
            broken = Loss(loss.total * math.nan, batch.num_predictions)
            return broken if len(self.seen) == 6 else loss

    model = ToyModel()
    with pytest.raises(RegardError, match=r"step 6: the loss is nan, .*learning rate 0\.01"):
        run(
            tmp_path,
            model=model,
            task=Breaking(),
            steps=9,
            checkpoint_every=5,
            schedule="constant",
        )
    assert all(torch.isfinite(one).all() for one in model.parameters())
    outcome = train(
        model=model,
        task=ToyTask(),
        options=toy_options(steps=9, checkpoint_every=5, schedule="constant"),
        folder=tmp_path,
        seed=1,
        resume=True,
    )
    assert outcome.steps == 9


def test_divergence_without_checkpoint(tmp_path: Path) -> None:
    class Broken(ToyTask):
        def loss(self, model: Any, batch: ToyBatch) -> Loss:
            return Loss(super().loss(model, batch).total * math.inf, batch.num_predictions)

    with pytest.raises(RegardError, match=r"step 1: .*no checkpoint yet"):
        run(tmp_path, task=Broken(), steps=3)
    assert not (tmp_path / CHECKPOINT).exists()


def test_batches_without_targets_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="Step 1 has no targets"):
        run(tmp_path, task=ToyTask(rows=0), steps=1)


def test_model_without_trainable_parameters_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="no trainable parameters"):
        run(tmp_path, model=ToyModel().requires_grad_(False), steps=1)


def test_unavailable_device_is_named(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("cuda is available")
    with pytest.raises(RegardError, match="device=cuda: this machine has no"):
        run(tmp_path, steps=1, device="cuda")


def test_trains_outside_the_main_thread(tmp_path: Path) -> None:
    outcomes: list[Outcome] = []
    thread = threading.Thread(target=lambda: outcomes.append(run(tmp_path, steps=3)))
    thread.start()
    thread.join()
    assert outcomes[0].steps == 3


def test_callback_events_are_in_order(tmp_path: Path) -> None:
    events: list[str] = []

    class RecordingCallback:
        def on_train_begin(self, info: Any) -> None:
            events.append(f"started after {info.step}")

        def on_step_end(self, info: Any) -> None:
            events.append(f"step {info.step} progress {info.progress}")

        def on_evaluate(self, scores: Any) -> None:
            events.append(f"scored at {scores.step}, improved {scores.improved}")

        def on_save(self, path: Path) -> None:
            events.append(path.name)

        def on_train_end(self, outcome: Outcome | None) -> None:
            events.append("failed" if outcome is None else outcome.stop_reason)

    options = toy_options(steps=2)
    arguments: dict[str, Any] = {
        "model": ToyModel(),
        "options": options,
        "callbacks": [RecordingCallback()],
    }
    train(task=ToyTask(), folder=tmp_path / "one", seed=1, **arguments)
    assert events == [
        "started after 0",
        "step 1 progress 0.5",
        "step 2 progress 1.0",
        CHECKPOINT,
        MODEL,
        "scored at 2, improved True",
        CHECKPOINT,
        "budget",
    ]
    with pytest.raises(RegardError):
        train(task=ToyTask(rows=0), folder=tmp_path / "two", seed=1, **arguments)
    assert events[-1] == "failed"


def test_no_module_imports_pickle() -> None:
    package = Path(__file__).parents[2] / "src" / "regard" / "training"
    for path in package.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not [word for word in ("torch.save", "torch.load", "import pickle") if word in text]


def test_batches_across_epochs() -> None:
    stream = BatchStream(ToyTask(batches=3), epoch=0, batch=0)
    assert [batch.number for batch in stream.take(7)] == [0, 1, 2, 1000, 1001, 1002, 2000]
    assert (stream.epoch, stream.batch) == (2, 1)
    assert stream.epochs == pytest.approx(2 + 1 / 3)


@pytest.mark.parametrize("taken", range(8))
def test_stream_starts_at_any_position(taken: int) -> None:
    first = BatchStream(ToyTask(batches=3), epoch=0, batch=0)
    first.take(taken)
    second = BatchStream(ToyTask(batches=3), epoch=first.epoch, batch=first.batch)
    assert [one.number for one in first.take(5)] == [one.number for one in second.take(5)]


def test_empty_epoch_is_refused() -> None:
    with pytest.raises(RegardError, match="Epoch 0 has no batches"):
        BatchStream(ToyTask(batches=0), epoch=0, batch=0)
