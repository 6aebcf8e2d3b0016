"""Descriptive statistics of a small file, length summaries, and `regard data describe`."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from regard.cli import data as data_verb
from regard.core.errors import RegardError
from regard.data.readers.describe import Bin, LengthSummary, describe_pairs, histogram, quantile
from regard.data.readers.pairs import PairSource

CONTENT = "a rose\tune rose\na rose\tune rose\na rose\tla rose\nbroken\nox\tun bœuf\n\tx\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.tsv"
    path.write_text(CONTENT, encoding="utf-8")
    return path


def test_statistics(path: Path) -> None:
    found = describe_pairs(PairSource(path=path))
    assert (found.rows, found.distinct_sources, found.duplicate_pairs) == (4, 2, 1)
    assert found.source.words.maximum == 2
    assert found.source.characters.mean == (3 * 6 + 2) / 4
    assert found.source.distinct_words == 3
    assert found.source.common_words == (("a", 3), ("rose", 3), ("ox", 1))
    assert found.target.common_words[0] == ("rose", 3)
    assert found.errors.count == 2
    assert [row.line for row in found.errors.rows] == [4, 6]


def test_text(path: Path) -> None:
    shown = describe_pairs(PairSource(path=path)).as_text()
    assert "rows                       4" in shown
    assert "bad rows                   2" in shown
    assert "source: 3 distinct words: a 3, rose 3, ox 1" in shown
    assert "2  ████████████████████████████████████████  3" in shown
    assert f"{path}:4: too few columns" in shown


def test_data_describe_prints_text_or_json(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data_verb.run("describe", str(path))
    assert capsys.readouterr().out == describe_pairs(PairSource(path=path)).as_text() + "\n"
    data_verb.run("describe", str(path), source_column="1", target_column="0", as_json=True)
    record = json.loads(capsys.readouterr().out)
    assert record["rows"] == 4
    assert record["target"]["common_words"][0] == ["a", 3]
    assert record["row_errors"]["by_reason"] == {"empty target": 1, "too few columns": 1}


def test_unknown_action(path: Path) -> None:
    with pytest.raises(RegardError, match=r"Unknown action 'describ'\. Did you mean 'describe'"):
        data_verb.run("describ", str(path))


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
