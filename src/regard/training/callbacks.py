"""Callbacks of the training loop: the protocol, a progress bar, and a TensorBoard logger.

A callback receives an event at the start, after every step, evaluation and checkpoint, and at the end.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from regard.core.errors import RegardError, printable_lines
from regard.core.formatting import integer_text
from regard.training.options import TrainingOptions

StopReason = Literal["budget", "patience", "interrupted"]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of training. Counts and seconds are totals over all sessions of the run.

    `seconds` are those of training steps, `evaluation_seconds` those of evaluations during training.
    `best` are the scores of the best evaluation by the task's metric, `last` those of the last one.
    `epochs` counts passes over the data, fractions included. `parameters` is the parameter count.
    """

    steps: int
    epochs: float
    tokens: int
    flops: int
    seconds: float
    evaluation_seconds: float
    best: dict[str, float]
    last: dict[str, float]
    stop_reason: StopReason
    parameters: int


class TrainingStart(NamedTuple):
    """The state of a run before its first step, or on resuming after `step`.

    `progress` is the used fraction of the budget; `best` the best metric so far; `finished` the reason
    for which the run had already ended.
    """

    folder: Path
    options: TrainingOptions
    parameters: int
    step: int
    tokens: int
    seconds: float
    progress: float
    metric: str
    lower_is_better: bool
    best: float | None
    finished: Literal["budget", "patience"] | None


class StepMetrics(NamedTuple):
    """The metrics of one optimizer step. `loss` is its mean; `progress` the used fraction of the budget."""

    step: int
    epoch: int
    tokens: int
    flops: int
    loss: float
    learning_rate: float
    gradient_norm: float
    seconds: float
    progress: float


class Evaluation(NamedTuple):
    """Validation scores after a step; `improved` if the metric is the best so far."""

    step: int
    scores: dict[str, float]
    metric: str
    improved: bool
    best: float | None


@runtime_checkable
class Callback(Protocol):
    """Receives the events of a run; must not change the model or torch's random state.

    A subclass needs only the methods that it uses.
    """

    def on_train_begin(self, info: TrainingStart) -> None:
        """Before the first step."""
        return

    def on_step_end(self, info: StepMetrics) -> None:
        """After every step; called often."""
        return

    def on_evaluate(self, scores: Evaluation) -> None:
        """After every evaluation."""
        return

    def on_save(self, path: Path) -> None:
        """After a checkpoint or the model file was written."""
        return

    def on_train_end(self, outcome: Outcome | None) -> None:
        """At the end, always; `outcome` is None if training raised an error."""
        return


class CallbackList:
    """Forwards every event to several callbacks."""

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        """Called in this order."""
        self.callbacks = callbacks

    def on_train_begin(self, info: TrainingStart) -> None:
        """Forward."""
        for callback in self.callbacks:
            callback.on_train_begin(info)

    def on_step_end(self, info: StepMetrics) -> None:
        """Forward."""
        for callback in self.callbacks:
            callback.on_step_end(info)

    def on_evaluate(self, scores: Evaluation) -> None:
        """Forward."""
        for callback in self.callbacks:
            callback.on_evaluate(scores)

    def on_save(self, path: Path) -> None:
        """Forward."""
        for callback in self.callbacks:
            callback.on_save(path)

    def on_train_end(self, outcome: Outcome | None) -> None:
        """Forward."""
        for callback in self.callbacks:
            callback.on_train_end(outcome)


REFRESH_SECONDS = 0.2
LINE_SECONDS = 30.0
SMOOTHING = 0.02
FINISHED = {
    "budget": "is finished: its budget is exhausted",
    "patience": "is finished: early stopping",
}


