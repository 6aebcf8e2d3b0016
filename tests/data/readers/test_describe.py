"""The description of a small file, figure by figure, and the verb that prints it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from regard.cli import data as data_verb
from regard.core.errors import RegardError
from regard.data.readers.describe import describe_pairs
from regard.data.readers.pairs import PairSource

CONTENT = "a rose\tune rose\na rose\tune rose\na rose\tla rose\nbroken\nox\tun bœuf\n\tx\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.tsv"
    path.write_text(CONTENT, encoding="utf-8")
    return path


def test_figures_by_hand(path: Path) -> None:
    found = describe_pairs(PairSource(path=path))
    assert (found.rows, found.distinct_sources, found.repeated_pairs) == (4, 2, 1)
    assert found.source.words.maximum == 2
    assert found.source.characters.mean == (3 * 6 + 2) / 4
    assert found.source.distinct_words == 3
    assert found.source.common_words == (("a", 3), ("rose", 3), ("ox", 1))
    assert found.target.common_words[0] == ("rose", 3)
    assert found.bad.count == 2
    assert [row.line for row in found.bad.rows] == [4, 6]


def test_text_shows_what_was_found(path: Path) -> None:
    shown = describe_pairs(PairSource(path=path)).as_text()
    assert "rows                       4" in shown
    assert "bad rows                   2" in shown
    assert "source: 3 distinct words: a 3, rose 3, ox 1" in shown
    assert "2  ████████████████████████████████████████  3" in shown
    assert f"{path}:4: too few columns" in shown


def test_the_verb_prints_text_or_json(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data_verb.run("describe", str(path))
    assert capsys.readouterr().out == describe_pairs(PairSource(path=path)).as_text() + "\n"
    data_verb.run("describe", str(path), source_column="1", target_column="0", as_json=True)
    record = json.loads(capsys.readouterr().out)
    assert record["rows"] == 4
    assert record["target"]["common_words"][0] == ["a", 3]
    assert record["bad_rows"]["by_reason"] == {"empty target": 1, "too few columns": 1}


def test_an_unknown_action_is_told_the_known(path: Path) -> None:
    with pytest.raises(RegardError, match=r"Unknown action 'describ'\. Did you mean 'describe'"):
        data_verb.run("describ", str(path))
