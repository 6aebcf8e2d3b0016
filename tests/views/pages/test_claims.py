"""Claims page and text: verdicts, order, escaping."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from tests.factories.claims import CLAIMS, TOPIC

from regard.claims.engine import run_claims
from regard.core.records.claim import ClaimRecord
from regard.views.pages.claims import by_topic, claim_page, with_false_claims
from regard.views.text.claims import (
    claim_text,
    claims_table,
    command_parts,
    summary_line,
    unexpected,
)

EVEN, ODD, LARGE, LEARNED = RECORDS = run_claims(CLAIMS)
BROKEN = replace(LARGE, name="broken", finding=None, error="IndexError: <no> (a.py, line 3)")


class Anchors(HTMLParser):
    """Collects ids and links of a page, and checks that elements are closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if found.get("id"):
            self.ids.append(str(found["id"]))
        if tag == "a":
            self.links.append(str(found["href"]))
        if tag not in {"meta", "input", "wbr"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def read(page: str) -> Anchors:
    anchors = Anchors()
    anchors.feed(page)
    return anchors


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (EVEN, True),
        (ODD, True),
        (LARGE, True),
        (LEARNED, True),
        (BROKEN, False),
        (replace(BROKEN, known_false=True), False),
        (replace(ODD, known_false=False), False),
        (replace(EVEN, known_false=True), False),
        (replace(LARGE, known_false=True), False),
    ],
)
def test_expected_verdicts(record: ClaimRecord, expected: bool) -> None:
    assert record.is_expected == expected


def test_summary_names_unexpected_claims() -> None:
    assert summary_line(RECORDS).endswith("All verdicts are as expected.")
    odd = replace(ODD, known_false=False)
    assert unexpected([EVEN, odd]) == [odd]
    assert summary_line([EVEN, odd]) == (
        "2 claims: 1 hold; 0 hold under a condition; 1 fail, 0 of them known to be false. "
        "NOT AS EXPECTED: squares-are-odd."
    )


def test_errors_are_counted_and_shown() -> None:
    assert summary_line([EVEN, BROKEN]) == (
        "2 claims: 1 hold; 0 hold under a condition; 0 fail, 0 of them known to be false; 1 failed to "
        "run. NOT AS EXPECTED: broken."
    )
    table = claims_table([EVEN, BROKEN], width=160)
    assert "  ! failed to run  broken " in table
    assert "[NOT AS EXPECTED] Squares are large." in table
    assert "(failed to run: IndexError: <no> (a.py, line 3))" in " ".join(table.split())
    assert "failed to run: IndexError: <no> (a.py, line 3)" in claim_text(BROKEN)
    page = claim_page([EVEN, BROKEN])
    assert "Failed to run: IndexError: &lt;no&gt; (a.py, line 3)" in page
    assert '<span class="tag alarm">not as expected</span>' in page
    assert page.count('data-verdict="failed to run"') == 2
    assert 'value="failed to run"' in page


def test_summary_without_findings() -> None:
    assert summary_line([LEARNED]).endswith("1 not run. None was run.")


def test_control_characters_are_escaped() -> None:
    coloured = replace(
        EVEN,
        statement="\x1b[31mred\x00 \x9bk",
        topic="top\x07ic",
        code="def f():\n    '\x1b'\n",
        settings={"a\x1b": "b\x1b"},
    )
    for text in (claims_table([coloured]), claim_text(coloured)):
        assert "\\x1b[31mred\\x00 \\x9bk" in text
        assert all(letter.isprintable() or letter == "\n" for letter in text)
    assert "def f():\n" in claim_text(coloured)


def test_known_false_claims_are_grouped_with_the_correct_one() -> None:
    assert with_false_claims(RECORDS) == [[EVEN, ODD], [LARGE], [LEARNED]]
    assert with_false_claims([ODD, EVEN]) == [[ODD], [EVEN]]
    assert list(by_topic(RECORDS)) == [TOPIC]


def test_links_resolve() -> None:
    anchors = read(claim_page(RECORDS))
    assert anchors.open == []
    assert len(anchors.ids) == len(set(anchors.ids))
    assert {link.removeprefix("#") for link in anchors.links} <= set(anchors.ids)
    assert [link for link in anchors.links if "squares" in link] == [
        f"#{record.name}" for record in RECORDS
    ]


def test_page_is_complete_and_escaped() -> None:
    page = claim_page(RECORDS)
    for text in (
        "Squares are &lt;even&gt;.",
        "n² &amp; 1 = 0",
        "4² is 16 &amp; 4 &lt; 1.0.",
        "<b>It holds if: </b>n &gt; 1",
        "<b>Counter-example: </b>2² = 4 &lt;is&gt; even",
        "All 10 values",
        "Not run: it trains models",
        "def squares_are_even(",
        "regard claims show squares-are-even ",
        "known to be false",
    ):
        assert text in page
    assert "<even>" not in page
    assert "<cubes>" not in page
    assert re.findall(r"""(?:src|href)=["'](?!#)""", page) == []
    # The counter-example of a claim that holds is not shown.
    assert "16 is odd" not in page


def test_unexpected_verdicts_are_tagged() -> None:
    assert "not as expected</span>" not in claim_page(RECORDS)
    page = claim_page([replace(ODD, known_false=False)])
    assert '<span class="tag alarm">not as expected</span>' in page


@pytest.mark.parametrize("width", [40, 80, 160])
def test_table_fits_the_width(width: int) -> None:
    lines = claims_table(RECORDS, width=width).splitlines()
    rows = [line for line in lines[:-1] if not re.match(r"  [✓✗◐○]", line)]
    assert max(map(len, rows)) <= width
    assert all(record.statement.split()[-1] in " ".join(lines) for record in RECORDS)


def test_claim_text() -> None:
    text = claim_text(LARGE)
    assert "◐ holds if" in text
    assert "if: n > 1" in text
    assert "  figure 9  9" in text
    assert text.splitlines()[-1] == f"rerun: {' '.join(command_parts(LARGE))}"
    assert "not run: it trains models" in claim_text(LEARNED)
