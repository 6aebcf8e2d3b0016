"""The columns of a cost report, for text and page alike: heading, meaning, number, how it is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from regard.core.cost_report import CostReport, CostRow
from regard.views.numbers import bytes_text, humanised, seconds_text

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
