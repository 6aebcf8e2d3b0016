"""`regard survey`: every mechanism at a glance, on one page that needs nothing but a browser."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import Seed, require_decoded
from regard.core.errors import RegardError

if TYPE_CHECKING:
    from regard.core.records.overview import MechanismRecord, Survey


DEFAULT_OUT = Path("build/survey.html")
STANDARD_OUTPUT = Path("-")  # as many other programs spell it


def run(
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", help=f"The file to write; its folder is made. Default: {DEFAULT_OUT}"
        ),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A mechanism to show; may be repeated.")
    ] = None,
    sentence: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The sentence in which they read.")
    ] = None,
    seed: Seed = 0,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Records instead of a page; printed unless --out is given."),
    ] = False,
) -> None:
    """Show what every mechanism reads in a sentence, what it costs and which checks it passes."""
    from regard.core.atomic_write import require_writable, write_whole

    path = out if as_json else out or DEFAULT_OUT
    # What cannot be done is said before the work, not after it.
    if path == STANDARD_OUTPUT:
        raise RegardError(
            f"--out {path}: --out takes the path of a file, and a page is not printed. Name a file, "
            "such as --out survey.html, or leave --out away and print the records with --json."
        )
    if path is not None:
        require_writable(path)
    if sentence is not None:
        require_decoded(sentence, what="--sentence")
    survey = _survey(only=only or [], sentence=sentence, seed=seed)
    if as_json:
        text = survey.as_json()
    else:
        from regard.views.pages.overview import survey_page

        text = survey_page(survey)
    if path is None:
        print(text)
        return
    write_whole(path, text)
    print(summary(survey, path=path))


def summary(survey: Survey, *, path: Path) -> str:
    """Where the page is, and three lines of what is on it."""
    totals = survey.totals()
    mechanisms = counted(len(survey.mechanisms), "mechanism reads", "mechanisms read")
    words = counted(len(survey.tokens), "word", "words")
    return "\n".join(
        [
            # A file may be called what is no text; printing must not fail after all the work.
            str(path).encode(errors="backslashreplace").decode(),
            f"{mechanisms} {words}",
            f"{counted(totals['passed'], 'check', 'checks')} passed, {totals['failed']} failed",
            f"{_not_applying(totals['not_applicable'])}, and the page says why",
        ]
    )


def counted(count: int, one: str, more: str) -> str:
    """A count and what is counted, in the singular or the plural.

    >>> counted(1, "word", "words"), counted(0, "word", "words")
    ('1 word', '0 words')
    """
    return f"{count} {one if count == 1 else more}"


def _not_applying(count: int) -> str:
    return counted(count, "does not apply", "do not apply")


def _survey(*, only: list[str], sentence: str | None, seed: int) -> Survey:
    """The survey, with a line for every mechanism on the standard error stream."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    with console.status("importing torch") as status:
        import torch

        from regard.conformance.overview import DEFAULT_SENTENCE, survey

        # The tensors are tiny: more threads would only wait for one another.
        torch.set_num_threads(1)
        started = perf_counter()

        def begin(name: str) -> None:
            nonlocal started
            started = perf_counter()
            status.update(name)

        def done(record: MechanismRecord) -> None:
            console.print(_line(record, seconds=perf_counter() - started))

        return survey(
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
        f"{_not_applying(record.count('not_applicable')):>17}  [dim]{seconds:4.1f} s[/dim]"
    )
