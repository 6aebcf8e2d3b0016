"""Documents from a file, one a line, or from the facts about films; blank lines are no documents."""

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
from regard.data.datasets.films import fact_texts, film_facts, films_file
from regard.data.noising import NOTHING
from regard.data.readers.pairs import UNWANTED, fault_of
from regard.data.readers.text_file import BadRows, TextFile, good_lines
from regard.data.token_store import TokenStore, flat_places
from regard.data.tokenizers.vocabulary import fingerprint_of


class Document(NamedTuple):
    """A text and the line it stands on, counted from 1."""

    text: str
    line: int


@dataclass(frozen=True, kw_only=True)
class DocumentFile:
    """A file of UTF-8 text, gzipped or not, with a document on every line."""

    path: Path
    max_line_bytes: int = 1_000_000

    def rows(self, *, bad: BadRows) -> Iterator[Document]:
        """Every document in the order of the file; lines that cannot be used go to `bad`."""
        file = TextFile(path=self.path, max_line_bytes=self.max_line_bytes)
        file.check()
        return self._clean(file, bad=bad)

    def _clean(self, file: TextFile, *, bad: BadRows) -> Iterator[Document]:
        usable = False
        for number, line in good_lines(file.lines(bad=bad)):
            text = normalize("NFC", line).strip()
            if not text:
                continue
            if UNWANTED.search(text):
                bad.report(path=self.path, line=number, reason=fault_of("text", text))
                continue
            usable = True
            yield Document(text, number)
        if not usable:
            raise RegardError(
                f"No line of '{self.path}' can be used ({bad.count:,} bad). Give a file with a "
                "document on every line."
            )


@dataclass(frozen=True, kw_only=True)
class FilmDocuments:
    """What is known of every film, a page each: real text without a download."""

    path: Path

    def rows(self, *, bad: BadRows) -> Iterator[Document]:
        """Every page, by the title of its film; none of them is bad."""
        for number, film in enumerate(film_facts(path=self.path), start=1):
            yield Document(" ".join(fact_texts(film)), number)


def embedded_documents() -> FilmDocuments:
    """The pages about films that the installed package has the facts for."""
    return FilmDocuments(path=films_file())


# Rows of one text or two, with a label each, and the padded arrays made from some of them.
#
# first a b, second c d    →    START a b END c d END      segments  0 0 0 0 1 1 1 first a b
# →    START a b END PAD PAD PAD  segments  0 0 0 0 0 0 0
#
# START plays the part of [CLS], END that of [SEP] (Devlin et al. 2019, figure 2).


class PaddedTexts(NamedTuple):
    """Rows as a model reads them; lengths count everything but padding."""

    tokens: Int64[np.ndarray, "rows width"]
    lengths: Int64[np.ndarray, " rows"]
    segments: Int64[np.ndarray, "rows width"]


@dataclass(frozen=True, kw_only=True, eq=False)
class TextRows:
    """The sources of `store` are the tokens of both texts, the first `first_lengths` of the first.

    A label is NOTHING where there is none.
    """

    store: TokenStore
    first_lengths: Int64[np.ndarray, " rows"]
    labels: Int64[np.ndarray, " rows"]

    @classmethod
    def of_texts(cls, texts: Sequence[Sequence[int]], labels: Sequence[int] | None = None) -> Self:
        """Rows of one text each; without labels, none has one."""
        store = TokenStore.build((text, ()) for text in texts)
        known = [NOTHING] * len(store) if labels is None else labels
        return cls(
            store=store,
            first_lengths=store.source_lengths,
            labels=np.array(known, dtype=np.int64),
        )

    def __len__(self) -> int:
        return len(self.store)

    def fingerprint(self) -> str:
        """A hash of all rows in their order."""
        labels, firsts = self.labels.tolist(), self.first_lengths.tolist()
        return fingerprint_of(
            {"tokens": self.store.fingerprint(), "labels": labels, "first": firsts}
        )

    def padded(self, rows: Int64[np.ndarray, " rows"]) -> PaddedTexts:
        """These rows with START before, END after each text, and PAD to the longest."""
        offsets = self.store.source_offsets
        first = self.first_lengths[rows][:, None]
        total = (offsets[rows + 1] - offsets[rows])[:, None]
        lengths = total + np.where(total > first, 3, 2)
        place = np.arange(int(lengths.max(initial=0)))[None]
        # One place further for START, and one more behind the END of the first text.
        token = place - 1 - (place > first + 1)
        inside = (token >= 0) & (token < total) & (place != first + 1)
        filled = np.full(inside.shape, PAD, dtype=np.int64)
        filled[inside] = self.store.source_tokens[(offsets[rows][:, None] + token)[inside]]
        filled[:, 0] = START
        filled[(place == first + 1) | (place == lengths - 1)] = END
        segments = (place > first + 1) & (place < lengths)
        return PaddedTexts(filled, lengths[:, 0], segments.astype(np.int64))


