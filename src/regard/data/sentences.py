"""English running text cut into sentences, by rule, in one pass.

    Mr. Fox paid $3.50. "Why?" he asked...<br />Nobody knew.The end.

    Mr. Fox paid $3.50.  |  "Why?" he asked...  |  Nobody knew.  |  The end.

A sentence ends with . ! ? or … and the quotes and brackets that close after it, and at every HTML break
(<br>, <p>) or blank line, which belong to no sentence. It does not end

- before a small letter ("etc. and", '"Why?" he asked'), unless the whole text begins with one: then its
  writer is taken to begin sentences so;
- after a title ("Mr."), nor after another abbreviation or an initial, unless the next word is one that
  sentences often begin with ("in the U.S. The film");
- inside a number, an address of the web, or a number's abbreviation and its number ("No. 5");
- before anything has been said: "... The" is one piece.

A missing space is supplied where a word, a mark and a capitalised word meet ("good.The"). What a mark
means otherwise takes understanding, and is sometimes decided wrongly here; nothing is learned from data,
so that the same text has the same sentences everywhere. Time is linear in the length, whatever the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# What may stand inside a tag is limited: a tag that is never closed must not be read again and again.
BREAK = r"</?(?:br|p)(?:[\s/][^<>]{0,100})?>|\n[^\S\n]*\n"
CANDIDATE = re.compile(
    rf"(?P<break>{BREAK})|(?P<marks>[.!?…]+(?: [.!?…]+)*)[\"'”’)\]}}»]*", re.IGNORECASE
)
# What opens a sentence before its first letter, and the word that follows.
OPENING = re.compile(r"(\s*)[\"'“‘(\[{«*_—–-]*(\w*)")
WORD_BEFORE = re.compile(r"[\w.]*\Z")
# A word before a mark is looked for this far back; no abbreviation is as long.
REACH = 24
LETTER = re.compile(r"\w")
INITIALS = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]")
ADDRESS = re.compile(r"://|www\.|@", re.IGNORECASE)
ADDRESS_REACH = 80


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


DOMAINS = _words("com net org edu gov co uk de fr tv io info")

# After these a name or an example follows, never the next sentence.
TITLES = _words(
    "mr mrs ms messrs dr prof rev hon capt cpt col gen lt sgt sen gov mme mlle vs e.g i.e cf viz"
)
# These end a sentence now and then; single letters and letters with dots are added to them.
ABBREVIATIONS = _words(
    "jr sr etc inc ltd co corp bros dept univ st mt ft ave blvd rd approx est esp ph.d"
)
# Before a number these are abbreviations, else they are words.
OF_NUMBERS = _words(
    "no nos vol vols pp pg ch chap fig figs sec art ca approx ep eps pt pts op "
    "jan feb mar apr jun jul aug sep sept oct nov dec"
)
STARTERS = _words(
    "a an the this that these those there here it its he she we they you i his her their our my your "
    "what who when where why how if in on at as but and so for then now not no after before while "
    "although though however also one some most many all every both even only just with from"
)


def sentences(text: str) -> list[str]:
    """The sentences in order, without white space around them; none is empty.

    >>> sentences("It was O.K. The end?! <br /><br />No. 5 is alive ... they say.")
    ['It was O.K.', 'The end?!', 'No. 5 is alive ... they say.']
    """
    return [text[begin:end] for begin, end in sentence_spans(text)]


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Where each sentence begins and ends in the text.

    >>> sentence_spans(" Yes. No.")
    [(1, 5), (6, 9)]
    """
    spans = []
    for begin, end in _pieces(text):
        piece = text[begin:end]
        left = begin + len(piece) - len(piece.lstrip())
        right = begin + len(piece.rstrip())
        if left < right:
            spans.append((left, right))
    return spans


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    """The text between one end and the next, breaks left out."""
    first = LETTER.search(text)
    small = first is not None and first[0].islower()
    begin = seen = 0
    said = False
    for found in CANDIDATE.finditer(text):
        at = found.start()
        if found["break"]:
            yield begin, at
        else:
            # Every stretch is searched once, or many marks without a letter would take long.
            said = said or LETTER.search(text, seen, at) is not None
            seen = at
            if not said or not _is_end(text, begin, found, small=small):
                continue
            yield begin, found.end()
        begin = seen = found.end()
        said = False
    yield begin, len(text)


def _is_end(text: str, begin: int, found: re.Match[str], *, small: bool) -> bool:
    """Whether a sentence that began at `begin` ends with these marks."""
    marks, at, end = found["marks"], found.start(), found.end()
    after = OPENING.match(text, end)
    assert after is not None  # it may match nothing
    spaces, word = after.groups()
    if not word:
        # A dash, a currency, a smile, or the end of the text.
        return bool(spaces) or end == len(text)
    if not spaces:
        return word[0].isupper() and _lacks_a_space(text, found, word)
    trails_off = "…" in marks or ".." in marks or ". ." in marks
    if word[0].islower():
        closed = end - at > len(marks)
        if not small or trails_off or (closed and marks != "."):
            return False
    return marks != "." or not _is_abbreviation(text, begin, at, word)


def _is_abbreviation(text: str, begin: int, at: int, following: str) -> bool:
    """Whether the full stop at `at` belongs to the word before it, and ends no sentence too."""
    before = _word_before(text, begin, at)
    word = before.lower()
    if word in TITLES:
        return True
    if following[0].isdecimal() and word in OF_NUMBERS:
        return True
    if word.isdecimal():
        # The number of an item: nothing but it has been said.
        return len(word) < 3 and not LETTER.search(text, begin, at - len(word))
    if word in ABBREVIATIONS or INITIALS.fullmatch(before):
        return following[0].islower() or following.lower() not in STARTERS
    return False


def _lacks_a_space(text: str, found: re.Match[str], following: str) -> bool:
    """Whether a capitalised word right after the marks begins a sentence: "good.The", not "J.Smith"."""
    at, end = found.start(), found.end()
    if ADDRESS.search(text[max(0, at - ADDRESS_REACH) : end].rpartition(" ")[2]):
        return False
    if found["marks"] != ".":
        return True
    before = _word_before(text, 0, at)
    word = before.lower()
    if INITIALS.fullmatch(before) or word in TITLES | ABBREVIATIONS or following.lower() in DOMAINS:
        return False
    # "Ph.D.": a letter with a full stop of its own.
    return len(following) > 1 or text[end + 1 : end + 2] != "."


def _word_before(text: str, begin: int, at: int) -> str:
    found = WORD_BEFORE.search(text[max(begin, at - REACH) : at])
    assert found is not None  # it may be empty
    return found[0]
