"""Those who are told how a run goes: a display, a log, a test."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from regard.core.errors import RegardError
from regard.training.options import TrainingOptions

# What a training run came to.


Stopped = Literal["budget", "patience", "interrupted"]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """`best` are the scores of the evaluation with the best metric, `last` those of the last one.

    Counts and seconds are those of all sessions of a run together; `epochs` are passes over the
    data, the last one perhaps in part. `parameters` is how many numbers the model has.
    """

    steps: int
    epochs: float
    tokens: int
    operations: int
    seconds: float
    best: dict[str, float]
    last: dict[str, float]
    stopped: Stopped
    parameters: int


class Start(NamedTuple):
    """A run begins, or goes on after `step`, or turns out to be `finished`.

    `best` is the best metric so far, if there is one.
    """

    folder: Path
    options: TrainingOptions
    parameters: int
    step: int
    tokens: int
    seconds: float
    share: float
    metric: str
    lower_is_better: bool
    best: float | None
    finished: Literal["budget", "patience"] | None


class StepTaken(NamedTuple):
    """One step: its mean loss, and where the run stands after it. `share` is that of the budget."""

    step: int
    epoch: int
    tokens: int
    operations: int
    loss: float
    learning_rate: float
    gradient_norm: float
    seconds: float
    share: float


class Evaluation(NamedTuple):
    """The scores after a step; `improved` says that the metric is the best so far."""

    step: int
    scores: dict[str, float]
    metric: str
    improved: bool
    best: float | None


@runtime_checkable
class Watcher(Protocol):
    """Told of everything as it happens; must not disturb the model or torch's random numbers."""

    def started(self, info: Start) -> None:
        """Before the first step."""
        ...

    def stepped(self, info: StepTaken) -> None:
        """After every step, so be quick."""
        ...

    def evaluated(self, scores: Evaluation) -> None:
        """After every evaluation."""
        ...

    def saved(self, path: Path) -> None:
        """After a checkpoint or the kept weights were written."""
        ...

    def ended(self, outcome: Outcome | None) -> None:
        """At the very end, always; None if an error ended the run."""
        ...


class Audience:
    """Several watchers as one."""

    def __init__(self, watchers: Sequence[Watcher]) -> None:
        """They are told in this order."""
        self.watchers = watchers

    def started(self, info: Start) -> None:
        """Tell all."""
        for watcher in self.watchers:
            watcher.started(info)

    def stepped(self, info: StepTaken) -> None:
        """Tell all."""
        for watcher in self.watchers:
            watcher.stepped(info)

    def evaluated(self, scores: Evaluation) -> None:
        """Tell all."""
        for watcher in self.watchers:
            watcher.evaluated(scores)

    def saved(self, path: Path) -> None:
        """Tell all."""
        for watcher in self.watchers:
            watcher.saved(path)

    def ended(self, outcome: Outcome | None) -> None:
        """Tell all."""
        for watcher in self.watchers:
            watcher.ended(outcome)


# How a run goes, shown while it goes: a bar in a terminal, a line an evaluation elsewhere.
#
# ━━━━━━━━━━╸━━━━━━━  58%  step 5,800  10,240 tokens/s  loss 0.412  left 0:04:10  wer 0.251 (best
# 0.248)
#
# On standard error, since standard output is for results.


SECONDS_BETWEEN = 0.2  # drawing more often costs time and shows nothing more
SMOOTHING = 0.02
FINISHED = {
    "budget": "is finished: its budget was used up",
    "patience": "is finished: its patience was at an end",
}


