"""`cost`: FLOPs, memory and time of every mechanism on one shape, or of a user's nn.Module."""

from __future__ import annotations

import re
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard import __version__
from regard.api.options import (
    File,
    Log,
    Plugins,
    Settings,
    constructor_options,
    load_plugins,
    optional_path,
    silent,
    torch_threads,
    validate_exclusive,
)
from regard.core import malloc
from regard.core.atomic_write import atomic_write, validate_writable
from regard.core.device import validate_cpu
from regard.core.errors import RegardError
from regard.core.records.cost import CostReport, CostRow, KindRow, ModuleReport
from regard.core.registry import import_source
from regard.costs import calibration as calibrations
from regard.costs.calibration import Calibration, this_machine
from regard.costs.compare import DEFAULT_CANDIDATES, SOFTMAX, Comparison, Setting
from regard.costs.measure import measured_rows
from regard.costs.predict import predict
from regard.costs.trace import Mode, trace
from regard.costs.workloads import module_workload
from regard.mechanisms import MECHANISMS, REGISTRY, is_plugin
from regard.runs.plugins import registered_plugins
from regard.runs.profile import free_bytes
from regard.views.charts.figure_file import validate_figure_suffix

Built = tuple[nn.Module, list[Any]]

MAX_LENGTH = 1 << 17
MAX_WIDTH = 1 << 12
PAGE_SUFFIXES = (".html", ".htm")


def load_or_calibrate(
    *, force: bool = False, log: Log | None = None, progress: Log | None = None
) -> Calibration:
    """The saved calibration of this machine; measured and saved if there is none, or if `force`.

    The allocator keeps freed memory while measuring, as it does while training. What is measured on a busy
    machine is not saved.
    """
    log, progress = log or silent, progress or silent
    saved = None if force else calibrations.load_calibration()
    if saved is not None:
        return saved
    malloc.keep_freed_memory()
    log("calibrating this machine (once, about half a minute)")
    measured = calibrations.calibrate(lambda name, done: progress(f"{done:4.0%}  {name}"))
    if measured.busy:
        log(
            f"warning: the machine was busy: {measured.busy}; the calibration is not saved, and predicted "
            "times are too long. Repeat it when nothing else is running."
        )
        return measured
    try:
        calibrations.save_calibration(measured)
    except (OSError, RegardError) as error:
        # The measurement is usable; the next run has to measure again.
        log(f"cannot save it: {error} Set $REGARD_CACHE to another folder.")
    else:
        log(f"saved to {calibrations.calibration_path()}")
    return measured


def cost(
    *,
    length: int = 1024,
    heads: int = 8,
    head_dim: int = 64,
    batch: int = 1,
    causal: bool = False,
    train: bool = False,
    decode: bool = False,
    only: Iterable[str] = (),
    set: Settings | None = None,  # noqa: A002
    plugin: Plugins = (),
    formulas: bool = False,
    measure: bool = False,
    module: str | None = None,
    input: Sequence[str] = (),
    plot: File | None = None,
    page: File | None = None,
    calibrate: bool = False,
    no_calibrate: bool = False,
    device: str | None = None,
    threads: int | None = None,
    command: str = "",
    log: Log | None = None,
    progress: Log | None = None,
    on_row: Callable[[CostRow], None] | None = None,
) -> CostReport | ModuleReport:
    """FLOPs, memory, predicted time, formulas and crossover lengths of mechanisms on one shape.

    With `module`, FILE.py:FUNCTION, the cost of that nn.Module on `input` shapes instead. Times are
    predicted from a calibration of this machine, which is measured on first use. `log` receives lines,
    `progress` the name of what is being estimated, `on_row` each row once it is known; the report names
    `command` as the way to repeat it.
    """
    _validate_sizes(length=length, heads=heads, head_dim=head_dim, batch=batch, threads=threads)
    validate_cpu(device, what="times are those of")
    validate_exclusive(train=train, decode=decode)
    validate_exclusive(calibrate=calibrate, no_calibrate=no_calibrate)
    plot_path, page_path = optional_path(plot), optional_path(page)
    _validate_paths(plot=plot_path, page=page_path)
    chosen = list(dict.fromkeys(only))
    if module is not None:
        _validate_module_options(
            train=train,
            decode=decode,
            only=chosen,
            set=set,
            plugin=plugin,
            formulas=formulas,
            measure=measure,
            plot=plot,
            page=page,
        )
    elif input:
        raise RegardError(
            f"--input {input[0]} needs --module FILE.py:FUNCTION. Add it, or set the shape of "
            "mechanisms with --length, --heads and --head-dim."
        )
    for option, given in (("--set", set), ("--formulas", formulas)):
        if given and len(chosen) != 1:
            raise RegardError(
                f"{option} needs exactly one mechanism, and --only names {len(chosen) or 'none'}. "
                "Use, for example, --only taylor."
            )
    options = constructor_options(set)
    own = [name for name in load_plugins(plugin) if is_plugin(name)]
    for name in chosen:
        REGISTRY.activate(name)
        REGISTRY.load(name)
    malloc.keep_freed_memory()  # predictions assume it

    def calibration() -> Calibration | None:
        return (
            None if no_calibrate else load_or_calibrate(force=calibrate, log=log, progress=progress)
        )

    with torch_threads(threads):
        if module is not None:
            return _estimate_module(module, inputs=input, calibrate=calibration)
        mode: Mode = "train" if train else "decode" if decode else "forward"
        setting = Setting(
            length=length,
            num_heads=heads,
            head_dim=head_dim,
            batch_size=batch,
            causal=causal,
            mode=mode,
        )
        show = progress or silent
        comparison = Comparison(
            setting,
            calibration(),
            log=lambda name: show(f"estimating {name}"),
            on_row=on_row or (lambda _row: None),
        )
        report = _compare(
            comparison,
            names=chosen or [*MECHANISMS, *own],
            chosen=chosen,
            options=options,
            formulas=formulas,
            with_curves=plot is not None or page is not None,
        )
        if measure:
            targets = [plugin.target for _, plugin in registered_plugins()]
            report = _measure(report, comparison, plugins=targets, show=show)
    report = replace(report, command=command)
    _write(report, plot=plot_path, page=page_path)
    return report


