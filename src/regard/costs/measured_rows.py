"""Rows of a cost report with what real runs took put beside the prediction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from regard.core.cost_report import CostRow
from regard.costs.measurement import measured_seconds
from regard.costs.peak_in_child import peaks_in_child
from regard.costs.workload import Workload

LONG_RUN = 1.0  # seconds; such runs are not repeated often


def measured_rows(
    rows: Sequence[CostRow],
    *,
    recipes: Mapping[str, Callable[[], Workload]],
    free_bytes: int,
    begin: Callable[[], None],
    tell: Callable[[str], None],
) -> list[CostRow]:
    """Each row with its measured time and memory; one that needs more memory than there is says so."""
    measured = []
    for row in rows:
        if row.peak_bytes > free_bytes:
            measured.append(_remarked(row, _too_large(row, free_bytes)))
            continue
        tell(f"the time of {row.name}")
        rounds = 5 if (row.seconds or 0.0) < LONG_RUN else 1
        seconds = measured_seconds(recipes[row.name](), rounds=rounds)
        measured.append(replace(row, measured_seconds=seconds))
    ran = [place for place, row in enumerate(measured) if row.measured_seconds is not None]
    tell("memory")
    peaks = peaks_in_child([recipes[measured[place].name] for place in ran], begin=begin)
    for place, peak in zip(ran, peaks, strict=True):
        row = measured[place]
        if isinstance(peak, str):
            measured[place] = _remarked(row, f"memory was not measured: {peak}")
        else:
            measured[place] = replace(row, measured_bytes=peak)
    return measured


def _remarked(row: CostRow, remark: str) -> CostRow:
    return replace(row, note="; ".join(filter(None, [row.note, remark])))


def _too_large(row: CostRow, free: int) -> str:
    return (
        f"not run: it takes {row.peak_bytes / 2**30:.1f} GiB and {free / 2**30:.1f} GiB are free; "
        "choose a smaller --length or --batch"
    )
