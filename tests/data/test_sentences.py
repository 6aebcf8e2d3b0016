"""Sentences: the cases a reader can check, nothing lost, and no text that takes long."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from regard.data.sentences import BREAK, sentence_spans, sentences

# A bar marks where one sentence ends and the next begins.
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
    "a small letter goes on": "It is by Yahoo! and co. and others. | The end.",
    "a writer without capitals": "it was bad. | i left! | mr. fox, etc. and so on... really. | why?",
    "cut into words": "a gorgeous film . | it is , at times , too long . | see it !",
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
def test_sentences_end_where_a_reader_says(name: str) -> None:
    wanted = [piece.strip() for piece in CASES[name].split("|")]
    text = CASES[name].replace(".| ", ".").replace("!| ", "!").replace("| ", "")
    assert sentences(text) == wanted


@pytest.mark.parametrize("name", BREAKS)
def test_breaks_always_end_a_sentence_and_disappear(name: str) -> None:
    text, wanted = BREAKS[name]
    found = [sentence.lower() for sentence in sentences(text)]
    if wanted is None:
        assert found == [text]
    else:
        assert found == (wanted.split("|") if "|" in wanted else wanted.split(" "))


def test_spans_are_where_the_sentences_stand() -> None:
    text = "  One.  Two<br>three"
    assert sentence_spans(text) == [(2, 6), (8, 11), (15, 20)]
    assert [text[begin:end] for begin, end in sentence_spans(text)] == sentences(text)


@pytest.mark.parametrize("text", ["", " \n\t", "<br />", "<p></p>\n\n"])
def test_nothing_has_no_sentences(text: str) -> None:
    assert sentences(text) == []


def squeezed(text: str) -> str:
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
def test_nothing_but_space_and_breaks_is_lost(text: str) -> None:
    found = sentences(text)
    rest = re.sub(BREAK, " ", text, flags=re.IGNORECASE)
    assert squeezed("".join(found)) == squeezed(rest)
    assert all(sentence and sentence == sentence.strip() for sentence in found)


HOSTILE = {
    **{
        f"{unit!r} again and again": unit * (200_000 // len(unit))
        for unit in (".", "<", "<br", "<p ")
    },
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
def test_no_text_takes_long(name: str) -> None:
    """Twice the text may take about twice as long; were it four times, these would take minutes."""
    text = HOSTILE[name]
    assert sum(map(len, sentences(text))) <= len(text)


@pytest.mark.data
def test_reviews_have_as_many_sentences_as_they_should(data_folder: Path) -> None:
    """About 13 a review, and about 18 words a sentence; see docs/documents.md for the figures of all."""
    path = data_folder / "imdb" / "train.tsv.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        texts = [
            line.rstrip("\n").split("\t")[3] for line, _ in zip(file, range(2000), strict=False)
        ]
    found = [sentences(text) for text in texts]
    assert 11 < sum(map(len, found)) / len(found) < 15
    words = [len(sentence.split()) for review in found for sentence in review]
    assert 15 < sum(words) / len(words) < 22
    assert sum(count > 100 for count in words) / len(words) < 0.003
