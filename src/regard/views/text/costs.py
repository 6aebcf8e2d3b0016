"""Cost reports as text for a terminal, and the columns that text and page share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from regard.core.formatting import (
    aligned,
    bytes_text,
    count_text,
    counted,
    duration_text,
    flops_text,
    integer_text,
    score_text,
)
from regard.core.records.cost import CostReport, CostRow, Formulas, ModuleReport

MODES = {
    "forward": "one forward pass",
    "train": "forward and backward pass",
    "decode": "decoding one token",
}


class Column(NamedTuple):
    """Heading, its meaning, the attribute of a row that it shows, and how it is written."""

    heading: str
    meaning: str
    attribute: str
    write: Callable[[Any], str] = count_text

    def number(self, row: Any) -> Any:
        """The value to sort by; None if unknown."""
        return attrgetter(self.attribute)(row)

    def text(self, row: Any) -> str:
        """The text of a cell."""
        return or_dash(self.number(row), self.write)


def _two_decimals(ratio: float) -> str:
    return score_text(ratio, decimals=2)


FLOPS_MEANING = "2 per multiply-add of a matmul, 1 per transcendental"
STEPS = ("steps", "sequential steps with unlimited parallelism")
PATH = (
    "path",
    "maximum path length: layers until every position can reach every position it may attend to",
)
COLUMNS = (
    Column("memory", "peak bytes allocated beyond the inputs", "peak_bytes", bytes_text),
    Column("traffic", "bytes that operators read and write", "traffic_bytes", bytes_text),
    Column("state", "elements of the decoding state (KV cache or recurrent state)", "state"),
    Column("params", "trainable parameters", "parameters"),
    Column(*STEPS, "sequential_steps"),
    Column(*PATH, "max_path_length"),
    Column("time", "predicted time", "seconds", duration_text),
    Column("measured", "measured time", "measured_seconds", duration_text),
    Column("time ratio", "predicted over measured time", "time_ratio", _two_decimals),
    Column("measured memory", "measured peak growth of the process", "measured_bytes", bytes_text),
    Column("memory ratio", "predicted over measured memory", "memory_ratio", _two_decimals),
)


def columns(report: CostReport) -> list[Column]:
    """The columns that the report has values for, without the formula."""
    meaning = f"of {MODES[report.mode]}: {FLOPS_MEANING} or elementwise operation"
    rows = [*report.mechanisms, *report.layers]
    known = [column for column in COLUMNS if any(column.number(row) is not None for row in rows)]
    return [Column("FLOPs", meaning, "flops", flops_text), *known]


def setting_text(report: CostReport, *, with_length: bool = True) -> str:
    """The setting of the report in one sentence."""
    causal = "causal, " if report.causal else ""
    tokens = "tokens" if report.mode != "decode" else "tokens in the state"
    length = f"{integer_text(report.length)} {tokens}, " if with_length else ""
    return (
        f"{MODES[report.mode]}: {length}{causal}{counted(report.num_heads, 'head')} of head_dim "
        f"{report.head_dim}, batch {report.batch_size}"
    )


def machine_text(report: CostReport) -> str:
    """The machine that times are predicted for, or why there are none."""
    if not report.has_times:
        return "no times: this machine was not calibrated (--no-calibrate)"
    machine = report.machine
    threads = counted(machine["threads"], "thread")
    return f"times are predicted for {machine['processor']}, {threads}, torch {machine['torch']}"


def cost_text(report: CostReport) -> str:
    """The report as text."""
    blocks = [f"{setting_text(report)}\n{machine_text(report)}"]
    if report.mechanisms:
        blocks.append(_table(report, report.mechanisms, "mechanism"))
    if report.layers:
        width = report.num_heads * report.head_dim
        blocks.append(_table(report, report.layers, f"layer, w = {width}"))
    notes = [f"{row.name}: {row.note}" for row in (*report.mechanisms, *report.layers) if row.note]
    if notes:
        blocks.append("\n".join(notes))
    if report.unsupported:
        lines = [f"  {each.name}: {each.reason}" for each in report.unsupported]
        blocks.append("\n".join(["not supported:", *lines]))
    blocks += [formulas_text(formulas, report) for formulas in report.formulas]
    if report.crossovers:
        blocks.append("\n".join(crossover.sentence for crossover in report.crossovers))
    return "\n\n".join(blocks)


def row_text(row: CostRow) -> str:
    """The main numbers of one row, for a line that is shown before the table."""
    time = "" if row.seconds is None else f", {duration_text(row.seconds)}"
    return f"{row.name:<22} {flops_text(row.flops):>11}, {bytes_text(row.peak_bytes)}{time}"


def formulas_text(formulas: Formulas, report: CostReport) -> str:
    """All formulas of one mechanism, with their values at this length."""
    rows = [(field, integer_text(value), formula) for field, formula, value in formulas.by_field]
    heading = ("", f"n = {report.length}, d = {report.head_dim}", "formula")
    lines = [f"{formulas.name}, declared for one head and one sequence:"]
    lines += aligned([heading, *rows], left=(0, 2))
    return "\n".join([*lines, *filter(None, [formulas.length_note])])


def module_text(report: ModuleReport) -> str:
    """Cost of a module, and its time by kind of operator."""
    backward = report.backward_flops
    values = [
        ("forward FLOPs", flops_text(report.forward_flops)),
        ("backward FLOPs", "no gradients" if backward is None else flops_text(backward)),
        ("parameters", integer_text(report.parameters)),
        ("memory, forward", bytes_text(report.peak_bytes)),
        ("memory, training", or_dash(report.training_peak_bytes, bytes_text)),
        ("memory traffic, forward", bytes_text(report.traffic_bytes)),
        ("operators called", integer_text(report.calls)),
        ("time, forward", or_dash(report.seconds, duration_text)),
        ("time, training", or_dash(report.training_seconds, duration_text)),
    ]
    kinds = [
        (row.kind, integer_text(row.calls), or_dash(row.seconds, duration_text))
        for row in report.kinds
    ]
    return "\n".join(
        [
            f"{report.name} on {', '.join(report.inputs) or 'no inputs'}",
            "",
            *aligned(values, left=(0,)),
            "",
            *aligned([("forward, by kind", "calls", "time"), *kinds], left=(0,)),
        ]
    )


def _table(report: CostReport, rows: Sequence[CostRow], title: str) -> str:
    shown = columns(report)
    lines = [(title, "matmul FLOPs", *(column.heading for column in shown))]
    lines += [(row.name, row.formula, *(column.text(row) for column in shown)) for row in rows]
    return "\n".join(aligned(lines, left=(0, 1)))


def or_dash(number: Any, write: Callable[[Any], str]) -> str:
    """A number as text, a dash for None."""
    return "–" if number is None else write(number)
