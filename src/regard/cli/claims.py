"""`regard claims`: statements about attention, decided by code."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.claims import TOPICS
from regard.core.errors import RegardError
from regard.core.registry import look_up

if TYPE_CHECKING:
    from regard.claims.engine import Claim
    from regard.core.records.claim import ClaimRecord


# action → the options that go with it
ACTIONS: dict[str, frozenset[str]] = {
    "run": frozenset({"--topic", "--trained", "--out", "--from", "--json"}),
    "show": frozenset({"--set", "--plot", "--json"}),
    "page": frozenset({"--topic", "--trained", "--out", "--from"}),
}


def run(
    action: Annotated[
        str, typer.Argument(metavar="run|show|page", help="run unless given.")
    ] = "run",
    target: Annotated[
        str | None,
        typer.Argument(metavar="NAME|FILE.html", help="What to show, or the page to write."),
    ] = None,
    *,
    topic: Annotated[
        list[str] | None,
        typer.Option(metavar="TOPIC", help=f"May be repeated. One of: {', '.join(TOPICS)}."),
    ] = None,
    trained: Annotated[
        bool, typer.Option("--trained", help="Also those that train models first: minutes.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.json", help="Keep the records there, for --from.")
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE.json", help="Records that were kept; nothing is run."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Of show: a setting. May be repeated."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="PICTURE", help="Of show: draw it, as .svg or .png.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Run statements about attention and say which hold, which fail, and which hold under a condition.

    `show NAME` runs one with settings of yours and gives the reasons; `page FILE.html` writes all with
    pictures. Exit code of run and page: 0 if every verdict is as expected (a statement known to be wrong
    fails, every other holds, be it under a condition) and none failed to run, else 1. show answers and
    leaves with 0.
    """
    given = {
        "--topic": topic,
        "--trained": trained,
        "--out": out,
        "--from": source,
        "--set": settings,
        "--plot": plot,
        "--json": as_json,
    }
    _require_fitting(action, target, given)
    if action == "page":
        assert target is not None
        _require_not_the_page(Path(target), {"--out": out, "--from": source})
    if action == "show":
        assert target is not None
        _show(target, settings=settings or [], plot=plot, as_json=as_json)
        return
    from regard.core.atomic_write import require_writable
    from regard.views.text.claims import surprises

    for path in (out, Path(target) if target else None):
        if path is not None:
            require_writable(path)
    records = _records(topic or [], trained=trained, source=source, out=out)
    if action == "page":
        assert target is not None
        _write_page(records, Path(target))
    elif as_json:
        from regard.core.records.claim_file import records_as_json

        typer.echo(records_as_json(records))
    else:
        from regard.views.text.claims import claims_table

        typer.echo(claims_table(records, width=shutil.get_terminal_size().columns))
    if surprises(records):
        raise typer.Exit(code=1)


def _require_fitting(action: str, target: str | None, given: dict[str, Any]) -> None:
    """Refuse options that would be without effect, and a missing or needless target."""
    fitting = look_up("action", action, ACTIONS)
    for option, value in given.items():
        if value and option not in fitting:
            others = [name for name, options in ACTIONS.items() if option in options]
            raise RegardError(
                f"{option} does not go with `regard claims {action}`, but with: {', '.join(others)}. "
                f"Leave it away, or ask for one of those."
            )
    if given["--from"] and (given["--trained"] or given["--out"]):
        raise RegardError(
            f"--from {given['--from']} takes records that were kept and runs nothing, so --trained and "
            "--out have nothing to do. Leave them away, or leave --from away."
        )
    if action == "run" and target is not None:
        raise RegardError(
            f"`regard claims run` takes no name, and was given '{target}'. For one statement: "
            f"regard claims show {target}"
        )
    if action == "show" and target is None:
        raise RegardError(
            "`regard claims show` needs the name of a statement; `regard claims` lists them all. "
            "For example: regard claims show shifting-is-one-linear-map"
        )
    if action == "page" and target is None:
        raise RegardError(
            "`regard claims page` needs the file to write. For example: regard claims page claims.html"
        )


