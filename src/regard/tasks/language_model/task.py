"""Language modelling: next-token prediction, or span corruption (denoising, as in T5).

    next tokens       (nothing)          →  a b c d e f       span_fraction = 0
    span corruption   a b <unknown> f    →  c d e             span_fraction = 1  (data/noising.py)

Question-answer pairs may be mixed in (`qa_fraction`), so that facts are memorised in a form that can be
queried ("mixed training" of Allen-Zhu and Li 2024). Texts longer than `max_length` are split into
chunks; with `stream`, the lines of a file are one continuous text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from torch.nn import functional as F

from regard.core.batches import UNKNOWN, PairBatch
from regard.core.errors import RegardError
from regard.core.protocols import Decode
from regard.data.batching import Batches
from regard.data.noising import corrupt_spans, corrupt_store
from regard.data.readers.text_file import RowErrors
from regard.data.splits import EvalSplit
from regard.data.token_store import TokenStore
from regard.tasks.language_model.corpus import (
    LMCorpus,
    LMOptions,
    chunk_texts,
    eval_split,
    file_texts,
    qa_options,
)
from regard.tasks.metrics.classification import perplexity
from regard.tasks.metrics.metric import CorpusMetric, fraction
from regard.tasks.seq2seq.corpus import PairVocabularies, Seq2SeqOptions
from regard.tasks.seq2seq.task import PairTask
from regard.tasks.task import EvalResult, eval_batches, to_device_of

EVAL_SEED = 0  # the same spans at every evaluation


def _bits_and_characters(
    predictions: Sequence[str], references: Sequence[Sequence[str]]
) -> list[tuple[float, float]]:
    """Per item: bits of the text, and its characters; the end of the text counts as one.

    The "predictions" are the negative log-likelihoods of the texts, in nats.
    """
    return [
        (float(nats) / math.log(2), float(len(choices[0]) + 1))
        for nats, choices in zip(predictions, references, strict=True)
    ]


class LanguageModelling(PairTask):
    """The default metric is bits per character, or the loss with span corruption."""

    options_class: ClassVar[type[Any]] = LMOptions
    metrics: ClassVar[dict[str, bool]] = {
        "bits_per_character": True,
        "perplexity": True,
        "loss": True,
    }
    corpus_metrics: ClassVar[dict[str, CorpusMetric]] = {
        "bits_per_character": CorpusMetric(_bits_and_characters, fraction)
    }
    is_generative: ClassVar[bool] = True

    def __init__(self, *, corpus: Any, options: Any, seed: int, decode: Decode) -> None:
        super().__init__(corpus=corpus, options=options, seed=seed, decode=decode)
        if options.metric == "" and "bits_per_character" not in self._available_metrics():
            self.metric = "loss"
        elif self.metric == "bits_per_character" and self.metric not in self._available_metrics():
            raise RegardError(
                "task.metric='bits_per_character' needs whole texts of characters or subwords: "
                "out-of-vocabulary words would cost nothing. Set task.metric=perplexity."
            )

    @classmethod
    def read_corpus(cls, options: Any, vocabularies: PairVocabularies | None) -> LMCorpus:
        """Read the data files that the options name."""
        return LMCorpus.read(options, vocabularies=vocabularies)

    @classmethod
    def read_split(
        cls, file: str, options: Any, *, vocabularies: Any = None, errors: RowErrors
    ) -> EvalSplit:
        """Read a file of texts to evaluate on."""
        del options, vocabularies
        return eval_split(file_texts(file, errors))

    @classmethod
    def predict(
        cls, model: Any, texts: Sequence[str], vocabularies: Any, decode: Decode, *, options: Any
    ) -> list[str]:
        """Raises: a language model samples continuations with `TrainedRun.generate`."""
        del model, texts, vocabularies, decode, options
        raise RegardError(
            "A language model has no single prediction for a text. Sample a continuation with generate."
        )

    def epoch(self, number: int) -> Batches:
        """Every text once, whole or corrupted, with question-answer pairs mixed in."""
        return self.batches(self._examples(number), epoch=number)

    @classmethod
    def inherited_options(cls, own: Mapping[str, Any], task_options: Any) -> dict[str, Any]:
        """The question-answer pairs of the fine-tuning task, unless others are named (`qa_options`).

        For the same pairs, its validation and test questions are always excluded.
        """
        if isinstance(task_options, Seq2SeqOptions) and own.get("qa_file") in (
            None,
            task_options.train_file,
        ):
            return qa_options(task_options)
        return {}

    def evaluate_on(self, model: Any, split: EvalSplit) -> EvalResult:
        """Scores on a split; the "prediction" for a text is its negative log-likelihood in nats."""
        vocabulary = self.corpus.vocabularies.target
        texts = [choices[0] for choices in split.references]
        store, owners = chunk_texts(texts, vocabulary, max_length=self.options.max_length)
        if self.options.span_fraction == 1:
            store = self._corrupted(store, seed=EVAL_SEED, epoch=0)
        nats, count = np.zeros(len(split)), 0
        batches = eval_batches(store)
        for index in range(len(batches)):
            batch = to_device_of(model, batches[index])
            np.add.at(nats, owners[batches.indices(index)], _nats_per_row(model, batch))
            count += batch.num_predictions
        mean = float(nats.sum()) / count
        predictions = [f"{value:.6f}" for value in nats]
        scores = {"loss": mean, "perplexity": perplexity(mean)}
        if "bits_per_character" in self._available_metrics():
            scores |= self.scores(predictions, split.references)
        return EvalResult(scores, predictions)

    def _available_metrics(self) -> set[str]:
        """The metrics that are defined with these options."""
        whole = self.options.span_fraction < 1 and self.options.tokens != "words"
        return {"loss", "perplexity"} | ({"bits_per_character"} if whole else set())

    def _corrupted(self, texts: TokenStore, *, seed: int, epoch: int) -> TokenStore:
        options = self.options
        if options.spans == "one":
            return corrupt_store(
                texts,
                seed=seed,
                epoch=epoch,
                max_span_fraction=options.max_span_fraction,
                full_length_probability=options.full_length_probability,
                min_kept_fraction=options.min_kept_fraction,
            )
        rng = np.random.default_rng([seed, epoch])
        rows = (texts.target(row).tolist() for row in range(len(texts)))
        return TokenStore.build(
            # UNKNOWN marks a span, so a text with unknown tokens is not corrupted.
            ([], tokens)
            if UNKNOWN in tokens
            else corrupt_spans(
                tokens,
                noise_density=options.noise_density,
                mean_span_length=options.mean_span_length,
                rng=rng,
            )
            for tokens in rows
        )

    def _examples(self, epoch: int) -> TokenStore:
        """The examples of one epoch, a function of seed and epoch number."""
        options, texts = self.options, self.corpus.train
        rng = np.random.default_rng([self.seed, epoch, 1])
        corrupted = rng.random(len(texts)) < options.span_fraction
        stores = [texts.select(np.flatnonzero(~corrupted))]
        if corrupted.any():
            chosen = texts.select(np.flatnonzero(corrupted))
            stores.append(self._corrupted(chosen, seed=self.seed, epoch=epoch))
        if self.corpus.pairs is not None and options.qa_fraction:
            count = round(len(texts) * options.qa_fraction / (1 - options.qa_fraction))
            stores.append(self.corpus.pairs.select(self._pair_rows(epoch, count)))
        return TokenStore.concatenate(stores)

    def _pair_rows(self, epoch: int, count: int) -> Any:
        """The pairs of this epoch: `count` per epoch, from an endless stream of permutations."""
        total = len(self.corpus.pairs)
        first = epoch * count
        rows = np.arange(first, first + count)
        found = np.empty(count, dtype=np.int64)
        for turn in range(first // total, (first + count - 1) // total + 1):
            order = np.random.default_rng([self.seed, turn, 2]).permutation(total)
            here = rows // total == turn
            found[here] = order[rows[here] % total]
        return found


def _nats_per_row(model: Any, batch: PairBatch) -> Any:
    """Negative log-likelihood of each row in nats."""
    hidden = model.hidden(batch.source, batch.source_lengths, batch.decoder_input)
    mask = batch.target_mask
    losses = F.cross_entropy(
        model.logits(hidden[mask]), batch.decoder_target[mask], reduction="none"
    )
    rows = mask.nonzero()[:, 0].cpu().numpy()
    totals = np.zeros(len(mask))
    np.add.at(totals, rows, losses.double().cpu().numpy())
    return totals
