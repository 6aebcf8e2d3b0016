"""The training loop: steps, validation, early stopping, checkpoints, resuming.

    metrics.jsonl            loss, learning rate and validation scores; reproducible byte for byte
    timing.jsonl             seconds, tokens per second and peak memory
    checkpoint.safetensors   everything needed to resume
    model.safetensors        the best checkpoint, or the last one with keep="last"

Checkpoints are written between two steps, and after every evaluation before model.safetensors. Rows that a
killed run logged after its last checkpoint are truncated, so that a killed and resumed run ends with the
same bits as an uninterrupted one: on a CPU, with the same number of threads, without a budget of seconds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.core.atomic_write import remove_temporary_files
from regard.core.errors import RegardError
from regard.core.manifest import Manifest
from regard.core.protocols import TrainingTask
from regard.training.averaging import build_averaging, evaluate
from regard.training.callbacks import (
    Callback,
    CallbackList,
    Evaluation,
    Outcome,
    StepMetrics,
    StopReason,
    TrainingStart,
)
from regard.training.checkpoint import (
    Checkpoint,
    JsonlFile,
    TrainingState,
    collect_state,
    parameters_step,
    read_checkpoint,
    restore_state,
    resume_state,
    write_checkpoint,
    write_parameters,
)
from regard.training.options import TrainingOptions
from regard.training.process import EvaluationInterruptedError, Interruption, folder_lock
from regard.training.schedule import SCHEDULES, ScheduleState
from regard.training.seeding import RandomStreams
from regard.training.step import Stepper


class Clock:
    """The time of steps and of evaluations in the state of a run, over all its sessions."""

    def __init__(self, state: TrainingState) -> None:
        """Start at the seconds of earlier sessions."""
        self._state = state
        self._saved = time.monotonic()
        self._tokens, self._logged_seconds = 0, state.seconds

    def add_step(self, *, began: float, tokens: int) -> None:
        """Count a step that began at `began`, in the time of `time.monotonic`."""
        self._tokens += tokens
        self._state.seconds += time.monotonic() - began

    @contextmanager
    def evaluation(self) -> Iterator[None]:
        """Count the time inside as that of an evaluation."""
        began = time.monotonic()
        yield
        self._state.evaluation_seconds += time.monotonic() - began

    def row(self) -> dict[str, float]:
        """A row of timing.jsonl; the throughput is that of the steps since the last row."""
        state = self._state
        spent = state.seconds - self._logged_seconds
        rate = self._tokens / spent if spent > 0 else 0.0
        self._tokens, self._logged_seconds = 0, state.seconds
        return {
            "seconds": round(state.seconds, 3),
            "evaluation_seconds": round(state.evaluation_seconds, 3),
            "tokens_per_second": round(rate, 1),
        }

    def mark_saved(self) -> None:
        """A checkpoint was just written."""
        self._saved = time.monotonic()

    def since_saved(self) -> float:
        """Seconds since the last checkpoint, or since the start."""
        return time.monotonic() - self._saved


def peak_bytes(device: torch.device) -> int | None:
    """Peak memory of this process so far; of the tensors on the device with CUDA; None if unknown."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak  # kilobytes on Linux


class BatchStream:
    """The batches of a task over epochs; `epoch` and `batch` are the next position."""

    def __init__(self, task: TrainingTask, *, epoch: int, batch: int) -> None:
        """Start at batch `batch` of epoch `epoch`."""
        self.task = task
        self.epoch = epoch
        self.batch = batch
        self._batches: Sequence[Any] = self._load_epoch(epoch)

    @property
    def epochs(self) -> float:
        """Passes over the data so far, fractions included."""
        return self.epoch + self.batch / len(self._batches)

    def take(self, count: int) -> list[Any]:
        """The next `count` batches, across epochs."""
        batches = []
        for _ in range(count):
            if self.batch >= len(self._batches):
                self._batches = self._load_epoch(self.epoch + 1)
                self.epoch, self.batch = self.epoch + 1, 0
            batches.append(self._batches[self.batch])
            self.batch += 1
        return batches

    def _load_epoch(self, epoch: int) -> Sequence[Any]:
        batches = self.task.epoch(epoch)
        if len(batches) == 0:
            raise RegardError(
                f"Epoch {epoch} has no batches, so there is nothing to train on. Check that the "
                "training split is not empty."
            )
        return batches


METRICS, TIMING = "metrics.jsonl", "timing.jsonl"
CHECKPOINT, MODEL = "checkpoint.safetensors", "model.safetensors"