def _compare(
    comparison: Comparison,
    *,
    names: list[str],
    chosen: list[str],
    options: dict[str, Any],
    formulas: bool,
    with_curves: bool,
) -> CostReport:
    mechanisms = comparison.mechanisms(names, options)
    if chosen and not mechanisms:
        raise RegardError("; ".join(each.reason for each in comparison.unsupported))
    layers = comparison.layers()
    compared = [name for name in names if chosen or name in DEFAULT_CANDIDATES or is_plugin(name)]
    report_formulas = [comparison.formulas(name) for name in chosen if formulas]
    if SOFTMAX not in names:
        comparison.add_baseline(SOFTMAX)
    crossovers = comparison.crossovers(compared)
    shown = list(dict.fromkeys([*names, *(SOFTMAX for _ in compared), "lstm", "self-attention"]))
    return CostReport(
        version=__version__,
        command="",
        **asdict(comparison.setting),
        machine=this_machine(),
        has_times=comparison.calibration is not None,
        mechanisms=tuple(mechanisms),
        layers=tuple(layers),
        unsupported=tuple(comparison.unsupported),
        crossovers=tuple(crossovers),
        curves=tuple(comparison.curves(shown)) if with_curves else (),
        formulas=tuple(report_formulas),
    )


def _measure(
    report: CostReport, comparison: Comparison, *, plugins: Sequence[str], show: Log
) -> CostReport:
    """The report with measured time and memory; rows that were not run say why."""
    rows = measured_rows(
        [*report.mechanisms, *report.layers],
        factories={
            name: candidate.workload_factory(report.length)
            for name, candidate in comparison.candidates.items()
        },
        free_bytes=free_bytes(),
        setup=partial(load_plugins, plugins),
        log=lambda what: show(f"measuring {what}"),
    )
    split = len(report.mechanisms)
    return replace(report, mechanisms=tuple(rows[:split]), layers=tuple(rows[split:]))


def _write(report: CostReport, *, plot: Path | None, page: Path | None) -> None:
    if plot is not None:
        from regard.views.charts.costs import draw_cost_curves

        draw_cost_curves(report, path=plot)
    if page is not None:
        from regard.views.pages.costs import cost_page

        atomic_write(page, cost_page(report))


def _validate_sizes(*, threads: int | None, **sizes: int) -> None:
    limits = {"length": MAX_LENGTH, "head_dim": MAX_WIDTH, "heads": MAX_WIDTH, "batch": MAX_LENGTH}
    given = {**sizes, **({} if threads is None else {"threads": threads})}
    for name, size in given.items():
        limit = limits.get(name, 1024)
        if not 1 <= size <= limit:
            raise RegardError(
                f"--{name.replace('_', '-')} {size} is out of range. Use an integer from 1 to {limit}."
            )


def _validate_paths(*, plot: Path | None, page: Path | None) -> None:
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


