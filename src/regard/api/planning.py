"""`plan`: predict time and memory of a training run, and find models that fit; the result as text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Unpack

from regard.api.costs import load_or_calibrate
from regard.api.options import (
    Log,
    Plugins,
    RunOptions,
    given_options,
    load_plugins,
    run_spec,
    silent,
    takes_run_options,
    torch_threads,
)
from regard.core.errors import RegardError
from regard.core.formatting import (
    aligned,
    bytes_text,
    count_text,
    counted,
    duration_text,
    flops_text,
    integer_text,
)
from regard.core.malloc import keep_freed_memory
from regard.costs.calibration import Calibration, this_machine
from regard.runs.build import build_task
from regard.runs.plan import (
    DecodingPlan,
    Plan,
    alternatives,
    dummy_task,
    largest_fitting,
    mechanism_name,
    plan_alternative,
    plan_decoding,
    plan_run,
    scale_widths,
)
from regard.runs.profile import InsufficientMemoryError, machine_bytes
from regard.runs.spec import RunSpec
from regard.runs.warm_start import initial_preprocessor
from regard.tasks.task import Task

BYTES = {"GB": 1e9, "MB": 1e6, "GiB": 2.0**30, "MiB": 2.0**20}
SECONDS = {"h": 3600.0, "min": 60.0, "s": 1.0}
AMOUNT = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>[A-Za-z]+)")


class Limits(NamedTuple):
    """The memory in bytes and the time in seconds that a run may take; None is unlimited."""

    memory: float
    seconds: float | None

    def exceeded(self, plan: Plan) -> list[str]:
        """The names of the limits that a plan exceeds."""
        too_long = self.seconds is not None and plan.total_seconds > self.seconds
        return ["time"] * too_long + ["memory"] * (plan.peak_bytes > self.memory)


class Alternative(NamedTuple):
    """Another model or mechanism: its plan, or the reason why there is none."""

    model: str
    mechanism: str
    reason: str = ""
    plan: Any = None

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**self._asdict(), "plan": self.plan and self.plan.as_json()}


@dataclass(frozen=True, kw_only=True)
class PlanReport:
    """The plan of a run, of its alternatives, and of the largest model within the limits.

    `evaluated`: the plan includes evaluations. `alternatives` is None if only the run was planned.
    `searched`: a largest model was searched for; `too_large` is the smallest model that does not fit.
    """

    machine: Mapping[str, Any]
    limits: Limits
    plan: Plan
    evaluated: bool
    alternatives: tuple[Alternative, ...] | None = None
    searched: bool = False
    largest: Plan | None = None
    too_large: Plan | None = None

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        found: dict[str, Any] = {
            "machine": self.machine,
            "limits": self.limits._asdict(),
            "plan": self.plan.as_json(),
        }
        if self.alternatives is not None:
            found["alternatives"] = [row.as_json() for row in self.alternatives]
        if self.searched:
            found["largest"] = self.largest and self.largest.as_json()
            found["too_large"] = self.too_large and self.too_large.as_json()
        return found

    def as_text(self) -> str:
        """The predictions, a table of the alternatives, and the largest model."""
        blocks = [_plan_lines(self)]
        if self.alternatives is not None:

            def cells(plan: Plan) -> tuple[str, ...]:
                exceeded = " and ".join(self.limits.exceeded(plan))
                total, memory = duration_text(plan.total_seconds), bytes_text(plan.memory.peak)
                return total, memory, f"exceeds {exceeded}" if exceeded else ""

            lines = _table(self.alternatives, ("total", "memory"), cells)
            blocks.append(["alternatives of the same width:", *lines])
        if self.searched:
            blocks.append(_largest_lines(self))
        return "\n\n".join("\n".join(lines) for lines in blocks)


@dataclass(frozen=True, kw_only=True)
class DecodingReport:
    """The plan of decoding, and of its alternatives."""

    machine: Mapping[str, Any]
    limits: Limits
    plan: DecodingPlan
    alternatives: tuple[Alternative, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        rows = [row.as_json() for row in self.alternatives]
        return {"machine": self.machine, "plan": self.plan.as_json(), "alternatives": rows}

    def as_text(self) -> str:
        """One line per model and mechanism, this one first."""

        def cells(plan: DecodingPlan) -> tuple[str, ...]:
            rate, state = integer_text(round(plan.tokens_per_second)), bytes_text(plan.state_bytes)
            exceeds = "exceeds memory" if plan.peak_bytes > self.limits.memory else ""
            return rate, state, bytes_text(plan.peak_bytes), exceeds

        own = Alternative(self.plan.model, self.plan.mechanism, plan=self.plan)
        head = (
            f"decoding {self.plan.batch_size} rows after {self.plan.length} tokens, on "
            f"{self.machine['threads']} threads of {self.machine['processor']}"
        )
        lines = _table(self.alternatives or (own,), ("tokens/s", "state", "memory"), cells)
        return "\n".join([head, *lines])


@takes_run_options
def plan(
    task: str | None = None,
    *,
    seed: int | None = None,
    plugin: Plugins = (),
    length: int | None = None,
    memory: str | float | None = None,
    time: str | float | None = None,
    only: bool = False,
    decode: bool = False,
    batch: int = 1,
    log: Log | None = None,
    progress: Log | None = None,
    **options: Unpack[RunOptions],
) -> PlanReport | DecodingReport:
    """Predict time and memory of a training run, and of alternative models and mechanisms.

    Takes the options of `train`. A few training steps are traced, and their time is predicted from a
    calibration of this machine, which is measured on first use. With a limit, `memory` ("4GB", or bytes)
    or `time` ("1h", or seconds), the largest model within it is searched for. `log` receives a line about
    each stage, `progress` the state of a calibration.

    With `length`, dummy texts of this many tokens stand for the data. With `decode`, generation is planned
    instead: a step of `batch` rows after `length` tokens (default 128), for every mechanism.
    """
    given, log = given_options(options), log or silent
    limits = Limits(
        memory=float(machine_bytes()) if memory is None else memory_limit(memory),
        seconds=None if time is None else time_limit(time),
    )
    load_plugins(plugin)
    keep_freed_memory()
    spec = run_spec(task, given, seed=seed)
    with torch_threads(spec.threads):
        dummy = None if decode else length
        log("reading the data" if dummy is None else "generating dummy data")
        data, before = _data(spec, dummy)
        calibration = load_or_calibrate(log=log, progress=progress)
        if decode:
            return _decoding(
                spec, data, calibration, batch=batch, length=length or 128, only=only, limits=limits
            )
        log("profiling training steps")
        evaluated = length is None
        planned = plan_run(spec, data, calibration, evaluated=evaluated, pretraining=before)
        rows, searched, best, worst = None, False, None, None
        if not only:
            log("profiling alternative models and mechanisms")
            quick = partial(plan_alternative, planned, task=data, calibration=calibration)
            rows = tuple(_alternatives(planned, spec, lambda other: quick(spec=other)))
        if not only and (memory or time):
            log("searching for the largest model")
            searched = True
            best, worst = _largest(planned, spec, data, calibration, limits)
        return PlanReport(
            machine=this_machine(),
            limits=limits,
            plan=planned,
            evaluated=evaluated,
            alternatives=rows,
            searched=searched,
            largest=best,
            too_large=worst,
        )


def memory_limit(memory: str | float) -> float:
    """Bytes.

    >>> memory_limit("4GB"), memory_limit("512MB")
    (4000000000.0, 512000000.0)
    """
    return _amount(memory, BYTES, option="--memory", example="--memory 4GB")


def time_limit(time: str | float) -> float:
    """Seconds.

    >>> time_limit("1h"), time_limit("90min"), time_limit("45s")
    (3600.0, 5400.0, 45.0)
    """
    return _amount(time, SECONDS, option="--time", example="--time 90min")


def _amount(given: str | float, units: dict[str, float], *, option: str, example: str) -> float:
    if isinstance(given, int | float) and given > 0:
        return float(given)
    found = AMOUNT.fullmatch(str(given))
    if found is None or found["unit"] not in units or not float(found["number"]):
        raise RegardError(
            f"{option} {given}: write a number above 0 and one of the units {', '.join(units)}, without a "
            f"space, such as {example}."
        )
    return float(found["number"]) * units[found["unit"]]


def _data(spec: RunSpec, length: int | None) -> tuple[Task, Task | None]:
    """The task with its data, or with dummy data of a length; and the task of its pre-training."""
    has_data = isinstance(getattr(spec.task_options, "train_file", None), str)
    if length is not None:
        if has_data:
            raise RegardError(
                f"--length {length} plans without data and excludes --train-file. Remove one of the two."
            )
        return dummy_task(spec, length=length), None
    try:
        before = None if spec.pretraining is None else build_task(spec.pretraining)
        return build_task(spec, preprocessor=initial_preprocessor(spec)), before
    except RegardError as error:
        if has_data:
            raise
        raise RegardError(f"{error} Or plan without data: --length 32.") from error


def _alternatives(
    plan: Plan | DecodingPlan, spec: RunSpec, planned: Callable[[RunSpec], Any]
) -> list[Alternative]:
    rows = []
    for other in alternatives(spec):
        mechanism = mechanism_name(other)
        if (other.model, mechanism) == (plan.model, plan.mechanism):
            rows.append(Alternative(other.model, f"{mechanism} (this one)", plan=plan))
            continue
        try:
            rows.append(Alternative(other.model, mechanism, plan=planned(other)))
        except RegardError as error:
            rows.append(Alternative(other.model, mechanism, str(error).partition(". ")[0]))
    return rows


def _decoding(
    spec: RunSpec,
    data: Task,
    calibration: Calibration,
    *,
    batch: int,
    length: int,
    only: bool,
    limits: Limits,
) -> DecodingReport:
    def planned(other: RunSpec) -> DecodingPlan:
        return plan_decoding(other, data, calibration, batch_size=batch, length=length)

    own = planned(spec)
    rows = () if only else tuple(_alternatives(own, spec, planned))
    return DecodingReport(machine=this_machine(), limits=limits, plan=own, alternatives=rows)


def _largest(
    plan: Plan, spec: RunSpec, data: Task, calibration: Calibration, limits: Limits
) -> tuple[Plan | None, Plan | None]:
    def plan_at(size: int) -> Plan | None:
        if size == 0:
            return plan
        try:
            return plan_alternative(plan, scale_widths(spec, size), data, calibration)
        except InsufficientMemoryError:
            return None

    return largest_fitting(plan_at, lambda found: found is not None and not limits.exceeded(found))


def _plan_lines(report: PlanReport) -> list[str]:
    """The predictions for the run, and whether it fits."""
    plan, memory = report.plan, report.plan.memory
    machine = f"{report.machine['threads']} threads of {report.machine['processor']}"
    largest = max(
        ("step", "checkpoint", "evaluation"), key=lambda name: float(getattr(memory, name))
    )
    tokens = plan.steps * plan.tokens_per_step
    rate = plan.tokens_per_step / plan.seconds_per_step
    lines = [
        f"{plan.model} ({plan.mechanism}) with {integer_text(plan.parameters)} parameters, on {machine}"
    ]
    if (before := plan.pretraining) is not None:
        lines.append(
            f"  pre-training  {duration_text(before.total_seconds)}: {counted(before.steps, 'step')} of "
            f"{duration_text(before.seconds_per_step)}, {bytes_text(before.peak_bytes)}"
        )
    lines += [
        f"  step          {duration_text(plan.seconds_per_step)}, "
        f"{counted(round(plan.tokens_per_step), 'token')}, {integer_text(round(rate))} tokens per second",
        f"  training      {duration_text(plan.training_seconds)}: {counted(plan.steps, 'step')}, "
        f"{count_text(tokens)} tokens, {flops_text(plan.steps * plan.flops_per_step)}",
    ]
    if report.evaluated:
        lines += [
            f"  evaluations   {duration_text(plan.evaluation_seconds)}: {plan.evaluations}",
            f"  final scoring {duration_text(plan.evaluation.final_seconds)}",
        ]
    else:
        lines.append("  evaluations   not included: the amount of data is unknown")
    exceeded = report.limits.exceeded(plan)
    limits = _limits(report.limits)
    verdict = f"does not fit: exceeds the limit of {' and '.join(exceeded)} ({limits})"
    return [
        *lines,
        f"  checkpoints   {duration_text(plan.checkpoint_seconds)}",
        f"  total         {duration_text(plan.total_seconds)}",
        f"  memory        {bytes_text(memory.peak)}: {bytes_text(memory.process)} Python and torch, "
        f"{bytes_text(memory.data + memory.training_state)} data and training state, "
        f"{bytes_text(getattr(memory, largest))} {largest}",
        verdict if exceeded else f"fits within {limits}",
    ]


def _table(
    alternatives: Sequence[Alternative],
    columns: tuple[str, ...],
    cells: Callable[[Any], tuple[str, ...]],
) -> list[str]:
    """A line per model and mechanism, numbers to the right; `cells` are `columns` and a remark."""
    rows = [("", "parameters", "step", *columns, "")]
    for row in alternatives:
        name, plan = f"{row.model} {row.mechanism}", row.plan
        if plan is None:
            rows.append((name, "", "", *("" for _ in columns), row.reason))
        else:
            step = duration_text(plan.seconds_per_step)
            rows.append((name, integer_text(plan.parameters), step, *cells(plan)))
    return [f"  {line}" for line in aligned(rows, left=(0, len(rows[0]) - 1))]


def _largest_lines(report: PlanReport) -> list[str]:
    """The largest model that fits, or the smallest one tried."""
    best, worst, limits = report.largest, report.too_large, _limits(report.limits)
    if best is not None:
        widths = ", ".join(
            f"{name} {value}" for name, value in best.options.items() if name.endswith("_dim")
        )
        return [
            f"largest {best.model} within {limits}: {widths}",
            f"  {integer_text(best.parameters)} parameters, "
            f"{duration_text(best.seconds_per_step)} per step, "
            f"{duration_text(best.total_seconds)} in total, {bytes_text(best.memory.peak)}",
        ]
    lines = [f"nothing fits within {limits}"]
    if worst is not None:
        lines.append(
            f"  the smallest tried, with {integer_text(worst.parameters)} parameters, needs "
            f"{duration_text(worst.total_seconds)} and {bytes_text(worst.memory.peak)}"
        )
    return lines


def _limits(limits: Limits) -> str:
    time = "" if limits.seconds is None else f"{duration_text(limits.seconds)} and "
    return f"{time}{bytes_text(limits.memory)}"
