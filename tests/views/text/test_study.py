"""Study results as a terminal table and as CSV."""

from __future__ import annotations

import csv
import dataclasses
import io

import pytest
from tests.factories.studies import dummy_study, without_scores

from regard.core.records.study import StudyRecord
from regard.views.text.study import study_table

RECORD = dummy_study()


def rows_of(record: StudyRecord) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(record.as_csv(), newline="")))


def test_table_is_aligned_and_ends_with_the_headline() -> None:
    lines = study_table(RECORD, 110).splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("variant "))
    heading, rows = lines[start], lines[start + 1 : start + 9]
    assert rows[0].startswith("additive · luong ")
    end = heading.index("PER, % ↓") + 8
    best = RECORD.variant("additive · luong")
    assert best.mean is not None
    assert best.low is not None
    assert best.high is not None
    written = f"{best.mean:.2f} ± {(best.high - best.low) / 2:.2f}"
    assert rows[0][:end].endswith(written)
    # Numbers are right-aligned with the heading.
    assert all(row[end - 1].isdigit() and row[end] == " " for row in rows)
    assert heading.endswith("verdict")
    start = heading.index("verdict")
    assert [row[start:] for row in rows] == [
        *["better"] * 2,
        *["inconclusive"] * 3,
        "baseline",
        *["worse"] * 2,
    ]
    assert lines[-1] == RECORD.headline[-1]


@pytest.mark.parametrize("width", [50, 64, 80, 100])
def test_table_fits_the_terminal(width: int) -> None:
    names = ["dot", "a name that is far too long for most terminals there are"]
    text = study_table(dummy_study(names=names), width)
    assert max(map(len, text.splitlines())) <= width
    assert "a name that" in text
    assert "baseline" in text


def test_names_stay_distinct_in_a_narrow_terminal() -> None:
    names = [f"model.cross_mechanism_of_all={name}" for name in ("additive", "dot", "general")]
    lines = study_table(dummy_study(names=names), 50).splitlines()
    shown = [line.split()[0] for line in lines if " ± " in line][: len(names)]
    assert all("…" in name for name in shown)
    assert len(set(shown)) == len(names)


def test_no_interval_with_one_seed() -> None:
    record = dummy_study(names=["only"], seeds=1)
    text = study_table(record, 80)
    assert "±" not in text
    mean = record.variants[0].mean or 0.0
    assert f"{mean:.2f} [{mean - 0.6:.2f}, {mean + 0.7:.2f}]" in text
    assert "In brackets: 95 % interval" in text
    assert "verdict" not in text
    assert "1 seed" in text


def test_other_metrics_have_unit_direction_and_interval() -> None:
    text = study_table(RECORD, 110)
    heading = next(line for line in text.splitlines() if "exact_match" in line)
    assert heading.split() == ["variant", "exact_match,", "%", "↑", "loss,", "nats", "↓"]
    score = RECORD.variants[0].scores["exact_match"]
    assert score.low is not None
    assert score.high is not None
    assert f"{score.mean:.2f} ± {(score.high - score.low) / 2:.2f}" in text
    assert "100 minus what G2P papers call WER" in text


def test_shared_initial_parameters() -> None:
    lines = study_table(RECORD, 130).splitlines()
    assert sum(" 75 % " in line for line in lines) == 7
    unknown = [
        dataclasses.replace(variant, shared_initialisation=None) for variant in RECORD.variants
    ]
    record = dataclasses.replace(RECORD, variants=tuple(unknown))
    assert "shared initial" in study_table(RECORD, 130)
    assert "shared initial" not in study_table(record, 130)


def test_failed_variants_are_in_the_table() -> None:
    failed = dataclasses.replace(without_scores(RECORD.variants[1]), problems="out of memory")
    record = dataclasses.replace(
        RECORD, variants=(RECORD.variants[0], failed, *RECORD.variants[2:])
    )
    text = study_table(record, 100)
    row = next(line for line in text.splitlines() if line.startswith("dot · luong"))
    assert row.split()[3] == "–"
    assert row.endswith("no score")
    assert "dot · luong: out of memory" in text


def test_unfinished_study_has_no_verdict() -> None:
    record = dataclasses.replace(
        RECORD, seeds=(0, 1), missing={RECORD.variants[0].name: (2,)}, verdicts=(), pairing=None
    )
    text = study_table(record, 110)
    assert "not finished: descriptive means of seeds 0, 1" in text
    assert "verdict" not in text
    assert "inconclusive" not in text
    # A rank would be a verdict.
    lines = text.splitlines()
    heading = next(number for number, line in enumerate(lines) if line.startswith("variant "))
    assert lines[heading + 1].startswith(RECORD.variants[0].name)
    rows = rows_of(record)
    assert {row["study_finished"] for row in rows} == {"no"}
    assert {row["variant PER"] for row in rows} == {""}
    assert {row["study_finished"] for row in rows_of(RECORD)} == {"yes"}


def test_pairing_is_described() -> None:
    assert "Pairing by seed: intraclass correlation 0." in study_table(RECORD, 110)


def test_table_of_an_empty_study() -> None:
    empty = dataclasses.replace(RECORD, variants=(), runs=(), verdicts=())
    assert RECORD.headline[0] in study_table(empty, 80)


def test_csv_has_one_row_per_run_in_full_precision() -> None:
    rows = rows_of(RECORD)
    assert len(rows) == len(RECORD.runs)
    for row, run in zip(rows, RECORD.runs, strict=True):
        assert row["variant"] == run.variant
        assert int(row["seed"]) == run.seed
        assert float(row["test PER"]) == run.scores["PER"]
        assert float(row["test exact_match"]) == run.scores["exact_match"]
        score = RECORD.variant(run.variant).scores["exact_match"]
        assert float(row["variant exact_match"]) == score.mean
        assert float(row["variant exact_match low"]) == score.low
        assert float(row["variant exact_match items high"]) == score.item_high
        assert row["variant loss items low"] == ""
        assert float(row["validation PER"]) == run.validation_scores["PER"]
        assert float(row["seconds"]) == run.seconds
        assert int(row["evaluations"]) == 20
        assert float(row["evaluation_seconds"]) == 12.5
        shared = RECORD.variant(run.variant).shared_initialisation
        assert float(row["variant shared_initialisation"]) == shared
        assert float(row["flops"]) == run.curve[-1].flops
        assert int(row["variant parameters"]) == RECORD.variant(run.variant).parameters
        assert row["set model.mechanism"] == run.variant.split()[0]
    assert RECORD.as_csv().count("\r\n") == len(RECORD.runs) + 1


def test_csv_has_learning_rates_and_selection() -> None:
    rows = rows_of(dummy_study(names=["a"], seeds=1, rates=(0.001, 0.002)))
    assert [(row["learning_rate"], row["selected"]) for row in rows] == [
        ("0.001", "yes"),
        ("0.002", "no"),
    ]


@pytest.mark.parametrize("name", ["=1+1", "+cmd", "-x", "@sum", "-1+cmd|' /C calc'!A0"])
def test_formulas_are_escaped(name: str) -> None:
    rows = rows_of(dummy_study(names=[name, "b"]))
    assert rows[0]["variant"] == f"'{name}"
    assert rows[-1]["variant"] == "b"


def test_negative_numbers_and_special_characters() -> None:
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
