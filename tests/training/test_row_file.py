"""Rows are added, and cut back to what they were."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from regard.core.errors import RegardError
from regard.training.checkpoint import RowFile


def test_rows_after_the_kept_ones_are_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    with RowFile(path, kept=0) as rows:
        rows.add({"step": 1})
        length = rows.length()
        rows.add({"step": 2})
    assert length == len('{"step": 1}\n')
    with RowFile(path, kept=length) as rows:
        rows.add({"step": 3})
    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == [1, 3]


def test_a_row_can_be_read_as_soon_as_it_is_written(tmp_path: Path) -> None:
    with RowFile(tmp_path / "rows.jsonl", kept=0) as rows:
        rows.add({"step": 1})
        assert (tmp_path / "rows.jsonl").read_text() == '{"step": 1}\n'


def test_what_is_no_number_is_null(tmp_path: Path) -> None:
    with RowFile(tmp_path / "rows.jsonl", kept=0) as rows:
        rows.add({"loss": float("nan"), "validation": {"error": float("inf"), "right": 1.0}})
    text = (tmp_path / "rows.jsonl").read_text()
    assert text == '{"loss": null, "validation": {"error": null, "right": 1.0}}\n'


def test_lost_rows_are_noticed(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"has 0 bytes and had 5 when the checkpoint"):
        RowFile(tmp_path / "rows.jsonl", kept=5)


def test_a_folder_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").mkdir()
    with pytest.raises(RegardError, match=r"rows.jsonl' cannot be written: Is a directory"):
        RowFile(tmp_path / "rows.jsonl", kept=0)
