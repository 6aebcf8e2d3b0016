"""The page and the texts of claims: what is said of each verdict, in which order, escaped."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from tests.factories.claims import CLAIMS, TOPIC

from regard.claims.engine import run_claims
from regard.core.records.claim import ClaimRecord
from regard.views.pages.claims import beside, by_topic, claim_page
from regard.views.text.claims import (
    as_expected,
    claim_text,
    claims_table,
    rerun_command,
    summary_line,
    surprises,
)

EVEN, ODD, LARGE, LEARNED = RECORDS = run_claims(CLAIMS)
BROKEN = replace(LARGE, name="broken", finding=None, trouble="IndexError: <no> (a.py, line 3)")


class Anchors(HTMLParser):
    """The anchors of a page, where its links lead, and whether its elements are closed in order."""

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
        (replace(BROKEN, marked_wrong=True), False),
        (replace(ODD, marked_wrong=False), False),
        (replace(EVEN, marked_wrong=True), False),
        (replace(LARGE, marked_wrong=True), False),
    ],
)
def test_what_is_expected(record: ClaimRecord, expected: bool) -> None:
    assert as_expected(record) == expected


def test_the_summary_names_what_is_not_as_expected() -> None:
    assert summary_line(RECORDS).endswith("All verdicts are as expected.")
    odd = replace(ODD, marked_wrong=False)
    assert surprises([EVEN, odd]) == [odd]
    assert summary_line([EVEN, odd]) == (
        "2 statements: 1 hold; 0 hold under a condition; 1 fail, 0 of them known to be wrong. "
        "NOT AS EXPECTED: squares-are-odd."
    )


def test_one_that_failed_to_run_is_counted_named_and_shown() -> None:
    assert summary_line([EVEN, BROKEN]) == (
        "2 statements: 1 hold; 0 hold under a condition; 0 fail, 0 of them known to be wrong; 1 failed to "
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


def test_where_nothing_was_decided_nothing_is_as_expected() -> None:
    assert summary_line([LEARNED]).endswith("1 not run. Nothing was decided.")


def test_a_text_does_not_command_the_terminal() -> None:
    coloured = replace(
        EVEN,
        statement="\x1b[31mred\x00 \x9bk",
        topic="top\x07ic",
        code="def f():\n    '\x1b'\n",
        settings={"a\x1b": "b\x1b"},
    )
    for text in (claims_table([coloured]), claim_text(coloured)):
        assert "[31mred k" in text
        assert all(letter.isprintable() or letter in "\n\u202f" for letter in text)
    assert "def f():\n" in claim_text(coloured)


def test_wrong_statements_stand_beside_the_right_one() -> None:
    assert beside(RECORDS) == [[EVEN, ODD], [LARGE], [LEARNED]]
    assert beside([ODD, EVEN]) == [[ODD], [EVEN]]
    assert list(by_topic(RECORDS)) == [TOPIC]


def test_every_link_of_the_page_leads_somewhere() -> None:
    anchors = read(claim_page(RECORDS))
    assert anchors.open == []
    assert len(anchors.ids) == len(set(anchors.ids))
    assert {link.removeprefix("#") for link in anchors.links} <= set(anchors.ids)
    assert [link for link in anchors.links if "squares" in link] == [
        f"#{record.name}" for record in RECORDS
    ]


def test_the_page_says_everything_of_each_escaped() -> None:
    page = claim_page(RECORDS)
    for words in (
        "Squares are &lt;even&gt;.",
        "n² &amp; 1 = 0",
        "4² is 16 &amp; 4 &lt; 1.0.",
        "<b>It holds if: </b>n &gt; 1",
        "<b>Counter-example: </b>2² = 4 &lt;is&gt; even",
        "All 10 figures",
        "Not run: it trains models",
        "def squares_are_even(",
        "regard claims show squares-are-even ",
        "known to be wrong",
    ):
        assert words in page
    assert "<even>" not in page
    assert "<cubes>" not in page
    assert re.findall(r"""(?:src|href)=["'](?!#)""", page) == []
    # A counter-example was handed in with a statement that holds, and is none.
    assert "16 is odd" not in page


def test_a_surprise_is_shown_as_an_alarm() -> None:
    assert "not as expected</span>" not in claim_page(RECORDS)
    page = claim_page([replace(ODD, marked_wrong=False)])
    assert '<span class="tag alarm">not as expected</span>' in page


@pytest.mark.parametrize("width", [40, 80, 160])
def test_the_table_keeps_to_its_width(width: int) -> None:
    lines = claims_table(RECORDS, width=width).splitlines()
    rows = [line for line in lines[:-1] if not re.match(r"  [✓✗◐○]", line)]
    assert max(map(len, rows)) <= width
    assert all(record.statement.split()[-1] in " ".join(lines) for record in RECORDS)


def test_one_claim_in_full() -> None:
    text = claim_text(LARGE)
    assert "◐ holds if" in text
    assert "if: n > 1" in text
    assert "  figure 9  9" in text
    assert text.splitlines()[-1] == f"again: {rerun_command(LARGE)}"
    assert "not run: it trains models" in claim_text(LEARNED)