INPUT = re.compile(r"(?:int(?P<high>[1-9]\d*):)?(?P<shape>[1-9]\d*(?:x[1-9]\d*)*)")


def _estimate_module(
    target: str, *, inputs: Sequence[str], calibrate: Callable[[], Calibration | None]
) -> ModuleReport:
    """Estimate the module that FILE.py:FUNCTION returns. `calibrate` is called once the module has run."""
    build = _builder(target, inputs)
    name = target.rpartition(":")[2]
    module, values = build()
    try:
        forward = trace(module_workload(name, "forward", build))
        training = trace(module_workload(name, "train", build))
    except RegardError:
        raise
    except Exception as error:
        raise _failure(target, "cannot run on these inputs", error) from error
    calibration = calibrate()
    predicted = None if calibration is None else predict(forward, calibration)
    training_seconds = None if calibration is None else predict(training, calibration).seconds
    seconds, missing = ({}, None) if predicted is None else (predicted.by_kind, 0.0)
    calls: Counter[str] = Counter()
    for call, count in forward.calls.items():
        calls[call.kind] += count
    has_backward = training.num_calls > forward.num_calls
    kinds = [
        KindRow(kind=kind, calls=count, seconds=seconds.get(kind, missing))
        for kind, count in calls.items()
    ]
    if overhead := seconds.get("calls"):
        kinds.append(KindRow(kind="call overhead", calls=forward.num_calls, seconds=overhead))
    kinds.sort(key=lambda row: (-(row.seconds or 0.0), -row.calls))
    return ModuleReport(
        name=target,
        inputs=tuple(_shape(each) for each in values),
        parameters=sum(each.numel() for each in module.parameters() if each.requires_grad),
        forward_flops=forward.flops,
        backward_flops=training.flops - forward.flops if has_backward else None,
        peak_bytes=forward.peak_bytes,
        training_peak_bytes=training.peak_bytes if has_backward else None,
        traffic_bytes=forward.traffic_bytes,
        calls=forward.num_calls,
        seconds=None if predicted is None else predicted.seconds,
        training_seconds=training_seconds if has_backward else None,
        kinds=tuple(kinds),
    )


def _read_input(text: str) -> Callable[[], Tensor]:
    """Parse a shape such as 2x16x64, or int100:2x16 for integers; returns a tensor factory."""
    found = INPUT.fullmatch(text)
    if found is None:
        raise RegardError(
            f"--input {text}: use a shape such as 2x16x64, or int100:2x16 for integers below 100."
        )
    shape = [int(size) for size in found["shape"].split("x")]
    if found["high"] is not None:
        return lambda: torch.randint(int(found["high"]), shape)
    return lambda: torch.randn(shape)


def _builder(target: str, inputs: Sequence[str]) -> Callable[[], Built]:
    """A function that calls the user's and replaces its inputs by those of the command line."""
    function = _load_function(target)
    input_factories = [_read_input(text) for text in inputs]

    def build() -> Built:
        try:
            returned = function()
        except Exception as error:
            raise _failure(target, "failed", error) from error
        module, own = returned if isinstance(returned, tuple) else (returned, None)
        if not isinstance(module, nn.Module):
            raise RegardError(
                f"'{target}' returned a {type(module).__name__}. Return an nn.Module, or (module, inputs)."
            )
        if input_factories:
            return module, [make() for make in input_factories]
        if own is None:
            raise RegardError(
                f"'{target}' returned a module without inputs. Give their shapes, such as "
                "--input 2x16x64, or return (module, inputs)."
            )
        return module, list(own) if isinstance(own, tuple | list) else [own]

    return build


def _load_function(target: str) -> Callable[[], Any]:
    path, _, name = target.rpartition(":")
    if not (path.endswith(".py") and name.isidentifier()):
        raise RegardError(f"--module {target}: use FILE.py:FUNCTION, such as model.py:build.")
    function = getattr(import_source(path), name, None)
    if not callable(function):
        raise RegardError(f"--module {target}: '{path}' has no function '{name}'. Name a function.")
    return function


def _failure(target: str, problem: str, error: Exception) -> RegardError:
    """The user's error, with the last line of the user's file in the traceback."""
    file = Path(target.rpartition(":")[0])
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).name == file.name
    ]
    where = f", line {lines[-1]} of '{file}'" if lines else ""
    message = " ".join(str(error).split())
    return RegardError(
        f"'{target}' {problem}: {type(error).__name__}: {message}{where}. Fix it there."
    )


def _shape(value: Any) -> str:
    shape = getattr(value, "shape", None)
    return type(value).__name__ if shape is None else "×".join(map(str, shape)) or "1"
