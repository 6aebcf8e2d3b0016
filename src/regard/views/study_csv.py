"""The runs of a study as a table for a spreadsheet: a row a run, then what its arm costs and sets."""

from __future__ import annotations

import csv
import io
import re

from regard.core.study_record import StudyRecord, StudyRunRecord
from regard.views.settings_table import flat_settings

# A spreadsheet takes a text that begins so for a formula, and would run it.
FORMULA_SIGNS = ("=", "+", "-", "@", "\t", "\r")
NUMBER = re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)?")

Cell = str | int | float | None


def study_csv(record: StudyRecord) -> str:
    """The text of a CSV file (RFC 4180). Numbers are in full; what is not known is empty.

    Lines end as that standard has it: write the text with `newline=""`.
    """
    rows = [_row(record, run) for run in record.runs]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    held = io.StringIO(newline="")
    writer = csv.writer(held)
    writer.writerow([_safe(column) for column in columns])
    for row in rows:
        writer.writerow([_safe(row.get(column)) for column in columns])
    return held.getvalue()


def _row(record: StudyRecord, run: StudyRunRecord) -> dict[str, Cell]:
    arm = record.arm(run.arm)
    finished = run.state == "finished"
    row: dict[str, Cell] = {
        "arm": run.arm,
        "baseline": "yes" if arm.is_baseline else "no",
        "seed": run.seed,
        "learning_rate": run.learning_rate,
        "state": run.state,
        "counts": "yes" if run.counts else "no",
        "reason": run.reason,
    }
    scores = dict.fromkeys(name for each in record.runs for name in each.scores)
    row |= {f"{record.part} {name}": run.scores.get(name) for name in scores}
    dev_scores = dict.fromkeys(name for each in record.runs for name in each.dev_scores)
    row |= {f"dev {name}": run.dev_scores.get(name) for name in dev_scores}
    last = run.curve[-1] if run.curve else None
    row |= {
        "steps": run.steps if finished else None,
        "seconds": run.seconds if finished else None,
        "tokens": last.tokens if last else None,
        "operations": last.operations if last else None,
        "arm parameters": arm.parameters,
        "arm operations": arm.operations,
        "arm seconds": arm.seconds,
        "arm peak_bytes": arm.peak_bytes,
        "arm agreement": arm.agreement,
        "key": run.key,
    }
    return row | {f"set {name}": text for name, text in flat_settings(arm.settings).items()}


def _safe(cell: Cell) -> Cell:
    """A text that would be taken for a formula gets an apostrophe; a negative number is none."""
    if isinstance(cell, str) and cell.startswith(FORMULA_SIGNS) and not NUMBER.fullmatch(cell):
        return f"'{cell}"
    return cell
