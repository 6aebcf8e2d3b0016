"""The rows of the task `encoder`: documents in pieces, masked, and what is asked of held-out ones.

Pairs and masks of what is held out are drawn from a fixed seed, so that every model is asked the same.
The answer to a document is the tokens at its masked places, with spaces between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
import torch
from jaxtyping import Int64

from regard.core.errors import RegardError
from regard.core.text_batch import TextBatch
from regard.data.masked_tokens import masked_rows
from regard.data.text_chunks import TextChunks
from regard.data.text_rows import TextRows
from regard.data.vocabulary import Vocabulary
from regard.data.wordpiece import MASK_NUMBER
from regard.tasks.encoder_options import EncoderOptions
from regard.tasks.held_out import HeldOut
from regard.tasks.text_batches import TextBatches, evaluation_cuts, plain_batch

KIND = "wordpiece"
ROWS_AT_A_TIME = 4096  # enough for the tokenizer to work in parallel
HELD_OUT_SEED = 2019
SENTENCE_ENDS = ".!?"


def held_out_documents(
    texts: Sequence[str], options: EncoderOptions, vocabulary: Vocabulary
) -> HeldOut:
    """These documents, each with the tokens that are masked in it."""
    rows, chunks = held_out_rows(texts, options, vocabulary)
    answers: dict[int, list[str]] = {}
    batches = held_out_batches(rows, options, vocabulary)
    for place in range(len(batches)):
        for row, wanted in zip(batches.indices(place), batches[place].wanted, strict=True):
            answers[int(row)] = vocabulary.tokens_of(wanted[wanted >= 0].tolist())
    joined = by_document(answers, chunks, documents=len(texts))
    return HeldOut(sources=tuple(texts), answers=tuple((answer,) for answer in joined))


def held_out_rows(
    texts: Sequence[str], options: EncoderOptions, vocabulary: Vocabulary
) -> tuple[TextRows, TextChunks]:
    """What is asked of these documents, the same each time, and the pieces it is made of."""
    chunks = chunked(texts, options, vocabulary)
    pairs = options.pairs and len(np.unique(chunks.documents)) > 1
    return chunks.rows(rng=np.random.default_rng(HELD_OUT_SEED), pairs=pairs), chunks


def held_out_batches(
    rows: TextRows, options: EncoderOptions, vocabulary: Vocabulary
) -> TextBatches:
    """The batches of held-out rows, masked the same way each time."""
    return TextBatches(
        cuts=evaluation_cuts(rows),
        make=lambda chosen: masked_batch(
            rows, chosen, options, vocabulary=vocabulary.size, seeds=(HELD_OUT_SEED,)
        ),
    )


def masked_batch(
    rows: TextRows,
    chosen: Int64[np.ndarray, " rows"],
    options: EncoderOptions,
    *,
    vocabulary: int,
    seeds: tuple[int, ...],
) -> TextBatch:
    """The batch of these rows; its masks are a function of the seeds and of its first row."""
    batch = plain_batch(rows, chosen)
    masked = masked_rows(
        batch.tokens.numpy(),
        rng=np.random.default_rng([*seeds, int(chosen[0])]),
        mask=MASK_NUMBER,
        vocabulary=vocabulary,
        share=options.masked_share,
    )
    tokens, wanted = (torch.from_numpy(array) for array in masked)
    return batch._replace(tokens=tokens, wanted=wanted)


def by_document(said: dict[int, list[str]], chunks: TextChunks, *, documents: int) -> list[str]:
    """What is said of the pieces of each document, in order, with spaces between."""
    words: list[list[str]] = [[] for _ in range(documents)]
    for row, document in enumerate(chunks.documents.tolist()):
        words[document] += said[row]
    return [" ".join(of_document) for of_document in words]


def chunked(texts: Iterable[str], options: EncoderOptions, vocabulary: Vocabulary) -> TextChunks:
    """Documents as pieces that leave room for START and two ENDs."""
    return TextChunks.build(
        _encoded(iter(texts), vocabulary),
        longest=options.max_length - 3,
        sentence_ends={number for mark in SENTENCE_ENDS for number in vocabulary.encode(mark)},
    )


def _encoded(texts: Iterator[str], vocabulary: Vocabulary) -> Iterator[list[int]]:
    while block := list(islice(texts, ROWS_AT_A_TIME)):
        yield from vocabulary.encode_all(block)


def require_mask(vocabulary: Vocabulary) -> None:
    """Refuse a vocabulary in which nothing can be masked."""
    if vocabulary.kind != KIND:
        raise RegardError(
            f"A vocabulary of {vocabulary.kind} has no token for a masked place. Use one of {KIND}."
        )
