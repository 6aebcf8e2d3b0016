"""How a study goes: a bar for the whole grid with the time left, and a line for every run that ends.

Where nothing can be drawn over, only the lines, each with the time left.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from regard.studies.executor import Failed, Finished, Progressed, Started

if TYPE_CHECKING:
    from regard.studies.executor import Event, Job


class StudyProgress:
    """A watcher of an executor's events."""

    def __init__(self, console: Console | None = None) -> None:
        """Draw on `console`; on standard error without one."""
        self.console = console or Console(stderr=True, highlight=False)
        self.progress: Progress | None = None
        self._shares: dict[str, float] = {}
        self._running: dict[str, Job] = {}
        self._begun_share = 0.0
        self._began = 0.0

    def begin(self, jobs: Sequence[Job]) -> None:
        """These are all that there is to do."""
        self._shares = {job.key: 1.0 if job.is_finished else 0.0 for job in jobs}
        done = sum(self._shares.values())
        already = f", {done:.0f} of them finished before" if done else ""
        self.console.print(f"{len(self._shares)} runs{already}", markup=False)
        self._begun_share, self._began = done, time.monotonic()
        if self.console.is_terminal:
            self.progress = Progress(
                BarColumn(bar_width=None),
                TextColumn("{task.percentage:>3.0f}%  {task.description}", markup=False),
                console=self.console,
                auto_refresh=False,
                expand=True,
            )
            self.progress.add_task("", total=float(len(self._shares)))
            self.progress.update(self.progress.task_ids[0], completed=done)
            self.progress.start()

    def watch(self, event: Event) -> None:
        """Take one event in."""
        job = event.job
        match event:
            case Started():
                self._running[job.key] = job
            case Progressed(share=share):
                self._shares[job.key] = share
            case Finished(seconds=seconds):
                self._shares[job.key] = 1.0
                self._running.pop(job.key, None)
                if seconds:
                    self._line(f"✓ {job.arm}, seed {job.seed}  {seconds:.0f} s")
            case Failed(reason=reason):
                self._shares[job.key] = 1.0
                self._running.pop(job.key, None)
                self._line(f"✗ {job.arm}, seed {job.seed}: {reason}")
        self._draw()

    def _line(self, text: str) -> None:
        finished = sum(share == 1.0 for share in self._shares.values())
        left = "" if self.progress else f"   {finished} of {len(self._shares)}, {self._left()}"
        self.console.print(text + left, markup=False)

    def _draw(self) -> None:
        if self.progress is None:
            return
        arms = ", ".join(f"{job.arm} ({job.seed})" for job in self._running.values())
        self.progress.update(
            self.progress.task_ids[0],
            completed=sum(self._shares.values()),
            description=f"{self._left()}  {arms}",
        )
        self.progress.refresh()

    def _left(self) -> str:
        """The time left if the rest goes as quickly as what was done since the beginning."""
        done = sum(self._shares.values()) - self._begun_share
        if done <= 0:
            return "time left unknown"
        whole = len(self._shares) - self._begun_share
        seconds = (time.monotonic() - self._began) * (whole - done) / done
        return f"left {int(seconds) // 60}:{int(seconds) % 60:02}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.progress is not None:
            self.progress.stop()
