"""Document page: words, weights, escaping, and notes on what is omitted."""

from __future__ import annotations

import dataclasses
import re
from html.parser import HTMLParser

import pytest
from tests.factories.documents import make_document_record

from regard.core.records.document import DocumentRecord
from regard.views.charts.document import weight_views
from regard.views.pages import document
from regard.views.pages.document import document_page

RECORD = make_document_record()


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


def test_every_word_has_its_weight() -> None:
    page = Page(document_page(RECORD))
    assert len(page.words) == len(RECORD.tokens)
    text = re.sub(r"\s+", " ", "".join(page.text))
    assert "it is a dull and lifeless picture" in text
    whole, within = weight_views(RECORD)
    for index, word in enumerate(page.words):
        assert word["style"] == f"--relative:{whole.relative[index]:.3g}"
        assert word["data-relative"] == f"{whole.relative[index]:.3g} {within.relative[index]:.3g}"
    dull = page.words[RECORD.tokens.index("dull")]["title"] or ""
    assert re.match(r"dull: weight 0\.43, 21 × uniform; without it .* 0\.63 instead of 0\.93", dull)
    assert page.words[0]["class"] == "word special-token"
    assert "without" not in (page.words[0]["title"] or "")


def test_labels_and_deletion_test_are_shown() -> None:
    text = "".join(Page(document_page(RECORD)).text)
    assert "predicted with probability 0.93; correct." in text
    assert "Removing the 10 % of words with the highest weight (5 words) lowers" in text
    assert "Kendall’s tau of 0.41" in text
    wrong = "".join(Page(document_page(dataclasses.replace(RECORD, reference="mixed"))).text)
    assert "the reference is mixed." in wrong


def test_no_tabs_for_a_single_weight_view() -> None:
    assert "fieldset" not in Page(document_page(make_document_record(weighed=False))).tags
    page = Page(document_page(make_document_record(hops=30, weighed=False)))
    assert page.tags.count("input") == 31  # the mean, and every hop


def test_missing_measurements_are_omitted() -> None:
    bare = make_document_record(reference=None, deletion=None, drops=None, kendall_tau=None)
    page = Page(document_page(bare))
    text = "".join(page.text)
    assert "predicted with probability 0.93." in text
    assert "svg" not in page.tags
    for absent in ("tau", "Deletion test", "drop without it"):
        assert absent not in text


def test_omitted_words_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "MAX_WORDS", 20)
    probabilities = {f"label {number}": 0.01 for number in range(20)} | {"negative": 0.8}
    page = Page(document_page(dataclasses.replace(RECORD, probabilities=probabilities)))
    assert len(page.words) == 20
    text = "".join(page.text)
    assert re.search(rf"… and {len(RECORD.tokens) - 20} more tokens, not drawn, which have", text)
    assert "13 more, 0.13 in total" in text


def test_text_is_escaped() -> None:
    evil = ("<script>alert(1)</script>", '"><b', "&amp;", "\x00", "\ud800", "|", ":")
    record = DocumentRecord(
        tokens=evil,
        segments=(0,) * len(evil),
        hops=((1 / len(evil),) * len(evil),) * 2,
        sentence_weights=(1.0,),
        label="<u>",
        probabilities={"<u>": 1.0},
        reference="</title>",
        title="<svg onload=x>",
    )
    page = Page(document_page(record))
    assert page.tags.count("script") == 1
    assert not {"b", "u", "svg"} & set(page.tags)
    assert {evil[0], '"><b', "&amp;", "\\x00", "\\ud800", "|"} <= set(page.text)


def test_long_titles_and_texts_are_truncated_with_a_note() -> None:
    text = "a dull and lifeless picture " * 2000
    record = dataclasses.replace(RECORD, title=text, truncated_tokens=9000)
    html = document_page(record)
    assert len(html) < len(document_page(RECORD)) + 1000
    title = re.search(r"<title>(.*)</title>", html)
    assert title is not None
    assert title[1].startswith("negative: a dull and lifeless picture a dull")
    assert title[1].endswith("…")
    assert len(title[1]) <= 110
    assert "The last 9,000 tokens were truncated (99 % of the text; task.max_length)." in html
    assert "truncated" not in document_page(RECORD)
    assert "The last token was truncated (2 % of the text" in document_page(
        dataclasses.replace(RECORD, truncated_tokens=1)
    )
