"""`regard plan`: what a training run would take on this machine, and which models fit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from regard.cli.cost import calibrated
from regard.cli.options import (
    Format,
    Header,
    Limits,
    Minutes,
    Pairs,
    Plugins,
    Recipe,
    RunSeed,
    Settings,
    SkipBadRows,
    SourceColumn,
    Steps,
    TargetColumn,
    TaskName,
    Test,
    Threads,
    Validation,
    asked_spec,
    memory_limit,
    plug_in_all,
    time_limit,
    use_threads,
)
from regard.core.errors import RegardError
from regard.runs.plan import Plan
from regard.views.text.numbers import humanised

if TYPE_CHECKING:
    from regard.costs.calibration import Calibration
    from regard.runs.spec import RunSpec
    from regard.tasks.seq2seq.task import PairTask


def run(
    task: TaskName = None,
    *,
    pairs: Pairs = None,
    validation: Validation = None,
    test: Test = None,
    format: Format = None,  # noqa: A002 — the word users know
    source_column: SourceColumn = None,
    target_column: TargetColumn = None,
    header: Header = False,
    skip_bad_rows: SkipBadRows = False,
    recipe: Recipe = None,
    settings: Settings = None,
    steps: Steps = None,
    minutes: Minutes = None,
    seed: RunSeed = None,
    threads: Threads = None,
    plugin: Plugins = None,
    length: Annotated[
        int | None, typer.Option(help="Plan without data: texts of so many tokens.")
    ] = None,
    memory: Annotated[
        str | None, typer.Option(metavar="4GB", help="Limit; else all this machine has.")
    ] = None,
    time: Annotated[str | None, typer.Option(metavar="1h", help="Limit; else none.")] = None,
    only: Annotated[
        bool, typer.Option("--only", help="This run alone: no other designs, no largest model.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Predict time and memory of a run before it is begun, and of other designs in its place.

    The options are those of `regard train`. A few training steps are traced and priced with what
    this machine's operators take, which is measured at the first use. With a limit, the largest model
    within it is looked for too.
    """
    from regard.core.malloc import keep_freed_memory
    from regard.costs.calibration import this_machine
    from regard.runs.plan import plan_run
    from regard.runs.profile import machine_bytes

    limits = Limits(
        memory=float(machine_bytes()) if memory is None else memory_limit(memory),
        seconds=None if time is None else time_limit(time),
    )
    plug_in_all(plugin)
    keep_freed_memory()
    spec = asked_spec(
        task,
        recipe=recipe,
        settings=settings,
        task_options={
            "pairs": pairs,
            "validation": validation,
            "test": test,
            "format": format,
            "source_column": source_column,
            "target_column": target_column,
            "skip_bad_rows": skip_bad_rows,
            "header": header,
        },
        budget={"steps": steps, "seconds": None if minutes is None else 60 * minutes},
        numbers={"seed": seed, "threads": threads},
    )
    use_threads(spec)
    _tell("reading the data" if length is None else "making pairs up")
    data = _data(spec, length)
    calibration = calibrated()
    _tell("taking a few steps")
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
        _tell("taking a step with other models and mechanisms")
        rows = _designs(plan, spec, data, calibration)
        found["designs"] = [
            {
                "model": row.model,
                "mechanism": row.mechanism,
                "reason": row.reason,
                "plan": row.plan and row.plan.as_json(),
            }
            for row in rows
        ]
        if not as_json:
            typer.echo("\nin its place, as wide:")
            typer.echo("\n".join(design_lines(rows, limits)))
    if not only and (memory or time):
        _tell("looking for the largest model")
        best, worst = _largest(plan, spec, data, calibration, limits)
        found["largest"] = best and best.as_json()
        found["too_large"] = worst and worst.as_json()
        if not as_json:
            typer.echo("\n" + "\n".join(largest_lines(best, worst, limits)))
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False))


def _tell(line: str) -> None:
    # To standard error: standard output is for the result.
    typer.echo(line, err=True)


def _data(spec: RunSpec, length: int | None) -> PairTask:
    """The task with its data, or with pairs of a length that are made up."""
    from regard.runs.build import build_task
    from regard.runs.plan import made_up_task
    from regard.tasks.seq2seq.task import PairTask

    has_pairs = isinstance(getattr(spec.task_options, "pairs", None), str)
    if length is not None:
        if has_pairs:
            raise RegardError(
                f"--length {length} is for planning without data, and --pairs names some. Leave one of "
                "them away."
            )
        return made_up_task(spec, length=length)
    try:
        task = build_task(spec)
    except RegardError as error:
        if has_pairs:
            raise
        raise RegardError(
            f"{error} Or plan without data, for texts of a length: --length 32."
        ) from error
    if not isinstance(task, PairTask):
        raise RegardError(
            f"Plans are made for tasks that write a text, and '{spec.task}' does not. See `regard cost`."
        )
    return task


def _designs(plan: Plan, spec: RunSpec, data: PairTask, calibration: Calibration) -> list[Design]:
    from regard.runs.plan import designs, plan_beside

    rows = []
    for other in designs(spec):
        mechanism = other.model_options["mechanism"]
        if (other.model, mechanism) == (plan.model, plan.mechanism):
            rows.append(Design(other.model, f"{mechanism} (this one)", plan))
            continue
        try:
            planned = plan_beside(plan, other, data, calibration)
        except RegardError as error:
            rows.append(Design(other.model, mechanism, None, str(error).partition(". ")[0]))
        else:
            rows.append(Design(other.model, mechanism, planned))
    return rows