# Documents as token numbers, with the sentence each token is in and a label, and padded arrays of
# some.
#
# tokens      a b c d e PAD PAD segments    0 0 1 1 1  1   1
#
# Unlike `TextRows` they have no START and no END: sentences are what is marked.


class EncodedDocument(NamedTuple):
    """Token numbers and, for each, which sentence it is in."""

    tokens: Sequence[int]
    segments: Sequence[int]


@dataclass(frozen=True, kw_only=True, eq=False)
class DocumentRows:
    """The sources of `store` are the documents; `segments` has a number for each of its source tokens."""

    store: TokenStore
    segments: Int32[np.ndarray, " source_total"]
    labels: Int64[np.ndarray, " rows"]

    @classmethod
    def of(cls, documents: Iterable[EncodedDocument], labels: Sequence[int] | None = None) -> Self:
        """Rows of one document each; without labels, none has one."""
        kept = list(documents)
        store = TokenStore.build((document.tokens, ()) for document in kept)
        known = [NOTHING] * len(store) if labels is None else labels
        segments = np.fromiter(
            (number for document in kept for number in document.segments), dtype=np.int32
        )
        return cls(store=store, segments=segments, labels=np.array(known, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.store)

    def fingerprint(self) -> str:
        """A hash of all rows in their order."""
        return fingerprint_of(
            {
                "tokens": self.store.fingerprint(),
                "segments": self.segments.tolist(),
                "labels": self.labels.tolist(),
            }
        )

    def padded(self, rows: Int64[np.ndarray, " rows"]) -> PaddedTexts:
        """These rows with PAD to the longest; padding carries on the last sentence's number."""
        offsets = self.store.source_offsets
        lengths = offsets[rows + 1] - offsets[rows]
        place = np.arange(int(lengths.max(initial=0)))[None]
        inside = place < lengths[:, None]
        index = offsets[rows][:, None] + np.minimum(place, lengths[:, None] - 1)
        tokens = np.where(inside, self.store.source_tokens[index], PAD)
        return PaddedTexts(tokens.astype(np.int64), lengths, self.segments[index].astype(np.int64))


# Documents as pieces a model can take, each in two halves, and the pairs that are made of them.
#
# a document     It is a film. It is old. Bob made it. its halves     It is a film.  |  It is old.
# Bob made it.        the second follows the first a false pair   It is a film.  |  They met in
# Rome.              the second is another document's
#
# A piece is halved where a sentence ends, as near to its middle as there is one, else in the
# middle. Half of the pairs, drawn anew for every epoch, are false (Devlin et al. 2019, section 3.1,
# where pieces are runs of sentences; here they are runs of tokens).


FOLLOWS, IS_FOREIGN = 1, 0

Halves = tuple[Sequence[int], Sequence[int]]


@dataclass(frozen=True, kw_only=True, eq=False)
class TextChunks:
    """The sources of `store` are first halves, its targets second ones; each is of one document.

    A row of `longest` tokens is the longest, both halves together. Documents stand in rising order.
    """

    store: TokenStore
    documents: Int64[np.ndarray, " chunks"]
    longest: int

    @classmethod
    def build(
        cls, texts: Iterable[Sequence[int]], *, longest: int, sentence_ends: Collection[int]
    ) -> Self:
        """The pieces of these documents, which are read once and not kept."""
        documents: list[int] = []

        def halved() -> Iterator[Halves]:
            for number, text in enumerate(texts):
                for piece in pieces(text, longest=longest):
                    documents.append(number)
                    yield halves(piece, sentence_ends=sentence_ends)

        store = TokenStore.build(halved())
        return cls(store=store, documents=np.array(documents, dtype=np.int64), longest=longest)

    def __len__(self) -> int:
        return len(self.store)

    def fingerprint(self) -> str:
        """A hash of all pieces in their order."""
        return self.store.fingerprint()

    def rows(self, *, rng: np.random.Generator, pairs: bool) -> TextRows:
        """With `pairs`, halves with the label FOLLOWS or IS_FOREIGN; else whole pieces without one."""
        store, own = self.store, np.arange(len(self))
        second = self._drawn_seconds(rng) if pairs else own
        first_lengths = store.source_lengths
        added = np.minimum(store.target_lengths[second], self.longest - first_lengths)
        row, within, offsets = flat_places(first_lengths + added)
        behind = within - first_lengths[row]
        in_first = behind < 0
        tokens = np.empty(len(row), dtype=np.int32)
        at = store.source_offsets[row] + within
        tokens[in_first] = store.source_tokens[at[in_first]]
        at = store.target_offsets[second[row]] + behind
        tokens[~in_first] = store.target_tokens[at[~in_first]]
        joined = TokenStore(
            source_tokens=tokens,
            source_offsets=offsets,
            target_tokens=np.zeros(0, dtype=np.int32),
            target_offsets=np.zeros_like(offsets),
        )
        if not pairs:
            nothing = np.full(len(self), NOTHING)
            return TextRows(store=joined, first_lengths=first_lengths + added, labels=nothing)
        follows = np.where(second == own, FOLLOWS, IS_FOREIGN)
        labels = np.where(added > 0, follows, NOTHING)
        return TextRows(store=joined, first_lengths=first_lengths, labels=labels)

    def _drawn_seconds(self, rng: np.random.Generator) -> Int64[np.ndarray, " chunks"]:
        """For each first half the row its second half is taken from: half of the time its own."""
        begin = np.searchsorted(self.documents, self.documents, side="left")
        end = np.searchsorted(self.documents, self.documents, side="right")
        others = len(self) - (end - begin)
        if len(others) and not others.all():
            raise RegardError(
                "Pairs of texts need at least two documents, since half of them are of different "
                "ones. Give more documents, a line each, or set task.pairs=false."
            )
        drawn = (end + np.floor(rng.random(len(self)) * others).astype(np.int64)) % max(
            1, len(self)
        )
        lengths = self.store.target_lengths
        # A piece of one token has no second half, to give or to lose.
        swapped = (rng.random(len(self)) < 0.5) & (lengths > 0) & (lengths[drawn] > 0)
        return np.where(swapped, drawn, np.arange(len(self)))


def pieces(text: Sequence[int], *, longest: int) -> list[Sequence[int]]:
    """A text in as few pieces of at most `longest` tokens as there can be, all about as long.

    >>> pieces([4, 5, 6, 7, 8], longest=4)
    [[4, 5, 6], [7, 8]]
    """
    count = -(-len(text) // longest)
    cuts = [-(-place * len(text) // count) for place in range(count + 1)] if count else []
    return [text[begin:end] for begin, end in pairwise(cuts)]


def halves(piece: Sequence[int], *, sentence_ends: Collection[int]) -> Halves:
    """A piece in two, where a sentence ends if one ends inside it.

    >>> halves([4, 9, 5, 6, 7], sentence_ends={9})
    ([4, 9], [5, 6, 7])
    """
    middle = len(piece) / 2
    ends = [place for place in range(1, len(piece)) if piece[place - 1] in sentence_ends]
    cut = min(ends, key=lambda place: abs(place - middle)) if ends else -(-len(piece) // 2)
    return piece[:cut], piece[cut:]
