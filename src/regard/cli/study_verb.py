"""`regard study`: compare arms on equal terms, and write a page about it."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.column_options import Header, SourceColumn, TargetColumn
from regard.cli.plugin_option import Plugins, plug_in_all
from regard.cli.run_options import (
    Dev,
    Format,
    Labels,
    Minutes,
    Pairs,
    Recipe,
    Settings,
    SkipBadRows,
    Steps,
    Test,
)
from regard.core.errors import RegardError
from regard.studies.study_files import shipped_studies

if TYPE_CHECKING:
    from regard.studies.executor import Executor

PLACES = ("here", "ray")


def run(
    study: Annotated[
        str | None,
        typer.Argument(
            metavar="[STUDY]", help=f"FILE.toml, or a shipped one: {', '.join(shipped_studies())}."
        ),
    ] = None,
    *,
    recipe: Recipe = None,
    over: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OPTION=A,B,…",
            help="What the arms differ in, such as mechanism=dot,additive. Repeated: a grid.",
        ),
    ] = None,
    settings: Settings = None,
    seeds: Annotated[
        str | None, typer.Option(metavar="N", help="How many, or which: 5, or 3,4,5.")
    ] = None,
    match: Annotated[
        str | None, typer.Option(metavar="parameters", help="Solve for widths: all arms as large.")
    ] = None,
    learning_rates: Annotated[
        str | None, typer.Option(metavar="A,B,…", help="Tries for every arm; the best counts.")
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(metavar="ARM", help="The arm that others are matched with.")
    ] = None,
    question: Annotated[str | None, typer.Option(help="What the study asks.")] = None,
    pairs: Pairs = None,
    labels: Labels = None,
    dev: Dev = None,
    test: Test = None,
    format: Format = None,  # noqa: A002 — the word users know
    source_column: SourceColumn = None,
    target_column: TargetColumn = None,
    header: Header = False,
    skip_bad_rows: SkipBadRows = False,
    steps: Steps = None,
    tokens: Annotated[int | None, typer.Option(help="The same number of tokens for all.")] = None,
    operations: Annotated[
        float | None, typer.Option(help="The same number of operations for all.")
    ] = None,
    minutes: Minutes = None,
    on: Annotated[str, typer.Option(metavar="here|ray", help="Where to run.")] = "here",
    address: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Of a Ray cluster; else a local one.")
    ] = None,
    workers: Annotated[int | None, typer.Option(help="Runs side by side; else by cores.")] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="The study's folder; else studies/NAME.")
    ] = None,
    plugin: Plugins = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record as JSON.")] = False,
) -> None:
    """Train every arm with every seed under one budget, and say which are better, with evidence.

    Started again it goes on where it stopped; more seeds or arms only add runs.
    """
    from regard.cli.study_progress import StudyProgress
    from regard.cli.study_report import write_report
    from regard.cli.study_sections import asked_study
    from regard.studies.study import run_study
    from regard.studies.study_folder import StudyFolder
    from regard.studies.study_spec import StudySpec
    from regard.views.study_text import study_table

    plug_in_all(plugin)
    executor = _executor(on, address=address, workers=workers)
    spec = StudySpec.from_sections(
        asked_study(
            study,
            recipe=recipe,
            over=over or [],
            settings=settings or [],
            task_options={
                "pairs": pairs,
                "labels": labels,
                "dev": dev,
                "test": test,
                "format": format,
                "source_column": source_column,
                "target_column": target_column,
                "skip_bad_rows": skip_bad_rows,
                "header": header,
            },
            budget={
                "steps": steps,
                "tokens": tokens,
                "operations": operations,
                "seconds": None if minutes is None else 60 * minutes,
            },
            seeds=seeds,
            learning_rates=learning_rates,
            words={"match": match, "baseline": baseline, "question": question},
        )
    )
    axes = [option.rpartition(".")[2] for option in spec.written.get("over", {})]
    name = Path(study).stem if study else "-".join(axes) or "study"
    folder = StudyFolder(out or Path("studies") / name)
    with StudyProgress() as progress:
        try:
            record = run_study(
                spec,
                folder.path,
                name=name,
                command=shlex.join(["regard", *sys.argv[1:]]),
                plugins=[_in_full(target) for target in plugin or ()],
                executor=executor,
                watch=progress.watch,
                began=lambda prepared: progress.begin(prepared.jobs(folder)),
                tell=_tell,
            )
        except KeyboardInterrupt:
            if not folder.study.is_file():
                raise  # before anything was trained
            _tell("stopped; the runs are saved. The same command goes on; what there is so far:")
            _tell(f"  regard report {folder.path}")
            raise typer.Exit(code=130) from None
    page = write_report(record, folder)
    if as_json:
        typer.echo(record.as_json())
        return
    typer.echo(study_table(record, width=shutil.get_terminal_size().columns))
    typer.echo(f"\npage: {page}\ntable: {folder.table}\nfigures: {folder.figures}")


def _executor(on: str, *, address: str | None, workers: int | None) -> Executor:
    if on not in PLACES:
        raise RegardError(f"--on {on}: choose one of: {', '.join(PLACES)}.")
    if on == "ray":
        if workers is not None:
            raise RegardError(
                f"--workers {workers}: a Ray cluster knows its own size. Leave --workers away."
            )
        from regard.studies.on_ray import OnRay

        return OnRay(address=address)
    if address is not None:
        raise RegardError(f"--address {address}: it is of a Ray cluster. Add --on ray.")
    from regard.studies.processes import Processes

    return Processes(workers=workers)


def _in_full(target: str) -> str:
    """A plug-in by the full path of its file, which other processes find too."""
    file, colon, name = target.rpartition(":")
    return f"{Path(file).absolute()}{colon}{name}" if Path(file).is_file() else target


def _tell(line: str) -> None:
    # To standard error, as the progress is: standard output is for the result.
    typer.echo(line, err=True)
