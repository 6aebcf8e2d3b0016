"""Sequence-to-sequence tasks: teacher forcing, label smoothing, and decoding for evaluation.

The loss is the cross-entropy of the next target token. `decode` is an argument, since a task knows no
model. Subclasses add data and metrics.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch.nn import functional as F

from regard.core.batches import PairBatch
from regard.core.protocols import Decode, Loss
from regard.data.batching import Batches
from regard.data.readers.text_file import RowErrors
from regard.data.splits import EvalSplit
from regard.data.token_store import TokenStore
from regard.tasks.metrics.classification import exact_match, exact_matches
from regard.tasks.metrics.metric import CorpusMetric, percentage
from regard.tasks.seq2seq.corpus import (
    PairRows,
    PairVocabularies,
    Seq2SeqCorpus,
    Seq2SeqOptions,
    pair_source,
)
from regard.tasks.task import EvalResult, Task, eval_batches, to_device_of


class PairTask(Task):
    """A task whose models predict the next target token, given a source that may be empty."""

    vocabularies_class: ClassVar[type[PairVocabularies]] = PairVocabularies

    @classmethod
    def cost_kwargs(cls, batch: PairBatch) -> dict[str, int]:
        """The sizes of a batch, as keyword arguments of the model's `cost`."""
        return {
            "batch_size": batch.source.shape[0],
            "source_length": batch.source.shape[1],
            "target_length": batch.decoder_input.shape[1],
        }

    def loss(self, model: Any, batch: PairBatch) -> Loss:
        """Cross-entropy summed over the target tokens; padding is not projected to the vocabulary.

        Label smoothing applies in training mode only.
        """
        hidden = model.hidden(batch.source, batch.source_lengths, batch.decoder_input)
        mask = batch.target_mask
        total = F.cross_entropy(
            model.logits(hidden[mask]),
            batch.decoder_target[mask],
            label_smoothing=self.options.label_smoothing if model.training else 0.0,
            reduction="sum",
        )
        return Loss(total, batch.num_predictions)


class Seq2SeqTask(PairTask):
    """A task with source and target sequences."""

    options_class: ClassVar[type[Seq2SeqOptions]]
    # Whether rows with the same source are several references for it.
    groups_references: ClassVar[bool]
    default_format: ClassVar[str | None] = None

    @classmethod
    def read_corpus(
        cls, options: Seq2SeqOptions, vocabularies: PairVocabularies | None
    ) -> Seq2SeqCorpus:
        """Read the data files that the options name."""
        return Seq2SeqCorpus.read(
            options,
            pairs=cls.train_source(options),
            group=cls.groups_references,
            default_format=cls.default_format,
            vocabularies=vocabularies,
        )

    @classmethod
    @abstractmethod
    def train_source(cls, options: Seq2SeqOptions) -> PairRows:
        """The training pairs."""

    @classmethod
    def read_split(
        cls, file: str, options: Seq2SeqOptions, *, vocabularies: Any = None, errors: RowErrors
    ) -> EvalSplit:
        """Read a file of pairs to evaluate on."""
        del vocabularies
        rows = pair_source(options, file, default_format=cls.default_format).rows(errors=errors)
        return EvalSplit.of(
            ((row.source, row.target) for row in rows),
            group=cls.groups_references,
            lowercase=options.lowercase,
        )

    @classmethod
    def decode_kwargs(cls, options: Seq2SeqOptions) -> dict[str, Any]:
        """Keyword arguments of `decode` for the final predictions."""
        return {"beam_size": options.beam_size, "length_penalty": options.length_penalty}

    @classmethod
    def predict(
        cls, model: Any, texts: Sequence[str], vocabularies: Any, decode: Decode, *, options: Any
    ) -> list[str]:
        """The decoded output for each text, in order."""
        del options
        store = TokenStore.build((ids, ()) for ids in vocabularies.source.encode_all(texts))
        outputs = [""] * len(texts)
        batches = eval_batches(store)
        with torch.inference_mode():
            for index in range(len(batches)):
                batch = to_device_of(model, batches[index])
                hypotheses = decode(model, batch.source, batch.source_lengths)
                for row, hypothesis in zip(batches.indices(index), hypotheses, strict=True):
                    outputs[row] = vocabularies.target.decode(hypothesis.tokens)
        return outputs

    def epoch(self, number: int) -> Batches:
        """The batches of one epoch, filled by tokens with pairs of similar length."""
        return self.batches(self.corpus.train, epoch=number)

    def evaluate_on(self, model: Any, split: EvalSplit) -> EvalResult:
        """Loss, metrics and decoded predictions on a split."""
        store = self.encode_split(split)
        total, count = 0.0, 0
        for batch in eval_batches(store):
            loss = self.loss(model, to_device_of(model, batch))
            total, count = total + loss.total.item(), count + loss.num_predictions
        predictions = self.predict(
            model, split.inputs, self.corpus.vocabularies, self.decode, options=self.options
        )
        scores = self.scores(predictions, split.references)
        return EvalResult({"loss": total / count, **scores}, predictions)

    def encode_split(self, split: EvalSplit) -> TokenStore:
        """The token ids of a split, each input with its first reference."""
        vocabularies = self.corpus.vocabularies
        sources = vocabularies.source.encode_all(split.inputs)
        first = vocabularies.target.encode_all(choices[0] for choices in split.references)
        return TokenStore.build(zip(sources, first, strict=True))


class ExactMatchTask(Seq2SeqTask):
    """A sequence-to-sequence task whose default metric is exact match, in percent."""

    metrics: ClassVar[dict[str, bool]] = {"exact_match": False, "loss": True}
    corpus_metrics: ClassVar[dict[str, CorpusMetric]] = {
        "exact_match": CorpusMetric(exact_matches, percentage)
    }

    @classmethod
    def scores(
        cls, predictions: Sequence[str], references: Sequence[Sequence[str]]
    ) -> dict[str, float]:
        """Exact match in percent."""
        return {"exact_match": exact_match(predictions, references)}
