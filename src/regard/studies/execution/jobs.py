"""What an executor is: it is given the runs of a study, and tells what becomes of each.

    with closing(Processes().run(jobs)) as events:
        for event in events:
            ...

It trains every job that has no record yet, and ends when each is finished or has failed. What a run
came to lies in its folder, not in an event: a study is a matter of folders, and whoever wrote them, here
or on a cluster, in one go or in several, wrote the same.
"""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import torch

from regard.conformance.subject import class_at
from regard.core.atomic_write import remove_remains, write_whole
from regard.core.errors import RegardError
from regard.mechanisms import plug_in
from regard.runs.build import build_task
from regard.runs.folder import RunFolder
from regard.runs.spec import RunSpec, Sections
from regard.runs.train import begin_run, resume_run
from regard.runs.warm_start import start_vocabularies
from regard.studies.folder import StudyFolder
from regard.training.callbacks import Evaluation, Outcome, Start, StepTaken, Watcher
from regard.training.process import folder_locked


@dataclass(frozen=True, kw_only=True)
class Job:
    """One run to be done: STUDY/runs/KEY is its folder. `plugins` are as `--plugin` takes them."""

    key: str
    variant: str
    seed: int
    sections: Sections
    folder: Path
    plugins: tuple[str, ...] = ()

    @property
    def threads(self) -> int:
        """How many it computes with: one, unless its spec says more."""
        return int(self.sections.get("threads") or 1)

    @property
    def is_timed(self) -> bool:
        """Whether the clock ends it, so that nothing may run beside it."""
        return self.sections.get("training", {}).get("seconds") is not None

    @property
    def is_finished(self) -> bool:
        """Whether its record is there, which is written last."""
        return (self.folder / "record.json").is_file()

    @property
    def failure(self) -> Path:
        """The file that says why it failed."""
        return StudyFolder(self.folder.parent.parent).failure(self.key)


class Started(NamedTuple):
    """A worker took the job; told again if it is tried again."""

    job: Job


class Progressed(NamedTuple):
    """It stands after `step`; `share` is that of its budget, `seconds` those of all its sessions."""

    job: Job
    share: float
    step: int
    seconds: float


class Finished(NamedTuple):
    """Its record is there. `seconds` went into training and scoring now: 0 if it was there before."""

    job: Job
    seconds: float


class Failed(NamedTuple):
    """It has no record, for a reason of one line; `job.failure` has it too."""

    job: Job
    reason: str


Event = Started | Progressed | Finished | Failed


@runtime_checkable
class Executor(Protocol):
    """Does jobs, somewhere."""

    def run(self, jobs: Sequence[Job]) -> Generator[Event, None, None]:
        """Do them all. Of jobs with one folder the first stands for all.

        After Ctrl-C or SIGTERM the runs save where they are, then KeyboardInterrupt is raised.
        """
        ...


def without_repeats(jobs: Sequence[Job]) -> list[Job]:
    """The first job of every folder, in their order."""
    return list({job.folder: job for job in reversed(jobs)}.values())[::-1]


# What whoever does a job sends to whoever handed it out. Nothing here imports torch.


class Standing(NamedTuple):
    """Where a run is: its share of the budget, its step, the seconds of all its sessions."""

    share: float
    step: int
    seconds: float


class Result(NamedTuple):
    """How a try ended; `seconds` went into training and scoring. A stopped run can go on later."""

    state: Literal["finished", "failed", "stopped"]
    seconds: float = 0.0
    reason: str = ""
    traceback: str = ""


# STUDY/failures/KEY.json: why a run has no record. It goes when the run is tried again.


def write_failure(job: Job, *, reason: str, traceback: str = "") -> None:
    """Keep the reason, and the traceback for whoever wants to know where."""
    told = {"reason": reason, "variant": job.variant, "seed": job.seed, "traceback": traceback}
    write_whole(job.failure, json.dumps(told, indent=1, ensure_ascii=False) + "\n")


def remove_failure(job: Job) -> None:
    """Forget an earlier failure."""
    job.failure.unlink(missing_ok=True)


# One run of a study, wherever this is called: begun, taken up where it stopped, or found finished.
#
# The corpus is kept from run to run: the variants of a study share one, and reading it can take longer
# than training a small model.


# Options of a task that are not about its files: runs that differ in these alone share a corpus.
NOT_OF_THE_CORPUS = ("batch_tokens", "label_smoothing", "beam_size", "length_penalty", "metric")
# A process whose study was killed leaves its folder within a few seconds.
SECONDS_TO_WAIT = 30.0

_plugged_in: set[str] = set()
_kept: dict[str, Any] = {}  # one at most


def execute(
    sections: Sections, folder: Path, plugins: Sequence[str] = (), watchers: Sequence[Watcher] = ()
) -> bool:
    """Train the run of these sections in its folder to the end; whether it got there.

    A finished run is left as it is. One with a checkpoint goes on from there; whatever else lies in
    the folder is what a killed process had just begun, and is written anew. False says that Ctrl-C
    or SIGTERM stopped it, with a checkpoint. `plugins` are mechanisms of the user's own, FILE.py:CLASS.
    """
    run = RunFolder(folder)
    if run.record.is_file():
        return True
    _plug_in_all(plugins)
    spec = RunSpec.from_sections(sections)
    goes_on = _cleared(run)
    if goes_on:
        _require_same_spec(spec, run)
        record = resume_run(run, corpus=_corpus(spec), watchers=watchers)
    else:
        record = begin_run(spec, run, corpus=_corpus(spec), watchers=watchers)
    return record is not None


def _plug_in_all(plugins: Sequence[str]) -> None:
    for target in plugins:
        if target not in _plugged_in:
            plug_in(class_at(target))
            _plugged_in.add(target)


def _corpus(spec: RunSpec) -> Any:
    """That of the last run if it serves; else it is read, and kept instead."""
    options = {
        name: value
        for name, value in asdict(spec.task_options).items()
        if name not in NOT_OF_THE_CORPUS
    }
    before = None if spec.pretraining is None else asdict(spec.pretraining.task_options)
    key = json.dumps([spec.task, options, spec.start, before])
    if key not in _kept:
        _kept.clear()  # before the next is read: there may not be room for two
        _kept[key] = build_task(spec, vocabularies=start_vocabularies(spec)).corpus
    return _kept[key]


def _cleared(run: RunFolder) -> bool:
    """Remove what is half made; whether there is a checkpoint to go on from."""
    run.make()
    patience = time.monotonic() + SECONDS_TO_WAIT
    while True:
        try:
            with folder_locked(run.path):
                remove_remains(run.path)
                if not run.checkpoint.is_file():
                    run.clear()
                    return False
                return True
        except RegardError:
            if time.monotonic() > patience:
                raise
        time.sleep(0.1)


def _require_same_spec(spec: RunSpec, run: RunFolder) -> None:
    wanted: dict[str, Any] = json.loads(json.dumps(spec.as_sections()))
    if run.read_json(run.spec) != wanted:
        raise RegardError(
            f"'{run.path}' holds a run with another spec than the study asks for. Remove the folder, or "
            "begin the study in another one."
        )


# One try at a job, in whatever process: how it goes is reported, and no error gets out.


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
