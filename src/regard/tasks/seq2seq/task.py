"""Sequence-to-sequence tasks: teacher forcing, label smoothing, and decoding for evaluation.

The loss is the cross-entropy of the next target token. `decode` is an argument, since a task knows no
model. Subclasses add data and metrics.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import torch
from torch.nn import functional as F

from regard.core.batches import PairBatch
from regard.core.protocols import Decode, Loss
from regard.data.batching import Batches, evaluation_batches, token_batches
from regard.data.readers.text_file import RowErrors
from regard.data.splits import EvalSplit
from regard.data.token_store import TokenStore
from regard.tasks.seq2seq.corpus import (
    PairRows,
    PairVocabularies,
    Seq2SeqCorpus,
    Seq2SeqOptions,
    pair_source,
)
from regard.tasks.task import EvalResult, Task, to_device_of

EVAL_BATCH_TOKENS = 8192  # larger than in training: evaluation stores no gradients


def next_token_loss(model: Any, batch: PairBatch, *, label_smoothing: float) -> Loss:
    """Cross-entropy summed over the target tokens; padding is not projected to the vocabulary.

    Label smoothing applies in training mode only.
    """
    hidden = model.hidden(batch.source, batch.source_lengths, batch.decoder_input)
    mask = batch.target_mask
    total = F.cross_entropy(
        model.logits(hidden[mask]),
        batch.decoder_target[mask],
        label_smoothing=label_smoothing if model.training else 0.0,
        reduction="sum",
    )
    return Loss(total, batch.num_predictions)


def pair_sizes(batch: PairBatch) -> dict[str, int]:
    """The sizes of a batch, as keyword arguments of the `cost` of a model that reads pairs."""
    return {
        "batch_size": batch.source.shape[0],
        "source_length": batch.source.shape[1],
        "target_length": batch.decoder_input.shape[1],
    }


def eval_batch_tokens(store: TokenStore) -> int:
    """The batch size in tokens for evaluation, at least that of the longest item."""
    if not len(store):
        return EVAL_BATCH_TOKENS
    return max(EVAL_BATCH_TOKENS, int((store.source_lengths + store.target_lengths).max()) + 3)


class Seq2SeqTask(Task):
    """A task with source and target sequences."""

    options_class: ClassVar[type[Seq2SeqOptions]]
    vocabularies_class: ClassVar[type[PairVocabularies]] = PairVocabularies
    # Whether rows with the same source are several references for it.
    groups_references: ClassVar[bool]
    default_format: ClassVar[str | None] = None

    @classmethod
    def from_options(
        cls,
        options: Seq2SeqOptions,
        *,
        seed: int,
        decode: Decode,
        vocabularies: PairVocabularies | None = None,
    ) -> Self:
        """Read the data files that the options name."""
        corpus = Seq2SeqCorpus.read(
            options,
            pairs=cls.train_source(options),
            group=cls.groups_references,
            default_format=cls.default_format,
            vocabularies=vocabularies,
        )
        return cls(corpus=corpus, options=options, seed=seed, decode=decode)

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
        cls,
        model: Any,
        texts: Sequence[str],
        vocabularies: PairVocabularies,
        decode: Decode,
        *,
        options: Any,
    ) -> list[str]:
        """The decoded output for each text, in order."""
        del options
        return predict(model, texts, vocabularies, decode)

    @classmethod
    def cost_kwargs(cls, batch: PairBatch) -> dict[str, int]:
        """The sizes of a batch, as keyword arguments of the model's `cost`."""
        return pair_sizes(batch)

    def epoch(self, number: int) -> Batches:
        """The batches of one epoch, filled by tokens with pairs of similar length."""
        return token_batches(
            self.corpus.train,
            max_tokens=self.options.batch_tokens,
            seed=self.seed,
            epoch=number,
        )

    def loss(self, model: Any, batch: PairBatch) -> Loss:
        """Cross-entropy summed over the target tokens."""
        return next_token_loss(model, batch, label_smoothing=self.options.label_smoothing)

    def evaluate_on(self, model: Any, split: EvalSplit) -> EvalResult:
        """Loss, metrics and decoded predictions on a split."""
        store = self.encode_split(split)
        total, count = 0.0, 0
        for batch in evaluation_batches(store, max_tokens=eval_batch_tokens(store)):
            loss = self.loss(model, to_device_of(model, batch))
            total, count = total + loss.total.item(), count + loss.num_predictions
        predictions = predict(model, split.inputs, self.corpus.vocabularies, self.decode)
        scores = self.scores(predictions, split.references)
        return EvalResult({"loss": total / count, **scores}, predictions)

    def encode_split(self, split: EvalSplit) -> TokenStore:
        """The token ids of a split, each input with its first reference."""
        vocabularies = self.corpus.vocabularies
        sources = vocabularies.source.encode_all(split.inputs)
        first = vocabularies.target.encode_all(choices[0] for choices in split.references)
        return TokenStore.build(zip(sources, first, strict=True))


def predict(
    model: Any, sources: Sequence[str], vocabularies: PairVocabularies, decode: Decode
) -> list[str]:
    """The decoded output for each source, in order."""
    store = TokenStore.build((ids, ()) for ids in vocabularies.source.encode_all(sources))
    outputs = [""] * len(sources)
    batches = evaluation_batches(store, max_tokens=eval_batch_tokens(store))
    with torch.inference_mode():
        for index in range(len(batches)):
            batch = to_device_of(model, batches[index])
            hypotheses = decode(model, batch.source, batch.source_lengths)
            for row, hypothesis in zip(batches.indices(index), hypotheses, strict=True):
                outputs[row] = vocabularies.target.decode(hypothesis.tokens)
    return outputs
