"""Classification: a text to its label, learned from any file of labelled texts.

    What is an atom ?   →  description

Accuracy is the share of right labels; macro-F1 is the mean over labels of the harmonic mean of precision
and recall, so that a rare label counts as much as a common one. Both are in percent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from regard.core.errors import RegardError
from regard.core.sequence_model import Decode
from regard.core.task import Loss
from regard.core.text_batch import TextBatch
from regard.data.bad_rows import BadRows
from regard.data.batching import token_batches
from regard.data.labelled_rows import LabelledSource
from regard.data.masked_tokens import NOTHING
from regard.data.text_rows import TextRows
from regard.tasks.classify_corpus import ClassifyCorpus, held_out_texts, source_of
from regard.tasks.classify_options import ClassifyOptions
from regard.tasks.held_out import HeldOut
from regard.tasks.right_scores import label_counts, macro_f1, require_answers, right_labels
from regard.tasks.run_task import Assessed
from regard.tasks.summed_scores import SummedMetric, percentage
from regard.tasks.text_batches import TextBatches, beside, evaluation_cuts, plain_batch
from regard.tasks.text_task import TextTask
from regard.tasks.text_vocabularies import TextVocabularies


class Classify(TextTask):
    """The score that decides is the accuracy, unless another is asked for."""

    options_class = ClassifyOptions
    metrics: ClassVar[dict[str, bool]] = {"accuracy": False, "macro_f1": False, "loss": True}
    summed: ClassVar[dict[str, SummedMetric]] = {
        "accuracy": SummedMetric(right_labels, percentage),
        "macro_f1": SummedMetric(label_counts, macro_f1),
    }

    @classmethod
    def from_options(
        cls,
        options: ClassifyOptions,
        *,
        seed: int,
        decode: Decode,
        vocabularies: TextVocabularies | None = None,
    ) -> Self:
        """Read the files the options name."""
        texts = cls.training_texts(options)
        corpus = ClassifyCorpus.read(options, texts=texts, vocabularies=vocabularies)
        return cls(corpus=corpus, options=options, seed=seed, decode=decode)

    @classmethod
    def training_texts(cls, options: ClassifyOptions) -> LabelledSource:
        """What is learned from."""
        if options.labels is None:
            raise RegardError(
                "The task 'classify' has no data of its own. Name a file of labelled texts: "
                "--labels my.tsv, with a label, a tab and a text on every line."
            )
        return source_of(options, options.labels)

    @classmethod
    def scores(cls, predicted: Sequence[str], answers: Sequence[Sequence[str]]) -> dict[str, float]:
        """Accuracy and macro-F1."""
        require_answers(answers)
        return {
            name: metric.score(np.array(metric.statistics(predicted, answers)).sum(axis=0)).item()
            for name, metric in cls.summed.items()
        }

    @classmethod
    def held_out(
        cls, text: str, options: ClassifyOptions, *, vocabularies: Any = None, bad: BadRows
    ) -> HeldOut:
        """A file of labelled texts to score a model on, other than those of the options."""
        del vocabularies
        return held_out_texts(source_of(options, text).rows(bad=bad))

    def baselines(self, part: HeldOut) -> dict[str, float]:
        """What is reached by always saying the label that is commonest in the training part."""
        counts = np.bincount(self.corpus.train.labels)
        commonest = self.corpus.vocabularies.labels[int(counts.argmax())]
        predicted = [commonest] * len(part)
        return {"commonest label": self.scores(predicted, part.answers)["accuracy"]}

    def epoch(self, number: int) -> TextBatches:
        """The batches of one pass, texts of like length together."""
        rows: TextRows = self.corpus.train
        cuts = token_batches(
            rows.store, max_tokens=self.options.batch_tokens, seed=self.seed, epoch=number
        )
        return TextBatches(cuts=cuts, make=lambda chosen: plain_batch(rows, chosen))

    def loss(self, model: Any, batch: TextBatch) -> Loss:
        """Cross-entropy summed over the rows that have a label."""
        labelled = batch.labelled
        total = F.cross_entropy(
            class_logits(model, batch)[labelled],
            batch.labels[labelled],
            label_smoothing=self.options.label_smoothing if model.training else 0.0,
            reduction="sum",
        )
        return Loss(total, batch.num_predictions)

    def assess_on(self, model: Any, part: HeldOut) -> Assessed:
        """Scores on any part, the loss among them, and the label said of each text."""
        vocabularies: TextVocabularies = self.corpus.vocabularies
        number_of = {label: number for number, label in enumerate(vocabularies.labels)}
        # A label that was never learned counts as wrong; it has no cross-entropy.
        labels = [number_of.get(answers[0], NOTHING) for answers in part.answers]
        longest = self.options.max_length
        rows = text_rows(part.sources, vocabularies, labels=labels, longest=longest)
        logits = logits_of(model, rows)
        wanted = torch.tensor(labels)
        known = wanted != NOTHING
        loss = F.cross_entropy(logits[known], wanted[known], reduction="sum").item()
        predicted = [vocabularies.labels[number] for number in logits.argmax(dim=-1)]
        # Of no label that is known there is no mean, and nothing to lose.
        mean = loss / max(1, int(known.sum()))
        return Assessed({**self.scores(predicted, part.answers), "loss": mean}, predicted)

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
        """The label of each text; a long text is cut off where those learned from were."""
        del decode
        rows = text_rows(texts, vocabularies, longest=options.max_length)
        with torch.inference_mode():
            numbers = logits_of(model, rows).argmax(dim=-1)
        return [vocabularies.labels[number] for number in numbers]


def text_rows(
    texts: Sequence[str],
    vocabularies: TextVocabularies,
    *,
    longest: int | None,
    labels: Sequence[int] | None = None,
) -> TextRows:
    """The tokens of these texts, START and END included at most `longest`."""
    room = None if longest is None else longest - 2
    encoded = vocabularies.text.encode_all(texts)
    return TextRows.of_texts([numbers[:room] for numbers in encoded], labels)


def class_logits(model: Any, batch: TextBatch) -> Float[Tensor, "batch classes"]:
    """What the model says of every row."""
    hidden = model.hidden(batch.tokens, batch.lengths, batch.segments)
    logits: Tensor = model.class_logits(model.pooled(hidden))
    return logits


def logits_of(model: Any, rows: TextRows) -> Float[Tensor, "rows classes"]:
    """What the model says of all rows, in their order."""
    cuts = evaluation_cuts(rows)
    said = [
        class_logits(model, beside(model, plain_batch(rows, cuts.indices(place)))).cpu()
        for place in range(len(cuts))
    ]
    if not said:
        return torch.zeros(0, 1)
    order = np.concatenate([cuts.indices(place) for place in range(len(cuts))])
    return torch.cat(said)[torch.from_numpy(order.argsort())]
