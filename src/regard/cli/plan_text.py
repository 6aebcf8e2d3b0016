"""A plan in words and a small table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from regard.cli.limits import Limits
from regard.runs.planning import Plan
from regard.views.numbers import humanised

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
