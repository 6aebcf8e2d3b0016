"""`regard plan`: what a training run would take on this machine, and which models fit."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.calibrated import calibrated
from regard.cli.column_options import Header, SourceColumn, TargetColumn
from regard.cli.limits import Limits, memory_limit, time_limit
from regard.cli.plugin_option import Plugins, plug_in_all
from regard.cli.run_options import (
    Dev,
    Format,
    Minutes,
    Pairs,
    Recipe,
    RunSeed,
    Settings,
    SkipBadRows,
    Steps,
    TaskName,
    Test,
    Threads,
    asked_spec,
    use_threads,
)
from regard.core.errors import RegardError

if TYPE_CHECKING:
    from regard.cli.plan_text import Design
    from regard.costs.calibration import Calibration
    from regard.runs.planning import Plan
    from regard.runs.spec import RunSpec
    from regard.tasks.pair_task import PairTask


def run(
    task: TaskName = None,
    *,
    pairs: Pairs = None,
    dev: Dev = None,
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
    from regard.cli import plan_text
    from regard.core.allocator import keep_freed_memory
    from regard.costs.calibration import this_machine
    from regard.runs.machine_memory import machine_bytes
    from regard.runs.planning import plan_run

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
            "dev": dev,
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
    lines = plan_text.plan_lines(plan, limits, evaluated=evaluated, machine=machine)
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
            typer.echo("\n".join(plan_text.design_lines(rows, limits)))
    if not only and (memory or time):
        _tell("looking for the largest model")
        best, worst = _largest(plan, spec, data, calibration, limits)
        found["largest"] = best and best.as_json()
        found["too_large"] = worst and worst.as_json()
        if not as_json:
            typer.echo("\n" + "\n".join(plan_text.largest_lines(best, worst, limits)))
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False))


def _tell(line: str) -> None:
    # To standard error: standard output is for the result.
    typer.echo(line, err=True)


def _data(spec: RunSpec, length: int | None) -> PairTask:
    """The task with its data, or with pairs of a length that are made up."""
    from regard.runs.build import build_task
    from regard.runs.made_up_data import made_up_task
    from regard.tasks.pair_task import PairTask

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
    from regard.cli.plan_text import Design
    from regard.runs.designs import designs
    from regard.runs.planning import plan_beside

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
    from regard.runs.largest_model import largest, scaled
    from regard.runs.planning import plan_beside
    from regard.runs.trainee import NoRoomError

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
