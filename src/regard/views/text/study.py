"""Study results as text: a table for a terminal."""

from __future__ import annotations

from regard.core.formatting import aligned, counted, rate_text, score_text, truncate, wrapped
from regard.core.records.study import (
    MetricRecord,
    ScoreRecord,
    StudyRecord,
    VariantRecord,
)
from regard.views.charts.variants import (
    MEASURES,
    Variants,
    pairing_text,
    seeds_text,
    shared_text,
)

MIN_NAME_WIDTH = 12
# Columns dropped in a narrow terminal, in this order.
OPTIONAL_COLUMNS = ("shared initial", "memory", "parameters", "FLOPs", "time")


def study_table(record: StudyRecord, width: int = 80) -> str:
    """Table of variants, if possible no wider than `width`, and the headline below."""
    header = [
        f"{record.primary.label} on {counted(record.items, 'item')} of {record.split}",
        record.primary.direction,
        seeds_text(record),
    ]
    blocks = [
        wrapped(f"{', '.join(header)}. {record.budget}".strip(), width),
        wrapped(_tuning(record), width),
        "\n".join(_table(record, width)),
        *_other_metrics(record, width),
        *_problems(record, width),
        wrapped(pairing_text(record), width),
        *(wrapped(text, width) for text in record.headline),
    ]
    return "\n\n".join(filter(None, blocks))


def _tuning(record: StudyRecord) -> str:
    """How learning rates were tuned, and the selected ones; empty without tuning."""
    selected = ", ".join(
        f"{variant.name} {rate_text(variant.learning_rate)}"
        for variant in record.variants
        if variant.learning_rate is not None
    )
    if not any(run.learning_rate is not None for run in record.runs):
        return ""
    return f"{record.tuning} {f'Selected: {selected}.' if selected else ''}".strip()


def _table(record: StudyRecord, width: int) -> list[str]:
    variants = Variants(record)
    rows = [_row(variants, variant) for variant in variants.ranked]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    longest = max((len(variant.name) for variant in record.variants), default=0)
    for dropped in (None, *OPTIONAL_COLUMNS):
        columns = [column for column in columns if column != dropped]
        lines = _lines(rows, columns, longest)
        if max(map(len, lines), default=0) <= width:
            return lines
    return _fitted(rows, columns, longest, width)


def _other_metrics(record: StudyRecord, width: int) -> list[str]:
    """The other metrics in tables that fit the width, and notes."""
    rows = [
        {"variant": variant.name}
        | {
            metric.heading: _score(variant.scores[metric.name], metric)
            for metric in record.metrics[1:]
        }
        for variant in Variants(record).ranked
    ]
    longest = max((len(variant.name) for variant in record.variants), default=0)
    blocks: list[list[str]] = []
    for metric in record.metrics[1:] if rows else ():
        wider = [*(blocks[-1] if blocks else ["variant"]), metric.heading]
        if blocks and max(map(len, _fitted(rows, wider, longest, width))) <= width:
            blocks[-1] = wider
        else:
            blocks.append(["variant", metric.heading])
    notes = [f"{metric.name}: {metric.note}." for metric in record.metrics if metric.note]
    if any("[" in text for row in rows for text in row.values()):
        notes.append("In brackets: 95 % interval over items.")
    return [
        *("\n".join(_fitted(rows, columns, longest, width)) for columns in blocks),
        *([wrapped(" ".join(notes), width)] if notes else []),
    ]


def _fitted(rows: list[dict[str, str]], columns: list[str], longest: int, width: int) -> list[str]:
    """A table, with names shortened if it is wider than `width`."""
    lines = _lines(rows, columns, longest)
    excess = max(map(len, lines), default=0) - width
    if excess > 0:
        lines = _lines(rows, columns, max(longest - excess, min(longest, MIN_NAME_WIDTH)))
    return lines


def _lines(rows: list[dict[str, str]], columns: list[str], name_width: int) -> list[str]:
    names = [truncate(row["variant"], name_width) for row in rows]
    if len(set(names)) < len({row["variant"] for row in rows}):
        # Names that begin alike: their ends.
        names = [f"…{row['variant'][1 - name_width :]}" for row in rows]
    cells = [
        [name if column == "variant" else row.get(column, "") for column in columns]
        for name, row in zip(names, rows, strict=True)
    ]
    last = len(columns) - 1
    return aligned([columns, *cells], left=(0, last) if "verdict" in columns else (0,))


def _row(variants: Variants, variant: VariantRecord) -> dict[str, str]:
    record = variants.record
    row = {"variant": variant.name, record.primary.heading: _score(variant.primary, record.primary)}
    row |= {measure.name: measure.text(variant) for measure in MEASURES}
    if any(each.shared_initialisation is not None for each in record.variants):
        row["shared initial"] = shared_text(variant)
    if record.is_finished and variants.baseline and len(record.variants) > 1:
        row["verdict"] = _verdict(variants, variant)
    return row


def _score(score: ScoreRecord, metric: MetricRecord) -> str:
    """Mean ± half its interval over seeds; without one, the interval over items in brackets."""
    text = score_text(score.mean, decimals=metric.digits)
    if score.low is not None and score.high is not None:
        return f"{text} ± {score_text((score.high - score.low) / 2, decimals=metric.digits)}"
    if score.item_low is None:
        return text
    ends = (score_text(end, decimals=metric.digits) for end in (score.item_low, score.item_high))
    return f"{text} [{', '.join(ends)}]"


def _verdict(variants: Variants, variant: VariantRecord) -> str:
    if variant.is_baseline:
        return "baseline" if variant.mean is not None else "baseline, no score"
    if variant.mean is None:
        return "no score"
    return variants.against_baseline(variant.name) or "not compared"


def _problems(record: StudyRecord, width: int) -> list[str]:
    lines = [
        wrapped(f"{variant.name}: {variant.problems}", width)
        for variant in record.variants
        if variant.problems
    ]
    return ["\n".join(lines)] if lines else []
