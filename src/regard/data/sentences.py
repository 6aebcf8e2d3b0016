"""Rule-based sentence splitting (sentence segmentation) for English, in linear time.

    Mr. Fox paid $3.50. "Why?" he asked...<br />Nobody knew.The end.

    Mr. Fox paid $3.50.  |  "Why?" he asked...  |  Nobody knew.  |  The end.

A sentence ends with . ! ? or … and the quotes and brackets that close after it, and at every HTML break
(<br>, <p>) or blank line, which are not part of any sentence. It does not end

- before a lower-case letter ("etc. and", '"Why?" he asked'), unless the whole text begins with one: such a
  text is assumed not to capitalise sentences;
- after a title ("Mr."), or after another abbreviation or an initial, unless the next word often begins
  sentences ("in the U.S. The film");
- inside a number or a URL, or between a number's abbreviation and the number ("No. 5");
- before the first letter: "... The" is one sentence.

A missing space is tolerated between a word, a mark and a capitalised word ("good.The"). Nothing is
trained, so the same text has the same sentences everywhere; ambiguous cases are sometimes wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# The length of a tag is limited, so that an unclosed tag does not cost quadratic time.
BREAK = r"</?(?:br|p)(?:[\s/][^<>]{0,100})?>|\n[^\S\n]*\n"
CANDIDATE = re.compile(
    rf"(?P<break>{BREAK})|(?P<marks>[.!?…]+(?: [.!?…]+)*)[\"'”’)\]}}»]*", re.IGNORECASE
)
# White space, opening punctuation, and the next word.
OPENING = re.compile(r"(\s*)[\"'“‘(\[{«*_—–-]*(\w*)")
WORD_BEFORE = re.compile(r"[\w.]*\Z")
# Maximum length of an abbreviation, and of a URL, before a full stop.
MAX_ABBREVIATION = 24
LETTER = re.compile(r"\w")
INITIALS = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]")
URL = re.compile(r"://|www\.|@", re.IGNORECASE)
MAX_URL = 80

DOMAINS = frozenset({"com", "net", "org", "edu", "gov", "co", "uk", "de", "fr", "tv", "io", "info"})
# Never at the end of a sentence: a name or an example follows.
TITLES = frozenset(
    {"mr", "mrs", "ms", "messrs", "dr", "prof", "rev", "hon", "capt", "cpt", "col", "gen"}
    | {"lt", "sgt", "sen", "gov", "mme", "mlle", "vs", "e.g", "i.e", "cf", "viz"}
)
# Sometimes at the end of a sentence, like initials.
ABBREVIATIONS = frozenset(
    {"jr", "sr", "etc", "inc", "ltd", "co", "corp", "bros", "dept", "univ", "st", "mt"}
    | {"ft", "ave", "blvd", "rd", "approx", "est", "esp", "ph.d"}
)
# Abbreviations before a number, words otherwise.
NUMBER_ABBREVIATIONS = frozenset(
    {"no", "nos", "vol", "vols", "pp", "pg", "ch", "chap", "fig", "figs", "sec", "art"}
    | {"ca", "approx", "ep", "eps", "pt", "pts", "op", "jan", "feb", "mar", "apr", "jun"}
    | {"jul", "aug", "sep", "sept", "oct", "nov", "dec"}
)
# Words that often begin a sentence.
STARTERS = frozenset(
    {"a", "an", "the", "this", "that", "these", "those", "there", "here", "it", "its"}
    | {"he", "she", "we", "they", "you", "i", "his", "her", "their", "our", "my", "your"}
    | {"what", "who", "when", "where", "why", "how", "if", "in", "on", "at", "as", "but"}
    | {"and", "so", "for", "then", "now", "not", "no", "after", "before", "while"}
    | {"although", "though", "however", "also", "one", "some", "most", "many", "all"}
    | {"every", "both", "even", "only", "just", "with", "from"}
)


def split_sentences(text: str) -> list[str]:
    """Split a text into sentences, stripped and not empty.

    >>> split_sentences("It was O.K. The end?! <br /><br />No. 5 is alive ... they say.")
    ['It was O.K.', 'The end?!', 'No. 5 is alive ... they say.']
    """
    return [text[begin:end] for begin, end in sentence_spans(text)]


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Start and end offset of each sentence.

    >>> sentence_spans(" Yes. No.")
    [(1, 5), (6, 9)]
    """
    spans = []
    for begin, end in _raw_spans(text):
        raw = text[begin:end]
        left = begin + len(raw) - len(raw.lstrip())
        right = begin + len(raw.rstrip())
        if left < right:
            spans.append((left, right))
    return spans


def _raw_spans(text: str) -> Iterator[tuple[int, int]]:
    """The spans between sentence ends, breaks excluded, before stripping."""
    first = LETTER.search(text)
    lowercase = first is not None and first[0].islower()
    begin = searched = 0
    has_letter = False
    for found in CANDIDATE.finditer(text):
        at = found.start()
        if found["break"]:
            yield begin, at
        else:
            # Search every stretch once: linear time for many marks without a letter.
            has_letter = has_letter or LETTER.search(text, searched, at) is not None
            searched = at
            if not has_letter or not _is_end(text, begin, found, lowercase=lowercase):
                continue
            yield begin, found.end()
        begin = searched = found.end()
        has_letter = False
    yield begin, len(text)


def _is_end(text: str, begin: int, found: re.Match[str], *, lowercase: bool) -> bool:
    """Whether the sentence from `begin` ends with these marks; `lowercase` texts do not capitalise."""
    marks, at, end = found["marks"], found.start(), found.end()
    after = OPENING.match(text, end)
    assert after is not None  # it may match nothing
    spaces, word = after.groups()
    if not word:
        # A dash, a currency sign, an emoticon, or the end of the text.
        return bool(spaces) or end == len(text)
    if not spaces:
        return word[0].isupper() and _is_missing_space(text, found, word)
    trails_off = "…" in marks or ".." in marks or ". ." in marks
    if word[0].islower():
        closed = end - at > len(marks)
        if not lowercase or trails_off or (closed and marks != "."):
            return False
    return marks != "." or not _is_abbreviation(text, begin, at, word)


def _is_abbreviation(text: str, begin: int, at: int, following: str) -> bool:
    """Whether the full stop at `at` belongs to an abbreviation and does not end the sentence."""
    before = _word_before(text, begin, at)
    word = before.lower()
    if word in TITLES:
        return True
    if following[0].isdecimal() and word in NUMBER_ABBREVIATIONS:
        return True
    if word.isdecimal():
        # The number of a list item.
        return len(word) < 3 and not LETTER.search(text, begin, at - len(word))
    if word in ABBREVIATIONS or INITIALS.fullmatch(before):
        return following[0].islower() or following.lower() not in STARTERS
    return False


def _is_missing_space(text: str, found: re.Match[str], following: str) -> bool:
    """Whether a capitalised word right after the marks begins a sentence: "good.The", not "J.Smith"."""
    at, end = found.start(), found.end()
    if URL.search(text[max(0, at - MAX_URL) : end].rpartition(" ")[2]):
        return False
    if found["marks"] != ".":
        return True
    before = _word_before(text, 0, at)
    word = before.lower()
    if INITIALS.fullmatch(before) or word in TITLES | ABBREVIATIONS or following.lower() in DOMAINS:
        return False
    # Not "Ph.D.".
    return len(following) > 1 or text[end + 1 : end + 2] != "."


def _word_before(text: str, begin: int, at: int) -> str:
    found = WORD_BEFORE.search(text[max(begin, at - MAX_ABBREVIATION) : at])
    assert found is not None  # it may be empty
    return found[0]
