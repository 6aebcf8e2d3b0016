"""Descriptive statistics of a small file, length summaries, and `regard data describe`."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tests.factories.command_line import regard

from regard.data.readers.describe import (
    Bin,
    LengthSummary,
    describe,
    describe_file,
    histogram,
    quantile,
)
from regard.data.readers.text_reader import TextReader

CONTENT = "a rose\tune rose\na rose\tune rose\na rose\tla rose\nbroken\nox\tun bœuf\n\tx\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.tsv"
    path.write_text(CONTENT, encoding="utf-8")
    return path


def test_statistics(path: Path) -> None:
    found = describe(TextReader(path=path))
    assert (found.rows, found.distinct_inputs, found.duplicate_rows) == (4, 2, 1)
    source, target = found.input.as_json(), found.target.as_json()
    assert source["words"]["max"] == 2
    assert source["characters"]["mean"] == (3 * 6 + 2) / 4
    assert source["distinct_words"] == 3
    assert source["common_words"] == [["a", 3], ["rose", 3], ["ox", 1]]
    assert target["common_words"][0] == ["rose", 3]
    assert found.errors.count == 2
    assert [row.line for row in found.errors.rows] == [4, 6]


def test_text(path: Path) -> None:
    shown = describe(TextReader(path=path)).as_text()
    assert "rows                       4" in shown
    assert "bad rows                   2" in shown
    assert "source: 3 distinct words: a 3, rose 3, ox 1" in shown
    assert "2  ████████████████████████████████████████  3" in shown
    assert f"{path}:4: too few columns" in shown


def test_data_describe_prints_text_or_json(path: Path) -> None:
    shown = regard("data", "describe", path).stdout
    assert shown == describe(TextReader(path=path)).as_text() + "\n"
    columns = ("--source-column", 1, "--target-column", 0)
    record = json.loads(regard("data", "describe", path, *columns, "--json").stdout)
    assert record["rows"] == 4
    assert record["target"]["common_words"][0] == ["a", 3]
    assert record["row_errors"]["by_reason"] == {"empty target": 1, "too few columns": 1}


def test_unknown_action(path: Path) -> None:
    found = regard("data", "describ", path)
    assert found.returncode == 2
    assert "Unknown action 'describ'. Did you mean 'describe'" in found.stderr


def test_length_summary() -> None:
    summary = LengthSummary.of(Counter([1, 2, 2, 3, 7]))
    assert (summary.minimum, summary.median, summary.maximum) == (1, 2, 7)
    assert summary.mean == 3.0
    assert summary.quantile_95 == 7


def test_quantile() -> None:
    counts = Counter(range(1, 101))
    assert quantile(counts, fraction=0.95) == 95
    assert quantile(counts, fraction=0.5) == 50
    assert quantile(Counter({5: 1}), fraction=0.99) == 5


@pytest.mark.parametrize(
    "lengths",
    [[1], [3, 3], list(range(1, 13)), list(range(1, 14)), list(range(50)), [*range(300), 9_999]],
)
def test_histogram_bins(lengths: list[int]) -> None:
    bins = histogram(Counter(lengths))
    assert sum(each.texts for each in bins) == len(lengths)
    assert bins[0].low == min(lengths)
    assert bins[-1].high == max(lengths)
    assert len(bins) <= 13
    for left, right in pairwise(bins):
        assert left.low <= left.high == right.low - 1


def test_histogram_with_an_outlier() -> None:
    bins = histogram(Counter([1, 2, 3, 4] * 100 + [5000]))
    assert bins == (Bin(1, 1, 100), Bin(2, 2, 100), Bin(3, 3, 100), Bin(4, 4, 100), Bin(5, 5000, 1))


def test_labels_numbers_texts_and_arrays(tmp_path: Path) -> None:
    path = tmp_path / "rows.tsv"
    path.write_text("7\tgood film\n5\tbad\n7\tgood film\nx\tbad\n")
    labels = describe_file(str(path), target="label")
    assert labels.as_json()["label"]["common_labels"] == [["7", 2], ["5", 1], ["x", 1]]
    assert labels.duplicate_rows == 1
    numbers = describe_file(str(path), target="number")
    assert numbers.as_json()["number"]["values"]["mean"] == pytest.approx(19 / 3)
    assert numbers.errors.by_reason == {"not a number": 1}
    assert describe_file(str(path), target="none").rows == 4
    arrays = tmp_path / "frames.npz"
    np.savez(arrays, x=np.zeros((5, 2)), lengths=np.array([2, 3]), y=np.array([0, 1]))
    found = describe_file(str(arrays))
    assert found.as_json()["input"]["frames"]["max"] == 3
    assert "label: 2 distinct labels" in found.as_text()
