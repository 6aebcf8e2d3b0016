"""A cost report as text for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from regard.core.records.cost import CostReport, CostRow, Formulas, ModuleReport
from regard.views.text.numbers import bytes_text, humanised, seconds_text

# The columns of a cost report, for text and page alike: heading, meaning, number, how it is
# written.


OPERATIONS = {
    "forward": "of one forward call",
    "train": "of forward and backward together",
    "decode": "of decoding one token more",
}


class Column(NamedTuple):
    """What stands over it, what that means, the number to sort by (None: unknown), how it is written."""

    heading: str
    meaning: str
    number: Callable[[CostRow], float | None]
    written: Callable[[CostRow], str]


def columns(report: CostReport) -> list[Column]:
    """The columns that the report has figures for; the formula is none of them."""
    found = [
        _column(
            "operations",
            f"{OPERATIONS[report.mode]}: 2 for every multiply-add of a matrix product, 1 for every "
            "function and every addition, comparison and the like",
            lambda row: row.operations,
            humanised,
        ),
        _column(
            "memory",
            "bytes held at the peak beyond the inputs",
            lambda row: row.peak_bytes,
            bytes_text,
        ),
        _column(
            "moved", "bytes that operators read and write", lambda row: row.moved_bytes, bytes_text
        ),
        _column("state", "numbers kept for decoding", lambda row: row.state, humanised),
        _column("params", "trainable numbers", lambda row: row.parameters, humanised),
        _column(
            "steps",
            "how many steps must wait for one another when everything else is parallel",
            lambda row: row.sequential_steps,
            humanised,
        ),
        _column(
            "path",
            "layers until every position can have reached every position it may see",
            lambda row: row.longest_path,
            humanised,
        ),
    ]
    if report.has_times:
        found.append(_column("time", "predicted", lambda row: row.seconds, seconds_text))
    rows = [*report.mechanisms, *report.layers]
    if any(row.measured_seconds is not None for row in rows):
        found.append(
            _column(
                "measured", "time of a real run", lambda row: row.measured_seconds, seconds_text
            )
        )
        if report.has_times:
            found.append(
                _column("time ratio", "predicted over measured time", _time_ratio, "{:.2f}".format)
            )
    if any(row.measured_bytes is not None for row in rows):
        found += [
            _column(
                "grew by",
                "bytes by which a process really grew at the peak",
                lambda row: row.measured_bytes,
                bytes_text,
            ),
            _column("memory ratio", "memory over what it grew by", _byte_ratio, "{:.2f}".format),
        ]
    return found


def _column(
    heading: str,
    meaning: str,
    number: Callable[[CostRow], float | None],
    written: Callable[..., str],
) -> Column:
    def text(row: CostRow) -> str:
        found = number(row)
        return "–" if found is None else written(found)

    return Column(heading, meaning, number, text)


def _time_ratio(row: CostRow) -> float | None:
    if row.seconds is None or not row.measured_seconds:
        return None
    return row.seconds / row.measured_seconds


def _byte_ratio(row: CostRow) -> float | None:
    return row.peak_bytes / row.measured_bytes if row.measured_bytes else None


WHAT = {
    "forward": "one forward call",
    "train": "forward and backward",
    "decode": "one token more, decoded",
}


def setting_text(report: CostReport, *, with_length: bool = True) -> str:
    """What was priced, in a sentence."""
    causal = "causal, " if report.causal else ""
    tokens = "tokens" if report.mode != "decode" else "tokens already taken in"
    length = f"{report.length} {tokens}, " if with_length else ""
    return (
        f"{WHAT[report.mode]}: {length}{causal}{report.num_heads} "
        f"{'head' if report.num_heads == 1 else 'heads'} of width {report.head_dim}, "
        f"batch {report.batch_size}"
    )


def machine_text(report: CostReport) -> str:
    """Where the times are for, or why there are none."""
    if not report.has_times:
        return "no times: this machine was not calibrated (--no-calibrate)"
    threads = report.machine["threads"]
    return (
        f"times are predicted for {report.machine['processor']}, "
        f"{threads} {'thread' if threads == 1 else 'threads'}, torch {report.machine['torch']}"
    )


def cost_text(report: CostReport) -> str:
    """The whole report."""
    blocks = [f"{setting_text(report)}\n{machine_text(report)}"]
    if report.mechanisms:
        blocks.append(_table(report, report.mechanisms, "mechanism"))
    if report.layers:
        width = report.num_heads * report.head_dim
        blocks.append(_table(report, report.layers, f"layer, w = {width}"))
    notes = [f"{row.name}: {row.note}" for row in (*report.mechanisms, *report.layers) if row.note]
    if notes:
        blocks.append("\n".join(notes))
    if report.not_priced:
        lines = [f"{each.name}: {each.reason}" for each in report.not_priced]
        blocks.append("\n".join(["not here:", *(f"  {line}" for line in lines)]))
    blocks += [formulas_text(formulas, report) for formulas in report.formulas]
    if report.crossings:
        blocks.append("\n".join(crossing.sentence for crossing in report.crossings))
    return "\n\n".join(blocks)


def formulas_text(formulas: Formulas, report: CostReport) -> str:
    """All formulas of one mechanism, with the figures at the length that was asked for."""
    rows = [(figure, f"{here:,}", formula) for figure, formula, here in formulas.by_figure]
    heading = ("", f"n = {report.length}, d = {report.head_dim}", "formula")
    lines = [f"{formulas.name}, declared for one head of one sequence:"]
    lines += aligned([heading, *rows], left=(0, 2))
    return "\n".join([*lines, *filter(None, [formulas.at_this_length])])


def module_text(report: ModuleReport) -> str:
    """What a module takes, and where its time goes."""
    backward = report.backward_operations
    figures = [
        ("forward operations", humanised(report.forward_operations)),
        ("backward operations", "no gradients" if backward is None else humanised(backward)),
        ("parameters", f"{report.parameters:,}"),
        ("memory, forward", bytes_text(report.peak_bytes)),
        ("memory, training", _bytes_or_dash(report.training_peak_bytes)),
        ("moved, forward", bytes_text(report.moved_bytes)),
        ("operators called", f"{report.calls:,}"),
        ("time, forward", _seconds_or_dash(report.seconds)),
        ("time, training", _seconds_or_dash(report.training_seconds)),
    ]
    kinds = [(row.kind, f"{row.calls:,}", _seconds_or_dash(row.seconds)) for row in report.kinds]
    return "\n".join(
        [
            f"{report.name} on {', '.join(report.inputs) or 'no inputs'}",
            "",
            *aligned(figures, left=(0,)),
            "",
            *aligned([("forward, by kind", "calls", "time"), *kinds], left=(0,)),
        ]
    )


def aligned(rows: Sequence[Sequence[str]], *, left: Sequence[int]) -> list[str]:
    """Lines whose columns stand under one another; those in `left` begin at their left.

    >>> aligned([("a", "1"), ("bcd", "23")], left=[0])
    ['a     1', 'bcd  23']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if place in left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _table(report: CostReport, rows: Sequence[CostRow], title: str) -> str:
    shown = columns(report)
    lines = [(title, "products", *(column.heading for column in shown))]
    lines += [(row.name, row.formula, *(column.written(row) for column in shown)) for row in rows]
    return "\n".join(aligned(lines, left=(0, 1)))


def _bytes_or_dash(count: int | None) -> str:
    return "–" if count is None else bytes_text(count)


def _seconds_or_dash(seconds: float | None) -> str:
    return "–" if seconds is None else seconds_text(seconds)
