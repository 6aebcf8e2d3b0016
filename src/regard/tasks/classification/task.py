"""Text classification, trained on any file of labelled texts.

    What is an atom ?   →  description

Accuracy and macro-F1 (the mean F1 over labels) are in percent. For a model with several attention hops,
`hop_overlap` is their mean cosine similarity, from 0 (disjoint) to 1 (identical). The best checkpoint also
gets a confusion matrix, calibration, and the deletion test of its attention.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional as F

from regard.core.batches import TextBatch
from regard.core.errors import RegardError
from regard.core.protocols import ClassifierOutput, Decode, Loss, TextAttention, hop_overlap
from regard.data.noising import IGNORE_INDEX
from regard.data.readers.text_file import RowErrors
from regard.data.splits import EvalSplit
from regard.tasks.classification.corpus import (
    ClassifyCorpus,
    ClassifyOptions,
    Rows,
    count_truncation,
    encode_texts,
    labelled_source,
    labelled_split,
)
from regard.tasks.classification.deletion import deletion_curve, mean_deletion
from regard.tasks.classification.labels import unseen_labels_note
from regard.tasks.metrics.classification import (
    Calibration,
    ConfusionMatrix,
    exact_matches,
    label_counts,
    macro_f1,
)
from regard.tasks.metrics.metric import CorpusMetric, percentage
from regard.tasks.task import EvalResult, eval_batches, to_device_of
from regard.tasks.text_task import TextBatches, TextTask, TextVocabularies, collate_texts

# The deletion test classifies some thirty variants of a text, so it samples texts; the first texts of a
# file often have the same label.
DELETION_TEXTS = 100
DELETION_BATCH = 10
OVERLAP_TEXTS = 100


def classify_details(
    model: Any,
    rows: Rows,
    logits: Float[Tensor, "texts classes"],
    *,
    predictions: Sequence[str],
    targets: Sequence[str],
    labels: Sequence[str],
    seed: int = 0,
) -> dict[str, Any]:
    """Confusion matrix, calibration and, for models with attention over words, the deletion test."""
    confidence = logits.double().softmax(dim=-1).amax(dim=-1).numpy()
    known = [*labels, *sorted(set(targets) - set(labels))]
    correct = [one == other for one, other in zip(predictions, targets, strict=True)]
    found: dict[str, Any] = {
        "confusion": ConfusionMatrix.of(predictions, targets, labels=known).as_json(),
        "calibration": Calibration.of(confidence, np.array(correct)).as_json(),
    }
    has_two_words = np.flatnonzero(rows.store.source_lengths >= 2)
    sample = _sample(has_two_words, count=DELETION_TEXTS, seed=seed)
    if len(sample) and _attention(model, rows, sample[:1]) is not None:
        batches = (
            to_device_of(model, collate_texts(rows, sample[start : start + DELETION_BATCH]))
            for start in range(0, len(sample), DELETION_BATCH)
        )
        results = [
            deletion_curve(model, batch.tokens, batch.lengths, batch.segments) for batch in batches
        ]
        found["deletion"] = mean_deletion(results).to_dict()
    return found


def mean_hop_overlap(model: Any, rows: Rows, *, seed: int = 0) -> dict[str, float]:
    """The mean `hop_overlap` of a sample of texts; empty for a model without several hops."""
    sample = _sample(np.arange(len(rows)), count=OVERLAP_TEXTS, seed=seed)
    attention = _attention(model, rows, sample) if len(sample) else None
    if attention is None or attention.tokens.shape[1] < 2:
        return {}
    return {"hop_overlap": hop_overlap(attention.tokens).mean().item()}


def _sample(
    texts: Int64[np.ndarray, " texts"], *, count: int, seed: int
) -> Int64[np.ndarray, " sample"]:
    """At most `count` of the texts, in order; the same for the same seed."""
    if len(texts) <= count:
        return texts
    return np.sort(np.random.default_rng(seed).choice(texts, size=count, replace=False))


def _attention(
    model: Any, rows: Rows, indices: Int64[np.ndarray, " sample"]
) -> TextAttention | None:
    batch = to_device_of(model, collate_texts(rows, indices))
    with torch.inference_mode():
        attention: TextAttention | None = model.text_attention(
            batch.tokens, batch.lengths, batch.segments
        )
    return attention


class Classify(TextTask):
    """Text classification; the default metric is accuracy."""

    options_class = ClassifyOptions
    # `hop_overlap` only for models with several attention hops.
    metrics: ClassVar[dict[str, bool]] = {
        "accuracy": False,
        "macro_f1": False,
        "loss": True,
        "hop_overlap": True,
    }
    corpus_metrics: ClassVar[dict[str, CorpusMetric]] = {
        "accuracy": CorpusMetric(exact_matches, percentage),
        "macro_f1": CorpusMetric(label_counts, macro_f1),
    }

    @classmethod
    def read_corpus(
        cls, options: ClassifyOptions, vocabularies: TextVocabularies | None
    ) -> ClassifyCorpus:
        """Read the data files that the options name."""
        texts = labelled_source(options, options.train_file)
        return ClassifyCorpus.read(options, texts=texts, vocabularies=vocabularies)

    @classmethod
    def cost_kwargs(cls, batch: TextBatch) -> dict[str, int]:
        """The sizes of a batch, as keyword arguments of `cost`; `sentences` is the mean per row."""
        ends = batch.segments.gather(1, batch.lengths[:, None] - 1).float() + 1
        return {**super().cost_kwargs(batch), "sentences": max(1, round(ends.mean().item()))}

    @classmethod
    def read_split(
        cls, file: str, options: ClassifyOptions, *, vocabularies: Any = None, errors: RowErrors
    ) -> EvalSplit:
        """Read a file of labelled texts to evaluate on."""
        del vocabularies
        return labelled_split(labelled_source(options, file).rows(errors=errors))

    def baselines(self, split: EvalSplit) -> dict[str, float]:
        """The accuracy of the majority baseline: always the most frequent training label."""
        counts = np.bincount(self.corpus.train.labels)
        majority = self.corpus.vocabularies.labels[int(counts.argmax())]
        scores = self.scores([majority] * len(split), split.references)
        return {"majority baseline": scores["accuracy"]}

    def epoch(self, number: int) -> TextBatches:
        """The batches of one epoch, by length."""
        rows: Rows = self.corpus.train
        return TextBatches(
            index_batches=self.batches(rows.store, epoch=number),
            collate=lambda indices: collate_texts(rows, indices),
        )

    def loss(self, model: Any, batch: TextBatch) -> Loss:
        """Cross-entropy summed over labelled rows, plus the model's penalty of these rows."""
        labelled = batch.labelled
        logits, penalty = classifier_output(model, batch)
        total = F.cross_entropy(
            logits[labelled],
            batch.labels[labelled],
            label_smoothing=self.options.label_smoothing if model.training else 0.0,
            reduction="sum",
        )
        return Loss(total + penalty[labelled].sum(), batch.num_predictions)

    def evaluate_on(self, model: Any, split: EvalSplit) -> EvalResult:
        """Loss, metrics and predicted labels on a split."""
        vocabularies: TextVocabularies = self.corpus.vocabularies
        class_of = {label: number for number, label in enumerate(vocabularies.labels)}
        # A label unseen in training counts as an error; it has no cross-entropy.
        labels = [class_of.get(choices[0], IGNORE_INDEX) for choices in split.references]
        rows = encode_texts(split.inputs, vocabularies, self.options, labels=labels)
        logits = class_logits(model, rows)
        targets = torch.tensor(labels)
        known = targets != IGNORE_INDEX
        loss = F.cross_entropy(logits[known], targets[known], reduction="sum").item()
        mean = loss / int(known.sum()) if known.any() else math.nan
        predictions = [vocabularies.labels[number] for number in logits.argmax(dim=-1)]
        scores = {**self.scores(predictions, split.references), "loss": mean}
        return EvalResult(scores | mean_hop_overlap(model, rows), predictions, logits)

    def notes(self, split: EvalSplit) -> list[str]:
        """Labels unseen in training, and truncated texts."""
        vocabularies: TextVocabularies = self.corpus.vocabularies
        truncation = count_truncation(split.inputs, vocabularies, self.options)
        targets = [choices[0] for choices in split.references]
        found = [
            unseen_labels_note(targets, vocabularies.labels),
            truncation.describe(self.options.max_length),
        ]
        return [note for note in found if note]

    def validate_metric(self, model: Any) -> None:
        """Raise if the metric is `hop_overlap` and the model has fewer than two hops."""
        if self.metric != "hop_overlap":
            return
        inputs = self.corpus.validation.inputs[:1]
        rows = encode_texts(inputs, self.corpus.vocabularies, self.options)
        training = model.training
        found = mean_hop_overlap(model.eval(), rows)
        model.train(training)
        if not found:
            others = [name for name in self.metrics if name != self.metric]
            raise RegardError(
                f"task.metric={self.metric}: this model has fewer than two attention hops. Choose one "
                f"of: {', '.join(others)}; or a model with hops, such as structured with model.hops=8."
            )

    def details(self, model: Any, split: EvalSplit, result: EvalResult) -> dict[str, Any]:
        """Confusion matrix, calibration and deletion test."""
        vocabularies: TextVocabularies = self.corpus.vocabularies
        return classify_details(
            model,
            encode_texts(split.inputs, vocabularies, self.options),
            result.outputs,
            predictions=result.predictions,
            targets=[choices[0] for choices in split.references],
            labels=vocabularies.labels,
        )

    @classmethod
    def predict(
        cls, model: Any, texts: Sequence[str], vocabularies: Any, decode: Decode, *, options: Any
    ) -> list[str]:
        """The predicted label of each text; long texts are truncated."""
        del decode
        rows = encode_texts(texts, vocabularies, options)
        with torch.inference_mode():
            numbers = class_logits(model, rows).argmax(dim=-1)
        return [vocabularies.labels[number] for number in numbers]


def classifier_output(model: Any, batch: TextBatch) -> ClassifierOutput:
    """Logits and penalty of every row."""
    output: ClassifierOutput = model.classify(batch.tokens, batch.lengths, batch.segments)
    return output


def class_logits(model: Any, rows: Rows) -> Float[Tensor, "rows classes"]:
    """The logits of all rows, in order."""
    index_batches = eval_batches(rows.store)
    indices = [index_batches.indices(number) for number in range(len(index_batches))]
    logits = [
        classifier_output(model, to_device_of(model, collate_texts(rows, chosen))).logits.cpu()
        for chosen in indices
    ]
    if not logits:
        return torch.zeros(0, 1)
    return torch.cat(logits)[torch.from_numpy(np.concatenate(indices).argsort())]
