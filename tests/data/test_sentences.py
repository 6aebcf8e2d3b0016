"""Sentence splitting: cases by hand, lossless, linear time."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from regard.data.sentences import BREAK, sentence_spans, split_sentences

# A bar separates two sentences.
CASES = {
    "plain": "It ended. | We left! | Why?",
    "titles": "Mr. Fox met Dr. Who and Mrs. Dalloway. | They spoke.",
    "titles in capitals": "MR. FOX DIED. | NOBODY CARED. | SEE NO. 5.",
    "examples": "Some films, e.g. Heat or, i.e. The Heat, are long. | Others are not.",
    "initials": "J. R. R. Tolkien wrote it. | Samuel L. Jackson plays. | J.R.R. Tolkien too.",
    "a country at the end": "It was made in the U.S. | The film flopped.",
    "a country inside": "The U.S. Army and the U.K. Government helped.",
    "numbers": "It cost $3.5 million. | No. 5 is alive, at 9.30 p.m. on Vol. 2 of Jan. 3. | No. | Seven.",
    "items": "1. The plot. | 2. The end. | It was 1999. | Then 2000.",
    "ellipses": "He waited... and waited ... then left. | So... | Nobody came. . . | The end…",
    "ellipsis first": "... The end.",
    "several marks": "What?! | Really!!! | Yes.",
    "quotes": 'She said "Stop!" | Then (as he fell.) | "Why?" he asked. | \u201cGo.\u201d | He went.',
    "lower case continues": "It is by Yahoo! and co. and others. | The end.",
    "text without capitals": "it was bad. | i left! | mr. fox, etc. and so on... really. | why?",
    "tokenized": "a gorgeous film . | it is , at times , too long . | see it !",
    "missing spaces": "It was good.| The film ended!| We left.| I cried in 1999.| Nobody knew.| A pity.",
    "no missing space": "J.Smith has a Ph.D. in U.S.History from Dr.Who, see IMDB.Com for v.2.0 of it.",
    "addresses": "See http://www.A.com/x.Html?Q=1.The or www.Some.Thing now. | Write to a.b@C.org. | Do.",
    "addresses end": "It is at www.imdb.com. | Go there.",
    "marks inside": "Why (why?), he said, e.g., 3.14, \u2018well!\u2019, and so on.",
    "smiles and dashes": "Good. | :-) Bad. | — Anon.",
}
BREAKS = {
    "breaks": (
        "One<br /><br />two<BR>three<p>four</p>five<br/>six.",
        "one two three four five six.",
    ),
    "a break with attributes": ('One<p class="x">two', "one two"),
    "blank lines": ("One\n \ntwo\nlines\n\n\nthree", "one|two\nlines|three"),
    "no break": ("a <b>bold</b> <pre> <brand> x < p > y", None),
    "around": (" <br /> One. <br />\n\n", "one."),
}


@pytest.mark.parametrize("name", CASES)
def test_sentences(name: str) -> None:
    expected = [piece.strip() for piece in CASES[name].split("|")]
    text = CASES[name].replace(".| ", ".").replace("!| ", "!").replace("| ", "")
    assert split_sentences(text) == expected


@pytest.mark.parametrize("name", BREAKS)
def test_breaks(name: str) -> None:
    text, expected = BREAKS[name]
    found = [sentence.lower() for sentence in split_sentences(text)]
    if expected is None:
        assert found == [text]
    else:
        assert found == (expected.split("|") if "|" in expected else expected.split(" "))


def test_sentence_spans() -> None:
    text = "  One.  Two<br>three"
    assert sentence_spans(text) == [(2, 6), (8, 11), (15, 20)]
    assert [text[begin:end] for begin, end in sentence_spans(text)] == split_sentences(text)


@pytest.mark.parametrize("text", ["", " \n\t", "<br />", "<p></p>\n\n"])
def test_empty_text(text: str) -> None:
    assert split_sentences(text) == []


def without_space(text: str) -> str:
    return "".join(text.split())


PIECES = st.sampled_from(
    [
        *".!?…\"')( <>/\n1aA",
        "<br />",
        "<p>",
        "...",
        "Mr",
        "The ",
        " it",
        "e.g.",
        "U.S",
        "www.",
        "\x85",
    ]
)


@settings(database=None, deadline=None)
@given(st.one_of(st.text(), st.lists(PIECES, max_size=40).map("".join)))
def test_only_white_space_and_breaks_are_lost(text: str) -> None:
    found = split_sentences(text)
    rest = re.sub(BREAK, " ", text, flags=re.IGNORECASE)
    assert without_space("".join(found)) == without_space(rest)
    assert all(sentence and sentence == sentence.strip() for sentence in found)


HOSTILE = {
    **{f"{unit!r} repeated": unit * (200_000 // len(unit)) for unit in (".", "<", "<br", "<p ")},
    **{
        f"{unit!r} many times": unit * (50_000 // len(unit))
        for unit in ("! , ", 'A."(', "1. ", "\n ")
    },
    "a break that is not closed": "<br " + " " * 200_000,
    "a mark and much space": "." + " " * 200_000,
    "marks and much space": ("." + " " * 500) * 400,
    "initials": "A." * 25_000,
    "no spaces": "good.The" * 10_000,
    "one word": "a" * 200_000 + ".",
    "quotes": "." + '"' * 200_000,
    "brackets before numbers": "(" * 100_000 + "1. A " * 10_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_linear_time(name: str) -> None:
    """With quadratic time these would take minutes."""
    text = HOSTILE[name]
    assert sum(map(len, split_sentences(text))) <= len(text)


@pytest.mark.data
def test_sentences_of_reviews(data_folder: Path) -> None:
    """About 13 sentences per review and 18 words per sentence; docs/documents.md has the figures."""
    path = data_folder / "imdb" / "train.tsv.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        texts = [
            line.rstrip("\n").split("\t")[3] for line, _ in zip(file, range(2000), strict=False)
        ]
    found = [split_sentences(text) for text in texts]
    assert 11 < sum(map(len, found)) / len(found) < 15
    words = [len(sentence.split()) for review in found for sentence in review]
    assert 15 < sum(words) / len(words) < 22
    assert sum(count > 100 for count in words) / len(words) < 0.003
