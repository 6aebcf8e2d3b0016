"""`regard report`: compare the runs of a study anew, and draw its page again."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import plug_in_all


def run(
    study: Annotated[Path, typer.Argument(metavar="STUDY", help="The folder of a study.")],
    *,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="The page; else in the folder.")
    ] = None,
    only_draw: Annotated[
        bool, typer.Option("--only-draw", help="From record.json as it is, without the runs.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record as JSON.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print a row for every run.")] = False,
) -> None:
    """Redraw a study from its records: page, table, figures. Runs that are missing are said to be.

    The plug-ins that the study names are run; --only-draw runs nothing.
    """
    from regard.cli.study import write_report
    from regard.core.atomic_write import require_writable
    from regard.core.errors import RegardError
    from regard.core.records.study import StudyRecord
    from regard.studies.folder import StudyFolder
    from regard.studies.prepare import PreparedStudy
    from regard.studies.study import compared
    from regard.views.text.study import study_csv, study_table

    if as_json and as_csv:
        raise RegardError("--json and --csv: one of the two can be printed. Leave one away.")
    if out is not None:
        require_writable(out)
    folder = StudyFolder(study)
    if only_draw:
        folder.read(folder.record)  # says what is wrong if it is not there
        record = StudyRecord.from_json(folder.record.read_text(encoding="utf-8"))
    else:
        held = folder.read(folder.study)
        plug_in_all(list(held.get("plugins", [])) if isinstance(held, dict) else [])
        record = compared(PreparedStudy.read(folder), folder)
    page = write_report(record, folder, page=out)
    if as_json:
        typer.echo(record.as_json())
    elif as_csv:
        typer.echo(study_csv(record), nl=False)
    else:
        typer.echo(study_table(record, width=shutil.get_terminal_size().columns))
        typer.echo(f"\npage: {page}")
