"""`regard cost`: what every mechanism takes on a shape, counted, predicted and measured."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.options import Plugins, plug_in_all
from regard.core.errors import RegardError

if TYPE_CHECKING:
    from regard.core.records.cost import CostReport
    from regard.costs.calibration import Calibration
    from regard.costs.compare import Comparison
    from regard.costs.trace import Mode


# The calibration of this machine: the one that is kept, or one measured now.


def calibrated(*, anew: bool = False) -> Calibration:
    """Measured where none is kept for this machine, threads and torch, or if `anew`; then kept.

    Freed memory is kept while measuring, as it is while training.
    """
    from regard.core.malloc import keep_freed_memory
    from regard.costs.calibration import calibrate, calibration_path, keep, kept_calibration

    kept = None if anew else kept_calibration()
    if kept is not None:
        return kept
    keep_freed_memory()
    typer.echo("measuring this machine once, which takes about half a minute", err=True)
    measured = calibrate(_calibration_progress)
    _calibration_progress("done", 1.0)
    if sys.stderr.isatty():
        typer.echo("", err=True)
    try:
        keep(measured)
    except (OSError, RegardError) as error:
        # What was measured is good for now; only the next time it has to be measured again.
        typer.echo(f"it cannot be kept: {error} Name another folder in $REGARD_CACHE.", err=True)
    else:
        typer.echo(f"kept in {calibration_path()}", err=True)
    return measured


def _calibration_progress(what: str, share: float) -> None:
    if sys.stderr.isatty():
        typer.echo(f"\r{share:4.0%}  {what:<28}", err=True, nl=False)


LONGEST = 1 << 17
WIDEST = 1 << 12
PAGE_SUFFIXES = (".html", ".htm")


def run(
    *,
    length: Annotated[int, typer.Option(help="Tokens of a sequence.")] = 1024,
    heads: Annotated[int, typer.Option(help="Heads of attention.")] = 8,
    head_dim: Annotated[int, typer.Option(help="Width of queries, keys and values.")] = 64,
    batch: Annotated[int, typer.Option(help="Sequences at once.")] = 1,
    causal: Annotated[bool, typer.Option("--causal", help="Each reads the past only.")] = False,
    train: Annotated[bool, typer.Option("--train", help="Forward and backward.")] = False,
    decode: Annotated[
        bool, typer.Option("--decode", help="One token more, after so many as --length says.")
    ] = False,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="This mechanism. May be repeated.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="OPTION=VALUE", help="Of the one mechanism of --only."),
    ] = None,
    plugin: Plugins = None,
    formulas: Annotated[
        bool, typer.Option("--formulas", help="All closed forms of the one mechanism of --only.")
    ] = False,
    measure: Annotated[
        bool, typer.Option("--measure", help="Run everything really, beside the prediction.")
    ] = False,
    module: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.py:FUNCTION",
            help="Price the module that a function returns, alone or with its inputs.",
        ),
    ] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input", metavar="SHAPE", help="An input of --module: 2x16x64, or int100:2x16."
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Time against length, .svg or .png.")
    ] = None,
    page: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="All of it on one page.")
    ] = None,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Measure this machine anew first.")
    ] = False,
    no_calibrate: Annotated[
        bool, typer.Option("--no-calibrate", help="Counts only, no times.")
    ] = False,
    threads: Annotated[int | None, typer.Option(help="Cores to use; else all.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Price every mechanism on a shape: operations, memory, time, formulas, where one beats another.

    Times are predicted from a calibration of this machine, which the first use makes.
    """
    _require_sizes(length=length, heads=heads, head_dim=head_dim, batch=batch, threads=threads)
    _require_one_of("--train", train, "--decode", decode)
    _require_one_of("--calibrate", calibrate, "--no-calibrate", no_calibrate)
    _require_files(plot=plot, page=page)
    chosen = list(dict.fromkeys(only or []))
    if module is not None:
        _refuse_beside_module(
            train=train,
            decode=decode,
            only=chosen,
            set=settings,
            plugin=plugin,
            formulas=formulas,
            measure=measure,
            plot=plot,
            page=page,
        )
    elif inputs:
        raise RegardError(
            f"--input {inputs[0]} is an input of --module, which is not given. Add --module "
            "FILE.py:FUNCTION, or give mechanisms their shape with --length, --heads and --head-dim."
        )
    for option, given in (("--set", settings), ("--formulas", formulas)):
        if given and len(chosen) != 1:
            raise RegardError(
                f"{option} is for one mechanism, and --only names {len(chosen) or 'none'}. "
                "Name one, such as --only taylor."
            )
    from regard.cli.check import read_settings

    options = read_settings(settings or [])
    with _progress("importing torch"):
        import torch

        from regard.core.malloc import keep_freed_memory
        from regard.costs.compare import Setting

    if threads is not None:
        torch.set_num_threads(threads)
    plug_in_all(plugin)
    names = _names(chosen, plugin)
    keep_freed_memory()  # predictions assume it
    if module is not None:
        from regard.cli.module_option import priced_module
        from regard.views.text.costs import module_text

        priced = priced_module(
            module,
            inputs=inputs or [],
            calibrated=lambda: _calibration(calibrate=calibrate, without=no_calibrate),
        )
        print(priced.as_json() if as_json else module_text(priced))
        return
    mode: Mode = "train" if train else "decode" if decode else "forward"
    setting = Setting(
        length=length,
        num_heads=heads,
        head_dim=head_dim,
        batch_size=batch,
        causal=causal,
        mode=mode,
    )
    calibration = _calibration(calibrate=calibrate, without=no_calibrate)
    report, comparison = _compared(
        setting,
        calibration,
        names=names,
        chosen=chosen,
        options=options,
        formulas=formulas,
        draws=plot is not None or page is not None,
    )
    if measure:
        report = _measured(report, comparison, begin=partial(plug_in_all, plugin))
    _write(report, plot=plot, page=page)
    if as_json:
        print(report.as_json())
        return
    from regard.views.text.costs import cost_text

    print(cost_text(report))
    for path in filter(None, (plot, page)):
        typer.echo(f"written: {path}", err=True)


