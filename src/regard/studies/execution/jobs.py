"""Jobs of a study and the protocol of executors, which run them and yield events.

    with closing(LocalExecutor().run(jobs)) as events:
        for event in events:
            ...

An executor trains every job without a record, and ends when each is finished or has failed. Results are
read from the run folders, not from events, so that they do not depend on where and in how many sessions
the runs were trained.
"""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import torch

from regard.core.atomic_write import remove_temporary_files
from regard.core.errors import RegardError
from regard.runs.build import build_task
from regard.runs.folder import RunFolder
from regard.runs.plugins import load_plugins
from regard.runs.spec import RunSpec, Sections, spec_key
from regard.runs.train import begin_run, resume_run
from regard.runs.warm_start import initial_preprocessor
from regard.studies.folder import StudyFolder
from regard.training.callbacks import Callback, StepMetrics, TrainingStart
from regard.training.process import folder_lock


@dataclass(frozen=True, kw_only=True)
class Job:
    """One run to train, in STUDY/runs/KEY. `plugins` as for `--plugin`; `learning_rate` if it is tuned."""

    key: str
    variant: str
    seed: int
    sections: Sections
    folder: Path
    plugins: tuple[str, ...] = ()
    learning_rate: float | None = None

    @property
    def label(self) -> str:
        """Variant, seed and tuned learning rate."""
        rate = "" if self.learning_rate is None else f", learning rate {self.learning_rate:g}"
        return f"{self.variant}, seed {self.seed}{rate}"

    @property
    def threads(self) -> int:
        """The threads of the run; default 1."""
        return int(self.sections.get("threads") or 1)

    @property
    def is_timed(self) -> bool:
        """Whether the run has a budget of seconds, so that it must run alone."""
        return self.sections.get("training", {}).get("seconds") is not None

    @property
    def is_finished(self) -> bool:
        """Whether its record exists, which is written last."""
        return (self.folder / "record.json").is_file()

    @property
    def failure(self) -> Path:
        """The file with the reason of a failure."""
        return self.study.failure(self.key)

    @property
    def study(self) -> StudyFolder:
        """The folder of the study."""
        return StudyFolder(self.folder.parent.parent)


class Started(NamedTuple):
    """A worker started the job; repeated on a retry."""

    job: Job


class Progressed(NamedTuple):
    """The job reached `step`; `progress` is the used fraction of its budget."""

    job: Job
    progress: float
    step: int
    seconds: float


class Finished(NamedTuple):
    """The job has a record; `seconds` of training and evaluation in this session, 0 if none."""

    job: Job
    seconds: float


class Failed(NamedTuple):
    """The job failed; the one-line reason is in `job.failure` too."""

    job: Job
    reason: str


Event = Started | Progressed | Finished | Failed


@runtime_checkable
class Executor(Protocol):
    """Runs jobs, locally or on a cluster."""

    def run(self, jobs: Sequence[Job]) -> Generator[Event, None, None]:
        """Run all jobs; those with the same folder are run once.

        On Ctrl-C or SIGTERM the runs save a checkpoint, then KeyboardInterrupt is raised.
        """
        ...


def unique_jobs(jobs: Sequence[Job]) -> list[Job]:
    """The first job of every folder, in order."""
    return list({job.folder: job for job in reversed(jobs)}.values())[::-1]


class JobProgress(NamedTuple):
    """Progress of a run: used fraction of the budget, step, seconds over all sessions."""

    progress: float
    step: int
    seconds: float


class JobResult(NamedTuple):
    """The result of one attempt; a stopped run can be resumed."""

    state: Literal["finished", "failed", "stopped"]
    seconds: float = 0.0
    reason: str = ""
    traceback: str = ""


def write_failure(job: Job, *, reason: str, traceback: str = "") -> None:
    """Write STUDY/failures/KEY.json: the reason and the traceback."""
    failure = {"reason": reason, "variant": job.variant, "seed": job.seed, "traceback": traceback}
    job.study.write(job.failure, failure)


