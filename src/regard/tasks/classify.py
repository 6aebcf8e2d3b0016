"""Classification: a text to its label, learned from any file of labelled texts.

    What is an atom ?   →  description

Accuracy is the share of right labels; macro-F1 is the mean over labels of the harmonic mean of precision
and recall, so that a rare label counts as much as a common one. Both are in percent. Of a model with
several hops of attention, `hop_overlap` says how much they look at the same places: 0 not at all, 1 all the
same.
"""

from __future__ import annotations

import math
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
from regard.core.text_classifier import Classified
from regard.data.bad_rows import BadRows
from regard.data.batching import token_batches
from regard.data.masked_tokens import NOTHING
from regard.tasks.classify_corpus import ClassifyCorpus, held_out_texts
from regard.tasks.classify_details import classify_details, overlap_of_hops
from regard.tasks.classify_labels import unknown_labels_note
from regard.tasks.classify_options import ClassifyOptions
from regard.tasks.classify_rows import Rows, cut_of, text_rows
from regard.tasks.held_out import HeldOut
from regard.tasks.labelled_sources import source_of
from regard.tasks.right_scores import label_counts, macro_f1, require_answers, right_labels
from regard.tasks.run_task import Assessed
from regard.tasks.summed_scores import SummedMetric, percentage
from regard.tasks.text_batches import TextBatches, beside, evaluation_cuts, plain_batch
from regard.tasks.text_task import TextTask
from regard.tasks.text_vocabularies import TextVocabularies


class Classify(TextTask):
    """The score that decides is the accuracy, unless another is asked for."""

    options_class = ClassifyOptions
    # The last only of a model that looks at a text with several hops.
    metrics: ClassVar[dict[str, bool]] = {
        "accuracy": False,
        "macro_f1": False,
        "loss": True,
        "hop_overlap": True,
    }
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
        texts = source_of(options, options.labels)
        corpus = ClassifyCorpus.read(options, texts=texts, vocabularies=vocabularies)
        return cls(corpus=corpus, options=options, seed=seed, decode=decode)

    @classmethod
    def cost_words(cls, batch: TextBatch) -> dict[str, int]:
        """The sizes of a batch, by the words of its model's `cost`; sentences are those of a mean row."""
        ends = batch.segments.gather(1, batch.lengths[:, None] - 1).float() + 1
        return {**super().cost_words(batch), "sentences": max(1, round(ends.mean().item()))}

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
        rows: Rows = self.corpus.train
        cuts = token_batches(
            rows.store, max_tokens=self.options.batch_tokens, seed=self.seed, epoch=number
        )
        return TextBatches(cuts=cuts, make=lambda chosen: plain_batch(rows, chosen))

    def loss(self, model: Any, batch: TextBatch) -> Loss:
        """Cross-entropy summed over the rows that have a label, and what the model adds to theirs."""
        labelled = batch.labelled
        logits, penalty = classified(model, batch)
        total = F.cross_entropy(
            logits[labelled],
            batch.labels[labelled],
            label_smoothing=self.options.label_smoothing if model.training else 0.0,
            reduction="sum",
        )
        return Loss(total + penalty[labelled].sum(), batch.num_predictions)

    def assess_on(self, model: Any, part: HeldOut) -> Assessed:
        """Scores on any part, the loss among them, and the label said of each text."""
        vocabularies: TextVocabularies = self.corpus.vocabularies
        number_of = {label: number for number, label in enumerate(vocabularies.labels)}
        # A label that was never learned counts as wrong; it has no cross-entropy.
        labels = [number_of.get(answers[0], NOTHING) for answers in part.answers]
        rows = text_rows(part.sources, vocabularies, self.options, labels=labels)
        logits = logits_of(model, rows)
        wanted = torch.tensor(labels)
        known = wanted != NOTHING
        loss = F.cross_entropy(logits[known], wanted[known], reduction="sum").item()
        # Of no label that is known there is no loss, which is not the same as a small one.
        mean = loss / int(known.sum()) if known.any() else math.nan
        predicted = [vocabularies.labels[number] for number in logits.argmax(dim=-1)]
        scores = {**self.scores(predicted, part.answers), "loss": mean}
        return Assessed(scores | overlap_of_hops(model, rows), predicted, logits)

    def notes(self, part: HeldOut) -> list[str]:
        """Which right labels were never learned, and how much of the texts is not read."""
        vocabularies: TextVocabularies = self.corpus.vocabularies
        cut = cut_of(part.sources, vocabularies, self.options)
        right = [answers[0] for answers in part.answers]
        found = [
            unknown_labels_note(right, vocabularies.labels),
            cut.words(self.options.max_length),
        ]
        return [note for note in found if note]

    def require_metric(self, model: Any) -> None:
        """Refuse to keep weights by what hops share, of a model that has not several."""
        if self.metric != "hop_overlap":
            return
        rows = text_rows(self.corpus.dev.sources[:1], self.corpus.vocabularies, self.options)
        training = model.training
        found = overlap_of_hops(model.eval(), rows)
        model.train(training)
        if not found:
            others = [name for name in self.metrics if name != self.metric]
            raise RegardError(
                f"task.metric={self.metric}: this model does not look at a text with several hops, so "
                f"there is nothing for them to share. Choose one of: {', '.join(others)}; or a model with "
                "hops, such as structured with model.hops=8."
            )

    def details(self, model: Any, part: HeldOut, assessed: Assessed) -> dict[str, Any]:
        """Confusion, calibration, and what leaving words out does (`classify_details.py`)."""
        vocabularies: TextVocabularies = self.corpus.vocabularies
        return classify_details(
            model,
            text_rows(part.sources, vocabularies, self.options),
            assessed.outputs,
            predicted=assessed.predicted,
            right=[answers[0] for answers in part.answers],
            labels=vocabularies.labels,
        )

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
        rows = text_rows(texts, vocabularies, options)
        with torch.inference_mode():
            numbers = logits_of(model, rows).argmax(dim=-1)
        return [vocabularies.labels[number] for number in numbers]


def classified(model: Any, batch: TextBatch) -> Classified:
    """What the model says of every row."""
    said: Classified = model.classified(batch.tokens, batch.lengths, batch.segments)
    return said


def logits_of(model: Any, rows: Rows) -> Float[Tensor, "rows classes"]:
    """What the model says of all rows, in their order."""
    cuts = evaluation_cuts(rows)
    said = [
        classified(model, beside(model, plain_batch(rows, cuts.indices(place)))).logits.cpu()
        for place in range(len(cuts))
    ]
    if not said:
        return torch.zeros(0, 1)
    order = np.concatenate([cuts.indices(place) for place in range(len(cuts))])
    return torch.cat(said)[torch.from_numpy(order.argsort())]
