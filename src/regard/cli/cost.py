"""`regard cost`: FLOPs, memory and time of every mechanism on one shape."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.options import Only, Plugins, load_plugins
from regard.core.errors import RegardError

if TYPE_CHECKING:
    from regard.core.records.cost import CostReport
    from regard.costs.calibration import Calibration
    from regard.costs.compare import Comparison
    from regard.costs.trace import Mode


def load_or_calibrate(*, force: bool = False) -> Calibration:
    """The saved calibration of this machine; measured and saved if there is none, or if `force`.

    The allocator keeps freed memory while measuring, as it does while training.
    """
    from regard.core.malloc import keep_freed_memory
    from regard.costs.calibration import (
        calibrate,
        calibration_path,
        load_calibration,
        save_calibration,
    )

    saved = None if force else load_calibration()
    if saved is not None:
        return saved
    keep_freed_memory()
    typer.echo("calibrating this machine (once, about half a minute)", err=True)
    measured = calibrate(_calibration_progress)
    _calibration_progress("done", 1.0)
    if sys.stderr.isatty():
        typer.echo("", err=True)
    try:
        save_calibration(measured)
    except (OSError, RegardError) as error:
        # The measurement is usable; the next run has to measure again.
        typer.echo(f"cannot save it: {error} Set $REGARD_CACHE to another folder.", err=True)
    else:
        typer.echo(f"saved to {calibration_path()}", err=True)
    return measured


def _calibration_progress(name: str, fraction: float) -> None:
    if sys.stderr.isatty():
        typer.echo(f"\r{fraction:4.0%}  {name:<28}", err=True, nl=False)


MAX_LENGTH = 1 << 17
MAX_WIDTH = 1 << 12
PAGE_SUFFIXES = (".html", ".htm")


def run(
    *,
    length: Annotated[int, typer.Option(help="Sequence length.")] = 1024,
    heads: Annotated[int, typer.Option(help="Number of heads.")] = 8,
    head_dim: Annotated[int, typer.Option(help="Width of a head.")] = 64,
    batch: Annotated[int, typer.Option(help="Batch size.")] = 1,
    causal: Annotated[bool, typer.Option("--causal", help="Causal masking.")] = False,
    train: Annotated[bool, typer.Option("--train", help="Forward and backward pass.")] = False,
    decode: Annotated[
        bool, typer.Option("--decode", help="One decoding step after --length tokens.")
    ] = False,
    only: Only = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="OPTION=VALUE", help="An option of the one mechanism of --only."
        ),
    ] = None,
    plugin: Plugins = None,
    formulas: Annotated[
        bool, typer.Option("--formulas", help="All formulas of the one mechanism of --only.")
    ] = False,
    measure: Annotated[
        bool, typer.Option("--measure", help="Also measure time and memory.")
    ] = False,
    module: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.py:FUNCTION",
            help="Cost of your own nn.Module: FUNCTION returns module or (module, inputs).",
        ),
    ] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input", metavar="SHAPE", help="An input of --module: 2x16x64, or int100:2x16."
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Plot time by length, .svg or .png.")
    ] = None,
    page: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Write an HTML report.")
    ] = None,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Calibrate this machine again.")
    ] = False,
    no_calibrate: Annotated[
        bool, typer.Option("--no-calibrate", help="Counts only, no predicted times.")
    ] = False,
    threads: Annotated[int | None, typer.Option(help="CPU threads. Default: all cores.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Compare mechanisms on one shape: FLOPs, memory, predicted time, formulas, crossover lengths.

    Times are predicted from a calibration of this machine, which is measured on first use.
    """
    _validate_sizes(length=length, heads=heads, head_dim=head_dim, batch=batch, threads=threads)
    _validate_exclusive("--train", train, "--decode", decode)
    _validate_exclusive("--calibrate", calibrate, "--no-calibrate", no_calibrate)
    _validate_paths(plot=plot, page=page)
    chosen = list(dict.fromkeys(only or []))
    if module is not None:
        _validate_module_options(
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
            f"--input {inputs[0]} needs --module FILE.py:FUNCTION. Add it, or set the shape of "
            "mechanisms with --length, --heads and --head-dim."
        )
    for option, given in (("--set", settings), ("--formulas", formulas)):
        if given and len(chosen) != 1:
            raise RegardError(
                f"{option} needs exactly one mechanism, and --only names {len(chosen) or 'none'}. "
                "Use, for example, --only taylor."
            )
    from regard.cli.check import read_settings

    options = read_settings(settings or [])
    with _progress("importing torch"):
        import torch

        from regard.core.malloc import keep_freed_memory
        from regard.costs.compare import Setting

    if threads is not None:
        torch.set_num_threads(threads)
    load_plugins(plugin)
    names = _names(chosen, plugin)
    keep_freed_memory()  # predictions assume it
    if module is not None:
        from regard.cli.module_option import estimate_module
        from regard.views.text.costs import module_text

        module_report = estimate_module(
            module,
            inputs=inputs or [],
            calibrate=lambda: _calibration(force=calibrate, skip=no_calibrate),
        )
        print(module_report.as_json() if as_json else module_text(module_report))
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
    calibration = _calibration(force=calibrate, skip=no_calibrate)
    report, comparison = _compare(
        setting,
        calibration,
        names=names,
        chosen=chosen,
        options=options,
        formulas=formulas,
        with_curves=plot is not None or page is not None,
    )
    if measure:
        report = _measure(report, comparison, setup=partial(load_plugins, plugin))
    _write(report, plot=plot, page=page)
    if as_json:
        print(report.as_json())
        return
    from regard.views.text.costs import cost_text

    print(cost_text(report))
    for path in filter(None, (plot, page)):
        typer.echo(f"written: {path}", err=True)