def remove_failure(job: Job) -> None:
    """Remove an earlier failure before a new attempt."""
    job.study.remove(job.failure)


# Task options that do not affect the data: runs that differ in these alone share one.
NON_DATA_OPTIONS = frozenset(
    {"batch_tokens", "label_smoothing", "beam_size", "length_penalty", "metric", "metrics"}
)
# A process whose study was killed releases its folder within a few seconds.
LOCK_TIMEOUT = 30.0
REPORT_SECONDS = 0.5

_dataset_cache: dict[str, Any] = {}  # at most one


def run_job(
    sections: Sections,
    folder: Path,
    plugins: Sequence[str] = (),
    callbacks: Sequence[Callback] = (),
) -> bool:
    """Start or resume the run of these sections; False if it was stopped with a checkpoint.

    A finished run is left unchanged. Files of a run without a checkpoint are removed. `plugins` as
    for `--plugin`. The dataset is cached between runs, since variants mostly share it.
    """
    run = RunFolder(folder)
    load_plugins(plugins)
    spec = RunSpec.from_sections(sections)
    if run.record.is_file():
        run.verify(key=spec_key(spec))
        return True
    if _has_checkpoint(run):
        run.verify(key=spec_key(spec), is_resumed=True)
        record = resume_run(run, dataset=_dataset(spec), callbacks=callbacks)
    else:
        record = begin_run(spec, run, dataset=_dataset(spec), callbacks=callbacks)
    return record is not None


def _dataset(spec: RunSpec) -> Any:
    """The cached dataset if its options match; else read it and replace the cache."""
    sections = spec.as_sections()
    task = {name: value for name, value in sections["task"].items() if name not in NON_DATA_OPTIONS}
    key = json.dumps([task, spec.init_from, sections.get("pretraining", {}).get("task")])
    if key not in _dataset_cache:
        _dataset_cache.clear()  # before reading the next, to limit memory
        _dataset_cache[key] = build_task(spec, preprocessor=initial_preprocessor(spec)).dataset
    return _dataset_cache[key]


def _has_checkpoint(run: RunFolder) -> bool:
    """Whether there is a checkpoint to resume; without one, remove the files of the run."""
    run.make()
    with folder_lock(run.path, timeout=LOCK_TIMEOUT):
        remove_temporary_files(run.path)
        if not run.checkpoint.is_file():
            run.clear()
            return False
        return True


Report = Callable[[JobProgress], None]


def try_job(job: Job, report: Report) -> JobResult:
    """Run the job with its number of threads, report progress, and catch all errors."""
    torch.set_num_threads(job.threads)
    callback = _ProgressReporter(report)
    try:
        finished = run_job(job.sections, job.folder, job.plugins, [callback])
    except Exception as error:
        return JobResult("failed", callback.seconds(), _reason(error), traceback.format_exc())
    return JobResult("finished" if finished else "stopped", callback.seconds())


class _ProgressReporter(Callback):
    """A callback that reports progress at intervals and measures the training time."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self._began: float | None = None
        self._reported = 0.0

    def seconds(self) -> float:
        """Seconds since training began; 0 if it did not."""
        return 0.0 if self._began is None else time.monotonic() - self._began

    def on_train_begin(self, info: TrainingStart) -> None:
        self._began = time.monotonic()
        self._send(JobProgress(info.progress, info.step, info.seconds))

    def on_step_end(self, info: StepMetrics) -> None:
        if time.monotonic() - self._reported >= REPORT_SECONDS:
            self._send(JobProgress(info.progress, info.step, info.seconds))

    def _send(self, progress: JobProgress) -> None:
        self._reported = time.monotonic()
        self.report(progress)


def _reason(error: Exception) -> str:
    """The message in one line, with the type of errors other than RegardError."""
    text = str(error) if isinstance(error, RegardError) else f"{type(error).__name__}: {error}"
    return " ".join(text.split()).removesuffix(":")
