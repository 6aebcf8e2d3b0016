"""A study made ready to run: its arms in their final widths, and what is known of each before training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from regard.core.errors import RegardError
from regard.runs.build import build_task
from regard.runs.spec import RunSpec
from regard.studies.executor import Job
from regard.studies.matching import count_parameters, matched_parameters
from regard.studies.step_memory import step_bytes
from regard.studies.study_folder import StudyFolder
from regard.studies.study_spec import StudySpec


@dataclass(frozen=True, kw_only=True)
class ArmSize:
    """How large an arm's model is, and what a training step of it holds at its peak.

    `data` says how much data there is, with fingerprints.
    """

    parameters: int
    peak_bytes: int
    data: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class PreparedStudy:
    """`matched` is a sentence on how arms were made alike, if they were; `command` is what began it."""

    name: str
    study: StudySpec
    sizes: dict[str, ArmSize]
    matched: str
    command: str
    plugins: tuple[str, ...]

    def jobs(self, folder: StudyFolder) -> list[Job]:
        """The runs, for an executor."""
        return [
            Job(
                key=run.key,
                arm=run.arm,
                seed=run.seed,
                sections=run.spec.as_sections(),
                folder=folder.runs / run.key,
                plugins=self.plugins,
            )
            for run in self.study.runs()
        ]

    def require_same_data(self, folder: StudyFolder) -> None:
        """Refuse finished runs that were trained on other data: their files changed since."""
        for job in self.jobs(folder):
            if job.is_finished:
                record = folder.read(job.folder / "record.json")
                if record.get("data") != self.sizes[job.arm].data:
                    raise RegardError(
                        f"The data changed since the run '{job.folder}' was trained ({job.arm}, seed "
                        f"{job.seed}), so it cannot be held against new ones. Restore the files, or begin "
                        "the study in another folder with --out."
                    )

    def write(self, folder: StudyFolder) -> None:
        """Keep it in the study's folder."""
        folder.write(
            folder.study,
            {
                "name": self.name,
                "asked": self.study.written,
                "arms": {arm.name: arm.changes for arm in self.study.arms},
                "sizes": {arm: asdict(size) for arm, size in self.sizes.items()},
                "matched": self.matched,
                "command": self.command,
                "plugins": list(self.plugins),
            },
        )

    @classmethod
    def read(cls, folder: StudyFolder) -> PreparedStudy:
        """The study that was kept in a folder."""
        held: dict[str, Any] = folder.read(folder.study)
        try:
            return cls(
                name=held["name"],
                study=StudySpec.from_sections(held["asked"]).changed(held["arms"]),
                sizes={arm: ArmSize(**size) for arm, size in held["sizes"].items()},
                matched=held["matched"],
                command=held["command"],
                plugins=tuple(held["plugins"]),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise RegardError(
                f"'{folder.study}' is not what `regard study` writes ({error!r}). Run the study again: "
                "finished runs are not repeated."
            ) from error


def prepare_study(
    study: StudySpec,
    *,
    name: str,
    command: str = "",
    plugins: Sequence[str] = (),
    tell: Callable[[str], None] = lambda _: None,
) -> PreparedStudy:
    """Read the data, match the arms if asked to, and size each of them up.

    What cannot be built is found here, before anything is trained.
    """
    tell("reading the data")
    first = study.spec_of(study.arms[0], seed=study.seeds[0])
    task = build_task(first)
    vocabularies = task.corpus.vocabularies
    matched = ""
    if study.match == "parameters":
        tell("matching the arms in parameters")
        study, matched = matched_parameters(study, vocabularies)
    sizes = {}
    for arm in study.arms:
        tell(f"sizing up {arm.name}")
        spec = study.spec_of(arm, seed=study.seeds[0])
        try:
            own = task if _same_data(spec, first) else build_task(spec)
            sizes[arm.name] = ArmSize(
                parameters=count_parameters(spec, own.corpus.vocabularies),
                peak_bytes=step_bytes(spec, own),
                data=own.corpus.facts(),
            )
        except RegardError as error:
            raise RegardError(f"In the arm '{arm.name}': {error}") from error
    return PreparedStudy(
        name=name,
        study=study,
        sizes=sizes,
        matched=matched,
        command=command,
        plugins=tuple(plugins),
    )


def _same_data(spec: RunSpec, other: RunSpec) -> bool:
    return spec.task == other.task and spec.task_options == other.task_options
