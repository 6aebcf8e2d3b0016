"""Study results as text: a table for a terminal, and the runs as CSV."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import asdict

from regard.core.formatting import aligned, counted, score_text, truncate, wrapped
from regard.core.records.study import (
    MetricRecord,
    ScoreRecord,
    StudyRecord,
    StudyRunRecord,
    VariantRecord,
)
from regard.views.charts.variants import (
    MEASURES,
    Variants,
    flat_settings,
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
        f"{variant.name} {variant.learning_rate:g}"
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
    lines: list[str] = []
    for dropped in (None, *OPTIONAL_COLUMNS):
        columns = [column for column in columns if column != dropped]
        lines = _fitted(rows, columns, longest, width)
        if max(map(len, lines), default=0) <= width:
            break
    return lines


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
    cells = [
        [
            truncate(row[column], name_width) if column == "variant" else row.get(column, "")
            for column in columns
        ]
        for row in rows
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


# Spreadsheets execute cells that start with these as formulas.
FORMULA_PREFIXES = ("=", "+", "-", "@", "\t", "\r")
NUMBER = re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)?")

Cell = str | int | float | None

_CSV_ENDS = {
    "mean": "",
    "low": " low",
    "high": " high",
    "item_low": " items low",
    "item_high": " items high",
}


def study_csv(record: StudyRecord) -> str:
    """The runs as CSV (RFC 4180), one row per run with scores, cost and settings of its variant.

    Numbers have full precision. Unknown values are empty, and so are means of an unfinished study. Write
    the text with `newline=""`.
    """
    rows = [_csv_row(record, run) for run in record.runs]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer)
    writer.writerow([_safe(column) for column in columns])
    for row in rows:
        writer.writerow([_safe(row.get(column)) for column in columns])
    return buffer.getvalue()


def _csv_row(record: StudyRecord, run: StudyRunRecord) -> dict[str, Cell]:
    variant = record.variant(run.variant)
    finished = run.state == "finished"
    row: dict[str, Cell] = {
        "variant": run.variant,
        "baseline": "yes" if variant.is_baseline else "no",
        "study_finished": "yes" if record.is_finished else "no",
        "seed": run.seed,
        "learning_rate": run.learning_rate,
        "state": run.state,
        "selected": "yes" if run.selected else "no",
        "reason": run.reason,
    }
    scores = dict.fromkeys(name for each in record.runs for name in each.scores)
    row |= {f"{record.split} {name}": run.scores.get(name) for name in scores}
    validation_scores = dict.fromkeys(
        name for each in record.runs for name in each.validation_scores
    )
    row |= {f"validation {name}": run.validation_scores.get(name) for name in validation_scores}
    last = run.curve[-1] if run.curve else None
    row |= {
        "steps": run.steps if finished else None,
        "seconds": run.seconds if finished else None,
        "evaluations": run.evaluations if finished else None,
        "evaluation_seconds": run.evaluation_seconds if finished else None,
        "tokens": last.tokens if last else None,
        "flops": last.flops if last else None,
        **{
            f"variant {name}{_CSV_ENDS[field]}": value if record.is_finished else None
            for name, score in variant.scores.items()
            for field, value in asdict(score).items()
        },
        "variant parameters": variant.parameters,
        "variant flops": variant.flops,
        "variant seconds": variant.seconds,
        "variant peak_bytes": variant.peak_bytes,
        "variant agreement": variant.agreement,
        "variant shared_initialisation": variant.shared_initialisation,
        "key": run.key,
    }
    return row | {f"set {name}": text for name, text in flat_settings(variant.settings).items()}


def _safe(cell: Cell) -> Cell:
    """Escape formulas with an apostrophe (CSV injection); negative numbers are not formulas."""
    if isinstance(cell, str) and cell.startswith(FORMULA_PREFIXES) and not NUMBER.fullmatch(cell):
        return f"'{cell}"
    return cell
