"""Language modelling: a text goes on, token by token, or has a span taken out that is to be written.

    next tokens    (nothing)                  →  a b c d e f       span_share = 0
    hidden spans   a b <unknown> f            →  c d e             span_share = 1  (data/span_corruption.py)

Pairs of a question and an answer may be mixed in (`pair_share`), so that what is read is learned in a
form in which it can be asked for ("mixed training" of Allen-Zhu and Li 2024). Texts longer than
`max_length` are cut into pieces; with `stream`, the lines of a file are one text that runs on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from torch.nn import functional as F

from regard.core.batches import UNKNOWN, PairBatch
from regard.core.errors import RegardError
from regard.core.protocols import Decode, Loss
from regard.data.batching import Batches, evaluation_batches, token_batches
from regard.data.noising import corrupt_spans, corrupted_store
from regard.data.readers.text_file import BadRows
from regard.data.splits import HeldOut
from regard.data.token_store import TokenStore
from regard.tasks.language_model.corpus import (
    LmCorpus,
    LmOptions,
    held_out_texts,
    mixing_options,
    text_pieces,
)
from regard.tasks.metrics.accuracy import perplexity
from regard.tasks.metrics.metric import SummedMetric, fraction
from regard.tasks.seq2seq.corpus import PairOptions, PairVocabularies
from regard.tasks.seq2seq.task import beside, next_token_loss, pair_sizes, places_at_a_time
from regard.tasks.task import Assessed, RunTask

# The spans that a held-out part is asked for are the same at every evaluation.
EVALUATION_SEED = 0


class LanguageModelling(RunTask):
    """The score that decides is bits per character; of hidden spans, the loss."""

    options_class: ClassVar[type[Any]] = LmOptions
    vocabularies_class: ClassVar[type[Any]] = PairVocabularies
    metrics: ClassVar[dict[str, bool]] = {
        "bits_per_character": True,
        "perplexity": True,
        "loss": True,
    }
    summed: ClassVar[dict[str, SummedMetric]] = {}
    goes_on: ClassVar[bool] = True

    def __init__(self, *, corpus: Any, options: Any, seed: int, decode: Decode) -> None:
        super().__init__(corpus=corpus, options=options, seed=seed, decode=decode)
        if options.metric == "" and "bits_per_character" not in self._told():
            self.metric = "loss"
        elif self.metric == "bits_per_character" and self.metric not in self._told():
            raise RegardError(
                "task.metric='bits_per_character' is of whole texts in characters or subwords: a word that "
                "is not known would count as free letters. Set task.metric=perplexity."
            )

    @classmethod
    def from_options(
        cls,
        options: Any,
        *,
        seed: int,
        decode: Decode,
        vocabularies: PairVocabularies | None = None,
    ) -> Self:
        """Read the files the options name."""
        corpus = LmCorpus.read(options, vocabularies=vocabularies)
        return cls(corpus=corpus, options=options, seed=seed, decode=decode)

    @classmethod
    def scores(cls, predicted: Sequence[str], answers: Sequence[Sequence[str]]) -> dict[str, float]:
        """Bits per character, from the nats that stand in the place of what was predicted."""
        sums = np.array(_bits_and_characters(predicted, answers)).sum(axis=0)
        return {"bits_per_character": float(fraction(sums))}

    @classmethod
    def held_out(
        cls, text: str, options: Any, *, vocabularies: Any = None, bad: BadRows
    ) -> HeldOut:
        """A file of texts to score a model on."""
        del options, vocabularies
        return held_out_texts(text, bad=bad)

    @classmethod
    def predict(
        cls,
        model: Any,
        texts: Sequence[str],
        vocabularies: PairVocabularies,
        decode: Decode,
        *,
        options: Any,
    ) -> list[str]:
        """It has no best answer; what may come next is drawn, by `TrainedRun.continued`."""
        del model, texts, vocabularies, decode, options
        raise RegardError(
            "A language model goes on with a text, and has no best answer to it. Use continued."
        )

    def epoch(self, number: int) -> Batches:
        """Every text once, whole or with a gap, and pairs among them."""
        store = self._examples(number)
        return token_batches(
            store, max_tokens=self.options.batch_tokens, seed=self.seed, epoch=number
        )

    def loss(self, model: Any, batch: PairBatch) -> Loss:
        """Cross-entropy summed over the predicted tokens."""
        return next_token_loss(model, batch, label_smoothing=self.options.label_smoothing)

    @classmethod
    def cost_words(cls, batch: PairBatch) -> dict[str, int]:
        """The sizes of a batch, by the words of its model's `cost`."""
        return pair_sizes(batch)

    @classmethod
    def taken_over(cls, own: Mapping[str, Any], task_options: Any) -> dict[str, Any]:
        """The pairs of the task that it is for, unless others are named; see `mixing_options`.

        Of the same pairs, what is scored later is left out, whatever was asked for.
        """
        if isinstance(task_options, PairOptions) and own.get("pairs") in (None, task_options.pairs):
            return mixing_options(task_options)
        return {}

    def assess_on(self, model: Any, part: HeldOut) -> Assessed:
        """Scores on any part; what is "predicted" for a text is how many nats it took."""
        vocabulary = self.corpus.vocabularies.target
        texts = [answers[0] for answers in part.answers]
        store, owners = text_pieces(texts, vocabulary, max_length=self.options.max_length)
        if self.options.span_share == 1:
            store = self._gapped(store, seed=EVALUATION_SEED, number=0)
        nats, count = np.zeros(len(part)), 0
        batches = evaluation_batches(store, max_tokens=places_at_a_time(store))
        for index in range(len(batches)):
            batch = beside(model, batches[index])
            np.add.at(nats, owners[batches.indices(index)], _row_nats(model, batch))
            count += batch.num_predictions
        mean = float(nats.sum()) / count
        predicted = [f"{value:.6f}" for value in nats]
        scores = {"loss": mean, "perplexity": perplexity(mean)}
        if "bits_per_character" in self._told():
            scores |= self.scores(predicted, part.answers)
        return Assessed(scores, predicted)

    def _told(self) -> set[str]:
        """The scores that can be told with these options."""
        whole = self.options.span_share < 1 and self.options.tokens != "words"
        return {"loss", "perplexity"} | ({"bits_per_character"} if whole else set())

    def _gapped(self, texts: TokenStore, *, seed: int, number: int) -> TokenStore:
        options = self.options
        if options.gaps == "one":
            return corrupted_store(
                texts,
                seed=seed,
                epoch=number,
                longest_share=options.longest_gap,
                keep_whole=options.keep_whole,
                shortest_kept_share=options.shortest_kept,
            )
        chance = np.random.default_rng([seed, number])
        rows = (texts.target(row).tolist() for row in range(len(texts)))
        return TokenStore.build(
            # What is not known would be taken for a gap: such a text is written from the start.
            ([], tokens)
            if UNKNOWN in tokens
            else corrupt_spans(
                tokens, share=options.masked_share, mean_length=options.mean_gap, rng=chance
            )
            for tokens in rows
        )

    def _examples(self, number: int) -> TokenStore:
        """The rows of one epoch, a function of seed and number alone."""
        options, texts = self.options, self.corpus.train
        chance = np.random.default_rng([self.seed, number, 1])
        gapped = chance.random(len(texts)) < options.span_share
        stores = [texts.select(np.flatnonzero(~gapped))]
        if gapped.any():
            chosen = texts.select(np.flatnonzero(gapped))
            stores.append(self._gapped(chosen, seed=self.seed, number=number))
        if self.corpus.pairs is not None and options.pair_share:
            wanted = round(len(texts) * options.pair_share / (1 - options.pair_share))
            stores.append(self.corpus.pairs.select(self._pair_rows(number, wanted)))
        return TokenStore.joined(stores)

    def _pair_rows(self, number: int, wanted: int) -> Any:
        """The next `wanted` pairs in an endless stream of permutations, `number` epochs on."""
        count = len(self.corpus.pairs)
        first = number * wanted
        rows = np.arange(first, first + wanted)
        found = np.empty(wanted, dtype=np.int64)
        for turn in range(first // count, (first + wanted - 1) // count + 1):
            order = np.random.default_rng([self.seed, turn, 2]).permutation(count)
            here = rows // count == turn
            found[here] = order[rows[here] % count]
        return found


def _row_nats(model: Any, batch: PairBatch) -> Any:
    """How many nats each row's predictions take."""
    hidden = model.hidden(batch.source, batch.source_lengths, batch.given)
    predicted = batch.predicted
    losses = F.cross_entropy(
        model.logits(hidden[predicted]), batch.wanted[predicted], reduction="none"
    )
    rows = predicted.nonzero()[:, 0].cpu().numpy()
    totals = np.zeros(len(predicted))
    np.add.at(totals, rows, losses.double().cpu().numpy())
    return totals


def _bits_and_characters(
    predicted: Sequence[str], answers: Sequence[Sequence[str]]
) -> list[tuple[float, float]]:
    """Bits of a text, and its characters; the end of a text counts as one."""
    return [
        (float(nats) / math.log(2), float(len(choices[0]) + 1))
        for nats, choices in zip(predicted, answers, strict=True)
    ]


LanguageModelling.summed = {"bits_per_character": SummedMetric(_bits_and_characters, fraction)}
