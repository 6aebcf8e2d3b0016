"""`regard claims`: run statements about attention and report which hold."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.claims import TOPICS
from regard.core.errors import RegardError
from regard.core.registry import lookup

if TYPE_CHECKING:
    from regard.claims.engine import Claim
    from regard.core.records.claim import ClaimRecord


# action → the options it accepts
ACTIONS: dict[str, frozenset[str]] = {
    "run": frozenset({"--topic", "--trained", "--out", "--from", "--json"}),
    "show": frozenset({"--set", "--plot", "--json"}),
    "page": frozenset({"--topic", "--trained", "--out", "--from"}),
}


def run(
    action: Annotated[str, typer.Argument(metavar="run|show|page", help="Default: run.")] = "run",
    target: Annotated[
        str | None,
        typer.Argument(metavar="NAME|FILE.html", help="Claim to show, or page to write."),
    ] = None,
    *,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOPIC", help=f"Run one topic; may be repeated. One of: {', '.join(TOPICS)}."
        ),
    ] = None,
    trained: Annotated[
        bool, typer.Option("--trained", help="Also run claims that train models (minutes).")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.json", help="Save the records, for --from.")
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE.json", help="Load saved records instead of running."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Change a setting of the claim; may be repeated."
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With show: save the figure as .svg or .png."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Run statements about attention and report which hold, fail, or hold under a condition.

    `show NAME` runs one claim with your settings and prints its reasons; `page FILE.html` writes a page
    with all figures. Exit code of run and page: 0 if every verdict is as expected (claims known to be
    false fail, all others hold, possibly under a condition) and no claim raised an error, else 1.
    show exits with 0.
    """
    options = {
        "--topic": topic,
        "--trained": trained,
        "--out": out,
        "--from": source,
        "--set": settings,
        "--plot": plot,
        "--json": as_json,
    }
    _validate_options(action, target, options)
    if action == "page":
        assert target is not None
        _validate_page_path(Path(target), {"--out": out, "--from": source})
    if action == "show":
        assert target is not None
        _show(target, settings=settings or [], plot=plot, as_json=as_json)
        return
    from regard.core.atomic_write import validate_writable
    from regard.views.text.claims import unexpected

    for path in (out, Path(target) if target else None):
        if path is not None:
            validate_writable(path)
    records = _records(topic or [], trained=trained, source=source, out=out)
    if action == "page":
        assert target is not None
        _write_page(records, Path(target))
    elif as_json:
        from regard.core.records.claim import records_as_json

        typer.echo(records_as_json(records))
    else:
        from regard.views.text.claims import claims_table

        typer.echo(claims_table(records, width=shutil.get_terminal_size().columns))
    if unexpected(records):
        raise typer.Exit(code=1)


def _validate_options(action: str, target: str | None, options: dict[str, Any]) -> None:
    """Raise an error for options that have no effect, and for a missing or superfluous target."""
    accepted = lookup("action", action, ACTIONS)
    for option, value in options.items():
        if value and option not in accepted:
            others = [name for name, known in ACTIONS.items() if option in known]
            raise RegardError(
                f"{option} cannot be used with `regard claims {action}`, only with: {', '.join(others)}. "
                "Remove it."
            )
    if options["--from"] and (options["--trained"] or options["--out"]):
        raise RegardError(
            f"--from {options['--from']} loads saved records and runs nothing: it cannot be combined with "
            "--trained or --out. Remove --from, or remove these."
        )
    if action == "run" and target is not None:
        raise RegardError(
            f"`regard claims run` takes no argument: '{target}'. To run one claim: "
            f"regard claims show {target}"
        )
    if action == "show" and target is None:
        raise RegardError(
            "`regard claims show` needs the name of a claim; `regard claims` lists them. "
            "For example: regard claims show shifting-is-one-linear-map"
        )
    if action == "page" and target is None:
        raise RegardError(
            "`regard claims page` needs a file name. For example: regard claims page claims.html"
        )


def _validate_page_path(page: Path, files: dict[str, Path | None]) -> None:
    """Raise an error if the page would overwrite the records."""
    for option, path in files.items():
        if path is not None and _is_same(page, path):
            raise RegardError(
                f"The page '{page}' and {option} {path} are the same file: the page would overwrite the "
                "records. Choose another name for the page, such as claims.html."
            )


def _is_same(first: Path, second: Path) -> bool:
    if first.exists() and second.exists():
        return first.samefile(second)
    return first.resolve() == second.resolve()


def _show(name: str, *, settings: Sequence[str], plot: Path | None, as_json: bool) -> None:
    from regard.claims import get_claim
    from regard.claims.engine import run_with_settings
    from regard.cli.check import read_settings
    from regard.core.atomic_write import validate_writable
    from regard.views.text.claims import claim_text

    if plot is not None:
        from regard.views.charts.figure_file import validate_figure_suffix

        validate_figure_suffix(plot)
        validate_writable(plot)
    changes = read_settings(list(settings))
    _single_thread()
    record = run_with_settings(get_claim(name), **changes)
    assert record.finding is not None
    if plot is not None:
        from regard.views.charts.claim_plot import draw_claim

        draw_claim(record.finding.figure, path=plot)
    width = shutil.get_terminal_size().columns
    typer.echo(record.as_json() if as_json else claim_text(record, width=width))


def _records(
    topics: list[str], *, trained: bool, source: Path | None, out: Path | None
) -> list[ClaimRecord]:
    for topic in topics:
        lookup("topic", topic, TOPICS)
    if source is not None:
        from regard.core.records.claim import read_records

        saved = read_records(source)
        found = [record for record in saved if not topics or record.topic in topics]
        if not found:
            available = ", ".join(dict.fromkeys(record.topic for record in saved))
            raise RegardError(
                f"'{source}' has no records of the topic {', '.join(topics)}. Choose from: {available}."
            )
        return found
    from regard.claims import list_claims

    _single_thread()
    unique = dict.fromkeys(topics or TOPICS)
    claims = [claim for topic in unique for claim in list_claims(topic)]
    return _run(claims, trained=trained, out=out)


def _run(claims: Sequence[Claim], *, trained: bool, out: Path | None) -> list[ClaimRecord]:
    """Run the claims, with a progress bar on stderr."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from regard.claims.engine import run_claims
    from regard.core.atomic_write import atomic_write
    from regard.core.records.claim import records_as_json

    console = Console(stderr=True, highlight=False)
    finished: list[ClaimRecord] = []
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("", total=len(claims))

        def on_done(record: ClaimRecord) -> None:
            finished.append(record)
            progress.advance(bar)
            if record.trained and record.finding is not None:
                message = f"{record.name}: {record.finding.verdict}, {record.seconds:.0f} s"
                console.print(message, markup=False)
            if record.error:
                message = f"{record.name} failed to run: {record.error}"
                console.print(message, markup=False, soft_wrap=True)
            if out is not None:
                # After each claim, so that an interrupted run keeps its records.
                atomic_write(out, records_as_json(finished))

        return run_claims(
            claims,
            trained=trained,
            on_start=lambda claim: progress.update(bar, description=claim.name),
            on_done=on_done,
        )


def _write_page(records: Sequence[ClaimRecord], path: Path) -> None:
    from regard.core.atomic_write import atomic_write
    from regard.views.pages.claims import claim_page
    from regard.views.text.claims import summary_line

    atomic_write(path, claim_page(records))
    typer.echo(f"{path}\n{summary_line(records)}")


def _single_thread() -> None:
    import torch

    # Tensors are small, and timings on one thread vary less.
    torch.set_num_threads(1)
