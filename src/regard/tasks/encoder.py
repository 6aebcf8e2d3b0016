"""Pre-training of an encoder: masked tokens, and whether two texts belong together (Devlin et al. 2019).

    the cat [MASK] on the mat        →  sat
    first half | second half         →  the second follows the first, or is another document's

The loss is the mean over masked tokens plus the mean over pairs. Accuracies are in percent; perplexity is
that of the masked tokens. The embedded data are pages about films.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch.nn import functional as F

from regard.core.errors import RegardError
from regard.core.sequence_model import Decode
from regard.core.task import Loss
from regard.core.text_batch import TextBatch
from regard.data.bad_rows import BadRows
from regard.data.batching import token_batches
from regard.data.documents import Document, DocumentFile, embedded_documents
from regard.data.text_rows import TextRows
from regard.data.wordpiece import MASK_NUMBER
from regard.tasks.encoder_corpus import EncoderCorpus
from regard.tasks.encoder_options import EncoderOptions
from regard.tasks.encoder_rows import (
    by_document,
    held_out_batches,
    held_out_documents,
    held_out_rows,
    masked_batch,
)
from regard.tasks.held_out import HeldOut
from regard.tasks.masked_answers import Tally, answers_of, likeliest
from regard.tasks.perplexity import perplexity
from regard.tasks.right_scores import require_answers, right_places
from regard.tasks.run_task import Assessed
from regard.tasks.summed_scores import SummedMetric, percentage
from regard.tasks.text_batches import TextBatches, beside, evaluation_cuts, plain_batch
from regard.tasks.text_parts import RowSource
from regard.tasks.text_task import TextTask
from regard.tasks.text_vocabularies import TextVocabularies


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
