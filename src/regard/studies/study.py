"""Running a study from its spec to its record.

    study = StudySpec.from_sections({"recipe": "pronounce-quick", "sweep": {"cell": ["lstm", "gru"]}})
    record = run_study(study, Path("studies/mine"))

Started again in the same folder it resumes: finished runs are found by the hash of their spec, and more
seeds or variants only add runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from regard.core.records.study import StudyRecord
from regard.studies.comparison import VariantFacts, compare_variants
from regard.studies.execution.jobs import Event, Executor, Job
from regard.studies.execution.local import LocalExecutor
from regard.studies.folder import StudyFolder
from regard.studies.prepare import PreparedStudy, prepare_study
from regard.studies.run_selection import CollectedRun, collect_runs
from regard.studies.spec import StudySpec
from regard.studies.summary import describe_tuning


def collect(
    prepared: PreparedStudy,
    folder: StudyFolder,
    *,
    log: Callable[[str], None] = lambda _: None,
) -> StudyRecord:
    """Read all runs, and compare the variants; before all runs have ended, describe them only."""
    study = prepared.study
    log("reading the runs")
    tuning, rates, compared = collect_runs(prepared, folder)
    facts = {}
    for variant in study.variants:
        profile = prepared.profiles[variant.name]
        facts[variant.name] = VariantFacts(
            settings=variant.changes,
            parameters=profile.parameters,
            peak_bytes=profile.peak_bytes,
            shared_initialisation=profile.shared_initialisation,
            learning_rate=rates.get(variant.name),
        )
    return compare_variants(
        compared,
        facts,
        name=prepared.name,
        question=study.question,
        baseline=study.baseline,
        tuning_runs=tuning,
        tuning=describe_tuning(study, is_tuned=len(rates) == len(study.variants)),
        matched=prepared.matched,
        command=prepared.command,
        machine=prepared.machine,
        sizes=prepared.profiles[study.variants[0].name].data,
        folder=folder,
        log=log,
    )


def run_study(
    study: StudySpec,
    folder: Path,
    *,
    name: str = "",
    command: str = "",
    executor: Executor | None = None,
    on_event: Callable[[Event], None] = lambda _: None,
    on_start: Callable[[Sequence[Job]], None] = lambda _: None,
    log: Callable[[str], None] = lambda _: None,
) -> StudyRecord:
    """Train the missing runs, and compare the variants.

    With several learning rates, those of all variants are tuned first. `on_start` receives the jobs of the
    tuning, then those of the comparison, `on_event` every event of the executor, `log` a line of text about
    each stage.
    """
    # Absolute: on a cluster, processes may have another working directory.
    study_folder = StudyFolder(folder.absolute())
    prepared = prepare_study(study, name=name or folder.name, command=command, log=log)
    study_folder.make()
    prepared.validate_resume(study_folder)
    prepared.write(study_folder)
    executor = executor or LocalExecutor()
    stages = {"tuning": "tuning the learning rates", "compared": "training the compared runs"}
    for stage, line in stages.items():
        runs: list[CollectedRun] = getattr(
            collect_runs(prepared, study_folder, is_resumed=True), stage
        )
        if runs:
            log(line)
            jobs = prepared.jobs(study_folder, (collected.run for collected in runs))
            on_start(jobs)
            with closing(executor.run(jobs)) as events:
                for event in events:
                    on_event(event)
    return write_record(prepared, study_folder, log=log)


def write_record(
    prepared: PreparedStudy, folder: StudyFolder, *, log: Callable[[str], None] = lambda _: None
) -> StudyRecord:
    """Collect the runs that exist, and write record.json."""
    record = collect(prepared, folder, log=log)
    folder.write_text(folder.record, record.as_json())
    folder.set_finished(one.key for one in record.runs if one.state == "finished")
    return record