def train(
    *,
    model: nn.Module,
    task: TrainingTask,
    options: TrainingOptions,
    folder: Path,
    seed: int,
    flops: Callable[[Any], int] | None = None,
    callbacks: Sequence[Callback] = (),
    resume: bool = False,
    is_locked: bool = False,
) -> Outcome:
    """Train a model in place; metrics, checkpoints and the best model are written to `folder`.

    `flops` maps a batch to the FLOPs of a training step on it. With `resume`, training continues from the
    checkpoint if there is one; a finished run is not trained further, and its outcome is returned. The
    model ends with its last parameters, not averaged; the best checkpoint is in model.safetensors. Ctrl-C
    and SIGTERM stop the run with a checkpoint; a second signal stops it at once. `is_locked`: the caller
    holds the lock of the folder.
    """
    if options.flops is not None and flops is None:
        raise RegardError(
            f"The budget flops={options.flops:g} needs the FLOPs of a batch. Pass `flops`, a function of a "
            "batch, or choose another budget."
        )
    outcome: Outcome | None = None
    lock = nullcontext() if is_locked else folder_lock(folder)
    with lock, Interruption() as interruption, _flushed_denormals():
        remove_temporary_files(folder)
        checkpoint = _read_existing(folder, resume=resume)
        run = _Run(
            model=model,
            task=task,
            options=options,
            folder=folder,
            seed=seed,
            flops=flops,
            callbacks=CallbackList(callbacks),
            interruption=interruption,
            checkpoint=checkpoint,
        )
        try:
            with run.metrics, run.timing, run.streams.closed():
                outcome = run.train()
        finally:
            run.callbacks.on_train_end(outcome)
    return outcome


