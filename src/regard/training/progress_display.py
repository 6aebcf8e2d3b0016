"""How a run goes, shown while it goes: a bar in a terminal, a line an evaluation elsewhere.

    ━━━━━━━━━━╸━━━━━━━  58%  step 5,800  10,240 tokens/s  loss 0.412  left 0:04:10  wer 0.251 (best 0.248)

On standard error, since standard output is for results.
"""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from regard.training.outcome import Outcome
from regard.training.watchers import Evaluation, Start, StepTaken

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
