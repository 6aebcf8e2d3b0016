"""Datasets of single texts and documents: readers, tokenised rows with labels, padding, chunks.

    TextDataset        START a b END c d END        segments  0 0 0 0 1 1 1     one text or a pair
                       START a b END PAD PAD PAD    segments  0 0 0 0 0 0 0
    DocumentDataset    a b c d e PAD PAD            segments  0 0 1 1 1 1 1     sentence of each token
    ChunkDataset       chunks of documents, for masked language modelling and next-sentence prediction

START and END are BERT's [CLS] and [SEP] (Devlin et al. 2019, figure 2).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, Self
from unicodedata import normalize

import numpy as np
from jaxtyping import Int32, Int64

from regard.core.batches import END, PAD, START
from regard.core.errors import RegardError
from regard.data.noising import IGNORE_INDEX
from regard.data.readers.pairs import CONTROL_CHARACTERS, text_error
from regard.data.readers.text_file import RowErrors, TextFile, decoded_lines
from regard.data.token_store import TokenStore, flat_positions
from regard.data.tokenizers.vocabulary import fingerprint_of


class Document(NamedTuple):
    """A text and its line, numbered from 1."""

    text: str
    line: int


@dataclass(frozen=True, kw_only=True)
class DocumentFile:
    """A file of UTF-8 text, gzipped or not, with one document per line; blank lines are skipped."""

    path: Path
    max_line_bytes: int = 1_000_000

    def rows(self, *, errors: RowErrors) -> Iterator[Document]:
        """All documents in file order; invalid lines are reported to `errors`."""
        file = TextFile(path=self.path, max_line_bytes=self.max_line_bytes)
        file.check()
        return self._clean(file, errors=errors)

    def _clean(self, file: TextFile, *, errors: RowErrors) -> Iterator[Document]:
        any_valid = False
        for number, line in decoded_lines(file.lines(errors=errors)):
            text = normalize("NFC", line).strip()
            if not text:
                continue
            if CONTROL_CHARACTERS.search(text):
                errors.report(path=self.path, line=number, reason=text_error("text", text))
                continue
            any_valid = True
            yield Document(text, number)
        if not any_valid:
            raise RegardError(
                f"'{self.path}' has no valid line ({errors.count:,} errors). Give a file with one "
                "document per line."
            )


class PaddedBatch(NamedTuple):
    """Padded rows; lengths do not count padding."""

    tokens: Int64[np.ndarray, "rows width"]
    lengths: Int64[np.ndarray, " rows"]
    segments: Int64[np.ndarray, "rows width"]


@dataclass(frozen=True, kw_only=True, eq=False)
class TextDataset:
    """Texts, or pairs of texts, with labels.

    The sources of `store` are the tokens of both texts; `first_lengths` of them belong to the first. A
    missing label is IGNORE_INDEX.
    """

    store: TokenStore
    first_lengths: Int64[np.ndarray, " rows"]
    labels: Int64[np.ndarray, " rows"]

    @classmethod
    def of_texts(cls, texts: Sequence[Sequence[int]], labels: Sequence[int] | None = None) -> Self:
        """A dataset of single texts, labelled or not."""
        store = TokenStore.build((text, ()) for text in texts)
        return cls(
            store=store, first_lengths=store.source_lengths, labels=_labels(labels, len(store))
        )

    def __len__(self) -> int:
        return len(self.store)

    def fingerprint(self) -> str:
        """A hash of all rows in order."""
        labels, firsts = self.labels.tolist(), self.first_lengths.tolist()
        return fingerprint_of(
            {"tokens": self.store.fingerprint(), "labels": labels, "first": firsts}
        )

    def padded(self, rows: Int64[np.ndarray, " rows"]) -> PaddedBatch:
        """These rows with START, END after each text, and PAD."""
        offsets = self.store.source_offsets
        first = self.first_lengths[rows][:, None]
        total = (offsets[rows + 1] - offsets[rows])[:, None]
        lengths = total + np.where(total > first, 3, 2)
        position = np.arange(int(lengths.max(initial=0)))[None]
        # Tokens are shifted by one for START, and by one more after the END of the first text.
        token = position - 1 - (position > first + 1)
        inside = (token >= 0) & (token < total) & (position != first + 1)
        filled = np.full(inside.shape, PAD, dtype=np.int64)
        filled[inside] = self.store.source_tokens[(offsets[rows][:, None] + token)[inside]]
        filled[:, 0] = START
        filled[(position == first + 1) | (position == lengths - 1)] = END
        segments = (position > first + 1) & (position < lengths)
        return PaddedBatch(filled, lengths[:, 0], segments.astype(np.int64))


class EncodedDocument(NamedTuple):
    """Token ids, and the index of the sentence of each."""

    tokens: Sequence[int]
    segments: Sequence[int]


@dataclass(frozen=True, kw_only=True, eq=False)
class DocumentDataset:
    """Documents with labels, without START and END.

    The sources of `store` are the documents; `segments` is the sentence index of each token.
    """

    store: TokenStore
    segments: Int32[np.ndarray, " source_total"]
    labels: Int64[np.ndarray, " rows"]

    @classmethod
    def of(cls, documents: Iterable[EncodedDocument], labels: Sequence[int] | None = None) -> Self:
        """A dataset of documents, labelled or not."""
        kept = list(documents)
        store = TokenStore.build((document.tokens, ()) for document in kept)
        segments = np.fromiter(
            (number for document in kept for number in document.segments), dtype=np.int32
        )
        return cls(store=store, segments=segments, labels=_labels(labels, len(store)))

    def __len__(self) -> int:
        return len(self.store)

    def fingerprint(self) -> str:
        """A hash of all rows in order."""
        return fingerprint_of(
            {
                "tokens": self.store.fingerprint(),
                "segments": self.segments.tolist(),
                "labels": self.labels.tolist(),
            }
        )

    def padded(self, rows: Int64[np.ndarray, " rows"]) -> PaddedBatch:
        """These rows with PAD; the segment of padding is that of the last token."""
        offsets = self.store.source_offsets
        lengths = offsets[rows + 1] - offsets[rows]
        position = np.arange(int(lengths.max(initial=0)))[None]
        inside = position < lengths[:, None]
        index = offsets[rows][:, None] + np.minimum(position, lengths[:, None] - 1)
        tokens = np.where(inside, self.store.source_tokens[index], PAD)
        return PaddedBatch(tokens.astype(np.int64), lengths, self.segments[index].astype(np.int64))


def _labels(labels: Sequence[int] | None, count: int) -> Int64[np.ndarray, " rows"]:
    return np.array([IGNORE_INDEX] * count if labels is None else labels, dtype=np.int64)


IS_NEXT, NOT_NEXT = 1, 0

Halves = tuple[Sequence[int], Sequence[int]]


@dataclass(frozen=True, kw_only=True, eq=False)
class ChunkDataset:
    """Chunks of documents in two halves: sources and targets of `store`.

        document    It is a film. It is old. Bob made it.
        IS_NEXT     It is a film.  |  It is old. Bob made it.
        NOT_NEXT    It is a film.  |  They met in Rome.           from another document

    A chunk has at most `max_length` tokens and is split at the sentence end nearest to its middle. Half of
    the pairs, sampled anew for every epoch, are NOT_NEXT (Devlin et al. 2019, section 3.1, where chunks are
    whole sentences; here they are runs of tokens). `documents` is the document of each chunk, ascending.
    """

    store: TokenStore
    documents: Int64[np.ndarray, " chunks"]
    max_length: int

    @classmethod
    def build(
        cls, texts: Iterable[Sequence[int]], *, max_length: int, sentence_ends: Collection[int]
    ) -> Self:
        """Chunk documents in one pass."""
        documents: list[int] = []

        def split() -> Iterator[Halves]:
            for number, text in enumerate(texts):
                for chunk in split_chunks(text, max_length=max_length):
                    documents.append(number)
                    yield split_halves(chunk, sentence_ends=sentence_ends)

        store = TokenStore.build(split())
        return cls(
            store=store, documents=np.array(documents, dtype=np.int64), max_length=max_length
        )

    def __len__(self) -> int:
        return len(self.store)

    def fingerprint(self) -> str:
        """A hash of all chunks in order."""
        return self.store.fingerprint()

    def examples(self, *, rng: np.random.Generator, next_sentence: bool) -> TextDataset:
        """Pairs of halves labelled IS_NEXT or NOT_NEXT; without `next_sentence`, whole chunks."""
        store, own = self.store, np.arange(len(self))
        second = self._sample_second_halves(rng) if next_sentence else own
        first_lengths = store.source_lengths
        added = np.minimum(store.target_lengths[second], self.max_length - first_lengths)
        row, within, offsets = flat_positions(first_lengths + added)
        in_second = within - first_lengths[row]
        in_first = in_second < 0
        tokens = np.empty(len(row), dtype=np.int32)
        index = store.source_offsets[row] + within
        tokens[in_first] = store.source_tokens[index[in_first]]
        index = store.target_offsets[second[row]] + in_second
        tokens[~in_first] = store.target_tokens[index[~in_first]]
        joined = TokenStore(
            source_tokens=tokens,
            source_offsets=offsets,
            target_tokens=np.zeros(0, dtype=np.int32),
            target_offsets=np.zeros_like(offsets),
        )
        if not next_sentence:
            unlabelled = np.full(len(self), IGNORE_INDEX)
            return TextDataset(store=joined, first_lengths=first_lengths + added, labels=unlabelled)
        is_next = np.where(second == own, IS_NEXT, NOT_NEXT)
        labels = np.where(added > 0, is_next, IGNORE_INDEX)
        return TextDataset(store=joined, first_lengths=first_lengths, labels=labels)

    def _sample_second_halves(self, rng: np.random.Generator) -> Int64[np.ndarray, " chunks"]:
        """The chunk that provides the second half for each first half: itself with probability 1/2."""
        begin = np.searchsorted(self.documents, self.documents, side="left")
        end = np.searchsorted(self.documents, self.documents, side="right")
        others = len(self) - (end - begin)
        if len(others) and not others.all():
            raise RegardError(
                "Next-sentence prediction needs at least two documents. Give more documents, one per "
                "line, or set task.next_sentence=false."
            )
        sampled = (end + np.floor(rng.random(len(self)) * others).astype(np.int64)) % max(
            1, len(self)
        )
        lengths = self.store.target_lengths
        # A chunk of one token has no second half.
        swapped = (rng.random(len(self)) < 0.5) & (lengths > 0) & (lengths[sampled] > 0)
        return np.where(swapped, sampled, np.arange(len(self)))


def split_chunks(text: Sequence[int], *, max_length: int) -> list[Sequence[int]]:
    """Split a text into the fewest chunks of at most `max_length` tokens, of nearly equal length.

    >>> split_chunks([4, 5, 6, 7, 8], max_length=4)
    [[4, 5, 6], [7, 8]]
    """
    count = -(-len(text) // max_length)
    cuts = [-(-index * len(text) // count) for index in range(count + 1)] if count else []
    return [text[begin:end] for begin, end in pairwise(cuts)]


def split_halves(chunk: Sequence[int], *, sentence_ends: Collection[int]) -> Halves:
    """Split a chunk at the sentence end nearest to its middle, or in the middle if there is none.

    >>> split_halves([4, 9, 5, 6, 7], sentence_ends={9})
    ([4, 9], [5, 6, 7])
    """
    middle = len(chunk) / 2
    ends = [index for index in range(1, len(chunk)) if chunk[index - 1] in sentence_ends]
    cut = min(ends, key=lambda index: abs(index - middle)) if ends else -(-len(chunk) // 2)
    return chunk[:cut], chunk[cut:]