def _largest(
    plan: Plan, spec: RunSpec, data: PairTask, calibration: Calibration, limits: Limits
) -> tuple[Plan | None, Plan | None]:
    from regard.runs.plan import largest, plan_beside, scaled
    from regard.runs.profile import NoRoomError

    def plan_at(size: int) -> Plan | None:
        if size == 0:
            return plan
        try:
            return plan_beside(plan, scaled(spec, size), data, calibration)
        except NoRoomError:
            return None

    def fits(found: Plan | None) -> bool:
        return found is not None and not limits.beyond(
            memory=found.memory.peak, seconds=found.total_seconds
        )

    return largest(plan_at, fits)


# A plan in words and a small table.


# unit → seconds; a time is written in the largest of which there are two
TIMES = {"years": 365 * 86400.0, "days": 86400.0, "h": 3600.0, "min": 60.0, "s": 1.0}
COLUMNS = ("", "parameters", "a step", "in all", "memory", "")


class Design(NamedTuple):
    """One row of the table: a plan, or why there is none."""

    model: str
    mechanism: str
    plan: Plan | None
    reason: str = ""


def duration(seconds: float) -> str:
    """Seconds in the unit that reads best.

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
    """Bytes.

    >>> gigabytes(501120920.0)
    '0.50 GB'
    """
    return f"{number / 1e9:.2f} GB"


def plan_lines(plan: Plan, limits: Limits, *, evaluated: bool, machine: str) -> list[str]:
    """What the spec itself takes, and whether it fits."""
    memory = plan.memory
    on_top = {
        "a step": memory.step,
        "a checkpoint": memory.checkpoint,
        "an evaluation": memory.evaluation,
    }
    most = max(on_top, key=lambda name: on_top[name])
    tokens = plan.steps * plan.tokens_per_step
    rate = plan.tokens_per_step / plan.seconds_per_step
    lines = [
        f"{plan.model} ({plan.mechanism}) with {plan.parameters:,} parameters, on {machine}",
        f"  a step        {duration(plan.seconds_per_step)}, {plan.tokens_per_step:,.0f} tokens, "
        f"{rate:,.0f} tokens a second",
        f"  training      {duration(plan.training_seconds)}: {plan.steps:,} steps, "
        f"{humanised(round(tokens))} tokens, "
        f"{humanised(round(plan.steps * plan.operations_per_step))} operations",
    ]
    if evaluated:
        lines += [
            f"  evaluations   {duration(plan.evaluation_seconds)}: {plan.evaluations}, greedy",
            f"  final scores  {duration(plan.evaluation.final_seconds)}",
        ]
    else:
        lines.append("  evaluations   not counted: without data, how much there is is not known")
    lines += [
        f"  checkpoints   {duration(plan.checkpoint_seconds)}",
        f"  in all        {duration(plan.total_seconds)}",
        f"  memory        {gigabytes(memory.peak)}: {gigabytes(memory.process)} Python and torch, "
        f"{gigabytes(memory.data + memory.kept)} data, weights, moments and averages, "
        f"{gigabytes(on_top[most])} {most}",
    ]
    return [*lines, _verdict(plan, limits)]


def design_lines(designs: Sequence[Design], limits: Limits) -> list[str]:
    """A line for each model and mechanism; those beyond a limit say which."""
    rows = [COLUMNS]
    for design in designs:
        name = f"{design.model} {design.mechanism}"
        if design.plan is None:
            rows.append((name, "", "", "", "", design.reason))
            continue
        plan = design.plan
        beyond = limits.beyond(memory=plan.memory.peak, seconds=plan.total_seconds)
        rows.append(
            (
                name,
                f"{plan.parameters:,}",
                duration(plan.seconds_per_step),
                duration(plan.total_seconds),
                gigabytes(plan.memory.peak),
                f"beyond {' and '.join(beyond)}" if beyond else "",
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
    """The largest model that fits, or what the smallest would take."""
    if best is not None:
        widths = ", ".join(
            f"{name} {value}" for name, value in best.options.items() if name.endswith("_dim")
        )
        return [
            f"the largest {best.model} within {_limits(limits)}: {widths}",
            f"  {best.parameters:,} parameters, {duration(best.seconds_per_step)} a step, "
            f"{duration(best.total_seconds)} in all, {gigabytes(best.memory.peak)}",
        ]
    lines = [f"nothing fits within {_limits(limits)}"]
    if worst is not None:
        lines.append(
            f"  the smallest tried, with {worst.parameters:,} parameters, would take "
            f"{duration(worst.total_seconds)} and {gigabytes(worst.memory.peak)}"
        )
    return lines


def _verdict(plan: Plan, limits: Limits) -> str:
    beyond = limits.beyond(memory=plan.memory.peak, seconds=plan.total_seconds)
    if beyond:
        return f"does not fit: beyond the limit of {' and '.join(beyond)} ({_limits(limits)})"
    return f"fits within {_limits(limits)}"


def _limits(limits: Limits) -> str:
    time = "" if limits.seconds is None else f"{duration(limits.seconds)} and "
    return f"{time}{gigabytes(limits.memory)}"