def _compare(
    setting: Any,
    calibration: Calibration | None,
    *,
    names: list[str],
    chosen: list[str],
    options: dict[str, Any],
    formulas: bool,
    with_curves: bool,
) -> tuple[CostReport, Comparison]:
    """The report; progress goes to standard error."""
    from regard import __version__
    from regard.core.records.cost import CostReport
    from regard.costs.calibration import this_machine
    from regard.costs.compare import DEFAULT_CANDIDATES, SOFTMAX, Comparison
    from regard.mechanisms import is_plugin

    with _progress("estimating") as log:
        comparison = Comparison(setting, calibration, log=lambda name: log(f"estimating {name}"))
        mechanisms = comparison.mechanisms(names, options)
        if chosen and not mechanisms:
            raise RegardError("; ".join(each.reason for each in comparison.unsupported))
        layers = comparison.layers()
        compared = [
            name for name in names if chosen or name in DEFAULT_CANDIDATES or is_plugin(name)
        ]
        report_formulas = [comparison.formulas(name) for name in chosen if formulas]
        if SOFTMAX not in names:
            comparison.add_baseline(SOFTMAX)
        crossovers = comparison.crossovers(compared)
        shown = list(
            dict.fromkeys([*names, *(SOFTMAX for _ in compared), "lstm", "self-attention"])
        )
        curves = comparison.curves(shown) if with_curves else []
    report = CostReport(
        version=__version__,
        command=shlex.join(["regard", *sys.argv[1:]]),
        **asdict(setting),
        machine=this_machine(),
        has_times=calibration is not None,
        mechanisms=tuple(mechanisms),
        layers=tuple(layers),
        unsupported=tuple(comparison.unsupported),
        crossovers=tuple(crossovers),
        curves=tuple(curves),
        formulas=tuple(report_formulas),
    )
    return report, comparison


def _measure(
    report: CostReport, comparison: Comparison, *, setup: Callable[[], None]
) -> CostReport:
    """The report with measured time and memory; rows that were not run say why."""
    from regard.costs.measure import measured_rows
    from regard.runs.profile import free_bytes

    with _progress("measuring") as log:
        rows = measured_rows(
            [*report.mechanisms, *report.layers],
            factories={
                name: candidate.workload_factory(report.length)
                for name, candidate in comparison.candidates.items()
            },
            free_bytes=free_bytes(),
            setup=setup,
            log=lambda what: log(f"measuring {what}"),
        )
    split = len(report.mechanisms)
    return replace(report, mechanisms=tuple(rows[:split]), layers=tuple(rows[split:]))


def _write(report: CostReport, *, plot: Path | None, page: Path | None) -> None:
    if plot is not None:
        from regard.views.charts.cost_curves import draw_cost_curves

        draw_cost_curves(report, path=plot)
    if page is not None:
        from regard.core.atomic_write import atomic_write
        from regard.views.pages.costs import cost_page

        atomic_write(page, cost_page(report))


def _calibration(*, force: bool, skip: bool) -> Calibration | None:
    return None if skip else load_or_calibrate(force=force)


def _names(chosen: list[str], plugin: list[str] | None) -> list[str]:
    from regard.mechanisms import MECHANISMS, mechanism_class

    for name in chosen:
        mechanism_class(name)
    own = [target.rpartition(":")[2] for target in plugin or []]
    return chosen or [*MECHANISMS, *own]


@contextmanager
def _progress(status_text: str) -> Iterator[Callable[[str], None]]:
    from rich.console import Console

    with Console(stderr=True, highlight=False).status(status_text) as status:
        yield status.update


def _validate_sizes(*, threads: int | None, **sizes: int) -> None:
    limits = {"length": MAX_LENGTH, "head_dim": MAX_WIDTH, "heads": MAX_WIDTH, "batch": MAX_LENGTH}
    given = {**sizes, **({} if threads is None else {"threads": threads})}
    for name, size in given.items():
        limit = limits.get(name, 1024)
        if not 1 <= size <= limit:
            raise RegardError(
                f"--{name.replace('_', '-')} {size} is out of range. Use an integer from 1 to {limit}."
            )


def _validate_exclusive(first: str, has_first: bool, second: str, has_second: bool) -> None:
    if has_first and has_second:
        raise RegardError(f"{first} and {second} exclude each other. Remove one.")


def _validate_paths(*, plot: Path | None, page: Path | None) -> None:
    from regard.core.atomic_write import validate_writable
    from regard.views.charts.figure_file import validate_figure_suffix

    if plot is not None:
        validate_figure_suffix(plot)
        validate_writable(plot)
    if page is not None:
        if page.suffix.lower() not in PAGE_SUFFIXES:
            raise RegardError(f"--page {page}: the report is HTML. Use a name that ends in .html.")
        validate_writable(page)


def _validate_module_options(**given: object) -> None:
    for name, value in given.items():
        if value:
            raise RegardError(
                f"--{name} does not apply to --module, which reports forward and backward of one module. "
                "Remove one of the two."
            )
