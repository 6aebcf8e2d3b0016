"""A study as text for a terminal: the table of its arms, then the verdict."""

from __future__ import annotations

import textwrap

from regard.core.study_record import ArmRecord, StudyRecord
from regard.views.cost_measures import MEASURES
from regard.views.cost_text import aligned
from regard.views.study_arms import (
    baseline_of,
    counted,
    ranked,
    score_decimals,
    score_text,
    shortened_name,
)
from regard.views.verdict_mark import verdict_against

LEAST_NAME = 12
# What a narrow terminal does without, the first first.
DISPENSABLE = ("memory", "parameters", "operations", "time")


def study_table(record: StudyRecord, width: int = 80) -> str:
    """The table, no wider than `width` where that can be, and the headline below it."""
    given = [
        f"{record.metric} on {counted(record.items, 'item')} of {record.part}",
        "lower is better" if record.lower_is_better else "higher is better",
        counted(len(record.seeds), "seed"),
    ]
    blocks = [
        _wrapped(f"{', '.join(given)}. {record.budget}".strip(), width),
        "\n".join(_table(record, width)),
        *_troubles(record, width),
        *(_wrapped(text, width) for text in record.headline),
    ]
    return "\n\n".join(filter(None, blocks))


def _table(record: StudyRecord, width: int) -> list[str]:
    rows = [_row(record, arm) for arm in ranked(record)]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    longest = max((len(arm.name) for arm in record.arms), default=0)
    lines = _lines(rows, columns, longest)
    for left_out in (None, *DISPENSABLE):
        columns = [column for column in columns if column != left_out]
        lines = _lines(rows, columns, longest)
        excess = max(map(len, lines), default=0) - width
        if excess > 0:
            lines = _lines(rows, columns, max(longest - excess, min(longest, LEAST_NAME)))
        if max(map(len, lines), default=0) <= width:
            break
    return lines


def _lines(rows: list[dict[str, str]], columns: list[str], name_width: int) -> list[str]:
    cells = [
        [
            shortened_name(row[column], name_width) if column == "arm" else row.get(column, "")
            for column in columns
        ]
        for row in rows
    ]
    last = len(columns) - 1
    return aligned([columns, *cells], left=(0, last) if "verdict" in columns else (0,))


def _row(record: StudyRecord, arm: ArmRecord) -> dict[str, str]:
    row = {"arm": arm.name, record.metric: _score(record, arm)}
    row |= {measure.name: measure.text(arm) for measure in MEASURES}
    if baseline_of(record) and len(record.arms) > 1:
        # `verdict` is last, so that its words need no room to their right.
        row["verdict"] = _verdict(record, arm)
    return row


def _score(record: StudyRecord, arm: ArmRecord) -> str:
    decimals = score_decimals(record)
    score = score_text(arm.mean, decimals=decimals)
    if arm.low is None or arm.high is None:
        return score
    return f"{score} ± {score_text((arm.high - arm.low) / 2, decimals=decimals)}"


def _verdict(record: StudyRecord, arm: ArmRecord) -> str:
    if arm.is_baseline:
        return "baseline" if arm.mean is not None else "baseline, no score"
    if arm.mean is None:
        return "no score"
    return verdict_against(record, arm.name) or "not compared"


def _troubles(record: StudyRecord, width: int) -> list[str]:
    told = [_wrapped(f"{arm.name}: {arm.trouble}", width) for arm in record.arms if arm.trouble]
    return ["\n".join(told)] if told else []


def _wrapped(text: str, width: int) -> str:
    return textwrap.fill(text, width=max(width, 20), break_on_hyphens=False)