class ProgressDisplay(Callback):
    """A progress bar in a terminal; elsewhere lines, one every 30 seconds at least. On standard error.

    ━━━━━━╸━━━━  58%  step 5,800  10,240 tokens/s  training loss 0.412  left 0:04:10  per 8.51 (best 8.48)
    """

    def __init__(self, console: Console | None = None) -> None:
        """Write to `console`; by default to standard error."""
        self.console = console or Console(stderr=True, highlight=False)
        self.progress: Progress | None = None
        self._start: tuple[float, float, int] = (0.0, 0.0, 0)  # progress, seconds, tokens
        self._drawn = 0.0
        self._loss: float | None = None
        self._scores = ""
        self._latest: StepMetrics | None = None

    def on_train_begin(self, info: TrainingStart) -> None:
        """Print the model size and folder, and open the bar."""
        if info.finished is not None:
            self._print(
                f"{info.folder} {FINISHED[info.finished]} at step {integer_text(info.step)}"
            )
            return
        resumed = f", resumed after step {integer_text(info.step)}" if info.step else ""
        self._print(
            f"training {integer_text(info.parameters)} parameters in {info.folder}{resumed}"
        )
        self._start = (info.progress, info.seconds, info.tokens)
        self._drawn = time.monotonic()
        if info.best is not None:
            self._scores = f"best {score_name(info.metric)} {info.best:.4g}"
        if not self.console.is_terminal:
            return
        self.progress = Progress(
            BarColumn(bar_width=None),
            TextColumn("{task.percentage:>3.0f}%  {task.description}", markup=False),
            console=self.console,
            auto_refresh=False,
            expand=True,
        )
        self.progress.update(self.progress.add_task("", total=1.0), completed=info.progress)
        self.progress.start()

    def on_step_end(self, info: StepMetrics) -> None:
        """Smooth the loss; refresh the bar, or print a line, at intervals."""
        before = info.loss if self._loss is None else self._loss
        self._loss = before + SMOOTHING * (info.loss - before)
        self._latest = info
        now = time.monotonic()
        if now - self._drawn < (LINE_SECONDS if self.progress is None else REFRESH_SECONDS):
            return
        self._drawn = now
        if self.progress is None:
            self._print(self._status())
        else:
            self._draw()

    def on_evaluate(self, scores: Evaluation) -> None:
        """Show the metric and its best value; without a bar, print all scores."""
        metric = f"{score_name(scores.metric)} {scores.scores[scores.metric]:.4g}"
        self._scores = metric + (f" (best {scores.best:.4g})" if scores.best is not None else "")
        if self.progress is not None:
            self._draw()
            return
        self._drawn = time.monotonic()
        all_scores = "  ".join(
            f"{score_name(name)} {value:.4g}" for name, value in scores.scores.items()
        )
        mark = "  (best so far)" if scores.improved else ""
        self._print(f"{self._status()}  {all_scores}{mark}" if self._latest else all_scores)

    def on_train_end(self, outcome: Outcome | None) -> None:
        """Close the bar."""
        if self.progress is None:
            return
        if outcome is not None and self._latest is not None:
            self._draw()
        self.progress.stop()
        self.progress = None

    def _draw(self) -> None:
        if self.progress is None or self._latest is None:
            return
        text = self._status() + (f"  {self._scores}" if self._scores else "")
        self.progress.update(
            self.progress.task_ids[0],
            completed=self._latest.progress,
            description=printable_lines(text),
        )
        self.progress.refresh()

    def _status(self) -> str:
        """Step, throughput, training loss, time left; in a line also the learning rate."""
        latest = self._latest
        if latest is None:
            return ""
        progress, seconds, tokens = self._start
        spent = max(latest.seconds - seconds, 1e-9)
        rate = (latest.tokens - tokens) / spent
        fields = [
            f"step {integer_text(latest.step)}",
            f"{integer_text(round(rate))} tokens/s",
            f"training loss {self._loss:.4g}",
        ]
        if self.progress is None:
            fields.append(f"learning rate {latest.learning_rate:.3g}")
        if latest.progress > progress:
            left = spent * (1.0 - latest.progress) / (latest.progress - progress)
            fields.append(f"left {clock_time(left)}")
        return "  ".join(fields)

    def _print(self, text: str) -> None:
        # No markup: a folder name may contain brackets. No wrapping, for log files.
        self.console.print(printable_lines(text), markup=False, soft_wrap=True)


def score_name(name: str, split: str = "validation") -> str:
    """The name of a score for display: the training loss has label smoothing, and may have penalties.

    >>> score_name("loss"), score_name("accuracy")
    ('validation loss', 'accuracy')
    """
    return f"{split} loss" if name == "loss" else name


def clock_time(seconds: float) -> str:
    """Format seconds as hours, minutes and seconds.

    >>> clock_time(3725.4)
    '1:02:05'
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"


class TensorBoard:
    """Writes scalars to a TensorBoard log folder, every `log_every` steps."""

    def __init__(self, folder: Path) -> None:
        """Raise if TensorBoard is not installed."""
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise RegardError(
                f"TensorBoard is not installed ({error}). Install it with: pip install "
                "'regard[tensorboard]'"
            ) from error
        self._writer_class: Any = SummaryWriter
        self._writer: Any = None
        self._every = 1
        self.folder = folder

    def on_train_begin(self, info: TrainingStart) -> None:
        """Open the log; entries of an earlier session after this step are purged."""
        self._every = info.options.log_every
        self._writer = self._writer_class(str(self.folder), purge_step=info.step + 1)

    def on_step_end(self, info: StepMetrics) -> None:
        """Log training loss, learning rate, gradient norm and tokens."""
        if info.step % self._every:
            return
        self._writer.add_scalar("training/training_loss", info.loss, info.step)
        for name in ("learning_rate", "gradient_norm", "tokens"):
            self._writer.add_scalar(f"training/{name}", getattr(info, name), info.step)

    def on_evaluate(self, scores: Evaluation) -> None:
        """Log every validation score."""
        for name, value in scores.scores.items():
            tag = f"validation/{score_name(name).replace(' ', '_')}"
            self._writer.add_scalar(tag, value, scores.step)

    def on_save(self, path: Path) -> None:
        """Flush, so that the log reaches as far as the checkpoint."""
        self._writer.flush()

    def on_train_end(self, outcome: Outcome | None) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()
