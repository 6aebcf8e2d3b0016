"""`regard check`, `regard cost`, `regard overview` and `regard list`."""

from __future__ import annotations

import json
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from regard import api
from regard.cli.options import (
    CpuDevice,
    Json,
    Only,
    Plugins,
    Seed,
    Threads,
    command_line,
    echo,
    echo_json,
    keywords,
    terminal_status,
)
from regard.core.errors import printable_lines

if TYPE_CHECKING:
    from rich.text import Text

    from regard.core.records.overview import MechanismRecord, Overview


# What `regard list` prints in brackets.
NOTES = ("reference", "task", "model", "target")


def run_check(
    targets: Annotated[
        list[str], "TARGET...", "Name of a mechanism, FILE.py:CLASS, or regard.mechanisms for all."
    ],
    *,
    only: Annotated[list[str] | None, "CHECK", "Name of a check to run. May be repeated."] = None,
    set: Annotated[  # noqa: A002
        list[str] | None, "OPTION=VALUE", "Constructor option. May be repeated."
    ] = None,
    seed: Seed = 0,
    device: CpuDevice = None,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Run the conformance suite. Exit code 0: all passed; 1: some failed; 2: not a mechanism.

    A check that does not apply is listed with the reason, a failure with the worst element and the
    command that runs it again.
    """
    report = api.check(**keywords(locals()))
    if as_json:
        echo_json(report.as_json())
    else:
        echo(report.as_text())
    if not report.passed:
        raise typer.Exit(code=1)


def run_cost(
    *,
    length: Annotated[int, "Sequence length."] = 1024,
    heads: Annotated[int, "Number of heads."] = 8,
    head_dim: Annotated[int, "Width of a head."] = 64,
    batch: Annotated[int, "Batch size."] = 1,
    causal: Annotated[bool, "Causal masking."] = False,
    train: Annotated[bool, "Forward and backward pass."] = False,
    decode: Annotated[bool, "One decoding step after --length tokens."] = False,
    only: Only = None,
    set: Annotated[  # noqa: A002
        list[str] | None, "OPTION=VALUE", "An option of the one mechanism of --only."
    ] = None,
    plugin: Plugins = None,
    formulas: Annotated[bool, "All formulas of the one mechanism of --only."] = False,
    measure: Annotated[bool, "Also measure time and memory."] = False,
    module: Annotated[
        str | None,
        "FILE.py:FUNCTION",
        "Cost of your own nn.Module: FUNCTION returns module or (module, inputs).",
    ] = None,
    input: Annotated[
        list[str] | None, "SHAPE", "An input of --module: 2x16x64, or int100:2x16."
    ] = None,
    plot: Annotated[Path | None, "FILE", "Plot time by length, .svg or .png."] = None,
    page: Annotated[Path | None, "FILE.html", "Write an HTML report."] = None,
    calibrate: Annotated[bool, "Calibrate this machine again."] = False,
    no_calibrate: Annotated[bool, "Counts only, no predicted times."] = False,
    device: CpuDevice = None,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Compare mechanisms on one shape: FLOPs, memory, predicted time, formulas, crossover lengths.

    Times are predicted from a calibration of this machine, which is measured on first use. Each row is
    shown on standard error once it is known, and the table at the end.
    """
    options = keywords(locals())
    from regard.core.records.cost import CostReport
    from regard.views.text.costs import cost_text, module_text, row_text

    with terminal_status("importing torch") as status:
        report = api.cost(
            **options,
            command=command_line(),
            log=status.log,
            progress=status.progress,
            on_row=lambda row: status.log(row_text(row)),
        )
    if as_json:
        echo_json(report.as_json())
        return
    echo(cost_text(report) if isinstance(report, CostReport) else module_text(report))
    for path in filter(None, (plot, page)):
        echo(f"written: {path}", err=True)


def run_overview(
    *,
    out: Annotated[Path | None, "PATH", "Output file. Default: build/overview.html"] = None,
    only: Only = None,
    sentence: Annotated[str | None, "TEXT", "Input sentence for the attention weights."] = None,
    seed: Seed = 0,
    device: CpuDevice = None,
    threads: Annotated[int, "CPU threads."] = 1,
    as_json: Annotated[
        bool,
        "Write JSON instead of HTML; printed unless --out is given.",
    ] = False,
) -> None:
    """Write a page with the attention weights, costs and conformance checks of every mechanism."""
    options = keywords(locals())
    from regard.api.mechanisms import DEFAULT_OUT

    path = out if as_json else out or DEFAULT_OUT
    began = 0.0
    with terminal_status("importing torch") as status:

        def on_start(name: str) -> None:
            nonlocal began
            began = perf_counter()
            status.progress(name)

        def on_done(record: MechanismRecord) -> None:
            status.log(_line(record, seconds=perf_counter() - began))

        options |= {"out": path, "json": as_json}
        overview = api.overview(**options, on_start=on_start, on_done=on_done)
    if path is None:
        echo_json(overview.as_json())
    else:
        echo(summary(overview, path=path))


def summary(overview: Overview, *, path: Path) -> str:
    """The path of the page and three lines of totals."""
    totals = overview.totals()
    mechanisms = counted(len(overview.mechanisms), "mechanism", "mechanisms")
    words = counted(len(overview.tokens), "word", "words")
    return "\n".join(
        [
            str(path),
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


def _line(record: MechanismRecord, *, seconds: float) -> Text:
    from rich.text import Text

    failed = record.count("failed")
    counts = (
        f" {printable_lines(record.name):<22} {record.count('passed'):>3} passed, {failed:>2} failed, "
        f"{_not_applicable(record.count('not_applicable')):>17}  "
    )
    mark = ("✗", "red") if failed else ("✓", "green")
    return Text.assemble(mark, counts, (f"{seconds:4.1f} s", "dim"))


def run_list(
    kind: Annotated[
        str | None,
        "[KIND]",
        "mechanisms, pooling, positions, models, tasks, metrics, recipes, studies, datasets or plugins; "
        "default: all.",
    ] = None,
    *,
    plugin: Plugins = None,
    as_json: Json = False,
) -> None:
    """List everything that has a name: name, summary, reference; mechanisms by family.

    With --json also modules, classes and files, the tasks of a model, the models and metrics of a task.
    """
    found = api.list_names(**keywords(locals()))
    if as_json:
        shown = found if kind is None else found[kind]
        echo_json(json.dumps(shown, indent=2, ensure_ascii=False))
        return
    blocks: dict[str, list[str]] = {}
    for name, records in found.items():
        width = max((len(record["name"]) for record in records), default=0)
        if not records:
            blocks[name] = ["  none; name your own with --plugin FILE.py:CLASS"]
        for record in records:
            notes = [record[key] for key in NOTES if key in record]
            note = f"  [{', '.join(notes)}]" if notes else ""
            family = record.get("family")
            head = name if family is None else f"{name}: {family}" if kind is None else family
            line = f"  {record['name']:<{width}}  {record['summary']}{note}"
            blocks.setdefault(head, []).append(line)
    echo("\n\n".join("\n".join([head, *lines]) for head, lines in blocks.items()))
