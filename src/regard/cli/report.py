"""`regard report`: compare the finished runs of a study again, and write its page."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import load_plugins


def run(
    study: Annotated[Path, typer.Argument(metavar="STUDY", help="Study folder.")],
    *,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", help="Path of the page; default: in the folder."),
    ] = None,
    from_record: Annotated[
        bool, typer.Option("--from-record", help="Use record.json, without reading the runs.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record as JSON.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print one row per run as CSV.")] = False,
) -> None:
    """Compare the finished runs of a study, and write its page, table and figures.

    Missing runs are listed. Plug-ins of the study are imported, unless --from-record is given.
    """
    from regard.cli.study import write_report
    from regard.core.atomic_write import validate_writable
    from regard.core.errors import RegardError
    from regard.core.records.study import StudyRecord
    from regard.studies.folder import StudyFolder
    from regard.studies.prepare import PreparedStudy
    from regard.studies.study import write_record
    from regard.views.text.study import study_csv, study_table

    if as_json and as_csv:
        raise RegardError("--json and --csv exclude each other. Remove one.")
    if out is not None:
        validate_writable(out)
    folder = StudyFolder(study)
    if from_record:
        folder.read(folder.record)  # raises if it is missing or malformed
        record = StudyRecord.from_json(folder.record.read_text(encoding="utf-8"))
    else:
        stored = folder.read(folder.study)
        load_plugins(list(stored.get("plugins", [])) if isinstance(stored, dict) else [])
        record = write_record(PreparedStudy.read(folder), folder)
    page = write_report(record, folder, page=out)
    if as_json:
        typer.echo(record.as_json())
    elif as_csv:
        typer.echo(study_csv(record), nl=False)
    else:
        typer.echo(study_table(record, width=shutil.get_terminal_size().columns))
        typer.echo(f"\npage: {page}")
