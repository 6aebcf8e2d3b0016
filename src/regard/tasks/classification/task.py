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
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional as F

from regard.core.batches import TextBatch
from regard.core.errors import RegardError
from regard.core.protocols import Classified, Decode, Loss, hop_overlap
from regard.data.batching import token_batches
from regard.data.noising import NOTHING
from regard.data.readers.text_file import BadRows
from regard.data.splits import HeldOut
from regard.tasks.classification.corpus import (
    ClassifyCorpus,
    ClassifyOptions,
    Rows,
    cut_of,
    held_out_texts,
    source_of,
    text_rows,
)
from regard.tasks.classification.deletion import deletion_curve, mean_deletion
from regard.tasks.classification.labels import unknown_labels_note
from regard.tasks.metrics.accuracy import label_counts, macro_f1, require_answers, right_labels
from regard.tasks.metrics.calibration import Calibration
from regard.tasks.metrics.confusion_matrix import Confusion
from regard.tasks.metrics.metric import SummedMetric, percentage
from regard.tasks.task import Assessed
from regard.tasks.text_task import (
    TextBatches,
    TextTask,
    TextVocabularies,
    beside,
    evaluation_cuts,
    plain_batch,
)

# What is told of a classifier beside its scores: which labels it mixes up, whether its certainty
# can be believed, and whether its label hangs on the words it gave most weight.


# Leaving words out takes some thirty readings of every text. Which texts is drawn: the first of a file are
# often all of one label.
DELETION_TEXTS = 100
TEXTS_AT_A_TIME = 10
OVERLAP_TEXTS = 100


def classify_details(
    model: Any,
    rows: Rows,
    logits: Float[Tensor, "texts classes"],
    *,
    predicted: Sequence[str],
    right: Sequence[str],
    labels: Sequence[str],
    seed: int = 0,
) -> dict[str, Any]:
    """As a record keeps it; the deletion test is of texts that are drawn, where the model weighs words."""
    confidence = logits.double().softmax(dim=-1).amax(dim=-1).numpy()
    known = sorted({*labels, *right}, key=[*labels, *sorted(set(right) - set(labels))].index)
    found: dict[str, Any] = {
        "confusion": Confusion.of(predicted, right, labels=known).as_json(),
        "calibration": Calibration.of(
            confidence,
            np.array([one == other for one, other in zip(predicted, right, strict=True)]),
        ).as_json(),
    }
    chosen = _drawn(np.flatnonzero(_words(rows) >= 2), count=DELETION_TEXTS, seed=seed)
    if len(chosen) and _weighs(model, rows, chosen[:1]):
        batches = (
            beside(model, plain_batch(rows, chosen[start : start + TEXTS_AT_A_TIME]))
            for start in range(0, len(chosen), TEXTS_AT_A_TIME)
        )
        results = [
            deletion_curve(model, batch.tokens, batch.lengths, batch.segments) for batch in batches
        ]
        found["deletion"] = mean_deletion(results).as_plain()
    return found


def overlap_of_hops(model: Any, rows: Rows, *, seed: int = 0) -> dict[str, float]:
    """The mean `hop_overlap` of drawn texts, by that name; nothing of a model without several hops."""
    chosen = _drawn(np.arange(len(rows)), count=OVERLAP_TEXTS, seed=seed)
    if not len(chosen):
        return {}
    batch = beside(model, plain_batch(rows, chosen))
    with torch.inference_mode():
        reading = model.reading(batch.tokens, batch.lengths, batch.segments)
    if reading is None or reading.tokens.shape[1] < 2:
        return {}
    return {"hop_overlap": hop_overlap(reading.tokens).mean().item()}


def _drawn(
    texts: Int64[np.ndarray, " texts"], *, count: int, seed: int
) -> Int64[np.ndarray, " some"]:
    """So many of the texts in their order, all where there are no more; the same for the same seed."""
    if len(texts) <= count:
        return texts
    return np.sort(np.random.default_rng(seed).choice(texts, size=count, replace=False))


def _words(rows: Rows) -> np.ndarray:
    return rows.store.source_lengths


def _weighs(model: Any, rows: Rows, chosen: np.ndarray) -> bool:
    batch = beside(model, plain_batch(rows, chosen))
    with torch.inference_mode():
        return model.reading(batch.tokens, batch.lengths, batch.segments) is not None


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
        rows = text_rows(self.corpus.validation.sources[:1], self.corpus.vocabularies, self.options)
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
