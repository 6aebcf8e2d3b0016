"""One try at a job, in whatever process: how it goes is reported, and no error gets out."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from pathlib import Path

import torch

from regard.core.errors import RegardError
from regard.studies.executor import Job
from regard.studies.messages import Result, Standing
from regard.studies.one_run import execute
from regard.training.outcome import Outcome
from regard.training.watchers import Evaluation, Start, StepTaken

SECONDS_BETWEEN = 0.5  # reports; a step of a tiny model takes a thousandth


Report = Callable[[Standing], None]


def attempt(job: Job, report: Report) -> Result:
    """Do the job with its number of threads."""
    torch.set_num_threads(job.threads)
    watcher = _Reporter(report)
    try:
        finished = execute(job.sections, job.folder, job.plugins, [watcher])
    except Exception as error:
        return Result("failed", watcher.seconds(), _reason(error), traceback.format_exc())
    return Result("finished" if finished else "stopped", watcher.seconds())


class _Reporter:
    """A watcher that reports now and then, and knows since when the run trains."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self._began: float | None = None
        self._reported = 0.0

    def seconds(self) -> float:
        """Since training began; 0 if it did not."""
        return 0.0 if self._began is None else time.monotonic() - self._began

    def started(self, info: Start) -> None:
        self._began = time.monotonic()
        self._tell(Standing(info.share, info.step, info.seconds))

    def stepped(self, info: StepTaken) -> None:
        if time.monotonic() - self._reported >= SECONDS_BETWEEN:
            self._tell(Standing(info.share, info.step, info.seconds))

    def evaluated(self, scores: Evaluation) -> None:
        pass

    def saved(self, path: Path) -> None:
        pass

    def ended(self, outcome: Outcome | None) -> None:
        pass

    def _tell(self, standing: Standing) -> None:
        self._reported = time.monotonic()
        self.report(standing)


def _reason(error: Exception) -> str:
    """In one line; of an error that is not the user's, its kind too."""
    text = str(error) if isinstance(error, RegardError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split()).removesuffix(":")
