"""A task on pairs of texts: read one, write the other. What differs between such tasks is the score.

The loss is the cross-entropy of every next token, with label smoothing. Decoding is handed in, since a
task knows no model.
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
from regard.data.readers.text_file import BadRows
from regard.data.splits import HeldOut
from regard.data.token_store import TokenStore
from regard.tasks.seq2seq.corpus import (
    PairCorpus,
    PairOptions,
    PairRows,
    PairVocabularies,
    source_of,
)
from regard.tasks.task import Assessed, RunTask

# What tasks whose batches are pairs share: the loss of next tokens, and the sizes of batches.


PLACES_AT_A_TIME = 8192  # decoding keeps no gradients, so its batches may be larger


def next_token_loss(model: Any, batch: PairBatch, *, label_smoothing: float) -> Loss:
    """Cross-entropy summed over the predicted tokens; padded places are not even projected.

    Labels are smoothed while training only.
    """
    hidden = model.hidden(batch.source, batch.source_lengths, batch.given)
    predicted = batch.predicted
    total = F.cross_entropy(
        model.logits(hidden[predicted]),
        batch.wanted[predicted],
        label_smoothing=label_smoothing if model.training else 0.0,
        reduction="sum",
    )
    return Loss(total, batch.num_predictions)


def pair_sizes(batch: PairBatch) -> dict[str, int]:
    """The sizes of a batch, by the words of the `cost` of a model that reads pairs."""
    return {
        "batch_size": batch.source.shape[0],
        "source_length": batch.source.shape[1],
        "target_length": batch.given.shape[1],
    }


def beside(model: Any, batch: PairBatch) -> PairBatch:
    """The batch where the model is."""
    device = next(iter(model.parameters())).device
    return PairBatch(*(tensor.to(device) for tensor in batch))


def places_at_a_time(store: TokenStore) -> int:
    """A batch size that takes the longest item too."""
    if not len(store):
        return PLACES_AT_A_TIME
    return max(PLACES_AT_A_TIME, int((store.source_lengths + store.target_lengths).max()) + 3)


class PairTask(RunTask):
    """Given its corpus; made from options by `from_options`."""

    options_class: ClassVar[type[PairOptions]]
    vocabularies_class: ClassVar[type[PairVocabularies]] = PairVocabularies
    # whether rows with one source are several right answers to it
    groups_answers: ClassVar[bool]
    default_format: ClassVar[str | None] = None

    @classmethod
    def from_options(
        cls,
        options: PairOptions,
        *,
        seed: int,
        decode: Decode,
        vocabularies: PairVocabularies | None = None,
    ) -> Self:
        """Read the files the options name."""
        corpus = PairCorpus.read(
            options,
            pairs=cls.training_pairs(options),
            group=cls.groups_answers,
            default_format=cls.default_format,
            vocabularies=vocabularies,
        )
        return cls(corpus=corpus, options=options, seed=seed, decode=decode)

    @classmethod
    @abstractmethod
    def training_pairs(cls, options: PairOptions) -> PairRows:
        """What is learned from."""

    @classmethod
    def held_out(
        cls, text: str, options: PairOptions, *, vocabularies: Any = None, bad: BadRows
    ) -> HeldOut:
        """A file of pairs to score a model on, other than those of the options."""
        del vocabularies
        rows = source_of(options, text, default_format=cls.default_format).rows(bad=bad)
        return HeldOut.of(
            ((row.source, row.target) for row in rows),
            group=cls.groups_answers,
            lowercase=options.lowercase,
        )

    @classmethod
    def decoding(cls, options: PairOptions) -> dict[str, Any]:
        """The words of `decode` that final outputs are made with."""
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
        """What the model writes for each text, in their order."""
        del options
        return predict(model, texts, vocabularies, decode)

    @classmethod
    def cost_words(cls, batch: PairBatch) -> dict[str, int]:
        """The sizes of a batch, by the words of its model's `cost`."""
        return pair_sizes(batch)

    def epoch(self, number: int) -> Batches:
        """The batches of one pass, filled by tokens, pairs of like length together."""
        return token_batches(
            self.corpus.train,
            max_tokens=self.options.batch_tokens,
            seed=self.seed,
            epoch=number,
        )

    def loss(self, model: Any, batch: PairBatch) -> Loss:
        """Cross-entropy summed over the predicted tokens."""
        return next_token_loss(model, batch, label_smoothing=self.options.label_smoothing)

    def assess_on(self, model: Any, part: HeldOut) -> Assessed:
        """Scores on any part, the loss among them, and the predictions they are of."""
        store = self.held_out_store(part)
        total, count = 0.0, 0
        for batch in evaluation_batches(store, max_tokens=places_at_a_time(store)):
            loss = self.loss(model, beside(model, batch))
            total, count = total + loss.total.item(), count + loss.num_predictions
        predicted = predict(model, part.sources, self.corpus.vocabularies, self.decode)
        return Assessed({"loss": total / count, **self.scores(predicted, part.answers)}, predicted)

    def held_out_store(self, part: HeldOut) -> TokenStore:
        """The tokens of a part, each source with its first answer."""
        vocabularies = self.corpus.vocabularies
        sources = vocabularies.source.encode_all(part.sources)
        first = vocabularies.target.encode_all(answers[0] for answers in part.answers)
        return TokenStore.build(zip(sources, first, strict=True))


def predict(
    model: Any, sources: Sequence[str], vocabularies: PairVocabularies, decode: Decode
) -> list[str]:
    """What the model writes for each text, in their order."""
    store = TokenStore.build((ids, ()) for ids in vocabularies.source.encode_all(sources))
    outputs = [""] * len(sources)
    batches = evaluation_batches(store, max_tokens=places_at_a_time(store))
    with torch.inference_mode():
        for index in range(len(batches)):
            batch = beside(model, batches[index])
            hypotheses = decode(model, batch.source, batch.source_lengths)
            for row, hypothesis in zip(batches.indices(index), hypotheses, strict=True):
                outputs[row] = vocabularies.target.decode(hypothesis.tokens)
    return outputs
