"""The training loop: batches in, weights and rows of metrics out, and at any moment a way to go on.

    metrics.jsonl            what was found: the same bytes in every run with the same options and seed
    timing.jsonl             how long it took, which is never the same
    checkpoint.safetensors   all that is needed to go on
    model.safetensors        the weights that were kept

A checkpoint is written between two steps, and always after an evaluation, before the kept weights.
Whatever a killed run wrote after its last checkpoint is cut off or written again, so a run that was
killed and resumed ends with the same bits as one that was not: on a CPU, with as many threads, and
without a budget of seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.core.atomic_write import remove_remains
from regard.core.errors import RegardError
from regard.core.protocols import Task
from regard.training.averaging import build_averaging
from regard.training.callbacks import (
    Audience,
    Evaluation,
    Outcome,
    Start,
    StepTaken,
    Stopped,
    Watcher,
)
from regard.training.checkpoint import (
    Checkpoint,
    Counters,
    RowFile,
    counters_to_go_on,
    gather,
    give_back,
    read_checkpoint,
    weights_step,
    write_checkpoint,
    write_weights,
)
from regard.training.evaluate import evaluate
from regard.training.options import TrainingOptions
from regard.training.process import AbandonedError, Interruption, folder_locked
from regard.training.schedule import SCHEDULES, Moment
from regard.training.step import Stepper

# How long a run has taken, and how quick its steps are.


class Clock:
    """Seconds of all sessions of a run together, `before` of them in earlier ones."""

    def __init__(self, *, before: float) -> None:
        """Start."""
        now = time.monotonic()
        self._zero = now - before
        self._saved = now
        self._tokens = 0
        self._spent = 0.0

    def seconds(self) -> float:
        """All that has passed, evaluations and checkpoints counted."""
        return time.monotonic() - self._zero

    def stepped(self, *, began: float, tokens: int) -> None:
        """Count a step that began at that reading of `time.monotonic`."""
        self._tokens += tokens
        self._spent += time.monotonic() - began

    def row(self) -> dict[str, float]:
        """For the timing file: the rate is that of the steps since the last row, nothing else counted."""
        rate = self._tokens / self._spent if self._spent > 0 else 0.0
        self._tokens, self._spent = 0, 0.0
        return {"seconds": round(self.seconds(), 3), "tokens_per_second": round(rate, 1)}

    def saved(self) -> None:
        """A checkpoint was written just now."""
        self._saved = time.monotonic()

    def since_saved(self) -> float:
        """Seconds since then, or since the start."""
        return time.monotonic() - self._saved


# The batches of a task, epoch after epoch, from any place on.


class BatchStream:
    """Batch `batch` of epoch `epoch` comes next."""

    def __init__(self, task: Task, *, epoch: int, batch: int) -> None:
        """Begin at that place."""
        self.task = task
        self.epoch = epoch
        self.batch = batch
        self._batches: Sequence[Any] = self._of(epoch)

    @property
    def epochs(self) -> float:
        """How many passes over the data have been made."""
        return self.epoch + self.batch / len(self._batches)

    def take(self, count: int) -> list[Any]:
        """The next `count` batches; an epoch that ends is followed by the next."""
        taken = []
        for _ in range(count):
            if self.batch >= len(self._batches):
                self._batches = self._of(self.epoch + 1)
                self.epoch, self.batch = self.epoch + 1, 0
            taken.append(self._batches[self.batch])
            self.batch += 1
        return taken

    def _of(self, epoch: int) -> Sequence[Any]:
        batches = self.task.epoch(epoch)
        if len(batches) == 0:
            raise RegardError(
                f"Epoch {epoch} has no batches, so there is nothing to train on. Check that the "
                "training part of the data is not empty."
            )
        return batches


METRICS, TIMING = "metrics.jsonl", "timing.jsonl"
CHECKPOINT, MODEL = "checkpoint.safetensors", "model.safetensors"


def train(
    *,
    model: nn.Module,
    task: Task,
    options: TrainingOptions,
    folder: Path,
    seed: int,
    operations: Callable[[Any], int] | None = None,
    watchers: Sequence[Watcher] = (),
    resume: bool = False,
) -> Outcome:
    """Train a model in place; what was found, and the weights that were kept, are in `folder`.

    `operations` says what a step on a batch takes. With `resume`, a run goes on from its
    checkpoint if there is one; one that is finished already is not trained, and its outcome comes
    back again, so that whoever was killed after the end can do what was left. Afterwards the model
    holds its last weights, not averaged; the kept ones are in the file. Ctrl-C and SIGTERM end the
    run with a checkpoint, a second one at once.
    """
    if options.operations is not None and operations is None:
        raise RegardError(
            f"The budget operations={options.operations:g} needs to know what a batch takes. Give "
            "`operations`, a function of a batch, or choose another budget."
        )
    outcome: Outcome | None = None
    with folder_locked(folder), Interruption() as interruption, _flushed_denormals():
        remove_remains(folder)
        saved = _saved(folder, resume=resume)
        torch.manual_seed(seed)
        run = _Run(
            model=model,
            task=task,
            options=options,
            folder=folder,
            seed=seed,
            operations=operations,
            audience=Audience(watchers),
            interruption=interruption,
            saved=saved,
        )
        try:
            with run.metrics, run.timing:
                outcome = run.go_on()
        finally:
            run.audience.ended(outcome)
    return outcome


class _Run:
    """One session of a run: everything that changes while it trains."""

    def __init__(
        self,
        *,
        model: nn.Module,
        task: Task,
        options: TrainingOptions,
        folder: Path,
        seed: int,
        operations: Callable[[Any], int] | None,
        audience: Audience,
        interruption: Interruption,
        saved: Checkpoint | None,
    ) -> None:
        self.model, self.task, self.options, self.folder = model, task, options, folder
        self.seed, self.operations = seed, operations
        self.audience, self.interruption = audience, interruption
        self.counters, lengths = Counters(), {METRICS: 0, TIMING: 0}
        if saved is not None:
            self.counters, lengths = counters_to_go_on(
                saved.facts, options=options, seed=seed, path=folder / CHECKPOINT
            )
        self.schedule = SCHEDULES[options.schedule]
        self.stepper = Stepper(model=model, task=task, options=options)
        self.averaging = build_averaging(model, options)
        if saved is not None:
            give_back(
                saved,
                model=model,
                optimizers=self.stepper.optimizers,
                averaging=self.averaging,
                path=folder / CHECKPOINT,
            )
        self.stream = BatchStream(task, epoch=self.counters.epoch, batch=self.counters.batch)
        self.metrics = RowFile(folder / METRICS, kept=lengths[METRICS])
        self.timing = RowFile(folder / TIMING, kept=lengths[TIMING])
        self.clock = Clock(before=self.counters.seconds)

    def go_on(self) -> Outcome:
        """Train until the budget or the patience is at its end, or somebody stops it."""
        counters, options = self.counters, self.options
        self._tell_start()
        self._repair()
        if counters.finished is not None:
            return self._outcome(counters.finished)
        while True:
            ended = options.budget.is_used(counters.used)
            due = ended or (counters.step > 0 and counters.step % options.evaluate_every == 0)
            if due and counters.evaluated_step != counters.step:
                self._log()
                try:
                    self._evaluate()
                except AbandonedError:
                    return self._stop("interrupted")
            if options.patience is not None and counters.waited >= options.patience:
                return self._stop("patience")
            if ended:
                return self._stop("budget")
            if self.interruption.wanted:
                return self._stop("interrupted")
            self._step()
            if counters.step % options.log_every == 0:
                self._log()
            if self._checkpoint_due():
                self._save()

    def _step(self) -> None:
        counters, options = self.counters, self.options
        began = time.monotonic()
        moment = Moment(
            step=counters.step + 1,
            share=options.budget.share(counters.used),
            warmup_steps=options.warmup_steps,
            final_fraction=options.final_fraction,
        )
        factor = self.schedule(moment)
        batches = self.stream.take(options.accumulate)
        taken = self.stepper.step(
            batches,
            number=moment.step,
            factor=factor,
            has_checkpoint=(self.folder / CHECKPOINT).exists(),
        )
        self.averaging.stepped(moment.step)
        tokens = sum(batch.num_tokens for batch in batches)
        self.clock.stepped(began=began, tokens=tokens)
        counters.step = moment.step
        counters.epoch, counters.batch = self.stream.epoch, self.stream.batch
        counters.tokens += tokens
        if self.operations is not None:
            counters.operations += sum(int(self.operations(batch)) for batch in batches)
        counters.seconds = self.clock.seconds()
        counters.loss_total += taken.total
        counters.loss_count += taken.predictions
        counters.learning_rate = options.learning_rate * factor
        counters.gradient_norm = taken.gradient_norm
        self._tell_step(loss=taken.total / taken.predictions)

    def _log(self) -> None:
        """A row for the steps since the last one, if there are any."""
        counters = self.counters
        if counters.loss_count == 0:
            return
        self.metrics.add(
            {
                "step": counters.step,
                "epoch": counters.epoch,
                "tokens": counters.tokens,
                "operations": counters.operations,
                "loss": counters.loss_total / counters.loss_count,
                "learning_rate": counters.learning_rate,
                "gradient_norm": counters.gradient_norm,
            }
        )
        self.timing.add({"step": counters.step, **self.clock.row()})
        counters.loss_total, counters.loss_count = 0.0, 0

    def _evaluate(self) -> None:
        counters, task = self.counters, self.task
        averaged = self.averaging.weights(counters.step)
        scores = evaluate(self.model, task, averaged=averaged, guard=self.interruption.abandoning())
        self.metrics.add({"step": counters.step, "validation": scores})
        improved = counters.note_scores(
            scores,
            metric=task.metric,
            lower_is_better=task.lower_is_better,
            keep=self.options.keep,
        )
        # The checkpoint comes first, so that the kept weights are never of a step it does not know.
        self._save()
        if counters.kept_step == counters.step:
            self._keep(averaged)
        best = counters.best.get(task.metric)
        self.audience.evaluated(Evaluation(counters.step, scores, task.metric, improved, best))

    def _keep(self, averaged: dict[str, Tensor] | None) -> None:
        path = self.folder / MODEL
        write_weights(path, self.model, replaced=averaged, step=self.counters.step)
        self.audience.saved(path)

    def _stop(self, stopped: Stopped) -> Outcome:
        counters = self.counters
        if stopped != "interrupted":
            counters.finished = stopped
        # Where no score was a number, none was the best.
        never_kept = stopped != "interrupted" and counters.kept_step < 0
        if never_kept:
            counters.kept_step = counters.step
        self._save()
        if never_kept:
            self._keep(self.averaging.weights(counters.step))
        return self._outcome(stopped)

    def _outcome(self, stopped: Stopped) -> Outcome:
        counters = self.counters
        return Outcome(
            steps=counters.step,
            epochs=self.stream.epochs,
            tokens=counters.tokens,
            operations=counters.operations,
            seconds=counters.seconds,
            best=dict(counters.best),
            last=dict(counters.last),
            stopped=stopped,
            parameters=self._size(),
        )

    def _checkpoint_due(self) -> bool:
        every = self.options.checkpoint_every
        if every is not None and self.counters.step % every == 0:
            return True
        return self.clock.since_saved() >= self.options.checkpoint_seconds

    def _save(self) -> None:
        self.counters.seconds = self.clock.seconds()
        tensors = gather(
            model=self.model, optimizers=self.stepper.optimizers, averaging=self.averaging
        )
        facts = {
            "counters": self.counters.as_dict(),
            "options": self.options.as_dict(),
            "seed": self.seed,
            "lengths": {METRICS: self.metrics.length(), TIMING: self.timing.length()},
        }
        path = self.folder / CHECKPOINT
        write_checkpoint(path, Checkpoint(tensors, facts))
        self.clock.saved()
        self.audience.saved(path)

    def _repair(self) -> None:
        """Write the kept weights, if a session was killed between its checkpoint and writing them."""
        step = self.counters.step
        if self.counters.kept_step == step and weights_step(self.folder / MODEL) != step:
            self._keep(self.averaging.weights(step))

    def _size(self) -> int:
        return sum(parameter.numel() for parameter in self.model.parameters())

    def _tell_start(self) -> None:
        counters = self.counters
        info = Start(
            folder=self.folder,
            options=self.options,
            parameters=self._size(),
            step=counters.step,
            tokens=counters.tokens,
            seconds=counters.seconds,
            share=self.options.budget.share(counters.used),
            metric=self.task.metric,
            lower_is_better=self.task.lower_is_better,
            best=counters.best.get(self.task.metric),
            finished=counters.finished,
        )
        self.audience.started(info)

    def _tell_step(self, *, loss: float) -> None:
        counters = self.counters
        info = StepTaken(
            step=counters.step,
            epoch=counters.epoch,
            tokens=counters.tokens,
            operations=counters.operations,
            loss=loss,
            learning_rate=counters.learning_rate,
            gradient_norm=counters.gradient_norm,
            seconds=counters.seconds,
            share=self.options.budget.share(counters.used),
        )
        self.audience.stepped(info)


def _saved(folder: Path, *, resume: bool) -> Checkpoint | None:
    path = folder / CHECKPOINT
    if not path.exists():
        return None
    if not resume:
        raise RegardError(f"'{folder}' holds a run already. Resume it, or train in another folder.")
    return read_checkpoint(path)


@contextmanager
def _flushed_denormals() -> Iterator[None]:
    """Numbers too small to matter are 0 inside: arithmetic with them is many times slower."""
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
