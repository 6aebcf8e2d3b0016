"""The page and the texts of claims: what is said of each verdict, in which order, escaped."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from tests.made_up_claims import CLAIMS, TOPIC

from regard.claims.running import run_claims
from regard.core.claim_record import ClaimRecord
from regard.views.claim_page import beside, by_topic, claim_page
from regard.views.claim_text import claim_text, claims_table
from regard.views.claim_words import as_expected, rerun_command, summary_line, surprises

EVEN, ODD, LARGE, LEARNED = RECORDS = run_claims(CLAIMS)


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
