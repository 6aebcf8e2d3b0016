"""Labelled texts become rows of token numbers: framed by START and END, or cut into sentences.

A text that is too long is cut off, and how much was is counted (`Cut`). A sentence that is too long is
cut into several, and nothing of it is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, Self

from regard.core.special_tokens import UNKNOWN
from regard.data.document_rows import DocumentRows, EncodedDocument
from regard.data.labelled_rows import LabelledRow
from regard.data.sentences import sentences
from regard.data.text_rows import TextRows
from regard.tasks.classify_options import ClassifyOptions
from regard.tasks.text_vocabularies import TextVocabularies

ROWS_AT_A_TIME = 4096  # enough for the tokenizer to work in parallel
FRAME = 2  # START and END

Rows = TextRows | DocumentRows


class Cut(NamedTuple):
    """How many texts were too long, and how many of all tokens were left out for that."""

    texts: int = 0
    of_texts: int = 0
    tokens: int = 0
    of_tokens: int = 0

    def with_more(self, other: Self) -> Self:
        """Of these texts and of others."""
        return type(self)(*(one + more for one, more in zip(self, other, strict=True)))

    def words(self, longest: int) -> str:
        """A part of a sentence that says so; empty where nothing was cut.

        >>> Cut(texts=1, of_texts=2, tokens=30, of_tokens=120).words(80)
        '1 of 2 texts is cut off after 80 tokens, which leaves out 25.0 % of what there is to read'
        """
        if not self.texts:
            return ""
        share = 100 * self.tokens / self.of_tokens
        are = "is" if self.texts == 1 else "are"
        of = "text" if self.of_texts == 1 else "texts"
        return (
            f"{self.texts:,} of {self.of_texts:,} {of} {are} cut off after {longest:,} tokens, which "
            f"leaves out {share:.1f} % of what there is to read"
        )


def training_rows(
    rows: Iterator[LabelledRow], options: ClassifyOptions, vocabularies: TextVocabularies
) -> tuple[Rows, Cut]:
    """Token numbers and class numbers of these rows, which are read once."""
    number_of = {label: number for number, label in enumerate(vocabularies.labels)}
    documents: list[EncodedDocument] = []
    labels: list[int] = []
    cut = Cut()
    while block := list(islice(rows, ROWS_AT_A_TIME)):
        some, more = _encoded([row.text for row in block], options, vocabularies)
        documents += some
        cut = cut.with_more(more)
        labels += [number_of[row.label] for row in block]
    return _rows(documents, labels, options), cut


def text_rows(
    texts: Sequence[str],
    vocabularies: TextVocabularies,
    options: ClassifyOptions,
    *,
    labels: Sequence[int] | None = None,
) -> Rows:
    """The tokens of these texts, cut off where those learned from were."""
    return _rows(_encoded(texts, options, vocabularies)[0], labels, options)


def cut_of(texts: Sequence[str], vocabularies: TextVocabularies, options: ClassifyOptions) -> Cut:
    """How much of these texts `text_rows` leaves out."""
    cut = Cut()
    for start in range(0, len(texts), ROWS_AT_A_TIME):
        block = texts[start : start + ROWS_AT_A_TIME]
        cut = cut.with_more(_encoded(block, options, vocabularies)[1])
    return cut


def _rows(
    documents: list[EncodedDocument], labels: Sequence[int] | None, options: ClassifyOptions
) -> Rows:
    if options.sentences:
        return DocumentRows.of(documents, labels)
    return TextRows.of_texts([document.tokens for document in documents], labels)


def _encoded(
    texts: Sequence[str], options: ClassifyOptions, vocabularies: TextVocabularies
) -> tuple[list[EncodedDocument], Cut]:
    vocabulary = vocabularies.text
    if options.sentences:
        parts = [sentences(text) for text in texts]
        flat = iter(vocabulary.encode_all(part for some in parts for part in some))
        whole = [_document(islice(flat, len(some)), options.sentence_length) for some in parts]
    else:
        whole = [EncodedDocument(tokens, ()) for tokens in vocabulary.encode_all(texts)]
    room = options.max_length - (0 if options.sentences else FRAME)
    lengths = [len(document.tokens) for document in whole]
    over = [length - room for length in lengths if length > room]
    kept = [EncodedDocument(tokens[:room], segments[:room]) for tokens, segments in whole]
    return kept, Cut(len(over), len(lengths), sum(over), sum(lengths))


def _document(parts: Iterable[Sequence[int]], longest: int) -> EncodedDocument:
    """One document of these sentences; one without any token is a single unknown one."""
    tokens: list[int] = []
    segments: list[int] = []
    number = 0
    for part in parts:
        for start in range(0, len(part), longest):
            piece = part[start : start + longest]
            tokens += piece
            segments += [number] * len(piece)
            number += 1
    return EncodedDocument(tokens or [UNKNOWN], segments or [0])