def _compared(
    setting: Any,
    calibration: Calibration | None,
    *,
    names: list[str],
    chosen: list[str],
    options: dict[str, Any],
    formulas: bool,
    draws: bool,
) -> tuple[CostReport, Comparison]:
    """The report, with progress on the standard error stream."""
    from regard import __version__
    from regard.core.records.cost import CostReport
    from regard.costs.calibration import this_machine
    from regard.costs.compare import SOFTMAX, USUAL_RIVALS, Comparison
    from regard.mechanisms import is_plugged_in

    with _progress("pricing") as tell:
        comparison = Comparison(setting, calibration, tell=lambda name: tell(f"pricing {name}"))
        mechanisms = comparison.mechanisms(names, options)
        if chosen and not mechanisms:
            raise RegardError("; ".join(each.reason for each in comparison.not_priced))
        layers = comparison.layers()
        rivals = [name for name in names if chosen or name in USUAL_RIVALS or is_plugged_in(name)]
        report_formulas = [comparison.formulas(name) for name in chosen if formulas]
        if SOFTMAX not in names:
            comparison.price(SOFTMAX)  # to be compared with
        crossings = comparison.crossings(rivals)
        drawn = list(dict.fromkeys([*names, *(SOFTMAX for _ in rivals), "lstm", "self-attention"]))
        curves = comparison.curves(drawn) if draws else []
    report = CostReport(
        version=__version__,
        command=shlex.join(["regard", *sys.argv[1:]]),
        mode=setting.mode,
        length=setting.length,
        num_heads=setting.num_heads,
        head_dim=setting.head_dim,
        batch_size=setting.batch_size,
        causal=setting.causal,
        machine=this_machine(),
        has_times=calibration is not None,
        mechanisms=tuple(mechanisms),
        layers=tuple(layers),
        not_priced=tuple(comparison.not_priced),
        crossings=tuple(crossings),
        curves=tuple(curves),
        formulas=tuple(report_formulas),
    )
    return report, comparison


def _measured(
    report: CostReport, comparison: Comparison, *, begin: Callable[[], None]
) -> CostReport:
    """The report with what real runs took; a row that was not run says why."""
    from regard.costs.measure import measured_rows
    from regard.runs.profile import free_bytes

    with _progress("measuring") as tell:
        rows = measured_rows(
            [*report.mechanisms, *report.layers],
            recipes={
                name: contender.recipe(report.length)
                for name, contender in comparison.contenders.items()
            },
            free_bytes=free_bytes(),
            begin=begin,
            tell=lambda what: tell(f"measuring {what}"),
        )
    split = len(report.mechanisms)
    return replace(report, mechanisms=tuple(rows[:split]), layers=tuple(rows[split:]))


def _write(report: CostReport, *, plot: Path | None, page: Path | None) -> None:
    if plot is not None:
        from regard.views.charts.cost_curves import draw_time_plot

        draw_time_plot(report, path=plot)
    if page is not None:
        from regard.core.atomic_write import write_whole
        from regard.views.pages.costs import cost_page

        write_whole(page, cost_page(report))


def _calibration(*, calibrate: bool, without: bool) -> Calibration | None:
    return None if without else calibrated(anew=calibrate)


def _names(chosen: list[str], plugin: list[str] | None) -> list[str]:
    from regard.mechanisms import MECHANISMS, mechanism_class

    for name in chosen:
        mechanism_class(name)
    own = [target.rpartition(":")[2] for target in plugin or []]
    return chosen or [*MECHANISMS, *own]


@contextmanager
def _progress(begun: str) -> Iterator[Callable[[str], None]]:
    from rich.console import Console

    with Console(stderr=True, highlight=False).status(begun) as status:
        yield status.update


def _require_sizes(*, threads: int | None, **sizes: int) -> None:
    most = {"length": LONGEST, "head_dim": WIDEST, "heads": WIDEST, "batch": LONGEST}
    asked = {**sizes, **({} if threads is None else {"threads": threads})}
    for name, size in asked.items():
        limit = most.get(name, 1024)
        if not 1 <= size <= limit:
            raise RegardError(
                f"--{name.replace('_', '-')} {size}: it is a whole number from 1 to {limit}. "
                "Choose one of those."
            )


def _require_one_of(first: str, has_first: bool, second: str, has_second: bool) -> None:
    if has_first and has_second:
        raise RegardError(f"{first} and {second} contradict each other. Leave one of them away.")


def _require_files(*, plot: Path | None, page: Path | None) -> None:
    from regard.core.atomic_write import require_writable
    from regard.views.charts.figure_file import require_figure_suffix

    if plot is not None:
        require_figure_suffix(plot)
        require_writable(plot)
    if page is not None:
        if page.suffix.lower() not in PAGE_SUFFIXES:
            raise RegardError(f"--page {page}: a page is HTML. End the name in .html.")
        require_writable(page)


def _refuse_beside_module(**given: object) -> None:
    for name, value in given.items():
        if value:
            raise RegardError(
                f"--module prices one module of your own, forward and backward, so --{name} does not "
                "go with it. Leave one of the two away."
            )
