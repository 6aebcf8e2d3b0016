"""A study as a table for the terminal and as one for a spreadsheet."""

from __future__ import annotations

import csv
import dataclasses
import io

import pytest
from tests.factories.studies import made_up_study

from regard.core.records.study import StudyRecord
from regard.views.text.study import study_csv, study_table

RECORD = made_up_study()


def rows_of(record: StudyRecord) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(study_csv(record), newline="")))


def test_the_table_aligns_and_ends_with_the_headline() -> None:
    lines = study_table(RECORD, 110).splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("variant "))
    heading, rows = lines[start], lines[start + 1 : start + 9]
    assert rows[0].startswith("additive · after ")
    end = heading.index("PER") + 3
    best = RECORD.variant("additive · after")
    assert best.mean is not None
    assert best.low is not None
    assert best.high is not None
    written = f"{best.mean:.2f} ± {(best.high - best.low) / 2:.2f}"
    assert rows[0][:end].endswith(written)
    # The figures of all rows end below the heading.
    assert all(row[end - 1].isdigit() and row[end] == " " for row in rows)
    assert heading.endswith("verdict")
    place = heading.index("verdict")
    assert [row[place:] for row in rows] == [
        *["better"] * 3,
        *["cannot tell apart"] * 2,
        "baseline",
        *["worse"] * 2,
    ]
    assert lines[-1] == RECORD.headline[-1]


@pytest.mark.parametrize("width", [50, 64, 80, 100])
def test_the_table_fits_the_terminal(width: int) -> None:
    names = ["dot", "a name that is far too long for most terminals there are"]
    text = study_table(made_up_study(names=names), width)
    assert max(map(len, text.splitlines())) <= width
    assert "a name that" in text
    assert "baseline" in text


def test_one_seed_has_no_plus_or_minus() -> None:
    text = study_table(made_up_study(names=["only"], seeds=1), 80)
    assert "±" not in text
    assert "verdict" not in text
    assert "1 seed" in text


def test_a_failed_variant_is_in_the_table_with_its_trouble() -> None:
    failed = dataclasses.replace(
        RECORD.variants[1], mean=None, low=None, high=None, trouble="out of memory"
    )
    record = dataclasses.replace(
        RECORD, variants=(RECORD.variants[0], failed, *RECORD.variants[2:])
    )
    text = study_table(record, 100)
    row = next(line for line in text.splitlines() if line.startswith("dot · after"))
    assert row.split()[3] == "–"
    assert row.endswith("no score")
    assert "dot · after: out of memory" in text


def test_a_study_of_nothing_is_still_text() -> None:
    empty = dataclasses.replace(RECORD, variants=(), runs=(), verdicts=())
    assert RECORD.headline[0] in study_table(empty, 80)


def test_the_csv_has_a_row_a_run_with_numbers_in_full() -> None:
    rows = rows_of(RECORD)
    assert len(rows) == len(RECORD.runs)
    for row, run in zip(rows, RECORD.runs, strict=True):
        assert row["variant"] == run.variant
        assert int(row["seed"]) == run.seed
        assert float(row["test PER"]) == run.scores["PER"]
        assert float(row["test WER"]) == run.scores["WER"]
        assert float(row["validation PER"]) == run.validation_scores["PER"]
        assert float(row["seconds"]) == run.seconds
        assert float(row["operations"]) == run.curve[-1].operations
        assert int(row["variant parameters"]) == RECORD.variant(run.variant).parameters
        assert row["set model.mechanism"] == run.variant.split()[0]
    assert study_csv(RECORD).count("\r\n") == len(RECORD.runs) + 1


def test_rates_tell_runs_apart_and_say_which_counts() -> None:
    rows = rows_of(made_up_study(names=["a"], seeds=1, rates=(0.001, 0.002)))
    assert [(row["learning_rate"], row["counts"]) for row in rows] == [
        ("0.001", "yes"),
        ("0.002", "no"),
    ]


@pytest.mark.parametrize("name", ["=1+1", "+cmd", "-x", "@sum", "-1+cmd|' /C calc'!A0"])
def test_a_name_is_never_a_formula(name: str) -> None:
    rows = rows_of(made_up_study(names=[name, "b"]))
    assert rows[0]["variant"] == f"'{name}"
    assert rows[-1]["variant"] == "b"


def test_numbers_may_be_negative_and_texts_may_hold_anything() -> None:
    run = dataclasses.replace(
        RECORD.runs[0], scores={"PER": -1.5}, reason='said "no",\nand left', state="failed"
    )
    variant = dataclasses.replace(RECORD.variants[0], settings={"model": {"bias": -2}})
    record = dataclasses.replace(RECORD, variants=(variant,), runs=(run,))
    (row,) = rows_of(record)
    assert row["test PER"] == "-1.5"
    assert row["set model.bias"] == "-2"
    assert row["reason"] == 'said "no",\nand left'
    assert row["steps"] == ""
