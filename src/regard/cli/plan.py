"""`regard plan`: predict time and memory of a training run, and find models that fit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from regard.cli.cost import load_or_calibrate
from regard.cli.options import (
    Limits,
    Plugins,
    RunOptions,
    RunSeed,
    TaskName,
    Threads,
    load_plugins,
    log,
    memory_limit,
    set_threads,
    spec_from_options,
    takes_run_options,
    time_limit,
)
from regard.core.errors import RegardError
from regard.runs.plan import Plan
from regard.views.text.numbers import count_text

if TYPE_CHECKING:
    from regard.costs.calibration import Calibration
    from regard.runs.spec import RunSpec
    from regard.tasks.seq2seq.task import Seq2SeqTask


@takes_run_options
def run(
    task: TaskName = None,
    *,
    given: RunOptions,
    seed: RunSeed = None,
    threads: Threads = None,
    plugin: Plugins = None,
    length: Annotated[
        int | None, typer.Option(help="Plan without data, for dummy texts of this many tokens.")
    ] = None,
    memory: Annotated[
        str | None, typer.Option(metavar="4GB", help="Memory limit. Default: all of this machine.")
    ] = None,
    time: Annotated[
        str | None, typer.Option(metavar="1h", help="Time limit. Default: none.")
    ] = None,
    only: Annotated[
        bool, typer.Option("--only", help="This run only: no alternatives, no largest model.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Predict time and memory of a training run, and of alternative models and mechanisms.

    For sequence-to-sequence tasks, with the options of `regard train`. A few training steps are
    traced, and their time is predicted from a calibration of this machine, which is measured on
    first use. With a limit, the largest model within it is searched for.
    """
    from regard.core.malloc import keep_freed_memory
    from regard.costs.calibration import this_machine
    from regard.runs.plan import plan_run
    from regard.runs.profile import machine_bytes

    limits = Limits(
        memory=float(machine_bytes()) if memory is None else memory_limit(memory),
        seconds=None if time is None else time_limit(time),
    )
    load_plugins(plugin)
    keep_freed_memory()
    spec = spec_from_options(task, given, numbers={"seed": seed, "threads": threads})
    set_threads(spec)
    log("reading the data" if length is None else "generating dummy data")
    data = _data(spec, length)
    calibration = load_or_calibrate()
    log("profiling training steps")
    evaluated = length is None
    plan = plan_run(spec, data, calibration, evaluated=evaluated)
    machine = f"{this_machine()['threads']} threads of {this_machine()['processor']}"
    lines = plan_lines(plan, limits, evaluated=evaluated, machine=machine)
    found: dict[str, Any] = {
        "machine": this_machine(),
        "limits": limits._asdict(),
        "plan": plan.as_json(),
    }
    if not as_json:
        typer.echo("\n".join(lines))
    if not only:
        log("profiling alternative models and mechanisms")
        rows = _alternatives(plan, spec, data, calibration)
        found["alternatives"] = [
            {**row._asdict(), "plan": row.plan and row.plan.as_json()} for row in rows
        ]
        if not as_json:
            typer.echo("\nalternatives of the same width:")
            typer.echo("\n".join(alternative_lines(rows, limits)))
    if not only and (memory or time):
        log("searching for the largest model")
        best, worst = _largest(plan, spec, data, calibration, limits)
        found["largest"] = best and best.as_json()
        found["too_large"] = worst and worst.as_json()
        if not as_json:
            typer.echo("\n" + "\n".join(largest_lines(best, worst, limits)))
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False))


def _data(spec: RunSpec, length: int | None) -> Seq2SeqTask:
    """The task with its data, or with dummy data of a length."""
    from regard.runs.build import build_task
    from regard.runs.plan import dummy_task
    from regard.tasks.seq2seq.task import Seq2SeqTask

    has_data = isinstance(getattr(spec.task_options, "train_file", None), str)
    if length is not None:
        if has_data:
            raise RegardError(
                f"--length {length} plans without data and excludes --train-file. Remove one of the two."
            )
        return dummy_task(spec, length=length)
    try:
        task = build_task(spec)
    except RegardError as error:
        if has_data:
            raise
        raise RegardError(f"{error} Or plan without data: --length 32.") from error
    if not isinstance(task, Seq2SeqTask):
        raise RegardError(
            f"`regard plan` supports sequence-to-sequence tasks only, not '{spec.task}'. See `regard cost`."
        )
    return task


def _alternatives(
    plan: Plan, spec: RunSpec, data: Seq2SeqTask, calibration: Calibration
) -> list[Alternative]:
    from regard.runs.plan import alternatives, plan_alternative

    rows = []
    for other in alternatives(spec):
        mechanism = other.model_options["mechanism"]
        if (other.model, mechanism) == (plan.model, plan.mechanism):
            rows.append(Alternative(other.model, f"{mechanism} (this one)", plan=plan))
            continue
        try:
            planned = plan_alternative(plan, other, data, calibration)
        except RegardError as error:
            rows.append(Alternative(other.model, mechanism, str(error).partition(". ")[0]))
        else:
            rows.append(Alternative(other.model, mechanism, plan=planned))
    return rows


def _largest(
    plan: Plan, spec: RunSpec, data: Seq2SeqTask, calibration: Calibration, limits: Limits
) -> tuple[Plan | None, Plan | None]:
    from regard.runs.plan import largest_fitting, plan_alternative, scale_widths
    from regard.runs.profile import InsufficientMemoryError

    def plan_at(size: int) -> Plan | None:
        if size == 0:
            return plan
        try:
            return plan_alternative(plan, scale_widths(spec, size), data, calibration)
        except InsufficientMemoryError:
            return None

    def fits(found: Plan | None) -> bool:
        return found is not None and not limits.exceeded(
            memory=found.memory.peak, seconds=found.total_seconds
        )

    return largest_fitting(plan_at, fits)


