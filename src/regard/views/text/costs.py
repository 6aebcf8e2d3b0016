"""Cost reports as text for a terminal, and the columns that text and page share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from regard.core.records.cost import CostReport, CostRow, Formulas, ModuleReport
from regard.views.text.numbers import bytes_text, count_text, seconds_text

FLOPS_OF = {
    "forward": "of one forward pass",
    "train": "of forward and backward pass",
    "decode": "of decoding one token",
}
MODES = {
    "forward": "one forward pass",
    "train": "forward and backward pass",
    "decode": "decoding one token",
}


class Column(NamedTuple):
    """Heading, its meaning, the value to sort by (None if unknown), and the text of a cell."""

    heading: str
    meaning: str
    number: Callable[[CostRow], float | None]
    text: Callable[[CostRow], str]


def columns(report: CostReport) -> list[Column]:
    """The columns that the report has values for, without the formula."""
    found = [
        _column(
            "FLOPs",
            f"{FLOPS_OF[report.mode]}: 2 per multiply-add of a matmul, 1 per transcendental or "
            "elementwise operation",
            lambda row: row.flops,
            count_text,
        ),
        _column(
            "memory",
            "peak bytes allocated beyond the inputs",
            lambda row: row.peak_bytes,
            bytes_text,
        ),
        _column(
            "traffic",
            "memory traffic: bytes that operators read and write",
            lambda row: row.traffic_bytes,
            bytes_text,
        ),
        _column(
            "state",
            "elements of the decoding state (KV cache or recurrent state)",
            lambda row: row.state,
            count_text,
        ),
        _column("params", "trainable parameters", lambda row: row.parameters, count_text),
        _column(
            "steps",
            "sequential steps with unlimited parallelism",
            lambda row: row.sequential_steps,
            count_text,
        ),
        _column(
            "path",
            "maximum path length: layers until every position can reach every position it may attend to",
            lambda row: row.max_path_length,
            count_text,
        ),
    ]
    if report.has_times:
        found.append(_column("time", "predicted time", lambda row: row.seconds, seconds_text))
    rows = [*report.mechanisms, *report.layers]
    if any(row.measured_seconds is not None for row in rows):
        found.append(
            _column("measured", "measured time", lambda row: row.measured_seconds, seconds_text)
        )
        if report.has_times:
            found.append(
                _column("time ratio", "predicted over measured time", _time_ratio, "{:.2f}".format)
            )
    if any(row.measured_bytes is not None for row in rows):
        found += [
            _column(
                "measured memory",
                "measured peak growth of the process",
                lambda row: row.measured_bytes,
                bytes_text,
            ),
            _column("memory ratio", "predicted over measured memory", _byte_ratio, "{:.2f}".format),
        ]
    return found


def _column(
    heading: str,
    meaning: str,
    number: Callable[[CostRow], float | None],
    format_value: Callable[..., str],
) -> Column:
    def text(row: CostRow) -> str:
        found = number(row)
        return "–" if found is None else format_value(found)

    return Column(heading, meaning, number, text)


def _time_ratio(row: CostRow) -> float | None:
    if row.seconds is None or not row.measured_seconds:
        return None
    return row.seconds / row.measured_seconds


def _byte_ratio(row: CostRow) -> float | None:
    return row.peak_bytes / row.measured_bytes if row.measured_bytes else None


def setting_text(report: CostReport, *, with_length: bool = True) -> str:
    """The setting of the report in one sentence."""
    causal = "causal, " if report.causal else ""
    tokens = "tokens" if report.mode != "decode" else "tokens in the state"
    length = f"{report.length} {tokens}, " if with_length else ""
    return (
        f"{MODES[report.mode]}: {length}{causal}{report.num_heads} "
        f"{'head' if report.num_heads == 1 else 'heads'} of head_dim {report.head_dim}, "
        f"batch {report.batch_size}"
    )


def machine_text(report: CostReport) -> str:
    """The machine that times are predicted for, or why there are none."""
    if not report.has_times:
        return "no times: this machine was not calibrated (--no-calibrate)"
    threads = report.machine["threads"]
    return (
        f"times are predicted for {report.machine['processor']}, "
        f"{threads} {'thread' if threads == 1 else 'threads'}, torch {report.machine['torch']}"
    )


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
        lines = [f"{each.name}: {each.reason}" for each in report.unsupported]
        blocks.append("\n".join(["not supported:", *(f"  {line}" for line in lines)]))
    blocks += [formulas_text(formulas, report) for formulas in report.formulas]
    if report.crossovers:
        blocks.append("\n".join(crossover.sentence for crossover in report.crossovers))
    return "\n\n".join(blocks)


def row_text(row: CostRow) -> str:
    """The main numbers of one row, for a line that is shown before the table."""
    time = "" if row.seconds is None else f", {seconds_text(row.seconds)}"
    return f"{row.name:<22} {count_text(row.flops):>6} FLOPs, {bytes_text(row.peak_bytes)}{time}"


def formulas_text(formulas: Formulas, report: CostReport) -> str:
    """All formulas of one mechanism, with their values at this length."""
    rows = [(field, f"{value:,}", formula) for field, formula, value in formulas.by_field]
    heading = ("", f"n = {report.length}, d = {report.head_dim}", "formula")
    lines = [f"{formulas.name}, declared for one head and one sequence:"]
    lines += aligned([heading, *rows], left=(0, 2))
    return "\n".join([*lines, *filter(None, [formulas.length_note])])


def module_text(report: ModuleReport) -> str:
    """Cost of a module, and its time by kind of operator."""
    backward = report.backward_flops
    values = [
        ("forward FLOPs", count_text(report.forward_flops)),
        ("backward FLOPs", "no gradients" if backward is None else count_text(backward)),
        ("parameters", f"{report.parameters:,}"),
        ("memory, forward", bytes_text(report.peak_bytes)),
        ("memory, training", _bytes_or_dash(report.training_peak_bytes)),
        ("memory traffic, forward", bytes_text(report.traffic_bytes)),
        ("operators called", f"{report.calls:,}"),
        ("time, forward", _seconds_or_dash(report.seconds)),
        ("time, training", _seconds_or_dash(report.training_seconds)),
    ]
    kinds = [(row.kind, f"{row.calls:,}", _seconds_or_dash(row.seconds)) for row in report.kinds]
    return "\n".join(
        [
            f"{report.name} on {', '.join(report.inputs) or 'no inputs'}",
            "",
            *aligned(values, left=(0,)),
            "",
            *aligned([("forward, by kind", "calls", "time"), *kinds], left=(0,)),
        ]
    )


def aligned(rows: Sequence[Sequence[str]], *, left: Sequence[int]) -> list[str]:
    """Rows as lines with aligned columns; those in `left` are left-aligned, others right-aligned.

    >>> aligned([("a", "1"), ("bcd", "23")], left=[0])
    ['a     1', 'bcd  23']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if index in left else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _table(report: CostReport, rows: Sequence[CostRow], title: str) -> str:
    shown = columns(report)
    lines = [(title, "matmul FLOPs", *(column.heading for column in shown))]
    lines += [(row.name, row.formula, *(column.text(row) for column in shown)) for row in rows]
    return "\n".join(aligned(lines, left=(0, 1)))


def _bytes_or_dash(count: int | None) -> str:
    return "–" if count is None else bytes_text(count)


def _seconds_or_dash(seconds: float | None) -> str:
    return "–" if seconds is None else seconds_text(seconds)
