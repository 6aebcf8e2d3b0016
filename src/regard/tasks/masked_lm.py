"""Pre-training of an encoder: masked tokens, and whether two texts belong together (Devlin et al. 2019).

    the cat [MASK] on the mat        →  sat
    first half | second half         →  the second follows the first, or is another document's

The loss is the mean over masked tokens plus the mean over pairs. Accuracies are in percent; perplexity is
that of the masked tokens. The embedded data are pages about films.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from jaxtyping import Float, Int, Int64
from torch import Tensor
from torch.nn import functional as F

from regard.core.batches import TextBatch
from regard.core.errors import RegardError
from regard.core.protocols import Decode, Loss
from regard.data.batching import token_batches
from regard.data.noising import masked_rows
from regard.data.readers.text_file import BadRows
from regard.data.splits import HeldOut, LearnedToo, held_out_facts, learned_too_words
from regard.data.text_dataset import (
    Document,
    DocumentFile,
    TextChunks,
    TextRows,
    embedded_documents,
)
from regard.data.tokenizers.subword import MASK_NUMBER
from regard.data.tokenizers.vocabulary import Vocabulary
from regard.tasks.metrics.accuracy import perplexity, require_answers, right_places
from regard.tasks.metrics.metric import SummedMetric, percentage
from regard.tasks.task import Assessed
from regard.tasks.text_task import (
    RowSource,
    TextBatches,
    TextOptions,
    TextTask,
    TextVocabularies,
    beside,
    evaluation_cuts,
    part_rows,
    plain_batch,
)

# What a model says of masked tokens and of pairs, held against what is wanted.


class Answers(NamedTuple):
    """What is said at some places or of some rows, and what is wanted there."""

    logits: Float[Tensor, "asked choices"]
    wanted: Int[Tensor, " asked"]


def answers_of(model: Any, batch: TextBatch) -> tuple[Answers, Answers]:
    """Of the masked tokens and of the pairs; nothing is projected where nothing is wanted."""
    hidden = model.hidden(batch.tokens, batch.lengths, batch.segments)
    predicted, labelled = batch.predicted, batch.labelled
    of_tokens = Answers(model.token_logits(hidden[predicted]), batch.wanted[predicted])
    if not labelled.any():
        # Not asked at all: a head that is never used must not be moved by weight decay either.
        return of_tokens, Answers(hidden.new_zeros(0, 2), batch.labels[:0])
    pooled = model.pooled(hidden)[labelled]
    return of_tokens, Answers(model.pair_logits(pooled), batch.labels[labelled])


def likeliest(logits: Float[Tensor, "asked vocabulary"]) -> Int[Tensor, " asked"]:
    """The likeliest token that can stand in a text; MASK and the special ones are never told."""
    first = MASK_NUMBER + 1
    return logits[..., first:].argmax(dim=-1) + first


class Tally:
    """Adds up what was asked, its cross-entropy, and how much of what was said is right."""

    def __init__(self) -> None:
        self.total, self.right, self.count = 0.0, 0, 0

    def add(self, answers: Answers, said: Int[Tensor, " asked"]) -> None:
        """Take in the answers of one batch."""
        self.total += F.cross_entropy(answers.logits, answers.wanted, reduction="sum").item()
        self.right += int((said == answers.wanted).sum())
        self.count += len(answers.wanted)

    @property
    def mean(self) -> float:
        """The cross-entropy of one answer."""
        return self.total / self.count

    @property
    def accuracy(self) -> float:
        """In percent."""
        return 100.0 * self.right / self.count


# What the task `encoder` can be told.


@dataclass(frozen=True, kw_only=True)
class EncoderOptions(TextOptions):
    """As `TextOptions`, and:

    text           a file with a document a line; without it, pages about films are learned from
    pairs          whether it is also told if the second half of a row follows the first
    masked_share   the share of the tokens that are to be told
    """

    text: str | None = None
    pairs: bool = True
    masked_share: float = 0.15

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.masked_share <= 1:
            raise RegardError(
                f"task.masked_share={self.masked_share}: a share is above 0 and at most 1. "
                "Use such as 0.15."
            )


# The rows of the task `encoder`: documents in pieces, masked, and what is asked of held-out ones.
#
# Pairs and masks of what is held out are drawn from a fixed seed, so that every model is asked the
# same. The answer to a document is the tokens at its masked places, with spaces between.


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


# The files of the task `encoder`, read and cut into what is learned from and what is held out.
#
# What is learned from is streamed twice: once for the vocabulary, once for the tokens. Held-out
# documents are kept as texts, since they are scored.


@dataclass(frozen=True, kw_only=True)
class EncoderCorpus:
    """Everything read from the files of the task."""

    vocabularies: TextVocabularies
    train: TextChunks
    validation: HeldOut
    test: HeldOut
    # How many texts of each held-out part stand in the training part too.
    learned_too: dict[str, int]
    bad: BadRows

    @classmethod
    def read(
        cls,
        options: EncoderOptions,
        *,
        texts: RowSource[Document],
        vocabularies: TextVocabularies | None = None,
    ) -> Self:
        """Read the files; known `vocabularies` are used again, as when a run is resumed."""
        bad = BadRows(skip=options.skip_bad_rows)
        first = bad
        if vocabularies is None:
            rows = part_rows(texts, options, "train", bad)
            vocabularies = TextVocabularies.build(
                options, kind=KIND, texts=(row.text for row in rows)
            )
            first = BadRows(skip=True)  # every later pass meets the same bad rows again
        require_mask(vocabularies.text)
        held_out = {
            part: held_out_documents(
                [row.text for row in _held_out_rows(texts, options, part, bad)],
                options,
                vocabularies.text,
            )
            for part in ("validation", "test")
        }
        seen = LearnedToo[Any](held_out, lowercase=options.lowercase, text_of=lambda row: row.text)
        watched = seen.watch(part_rows(texts, options, "train", first))
        train = chunked((row.text for row in watched), options, vocabularies.text)
        if not len(train):
            raise RegardError(
                "There are no documents to learn from. Give more, or lower "
                f"task.validation_share={options.validation_share} and task.test_share={options.test_share}."
            )
        return cls(
            vocabularies=vocabularies,
            train=train,
            validation=held_out["validation"],
            test=held_out["test"],
            learned_too=seen.counts(),
            bad=bad,
        )

    def facts(self) -> dict[str, Any]:
        """How much there is of each part, and a fingerprint that shows any later change."""
        return {
            "train_documents": len(np.unique(self.train.documents)),
            "train_pieces": len(self.train),
            "train_fingerprint": self.train.fingerprint(),
            **held_out_facts(self.validation, self.test),
            "held_out_sources_in_train": self.learned_too,
            "bad_rows": self.bad.count,
        }

    def describe(self) -> str:
        """How much there is, in one line."""
        facts = self.facts()
        return (
            f"{facts['train_documents']:,} documents to learn from in {len(self.train):,} pieces, "
            f"{len(self.validation):,} to develop on, {len(self.test):,} to test on; vocabulary of "
            f"{self.vocabularies.text.size:,}" + learned_too_words(self.learned_too, "documents")
        )


def _held_out_rows(
    texts: RowSource[Document], options: EncoderOptions, part: str, bad: BadRows
) -> Iterator[Document]:
    own: str | None = getattr(options, part)
    if own:
        return DocumentFile(path=Path(own)).rows(bad=bad)
    return part_rows(texts, options, part, BadRows(skip=True))


class Encoder(TextTask):
    """The score that decides is the share of masked tokens that are told right."""

    options_class = EncoderOptions
    metrics: ClassVar[dict[str, bool]] = {
        "masked_accuracy": False,
        "pair_accuracy": False,
        "perplexity": True,
        "loss": True,
    }
    summed: ClassVar[dict[str, SummedMetric]] = {
        "masked_accuracy": SummedMetric(right_places, percentage)
    }

    def __init__(self, *, corpus: Any, options: EncoderOptions, seed: int, decode: Decode) -> None:
        super().__init__(corpus=corpus, options=options, seed=seed, decode=decode)
        if self.metric == "pair_accuracy" and not options.pairs:
            raise RegardError(
                "task.metric='pair_accuracy' needs pairs, but task.pairs is false. Set it to true, or "
                "choose another metric, such as masked_accuracy."
            )

    @classmethod
    def from_options(
        cls,
        options: EncoderOptions,
        *,
        seed: int,
        decode: Decode,
        vocabularies: TextVocabularies | None = None,
    ) -> Self:
        """Read the files the options name."""
        texts = cls.training_texts(options)
        corpus = EncoderCorpus.read(options, texts=texts, vocabularies=vocabularies)
        return cls(corpus=corpus, options=options, seed=seed, decode=decode)

    @classmethod
    def training_texts(cls, options: EncoderOptions) -> RowSource[Document]:
        """What is learned from."""
        if options.text is None:
            return embedded_documents()
        return DocumentFile(path=Path(options.text))

    @classmethod
    def scores(cls, predicted: Sequence[str], answers: Sequence[Sequence[str]]) -> dict[str, float]:
        """The masked tokens that are right; what is said of pairs is not among the predictions."""
        require_answers(answers)
        sums = np.array(right_places(predicted, answers)).sum(axis=0)
        return {"masked_accuracy": percentage(sums).item()}

    @classmethod
    def held_out(
        cls,
        text: str,
        options: EncoderOptions,
        *,
        bad: BadRows,
        vocabularies: TextVocabularies | None = None,
    ) -> HeldOut:
        """A file of documents to score a model on; which tokens are asked for needs a vocabulary.

        Without one the answers are empty, and are found by `assess_on`.
        """
        texts = [row.text for row in DocumentFile(path=Path(text)).rows(bad=bad)]
        if vocabularies is None:
            return HeldOut(sources=tuple(texts), answers=(("",),) * len(texts))
        return held_out_documents(texts, options, vocabularies.text)

    def epoch(self, number: int) -> TextBatches:
        """The batches of one pass, rows of like length together; pairs and masks are drawn anew."""
        rows = self.corpus.train.rows(
            rng=np.random.default_rng([self.seed, number]), pairs=self.options.pairs
        )
        cuts = token_batches(
            rows.store, max_tokens=self.options.batch_tokens, seed=self.seed, epoch=number
        )
        vocabulary, seeds = self.corpus.vocabularies.text.size, (self.seed, number)
        return TextBatches(
            cuts=cuts,
            make=lambda chosen: masked_batch(
                rows, chosen, self.options, vocabulary=vocabulary, seeds=seeds
            ),
        )

    def loss(self, model: Any, batch: TextBatch) -> Loss:
        """The two means added, times the number of predictions, which it is to be divided by."""
        of_tokens, of_pairs = answers_of(model, batch)
        # Of no rows the mean is not a number; the sum over them is 0.
        tokens, pairs = (
            F.cross_entropy(asked.logits, asked.wanted, reduction="sum") / max(1, len(asked.wanted))
            for asked in (of_tokens, of_pairs)
        )
        return Loss((tokens + pairs) * batch.num_predictions, batch.num_predictions)

    def assess_on(self, model: Any, part: HeldOut) -> Assessed:
        """Scores on any part, and the tokens told at the masked places of each document."""
        vocabulary = self.corpus.vocabularies.text
        rows, chunks = held_out_rows(part.sources, self.options, vocabulary)
        batches = held_out_batches(rows, self.options, vocabulary)
        told: dict[int, list[str]] = {}
        tokens, pairs = Tally(), Tally()
        for place in range(len(batches)):
            batch = beside(model, batches[place])
            of_tokens, of_pairs = answers_of(model, batch)
            said = likeliest(of_tokens.logits)
            tokens.add(of_tokens, said)
            pairs.add(of_pairs, of_pairs.logits.argmax(dim=-1))
            of_rows = said.split(batch.predicted.sum(dim=1).tolist())
            for row, numbers in zip(batches.indices(place), of_rows, strict=True):
                told[int(row)] = vocabulary.tokens_of(numbers.tolist())
        if not tokens.count:
            raise RegardError("Nothing is masked: the texts have no token that is known.")
        scores = {"masked_accuracy": tokens.accuracy}
        loss = tokens.mean
        if pairs.count:
            scores["pair_accuracy"] = pairs.accuracy
            loss += pairs.mean
        scores |= {"perplexity": perplexity(tokens.mean), "loss": loss}
        return Assessed(scores, by_document(told, chunks, documents=len(part.sources)))

    @classmethod
    def predict(
        cls,
        model: Any,
        texts: Sequence[str],
        vocabularies: TextVocabularies,
        decode: Decode,
        *,
        options: Any,
    ) -> list[str]:
        """Each text with every [MASK] in it filled by the likeliest token."""
        del decode
        vocabulary = vocabularies.text
        encoded = vocabulary.encode_all(texts)
        longest = options.max_length - 2  # START and END stand around a text
        for text, numbers in zip(texts, encoded, strict=True):
            if len(numbers) > longest:
                raise RegardError(
                    f"A text has {len(numbers)} tokens, but the model learned from rows of at most "
                    f"{longest}: '{text[:40]}…'. Give it in parts."
                )
        rows, outputs = TextRows.of_texts(encoded), [""] * len(encoded)
        cuts = evaluation_cuts(rows)
        with torch.inference_mode():
            for place in range(len(cuts)):
                batch = beside(model, plain_batch(rows, cuts.indices(place)))
                hidden = model.hidden(batch.tokens, batch.lengths, batch.segments)
                masked = batch.tokens == MASK_NUMBER
                filled = batch.tokens.clone()
                filled[masked] = likeliest(model.token_logits(hidden[masked]))
                for row, numbers in zip(cuts.indices(place), filled.tolist(), strict=True):
                    outputs[row] = vocabulary.decode(numbers)
        return outputs
