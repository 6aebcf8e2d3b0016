"""Whether the first row of a labelled file, read as a row, is in truth the names of the columns.

    label⇥text              names that columns often have: told at once
    mood⇥words              a label that never comes again, though every other comes several times,
    good⇥A fine film.       beside a text as short as a name: told when the file was read

A label that is rare in truth may stand in the first row. So one that comes once is not enough: the others
must be common and the text no sentence. Who is refused wrongly can move the row.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from pathlib import Path

from regard.core.errors import RegardError


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


LABEL_NAMES = _names(
    "label labels class classes category sentiment polarity target rating stars score topic tag "
    "intent emotion language lang genre verdict kind type output y"
)
TEXT_NAMES = _names(
    "text texts review reviews sentence sentences document documents content comment message body "
    "question tweet utterance description abstract headline paragraph post phrase source input x"
)
WORD = re.compile(r"[^\W_]+")
# A name of a column has no more words than this, and none of the marks of a sentence.
MOST_WORDS = 4
LONGEST_NAME = 60
SENTENCE_MARKS = re.compile(r"[.,;:!?…]")
# How often every other label must occur for a single one to be out of place.
SEVERAL = 5


def are_names(label: str, text: str) -> bool:
    """Whether these are names that the two columns often have, in either order.

    >>> are_names("Label", "review_text"), are_names("review", "sentiment"), are_names("text", "Fine.")
    (True, True, False)
    """
    return _are(label, LABEL_NAMES, text, TEXT_NAMES) or _are(label, TEXT_NAMES, text, LABEL_NAMES)


def stands_alone(label: str, text: str, counts: Counter[str]) -> bool:
    """Whether a first row stands apart from all others like a header; `counts` are those of all labels.

    >>> counts = Counter({"mood": 1, "good": 9, "bad": 7})
    >>> stands_alone("mood", "Words", counts), stands_alone("mood", "Sad, he said.", counts)
    (True, False)
    """
    others = [count for other, count in counts.items() if other != label]
    if counts[label] != 1 or not others or min(others) < SEVERAL:
        return False
    short = len(text.split()) <= MOST_WORDS and not SENTENCE_MARKS.search(text)
    return short or _is_name(label, LABEL_NAMES)


def header_error(path: Path, label: str, text: str) -> RegardError:
    """What is said of such a row."""
    if _are(label, TEXT_NAMES, text, LABEL_NAMES):  # the columns are the other way round
        way_out = f"Name the columns: {_named(label, text)}"
    elif max(len(label), len(text)) > LONGEST_NAME:
        way_out = "Give --header"
    else:
        way_out = f"Give --header, or name the columns: {_named(text, label)}"
    shown = [
        repr(field if len(field) <= LONGEST_NAME else f"{field[:LONGEST_NAME]}…")
        for field in (label, text)
    ]
    return RegardError(
        f"The first row of '{path}' seems to name the columns ({', '.join(shown)}), and would be taken "
        f"for a labelled text. {way_out}. If it is one, move it below the next row."
    )


def _named(text: str, label: str) -> str:
    return f"--source-column {shlex.quote(text)} --target-column {shlex.quote(label)}"


def _are(label: str, label_names: frozenset[str], text: str, text_names: frozenset[str]) -> bool:
    return _is_name(label, label_names) and _is_name(text, text_names)


def _is_name(field: str, names: frozenset[str]) -> bool:
    """Whether its last word is such a name, and those before it are names of columns too."""
    words = WORD.findall(field.casefold())
    return bool(words) and words[-1] in names and set(words) <= LABEL_NAMES | TEXT_NAMES
