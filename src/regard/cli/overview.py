"""`regard overview`, a page with attention weights, costs and checks of every mechanism; `regard list`."""

from __future__ import annotations

import json
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import Only, Seed, validate_utf8
from regard.core.errors import RegardError
from regard.mechanisms import MECHANISMS

if TYPE_CHECKING:
    from regard.core.records.overview import MechanismRecord, Overview


DEFAULT_OUT = Path("build/overview.html")
STANDARD_OUTPUT = Path("-")  # a common convention, not supported


def run(
    *,
    out: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help=f"Output file. Default: {DEFAULT_OUT}"),
    ] = None,
    only: Only = None,
    sentence: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Input sentence for the attention weights.")
    ] = None,
    seed: Seed = 0,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Write JSON instead of HTML; printed unless --out is given."),
    ] = False,
) -> None:
    """Write a page with the attention weights, costs and conformance checks of every mechanism."""
    from regard.core.atomic_write import atomic_write, validate_writable

    path = out if as_json else out or DEFAULT_OUT
    # Validate before the work starts.
    if path == STANDARD_OUTPUT:
        raise RegardError(
            f"--out {path}: standard output is not supported. Use a file, such as "
            "--out overview.html, or print JSON with --json and without --out."
        )
    if path is not None:
        validate_writable(path)
    if sentence is not None:
        validate_utf8(sentence, what="--sentence")
    overview = _build(only=only or [], sentence=sentence, seed=seed)
    if as_json:
        text = overview.as_json()
    else:
        from regard.views.pages.overview import overview_page

        text = overview_page(overview)
    if path is None:
        print(text)
        return
    atomic_write(path, text)
    print(summary(overview, path=path))


def summary(overview: Overview, *, path: Path) -> str:
    """The path of the page and three lines of totals."""
    totals = overview.totals()
    mechanisms = counted(len(overview.mechanisms), "mechanism", "mechanisms")
    words = counted(len(overview.tokens), "word", "words")
    return "\n".join(
        [
            # File names may contain undecodable bytes.
            str(path).encode(errors="backslashreplace").decode(),
            f"{mechanisms}, {words}",
            f"{counted(totals['passed'], 'check', 'checks')} passed, {totals['failed']} failed",
            f"{_not_applicable(totals['not_applicable'])} (reasons on the page)",
        ]
    )


def counted(count: int, one: str, more: str) -> str:
    """A count with its noun in the singular or plural.

    >>> counted(1, "word", "words"), counted(0, "word", "words")
    ('1 word', '0 words')
    """
    return f"{count} {one if count == 1 else more}"


def _not_applicable(count: int) -> str:
    return counted(count, "does not apply", "do not apply")


def _build(*, only: list[str], sentence: str | None, seed: int) -> Overview:
    """Build the overview; one progress line per mechanism on standard error."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    with console.status("importing torch") as status:
        import torch

        from regard.conformance.overview import DEFAULT_SENTENCE, build_overview

        # The tensors are tiny: more threads are slower.
        torch.set_num_threads(1)
        started = perf_counter()

        def begin(name: str) -> None:
            nonlocal started
            started = perf_counter()
            status.update(name)

        def done(record: MechanismRecord) -> None:
            console.print(_line(record, seconds=perf_counter() - started))

        return build_overview(
            only=only,
            sentence=DEFAULT_SENTENCE if sentence is None else sentence,
            seed=seed,
            begin=begin,
            done=done,
        )


def _line(record: MechanismRecord, *, seconds: float) -> str:
    failed = record.count("failed")
    mark = "[red]✗[/red]" if failed else "[green]✓[/green]"
    return (
        f"{mark} {record.name:<22} {record.count('passed'):>3} passed, {failed:>2} failed, "
        f"{_not_applicable(record.count('not_applicable')):>17}  [dim]{seconds:4.1f} s[/dim]"
    )


def run_list(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """List all mechanisms by family: name, summary, reference."""
    print(as_records() if as_json else as_text())


def as_text() -> str:
    """One block per family, one line per mechanism."""
    width = max((len(name) for name in MECHANISMS), default=0)
    blocks: dict[str, list[str]] = {}
    for name, entry in MECHANISMS.items():
        line = f"  {name:<{width}}  {entry.summary}  [{entry.reference}]"
        blocks.setdefault(entry.family, [entry.family]).append(line)
    return "\n\n".join("\n".join(lines) for lines in blocks.values())


def as_records() -> str:
    """A JSON list with one record per mechanism."""
    shown = ("family", "summary", "reference", "module", "class_name")
    records = [
        {"name": name, **{key: getattr(entry, key) for key in shown}}
        for name, entry in MECHANISMS.items()
    ]
    return json.dumps(records, indent=2, ensure_ascii=False)
