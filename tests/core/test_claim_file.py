"""Records of claims come back from their file as they were."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.made_up_claims import CLAIMS

from regard.claims.running import run_claims
from regard.core.claim_file import read_records, records_as_json
from regard.core.errors import RegardError


def test_records_come_back_as_they_were(tmp_path: Path) -> None:
    records = run_claims(CLAIMS)
    path = tmp_path / "records.json"
    path.write_text(records_as_json(records), encoding="utf-8")
    assert read_records(path) == records


def test_a_missing_file_says_how_to_write_it(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match=r"cannot be read: No such file.* `regard claims --out "):
        read_records(tmp_path / "none.json")


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[1]",
        '[{"name": "a"}]',
        '[{"finding": {"picture": {"kind": "Drawing"}}}]',
        "[[]]",
        "\xff",
    ],
)
def test_what_holds_no_records_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "records.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(RegardError, match="does not hold records of claims"):
        read_records(path)