# unit → seconds; a duration is shown in the largest unit of which it has at least two
TIMES = {"years": 365 * 86400.0, "days": 86400.0, "h": 3600.0, "min": 60.0, "s": 1.0}
COLUMNS = ("", "parameters", "step", "total", "memory", "")


class Alternative(NamedTuple):
    """One row of the table: a plan, or the reason why there is none."""

    model: str
    mechanism: str
    reason: str = ""
    plan: Plan | None = None


def duration(seconds: float) -> str:
    """Seconds in a readable unit.

    >>> [duration(seconds) for seconds in (0.0642, 45.0, 600.0, 9000.0, 4e5, 1e9)]
    ['64.2 ms', '45 s', '10 min', '2.5 h', '4.6 days', '31.7 years']
    """
    if seconds < 1:
        return f"{1000 * seconds:.3g} ms"
    for unit, length in TIMES.items():
        if seconds >= 2 * length or unit == "s":
            amount = seconds / length
            return f"{amount:.1f}".removesuffix(".0") + f" {unit}"
    raise AssertionError


def gigabytes(number: float) -> str:
    """Bytes in GB.

    >>> gigabytes(501120920.0)
    '0.50 GB'
    """
    return f"{number / 1e9:.2f} GB"


def plan_lines(plan: Plan, limits: Limits, *, evaluated: bool, machine: str) -> list[str]:
    """The predictions for the run, and whether it fits."""
    memory = plan.memory
    transient = {
        "step": memory.step,
        "checkpoint": memory.checkpoint,
        "evaluation": memory.evaluation,
    }
    largest = max(transient, key=lambda name: transient[name])
    tokens = plan.steps * plan.tokens_per_step
    rate = plan.tokens_per_step / plan.seconds_per_step
    lines = [
        f"{plan.model} ({plan.mechanism}) with {plan.parameters:,} parameters, on {machine}",
        f"  step          {duration(plan.seconds_per_step)}, {plan.tokens_per_step:,.0f} tokens, "
        f"{rate:,.0f} tokens per second",
        f"  training      {duration(plan.training_seconds)}: {plan.steps:,} steps, "
        f"{count_text(round(tokens))} tokens, "
        f"{count_text(round(plan.steps * plan.flops_per_step))} FLOPs",
    ]
    if evaluated:
        lines += [
            f"  evaluations   {duration(plan.evaluation_seconds)}: {plan.evaluations}, greedy",
            f"  final scoring {duration(plan.evaluation.final_seconds)}",
        ]
    else:
        lines.append("  evaluations   not included: the amount of data is unknown")
    lines += [
        f"  checkpoints   {duration(plan.checkpoint_seconds)}",
        f"  total         {duration(plan.total_seconds)}",
        f"  memory        {gigabytes(memory.peak)}: {gigabytes(memory.process)} Python and torch, "
        f"{gigabytes(memory.data + memory.training_state)} data and training state, "
        f"{gigabytes(transient[largest])} {largest}",
    ]
    return [*lines, _verdict(plan, limits)]


def alternative_lines(alternatives: Sequence[Alternative], limits: Limits) -> list[str]:
    """One line per model and mechanism; exceeded limits are named."""
    rows = [COLUMNS]
    for alternative in alternatives:
        name = f"{alternative.model} {alternative.mechanism}"
        if alternative.plan is None:
            rows.append((name, "", "", "", "", alternative.reason))
            continue
        plan = alternative.plan
        exceeded = limits.exceeded(memory=plan.memory.peak, seconds=plan.total_seconds)
        rows.append(
            (
                name,
                f"{plan.parameters:,}",
                duration(plan.seconds_per_step),
                duration(plan.total_seconds),
                gigabytes(plan.memory.peak),
                f"exceeds {' and '.join(exceeded)}" if exceeded else "",
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS) - 1)]
    return [
        "  ".join(
            [f"  {row[0]:<{widths[0]}}"]
            + [f"{cell:>{width}}" for cell, width in zip(row[1:-1], widths[1:], strict=True)]
            + [row[-1]]
        ).rstrip()
        for row in rows
    ]


def largest_lines(best: Plan | None, worst: Plan | None, limits: Limits) -> list[str]:
    """The largest model that fits, or the smallest one tried."""
    if best is not None:
        widths = ", ".join(
            f"{name} {value}" for name, value in best.options.items() if name.endswith("_dim")
        )
        return [
            f"largest {best.model} within {_limits(limits)}: {widths}",
            f"  {best.parameters:,} parameters, {duration(best.seconds_per_step)} per step, "
            f"{duration(best.total_seconds)} in total, {gigabytes(best.memory.peak)}",
        ]
    lines = [f"nothing fits within {_limits(limits)}"]
    if worst is not None:
        lines.append(
            f"  the smallest tried, with {worst.parameters:,} parameters, needs "
            f"{duration(worst.total_seconds)} and {gigabytes(worst.memory.peak)}"
        )
    return lines


def _verdict(plan: Plan, limits: Limits) -> str:
    exceeded = limits.exceeded(memory=plan.memory.peak, seconds=plan.total_seconds)
    if exceeded:
        return f"does not fit: exceeds the limit of {' and '.join(exceeded)} ({_limits(limits)})"
    return f"fits within {_limits(limits)}"


def _limits(limits: Limits) -> str:
    time = "" if limits.seconds is None else f"{duration(limits.seconds)} and "
    return f"{time}{gigabytes(limits.memory)}"
