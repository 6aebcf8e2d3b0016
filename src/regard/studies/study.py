"""A study from its spec to its record, in one call.

    study = StudySpec.from_sections({"recipe": "pronounce-quick", "over": {"cell": ["lstm", "gru"]}})
    record = run_study(study, Path("studies/mine"))

Started again in the same folder it goes on: finished runs are recognised by their specs, and more seeds or
arms only add runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from regard.core.study_record import StudyRecord
from regard.core.whole_file import write_whole
from regard.studies.executor import Event, Executor
from regard.studies.gather import gather
from regard.studies.prepared import PreparedStudy, prepare_study
from regard.studies.processes import Processes
from regard.studies.study_folder import StudyFolder
from regard.studies.study_spec import StudySpec


def run_study(
    study: StudySpec,
    folder: Path,
    *,
    name: str = "",
    command: str = "",
    plugins: Sequence[str] = (),
    executor: Executor | None = None,
    watch: Callable[[Event], None] = lambda _: None,
    began: Callable[[PreparedStudy], None] = lambda _: None,
    tell: Callable[[str], None] = lambda _: None,
) -> StudyRecord:
    """Train what is not trained yet, and compare.

    `watch` is told of every event of the executor, `began` of the study once it is ready to run, `tell` a
    line about each stage.
    """
    # In full: on a cluster, processes may have another current folder.
    place = StudyFolder(folder.absolute())
    prepared = prepare_study(
        study, name=name or folder.name, command=command, plugins=plugins, tell=tell
    )
    place.make()
    prepared.require_continued(place)
    prepared.write(place)
    began(prepared)
    with closing((executor or Processes()).run(prepared.jobs(place))) as events:
        for event in events:
            watch(event)
    return compared(prepared, place, tell=tell)


def compared(
    prepared: PreparedStudy, folder: StudyFolder, *, tell: Callable[[str], None] = lambda _: None
) -> StudyRecord:
    """The record of the runs there are, kept in the folder."""
    record = gather(prepared, folder, tell=tell)
    write_whole(folder.record, record.as_json())
    return record