class _Run:
    """One session of a run."""

    def __init__(
        self,
        *,
        model: nn.Module,
        task: TrainingTask,
        options: TrainingOptions,
        folder: Path,
        seed: int,
        flops: Callable[[Any], int] | None,
        callbacks: CallbackList,
        interruption: Interruption,
        checkpoint: Checkpoint | None,
    ) -> None:
        self.model, self.task, self.options, self.folder = model, task, options, folder
        self.seed, self.flops = seed, flops
        self.manifest = Manifest(folder)
        self.manifest.hold()
        self.callbacks, self.interruption = callbacks, interruption
        self.state, log_sizes = TrainingState(), {METRICS: 0, TIMING: 0}
        if checkpoint is not None:
            self.state, log_sizes = resume_state(
                checkpoint.metadata, options=options, seed=seed, path=folder / CHECKPOINT
            )
        self.schedule = SCHEDULES[options.schedule]
        self.stepper = Stepper(model=model, task=task, options=options)
        self.streams = RandomStreams(model, seed=seed, device=options.device)
        self.averaging = build_averaging(model, options)
        if checkpoint is not None:
            restore_state(
                checkpoint,
                model=model,
                optimizers=self.stepper.optimizers,
                averaging=self.averaging,
                path=folder / CHECKPOINT,
            )
        self.stream = BatchStream(task, epoch=self.state.epoch, batch=self.state.batch)
        self.metrics = JsonlFile(folder / METRICS, keep_bytes=log_sizes[METRICS])
        self.timing = JsonlFile(folder / TIMING, keep_bytes=log_sizes[TIMING])
        self.clock = Clock(self.state)

    def train(self) -> Outcome:
        """Train until the budget is exhausted, early stopping, or a request to stop."""
        state, options = self.state, self.options
        self._report_start()
        self._write_missing_model()
        if state.finished is not None:
            return self._outcome(state.finished)
        while True:
            exhausted = options.budget.is_exhausted(state.used)
            if (exhausted or state.evaluation_due) and state.evaluated_step != state.step:
                self._log()
                try:
                    self._evaluate()
                except EvaluationInterruptedError:
                    return self._stop("interrupted")
            if options.patience is not None and state.evaluations_since_best >= options.patience:
                return self._stop("patience")
            if exhausted:
                return self._stop("budget")
            if self.interruption.requested:
                return self._stop("interrupted")
            self._step()
            if state.step % options.log_every == 0:
                self._log()
            if self._checkpoint_due():
                self._save()

    def _step(self) -> None:
        state, options = self.state, self.options
        began, before = time.monotonic(), state.used
        position = ScheduleState(
            step=state.step + 1,
            progress=options.budget.progress(before),
            warmup_steps=options.warmup_steps,
            final_fraction=options.final_fraction,
        )
        factor = self.schedule(position)
        batches = self.stream.take(options.accumulate)
        self.streams.begin_step(position.step)
        result = self.stepper.step(
            batches,
            number=position.step,
            factor=factor,
            has_checkpoint=(self.folder / CHECKPOINT).exists(),
        )
        self.averaging.update(position.step)
        tokens = sum(batch.num_tokens for batch in batches)
        self.clock.add_step(began=began, tokens=tokens)
        state.step = position.step
        state.epoch, state.batch = self.stream.epoch, self.stream.batch
        state.tokens += tokens
        if self.flops is not None:
            state.flops += sum(int(self.flops(batch)) for batch in batches)
        state.evaluation_due = options.is_evaluation_due(before, state.used)
        state.loss_total += result.total
        state.loss_count += result.num_predictions
        state.learning_rate = options.learning_rate * factor
        state.gradient_norm = result.gradient_norm
        self._report_step(loss=result.total / result.num_predictions)

    def _log(self) -> None:
        """Log a row for the steps since the last one, if there are any."""
        state = self.state
        if state.loss_count == 0:
            return
        self.metrics.add(
            {
                "step": state.step,
                "epoch": state.epoch,
                "tokens": state.tokens,
                "flops": state.flops,
                "loss": state.loss_total / state.loss_count,
                "learning_rate": state.learning_rate,
                "gradient_norm": state.gradient_norm,
            }
        )
        memory = {"peak_bytes": peak_bytes(next(self.model.parameters()).device)}
        self.timing.add({"step": state.step, **self.clock.row(), **memory})
        state.loss_total, state.loss_count = 0.0, 0

    def _evaluate(self) -> None:
        state, task = self.state, self.task
        averaged = self.averaging.average(state.step)
        with self.clock.evaluation():
            scores = evaluate(
                self.model, task, averaged=averaged, guard=self.interruption.interruptible()
            )
        self.metrics.add({"step": state.step, "validation": scores})
        improved = state.update_scores(
            scores,
            metric=task.metric,
            lower_is_better=task.lower_is_better,
            keep=self.options.keep,
        )
        # The checkpoint first: model.safetensors must never be newer than it.
        self._save()
        if state.model_step == state.step:
            self._write_model(averaged)
        best = state.best.get(task.metric)
        self.callbacks.on_evaluate(Evaluation(state.step, scores, task.metric, improved, best))

    def _write_model(self, averaged: dict[str, Tensor] | None) -> None:
        path = self.folder / MODEL
        write_parameters(
            path, self.model, averaged=averaged, step=self.state.step, manifest=self.manifest
        )
        self.callbacks.on_save(path)

    def _stop(self, reason: StopReason) -> Outcome:
        state = self.state
        if reason != "interrupted":
            state.finished = reason
        # If every score was NaN, no evaluation was the best: save the last parameters.
        without_model = reason != "interrupted" and state.model_step < 0
        if without_model:
            state.model_step = state.step
        self._save()
        if without_model:
            self._write_model(self.averaging.average(state.step))
        return self._outcome(reason)

    def _outcome(self, reason: StopReason) -> Outcome:
        state = self.state
        return Outcome(
            steps=state.step,
            epochs=self.stream.epochs,
            tokens=state.tokens,
            flops=state.flops,
            seconds=state.seconds,
            evaluation_seconds=state.evaluation_seconds,
            best=dict(state.best),
            last=dict(state.last),
            stop_reason=reason,
            parameters=self._num_parameters(),
        )

    def _checkpoint_due(self) -> bool:
        every = self.options.checkpoint_every
        if every is not None and self.state.step % every == 0:
            return True
        return self.clock.since_saved() >= self.options.checkpoint_seconds

    def _save(self) -> None:
        tensors = collect_state(
            model=self.model, optimizers=self.stepper.optimizers, averaging=self.averaging
        )
        logs = {METRICS: self.metrics.synced_state(), TIMING: self.timing.synced_state()}
        metadata = {
            "state": self.state.as_dict(),
            "options": self.options.as_dict(),
            "seed": self.seed,
            "log_sizes": {name: state["size"] for name, state in logs.items()},
        }
        path = self.folder / CHECKPOINT
        write_checkpoint(path, Checkpoint(tensors, metadata), manifest=self.manifest, logs=logs)
        self.clock.mark_saved()
        self.callbacks.on_save(path)

    def _write_missing_model(self) -> None:
        """Write model.safetensors if a session was killed between the checkpoint and the model file."""
        step = self.state.step
        if self.state.model_step == step and parameters_step(self.folder / MODEL) != step:
            self._write_model(self.averaging.average(step))

    def _num_parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.model.parameters())

    def _report_start(self) -> None:
        state = self.state
        info = TrainingStart(
            folder=self.folder,
            options=self.options,
            parameters=self._num_parameters(),
            step=state.step,
            tokens=state.tokens,
            seconds=state.seconds,
            progress=self.options.budget.progress(state.used),
            metric=self.task.metric,
            lower_is_better=self.task.lower_is_better,
            best=state.best.get(self.task.metric),
            finished=state.finished,
        )
        self.callbacks.on_train_begin(info)

    def _report_step(self, *, loss: float) -> None:
        state = self.state
        info = StepMetrics(
            step=state.step,
            epoch=state.epoch,
            tokens=state.tokens,
            flops=state.flops,
            loss=loss,
            learning_rate=state.learning_rate,
            gradient_norm=state.gradient_norm,
            seconds=state.seconds,
            progress=self.options.budget.progress(state.used),
        )
        self.callbacks.on_step_end(info)


def _read_existing(folder: Path, *, resume: bool) -> Checkpoint | None:
    path, manifest = folder / CHECKPOINT, Manifest(folder)
    if not manifest.path.exists() and not path.exists():
        manifest.create()
    manifest.verify([CHECKPOINT, MODEL])
    if not path.exists():
        return None
    if not resume:
        raise RegardError(
            f"'{folder}' already contains a run. Resume it, or train in another folder."
        )
    checkpoint = read_checkpoint(path)
    manifest.verify_logs(checkpoint.metadata.get("log_sizes", {}))
    return checkpoint


@contextmanager
def _flushed_denormals() -> Iterator[None]:
    """Flush denormal numbers to zero: arithmetic with them is many times slower."""
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
