"""What an executor is: it is given the runs of a study, and tells what becomes of each.

    with closing(Processes().run(jobs)) as events:
        for event in events:
            ...

It trains every job that has no record yet, and ends when each is finished or has failed. What a run
came to lies in its folder, not in an event: a study is a matter of folders, and whoever wrote them, here
or on a cluster, in one go or in several, wrote the same.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from regard.studies.study_folder import StudyFolder

if TYPE_CHECKING:
    from regard.runs.spec import Sections


@dataclass(frozen=True, kw_only=True)
class Job:
    """One run to be done: STUDY/runs/KEY is its folder. `plugins` are as `--plugin` takes them."""

    key: str
    arm: str
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
