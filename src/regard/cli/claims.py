"""`regard claims`: run statements about attention and report which hold."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard import claims
from regard.cli.options import CpuDevice, Json, echo, echo_json
from regard.core.errors import RegardError, printable_lines
from regard.core.formatting import duration_text
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


def run_claims(
    action: Annotated[str, "run|show|page", "Default: run."] = "run",
    target: Annotated[str | None, "NAME|FILE.html", "Claim to show, or page to write."] = None,
    *,
    topic: Annotated[
        list[str] | None,
        "TOPIC",
        f"Run one topic; may be repeated. One of: {', '.join(claims.TOPICS)}.",
    ] = None,
    trained: Annotated[bool, "Also run claims that train models (minutes)."] = False,
    out: Annotated[Path | None, "FILE.json", "Save the records, for --from."] = None,
    source: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE.json", help="Load saved records instead of running."),
    ] = None,
    set: Annotated[  # noqa: A002
        list[str] | None, "NAME=VALUE", "Change a setting of the claim; may be repeated."
    ] = None,
    plot: Annotated[Path | None, "FILE", "With show: save the figure as .svg or .png."] = None,
    device: CpuDevice = None,
    threads: Annotated[int, "CPU threads."] = 1,
    as_json: Json = False,
) -> None:
    """Run statements about attention and report which hold, fail, or hold under a condition.

    `show NAME` runs one claim with your settings and prints its reasons; `page FILE.html` writes a page
    with all figures. Exit code of run and page: 0 if every verdict is as expected (claims known to be
    false fail, all others hold, possibly under a condition) and no claim raised an error, else 1.
    show exits with 0.
    """
    given = {
        "--topic": topic,
        "--trained": trained,
        "--out": out,
        "--from": source,
        "--set": set,
        "--plot": plot,
        "--json": as_json,
    }
    _validate_options(action, target, given)
    width = shutil.get_terminal_size().columns
    if action == "show":
        from regard.api.options import constructor_options
        from regard.views.text.claims import claim_text

        settings = constructor_options(set)
        record = claims.show(str(target), set=settings, plot=plot, device=device, threads=threads)
        if as_json:
            echo_json(record.as_json())
        else:
            echo(claim_text(record, width=width))
        return
    from regard.core.records.claim import records_as_json
    from regard.views.text.claims import claims_table, summary_line, unexpected

    topics = () if source else topic or claims.TOPICS
    with _progress(sum(len(claims.list_claims(name)) for name in topics)) as callbacks:
        records = claims.run(
            topic=topic or (),
            trained=trained,
            out=out,
            source=source,
            page=target,
            device=device,
            threads=threads,
            **callbacks,
        )
    if action == "page":
        echo(f"{Path(str(target))}\n{summary_line(records)}")
    elif as_json:
        echo_json(records_as_json(records))
    else:
        echo(claims_table(records, width=width))
    if unexpected(records):
        raise typer.Exit(code=1)


def _validate_options(action: str, target: str | None, options: Mapping[str, Any]) -> None:
    """Raise an error for options that have no effect, and for a missing or superfluous target."""
    accepted = lookup("action", action, ACTIONS)
    for option, value in options.items():
        if value and option not in accepted:
            others = [name for name, known in ACTIONS.items() if option in known]
            raise RegardError(
                f"{option} cannot be used with `regard claims {action}`, only with: {', '.join(others)}. "
                "Remove it."
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


@contextmanager
def _progress(count: int) -> Iterator[dict[str, Callable[[Any], None]]]:
    """A progress bar on standard error, with a line per trained or failed claim, as callbacks of `run`."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = Console(stderr=True, highlight=False)
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}", markup=False))
    progress = Progress(*columns, console=console, transient=True)
    bar = progress.add_task("", total=count)

    def on_start(claim: Claim) -> None:
        progress.start()  # not before, since errors in the options come first
        progress.update(bar, description=printable_lines(claim.name))

    def on_done(record: ClaimRecord) -> None:
        progress.advance(bar)
        if record.trained and record.finding is not None:
            message = f"{record.name}: {record.finding.verdict}, {duration_text(record.seconds)}"
            console.print(printable_lines(message), markup=False)
        if record.error:
            message = f"{record.name} failed to run: {record.error}"
            console.print(printable_lines(message), markup=False, soft_wrap=True)

    try:
        yield {"on_start": on_start, "on_done": on_done}
    finally:
        if progress.live.is_started:
            progress.stop()
