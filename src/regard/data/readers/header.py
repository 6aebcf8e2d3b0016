"""Detection of a header row that would be read as an example."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from regard.core.errors import RegardError
from regard.data.readers.text_file import Row

LABEL_NAMES = frozenset(
    {"label", "labels", "class", "classes", "category", "sentiment", "polarity", "target"}
    | {"rating", "stars", "score", "topic", "tag", "intent", "emotion", "language", "lang"}
    | {"genre", "verdict", "kind", "type", "output", "y"}
)
TEXT_NAMES = frozenset(
    {"text", "texts", "review", "reviews", "sentence", "sentences", "document", "documents"}
    | {"content", "comment", "message", "body", "question", "tweet", "utterance", "description"}
    | {"abstract", "headline", "paragraph", "post", "phrase", "source", "input", "x"}
)
PAIR_NAMES = (
    frozenset({"word", "words", "lemma", "form", "tags", "features", "answer", "src", "tgt"})
    | {"english", "german", "french", "spanish", "phones", "phonemes", "pronunciation", "grapheme"}
    | {"translation", "transcription", "summary", "title", "query", "response", "id"}
    | LABEL_NAMES
    | TEXT_NAMES
)
WORD = re.compile(r"[^\W_]+")
SENTENCE_PUNCTUATION = re.compile(r"[.,;:!?…]")
MAX_NAME_WORDS = 4
MAX_NAME_LENGTH = 60
# A label that occurs once looks like a header only if every other label occurs at least so often.
MIN_LABEL_COUNT = 5
# With more labels than this, header detection by label counts is off.
MAX_COUNTED_LABELS = 10_000


def check_header(rows: Iterator[Row], path: Path) -> Iterator[Row]:
    """The labelled rows, unchanged; raises if the first one looks like a header."""
    first: Row | None = None
    counts: Counter[str] = Counter()
    for row in rows:
        if row.line == 1:
            first = row
            if are_column_names(row.target, row.input):
                raise header_error(path, row.target, row.input)
        if first is not None:
            counts[row.target] += 1
            if counts[first.target] > 1 or len(counts) > MAX_COUNTED_LABELS:
                first = None
        yield row
    if first is not None and is_outlier_row(first.target, first.input, counts):
        raise header_error(path, first.target, first.input)


def are_column_names(label: str, text: str) -> bool:
    """Whether both fields are common column names, in either order.

    >>> are_column_names("Label", "review_text"), are_column_names("review", "sentiment")
    (True, True)
    """
    in_order = _is_name(label, LABEL_NAMES) and _is_name(text, TEXT_NAMES)
    return in_order or _is_swapped_header(label, text)


def header_note(fields: Sequence[str]) -> str:
    """A note on the first row of pairs if every field is a column name; empty otherwise.

    >>> header_note(["lemma", "form", "tags"])
    'The first row (lemma, form, tags) looks like a header; to skip it, set --header.'
    >>> header_note(["word", "Wort"])
    ''
    """
    distinct = len(set(fields)) == len(fields) > 1
    if not distinct or not all(_is_name(field, PAIR_NAMES) for field in fields):
        return ""
    return f"The first row ({', '.join(fields)}) looks like a header; to skip it, set --header."


def is_outlier_row(label: str, text: str, counts: Counter[str]) -> bool:
    """Whether a first row differs from all others as a header does; `counts` are the label counts.

    Its label occurs once, all other labels are common, and its text is as short as a column name. A
    rare label alone is not enough.

    >>> counts = Counter({"mood": 1, "good": 9, "bad": 7})
    >>> is_outlier_row("mood", "Words", counts), is_outlier_row("mood", "Sad, he said.", counts)
    (True, False)
    """
    others = [count for other, count in counts.items() if other != label]
    if counts[label] != 1 or not others or min(others) < MIN_LABEL_COUNT:
        return False
    short = len(text.split()) <= MAX_NAME_WORDS and not SENTENCE_PUNCTUATION.search(text)
    return short or _is_name(label, LABEL_NAMES)


def header_error(path: Path, label: str, text: str) -> RegardError:
    """The error for a first row that looks like a header."""
    swapped = _is_swapped_header(label, text)
    text_name, label_name = (label, text) if swapped else (text, label)
    columns = f"--source-column {shlex.quote(text_name)} --target-column {shlex.quote(label_name)}"
    if swapped:
        way_out = f"Name the columns: {columns}"
    elif max(len(label), len(text)) > MAX_NAME_LENGTH:
        way_out = "Set --header"
    else:
        way_out = f"Set --header, or name the columns: {columns}"
    shown = [
        repr(field if len(field) <= MAX_NAME_LENGTH else f"{field[:MAX_NAME_LENGTH]}…")
        for field in (label, text)
    ]
    return RegardError(
        f"The first row of '{path}' looks like a header ({', '.join(shown)}), but would be read as an "
        f"example. {way_out}. If it is an example, move it below the next row."
    )


def _is_swapped_header(label: str, text: str) -> bool:
    return _is_name(label, TEXT_NAMES) and _is_name(text, LABEL_NAMES)


def _is_name(field: str, names: frozenset[str]) -> bool:
    """Whether the last word is one of `names`, and the words before it are column names too."""
    words = WORD.findall(field.casefold())
    return bool(words) and words[-1] in names and set(words) <= names | LABEL_NAMES | TEXT_NAMES