class ProgressDisplay:
    """A watcher that draws, or prints where nothing can be drawn over."""

    def __init__(self, console: Console | None = None) -> None:
        """Draw on `console`; on standard error without one."""
        self.console = console or Console(stderr=True, highlight=False)
        self.progress: Progress | None = None
        self._begun: tuple[float, float, int] = (0.0, 0.0, 0)  # share, seconds, tokens
        self._drawn = 0.0
        self._loss: float | None = None
        self._scores = ""
        self._latest: StepTaken | None = None

    def started(self, info: Start) -> None:
        """Say what is trained, and open the bar."""
        if info.finished is not None:
            self._print(f"{info.folder} {FINISHED[info.finished]} at step {info.step:,}")
            return
        going_on = f", going on after step {info.step:,}" if info.step else ""
        self._print(f"training {info.parameters:,} parameters in {info.folder}{going_on}")
        self._begun = (info.share, info.seconds, info.tokens)
        if info.best is not None:
            self._scores = f"best {info.metric} {info.best:.4g}"
        if not self.console.is_terminal:
            return
        self.progress = Progress(
            BarColumn(bar_width=None),
            TextColumn("{task.percentage:>3.0f}%  {task.description}", markup=False),
            console=self.console,
            auto_refresh=False,
            expand=True,
        )
        self.progress.update(self.progress.add_task("", total=1.0), completed=info.share)
        self.progress.start()

    def stepped(self, info: StepTaken) -> None:
        """Follow the loss; draw now and then."""
        before = info.loss if self._loss is None else self._loss
        self._loss = before + SMOOTHING * (info.loss - before)
        self._latest = info
        now = time.monotonic()
        if self.progress is not None and now - self._drawn >= SECONDS_BETWEEN:
            self._drawn = now
            self._draw()

    def evaluated(self, scores: Evaluation) -> None:
        """Show the metric and the best one; print all scores where there is no bar."""
        metric = f"{scores.metric} {scores.scores[scores.metric]:.4g}"
        self._scores = metric + (f" (best {scores.best:.4g})" if scores.best is not None else "")
        if self.progress is not None:
            self._draw()
            return
        all_scores = "  ".join(f"{name} {value:.4g}" for name, value in scores.scores.items())
        mark = "  (best so far)" if scores.improved else ""
        self._print(f"{self._standing()}  {all_scores}{mark}" if self._latest else all_scores)

    def saved(self, path: Path) -> None:
        """Nothing to show: it happens all the time."""

    def ended(self, outcome: Outcome | None) -> None:
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
        text = self._standing() + (f"  {self._scores}" if self._scores else "")
        self.progress.update(
            self.progress.task_ids[0], completed=self._latest.share, description=text
        )
        self.progress.refresh()

    def _standing(self) -> str:
        """Where the run stands: step, rate, loss, time left."""
        latest = self._latest
        if latest is None:
            return ""
        share, seconds, tokens = self._begun
        spent = max(latest.seconds - seconds, 1e-9)
        rate = (latest.tokens - tokens) / spent
        words = [f"step {latest.step:,}", f"{rate:,.0f} tokens/s", f"loss {self._loss:.4g}"]
        if latest.share > share:
            left = spent * (1.0 - latest.share) / (latest.share - share)
            words.append(f"left {clock_time(left)}")
        return "  ".join(words)

    def _print(self, text: str) -> None:
        # As it stands: a folder's name may look like markup, and a log is not wrapped.
        self.console.print(text, markup=False, soft_wrap=True)


def clock_time(seconds: float) -> str:
    """Hours, minutes and seconds.

    >>> clock_time(3725.4)
    '1:02:05'
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"


# The numbers of a run as TensorBoard shows them.


class TensorBoard:
    """A watcher that writes scalars to `folder`; those of steps as often as metrics are logged."""

    def __init__(self, folder: Path) -> None:
        """Say at once if TensorBoard is not there."""
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise RegardError(
                f"TensorBoard is not installed ({error}). Install it with: pip install "
                "'regard[tensorboard]'"
            ) from error
        self._kind: Any = SummaryWriter
        self._writer: Any = None
        self._every = 1
        self.folder = folder

    def started(self, info: Start) -> None:
        """Open the file; what an earlier session wrote after this step is no longer shown."""
        self._every = info.options.log_every
        self._writer = self._kind(str(self.folder), purge_step=info.step + 1)

    def stepped(self, info: StepTaken) -> None:
        """Loss, learning rate, norm of the gradient, tokens."""
        if info.step % self._every:
            return
        for name in ("loss", "learning_rate", "gradient_norm", "tokens"):
            self._writer.add_scalar(f"training/{name}", getattr(info, name), info.step)

    def evaluated(self, scores: Evaluation) -> None:
        """Every score."""
        for name, value in scores.scores.items():
            self._writer.add_scalar(f"validation/{name}", value, scores.step)

    def saved(self, path: Path) -> None:
        """Hand over what was written, so that it is as far as the checkpoint."""
        self._writer.flush()

    def ended(self, outcome: Outcome | None) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()