def _require_not_the_page(page: Path, files: dict[str, Path | None]) -> None:
    """Refuse a page that would take the place of the records."""
    for option, path in files.items():
        if path is not None and _is_same(page, path):
            raise RegardError(
                f"The page '{page}' and {option} {path} are one file, and the page would take the place of "
                "the records. Give the page another name, such as claims.html."
            )


def _is_same(first: Path, second: Path) -> bool:
    if first.exists() and second.exists():
        return first.samefile(second)
    return first.resolve() == second.resolve()


def _show(name: str, *, settings: Sequence[str], plot: Path | None, as_json: bool) -> None:
    from regard.claims import find_claim
    from regard.claims.engine import run_changed
    from regard.cli.check import read_settings
    from regard.core.atomic_write import require_writable
    from regard.views.text.claims import claim_text

    if plot is not None:
        from regard.views.charts.figure_file import require_figure_suffix

        require_figure_suffix(plot)
        require_writable(plot)
    changes = read_settings(list(settings))
    _one_thread()
    record = run_changed(find_claim(name), **changes)
    assert record.finding is not None
    if plot is not None:
        from regard.views.charts.claim_plot import draw_claim

        draw_claim(record.finding.picture, path=plot)
    width = shutil.get_terminal_size().columns
    typer.echo(record.as_json() if as_json else claim_text(record, width=width))


def _records(
    topics: list[str], *, trained: bool, source: Path | None, out: Path | None
) -> list[ClaimRecord]:
    for topic in topics:
        look_up("topic", topic, TOPICS)
    if source is not None:
        from regard.core.records.claim_file import read_records

        kept = read_records(source)
        found = [each for each in kept if not topics or each.topic in topics]
        if not found:
            there = ", ".join(dict.fromkeys(each.topic for each in kept))
            raise RegardError(
                f"'{source}' has no records of the topic {', '.join(topics)}; it has: {there}. Choose one "
                "of those, or run the others."
            )
        return found
    from regard.claims import claims_of

    _one_thread()
    asked = dict.fromkeys(topics or TOPICS)  # each once
    claims = [claim for topic in asked for claim in claims_of(topic)]
    return _run(claims, trained=trained, out=out)


def _run(claims: Sequence[Claim], *, trained: bool, out: Path | None) -> list[ClaimRecord]:
    """The records, with a bar on the standard error stream while they are made."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from regard.claims.engine import run_claims
    from regard.core.atomic_write import write_whole
    from regard.core.records.claim_file import records_as_json

    console = Console(stderr=True, highlight=False)
    kept: list[ClaimRecord] = []
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("", total=len(claims))

        def done(record: ClaimRecord) -> None:
            kept.append(record)
            progress.advance(bar)
            if record.trained and record.finding is not None:
                told = f"{record.name}: {record.finding.verdict}, {record.seconds:.0f} s"
                console.print(told, markup=False)
            if record.trouble:
                told = f"{record.name} failed to run: {record.trouble}"
                console.print(told, markup=False, soft_wrap=True)
            if out is not None:
                # After each, so that an interrupted run has not trained for nothing.
                write_whole(out, records_as_json(kept))

        return run_claims(
            claims,
            trained=trained,
            begin=lambda claim: progress.update(bar, description=claim.name),
            done=done,
        )


def _write_page(records: Sequence[ClaimRecord], path: Path) -> None:
    from regard.core.atomic_write import write_whole
    from regard.views.pages.claims import claim_page
    from regard.views.text.claims import summary_line

    write_whole(path, claim_page(records))
    typer.echo(f"{path}\n{summary_line(records)}")


def _one_thread() -> None:
    import torch

    # The tensors are small, and times measured on one thread differ less.
    torch.set_num_threads(1)
