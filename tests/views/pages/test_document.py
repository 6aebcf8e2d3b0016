"""The page of a document: its text whole and escaped, the right shades, and nothing left out in silence."""

from __future__ import annotations

import dataclasses
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.factories.documents import made_up_document

from regard.core.records.document import DocumentRecord
from regard.views.charts.document_words import shadings
from regard.views.pages import document as document_picture
from regard.views.pages.document import document_page, write_document_page

RECORD = made_up_document()


class Page(HTMLParser):
    """The words of the text with their attributes, and all text of the page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.words: list[dict[str, str | None]] = []
        self.text: list[str] = []
        self.tags: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        found = dict(attrs)
        if "word" in (found.get("class") or "").split() and "title" in found:
            self.words.append(found)

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_every_word_is_there_with_its_weight() -> None:
    page = Page(document_page(RECORD))
    assert len(page.words) == len(RECORD.tokens)
    text = re.sub(r"\s+", " ", "".join(page.text))
    assert "it is a dull and lifeless picture" in text
    whole, within = shadings(RECORD)
    for place, word in enumerate(page.words):
        assert word["style"] == f"--times:{whole.times[place]:.3g}"
        assert word["data-times"] == f"{whole.times[place]:.3g} {within.times[place]:.3g}"
    dull = page.words[RECORD.tokens.index("dull")]["title"] or ""
    assert re.match(r"dull: weight 0\.43, 21 × even; without it .* 0\.63 instead of 0\.93", dull)
    assert page.words[0]["class"] == "word mark"
    assert "without" not in (page.words[0]["title"] or "")


def test_label_probabilities_and_what_the_test_shows_are_told() -> None:
    text = "".join(Page(document_page(RECORD)).text)
    assert "said with a probability of 0.93, which is right." in text
    assert "Removing the 10 % of words with most weight (5 words) lowers" in text
    assert "Kendall’s tau of 0.41" in text
    wrong = "".join(Page(document_page(dataclasses.replace(RECORD, right="mixed"))).text)
    assert "right would be mixed." in wrong


def test_one_way_of_weighing_needs_no_choice() -> None:
    assert "fieldset" not in Page(document_page(made_up_document(weighed=False))).tags
    page = Page(document_page(made_up_document(hops=30, weighed=False)))
    assert page.tags.count("input") == 31  # the mean, and every hop


def test_what_was_not_measured_is_not_there() -> None:
    bare = made_up_document(right=None, deletion=None, falls=None, agreement=None)
    page = Page(document_page(bare))
    text = "".join(page.text)
    assert "said with a probability of 0.93." in text
    assert "svg" not in page.tags
    for absent in ("tau", "Without these words", "fall without it"):
        assert absent not in text


def test_nothing_is_left_out_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_picture, "MOST_WORDS", 20)
    probabilities = {f"label {number}": 0.01 for number in range(20)} | {"negative": 0.8}
    page = Page(document_page(dataclasses.replace(RECORD, probabilities=probabilities)))
    assert len(page.words) == 20
    text = "".join(page.text)
    assert re.search(rf"… and {len(RECORD.tokens) - 20} more tokens, not drawn, which carry", text)
    assert "13 more, together 0.13" in text


def test_text_cannot_break_out_of_the_page(tmp_path: Path) -> None:
    evil = ("<script>alert(1)</script>", '"><b', "&amp;", "\x00", "\ud800", "|", ":")
    record = DocumentRecord(
        tokens=evil,
        segments=(0,) * len(evil),
        hops=((1 / len(evil),) * len(evil),) * 2,
        sentences=(1.0,),
        label="<u>",
        probabilities={"<u>": 1.0},
        right="</title>",
        title="<svg onload=x>",
    )
    write_document_page(record, path=tmp_path / "p.html")
    page = Page((tmp_path / "p.html").read_text(encoding="utf-8"))
    assert page.tags.count("script") == 1
    assert not {"b", "u", "svg"} & set(page.tags)
    assert {evil[0], '"><b', "&amp;", "\\x00", "\\ud800", "|"} <= set(page.text)


def test_a_long_text_is_no_title_and_what_was_not_read_is_said() -> None:
    text = "a dull and lifeless picture " * 2000
    record = dataclasses.replace(RECORD, title=text, cut_tokens=9000)
    html = document_page(record)
    assert len(html) < len(document_page(RECORD)) + 1000
    title = re.search(r"<title>(.*)</title>", html)
    assert title is not None
    assert title[1].startswith("negative: a dull and lifeless picture a dull")
    assert title[1].endswith("…")
    assert len(title[1]) <= 110
    said = "The text goes on: its last 9,000 tokens, 99 % of it, were not read (task.max_length)."
    assert said in html
    assert "goes on" not in document_page(RECORD)
    assert "its last token, 2 % of it, was not" in document_page(
        dataclasses.replace(RECORD, cut_tokens=1)
    )
