"""Classification of texts, trained on any file of labelled texts; and what all classification tasks share.

    What is an atom ?   →  description

Accuracy and macro-F1 (the mean F1 over labels) are in percent. For a model with several attention hops,
`hop_overlap` is their mean cosine similarity, from 0 (disjoint) to 1 (identical). The best checkpoint also
gets a confusion matrix, calibration, and the deletion test of its attention over words.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import torch
from jaxtyping import Float, Int64, Shaped
from pydantic import AfterValidator, Field, model_validator
from torch import Tensor
from torch.nn import functional as F

from regard.core.batches import IGNORE_INDEX, Batch, TokenInput
from regard.core.device import run_in_thread_pool
from regard.core.errors import RegardError
from regard.core.options import PositiveInt, Probability
from regard.core.protocols import (
    ClassifierOutput,
    Decode,
    Loss,
    TextAttention,
    hop_overlap,
    text_attention,
)
from regard.core.traits import TargetKind
from regard.data.batching import evaluation_batches
from regard.data.datasets.films import FilmLanguages
from regard.data.datasets.movie_reviews import MovieReviews
from regard.data.examples import Examples
from regard.data.item_preprocessor import ItemPreprocessor
from regard.data.labels import NamedLabels
from regard.data.preprocessor import Preprocessor
from regard.data.readers.text_file import Reader
from regard.data.readers.text_reader import LARGE_LINE_BYTES, Target
from regard.data.splits import EvalSplit
from regard.tasks.classification.deletion import deletion_curve, mean_deletion
from regard.tasks.metrics import Accuracy, HopOverlap, Loss as LossMetric, MacroF1, Metric
from regard.tasks.metrics.classification import Calibration, ConfusionMatrix
from regard.tasks.metrics.metric import ProbabilityMetric
from regard.tasks.sequence import Tokenizer
from regard.tasks.task import Baselines, EvalResult, FileOptions, Task, device_of

# The deletion test classifies some thirty variants of a text, so it samples texts; the first texts of a
# file often have the same label.
DELETION_TEXTS = 100
DELETION_BATCH = 10
OVERLAP_TEXTS = 100
MAX_LINEAR_ROWS = 20_000  # of the training split, evenly spaced
MAX_IMAGE_ROWS, MAX_IMAGE_SIDE = 5_000, 32  # of images, whose pixels are many
MAX_LINEAR_ITERATIONS = 200


def validate_label_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names, if there are two or more, all different."""
    if names and (len(set(names)) < max(2, len(names)) or not all(map(str.strip, names))):
        raise RegardError("give two or more different names, of the labels 0, 1, 2, …")
    return names


ClassWeight = Literal["balanced"] | None
LabelNames = Annotated[tuple[str, ...], Field(strict=False), AfterValidator(validate_label_names)]


class TextOptions(FileOptions):
    """Options of tasks that predict one label or number for a text; longer texts are truncated.

    Args:
        max_line_bytes: Maximum length of a line; longer ones are malformed.
        tokens: Tokenizer: wordpiece, subwords, word_punct, words or characters.
        vocabulary_size: Maximum size of a WordPiece, subword or word vocabulary.
        min_count: Minimum frequency of a word in a word vocabulary.
        lowercase: Lower-case all texts; default: unless `tokens` is characters.
        max_length: Maximum sequence length, START and END included.
        sentences: Split texts into sentences, as the model `hierarchical` needs.
        sentence_length: Maximum tokens in a sentence; longer ones are split.
    """

    max_line_bytes: Annotated[int, Field(ge=1, le=2**40)] = LARGE_LINE_BYTES
    tokens: Tokenizer = "wordpiece"
    vocabulary_size: PositiveInt = 8000
    min_count: PositiveInt = 1
    lowercase: bool = True
    max_length: Annotated[int, Field(ge=8)] = 128
    sentences: bool = False
    sentence_length: PositiveInt = 60
    batch_tokens: PositiveInt = 4096

    @model_validator(mode="before")
    @classmethod
    def _keep_case_of_characters(cls, values: Any) -> Any:
        if isinstance(values, Mapping) and values.get("tokens") == "characters":
            return {"lowercase": False, **values}
        return values

    @model_validator(mode="after")
    def _validate_batch(self) -> Self:
        validate_batch_tokens(self)
        return self


def validate_batch_tokens(options: Any) -> None:
    """Raise unless a row of the maximum length fits into a batch."""
    if options.batch_tokens <= options.max_length:
        raise RegardError(
            f"task.batch_tokens={options.batch_tokens} does not hold a row of "
            f"task.max_length={options.max_length}. Make it larger than that."
        )


class ClassifyOptions(TextOptions):
    """As `TextOptions`.

    `train_file` is a file of labelled texts or an embedded dataset: film-languages (the default),
    movie-reviews or movie-sentences (docs/documents.md).

    Args:
        label_smoothing: Probability mass spread over all labels (Szegedy et al. 2016).
        label_names: Names of the labels 0, 1, 2, … of a file, such as ["negative", "positive"].
        class_weight: "balanced" weights the loss of a class by the inverse of its frequency in training.
    """

    label_smoothing: Probability = 0.0
    label_names: LabelNames = ()
    class_weight: ClassWeight = None


class Classification(Task):
    """A class per input, whatever the input; the default metric is accuracy."""

    preprocessor_class: ClassVar[type[Preprocessor]] = ItemPreprocessor
    target_kind: ClassVar[TargetKind] = "class"
    # `hop_overlap` only for models with several attention hops.
    metrics: ClassVar[tuple[Metric, ...]] = (Accuracy(), MacroF1(), LossMetric(), HopOverlap())
    linear_baseline: ClassVar[str] = "TF-IDF + logistic regression"

    @classmethod
    def reader(cls, options: Any, file: str | None) -> Reader:
        """As for every task; labels have the names that the options give."""
        found, names = super().reader(options, file), getattr(options, "label_names", ())
        return NamedLabels(found, names) if names else found

    def loss(self, model: Any, batch: Batch) -> Loss:
        """Cross-entropy summed over labelled rows, plus the model's penalty of these rows."""
        output: ClassifierOutput = model.classify(batch.input)
        labels = batch.target.labels
        weight = self.class_weights
        total = F.cross_entropy(
            output.logits,
            labels,
            weight=None if weight is None else weight.to(output.logits),
            ignore_index=IGNORE_INDEX,
            label_smoothing=self.options.label_smoothing if model.training else 0.0,
            reduction="sum",
        )
        penalty = (output.penalty * (labels != IGNORE_INDEX)).sum()
        return Loss(total + penalty, batch.num_predictions)

    @cached_property
    def class_weights(self) -> Float[Tensor, " classes"] | None:
        """The weight of each class in the training loss: equal in total, with a mean of 1 over all rows."""
        if getattr(self.options, "class_weight", None) is None:
            return None
        targets = np.asarray(self.dataset.train.targets)
        labels = targets[targets != IGNORE_INDEX]
        counts = np.bincount(labels, minlength=len(self.dataset.preprocessor.target.labels))
        return torch.from_numpy(len(labels) / (np.count_nonzero(counts) * np.maximum(counts, 1)))

    def evaluate_on(self, model: Any, split: EvalSplit) -> EvalResult:
        """Loss, metrics and predicted labels on a split.

        A label unseen in training counts as an error; it has no cross-entropy.
        """
        preprocessor = self.dataset.preprocessor
        examples = preprocessor.encode_split(split)
        logits = class_logits(model, examples)
        labels = torch.from_numpy(examples.targets)
        loss = F.cross_entropy(logits, labels, ignore_index=IGNORE_INDEX, reduction="sum").item()
        known = int((labels != IGNORE_INDEX).sum())
        predictions = [preprocessor.target.labels[number] for number in logits.argmax(dim=-1)]
        probabilities = logits.double().softmax(dim=-1).numpy()
        scores = {
            **self.scores(predictions, split.references, self.options),
            **self.probability_scores(probabilities, examples.targets),
            "loss": loss / known if known else math.nan,
        }
        return EvalResult(scores | mean_hop_overlap(model, examples), predictions, logits)

    def probability_scores(
        self,
        probabilities: Float[np.ndarray, "items classes"],
        targets: Int64[np.ndarray, " items"],
    ) -> dict[str, float]:
        """Every metric of the probabilities of classes."""
        return {
            metric.name: metric.of_probabilities(probabilities, targets)
            for metric in self.all_metrics(self.options)
            if isinstance(metric, ProbabilityMetric)
        }

    @classmethod
    def predict(
        cls, model: Any, inputs: Sequence[Any], preprocessor: Any, decode: Decode
    ) -> list[str]:
        """The predicted label of each input; long inputs are truncated."""
        del decode
        with torch.inference_mode():
            numbers = class_logits(model, preprocessor.encode_inputs(inputs)).argmax(dim=-1)
        return [preprocessor.target.labels[number] for number in numbers]

    def baselines(self, split: EvalSplit) -> Baselines:
        """The most frequent training label, and a linear model."""
        found: Baselines = {}
        train = self.dataset.train
        classes = len(self.dataset.preprocessor.target)
        shares = np.bincount(np.asarray(train.targets), minlength=classes) / len(train)
        self.baseline(found, "majority baseline", split, lambda: np.tile(shares, (len(split), 1)))

        def linear() -> Float[np.ndarray, "items classes"]:
            test = self.baseline_inputs(split)
            known = linear_predictions(train, test, is_classifier=True)
            return np.pad(known, ((0, 0), (0, classes - known.shape[1])))

        self.baseline(found, self.linear_baseline, split, linear)
        return found

    def baseline_scores(self, predictions: Any, split: EvalSplit) -> dict[str, float]:
        """The scores of predicted labels, or of probabilities of classes."""
        if not isinstance(predictions, np.ndarray):
            return super().baseline_scores(predictions, split)
        target = self.dataset.preprocessor.target
        numbers = np.array([target.encode(label) for label in split.references], dtype=np.int64)
        labels = [target.labels[number] for number in predictions.argmax(axis=1)]
        scores = super().baseline_scores(labels, split)
        return {**scores, **self.probability_scores(predictions, numbers)}

    def baseline_inputs(self, split: EvalSplit) -> Examples:
        """The inputs of a split as the linear model sees them: encoded like the training examples."""
        found: Examples = self.dataset.preprocessor.encode_inputs(split.inputs)
        return found

    def validate_metric(self, model: Any) -> None:
        """Raise if the metric is `hop_overlap` and the model has fewer than two hops."""
        if self.metric != "hop_overlap":
            return
        inputs = self.dataset.validation.inputs[:1]
        training = model.training
        found = mean_hop_overlap(model.eval(), self.dataset.preprocessor.encode_inputs(inputs))
        model.train(training)
        if not found:
            others = [metric.name for metric in self.metrics if metric.name != self.metric]
            raise RegardError(
                f"task.metric={self.metric}: this model has fewer than two attention hops. Choose one "
                f"of: {', '.join(others)}; or a model with hops, such as structured with model.hops=8."
            )

    def details(self, model: Any, split: EvalSplit, result: EvalResult) -> dict[str, Any]:
        """Confusion matrix, calibration and deletion test."""
        preprocessor = self.dataset.preprocessor
        return classify_details(
            model,
            preprocessor.encode_inputs(split.inputs),
            result.outputs,
            predictions=result.predictions,
            targets=split.references,
            labels=preprocessor.target.labels,
        )


class Classify(Classification):
    """Text classification."""

    options_class = ClassifyOptions
    file_target: ClassVar[Target] = "label"
    datasets: ClassVar[Mapping[str, Any]] = {
        "film-languages": lambda _: FilmLanguages(),
        "movie-reviews": lambda _: MovieReviews(),
        "movie-sentences": lambda _: MovieReviews(name="rotten_tomatoes"),
    }


def classify_details(
    model: Any,
    examples: Examples,
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
    has_two_words = np.flatnonzero(examples.inputs.lengths >= 2)
    sample = _sample(has_two_words, count=DELETION_TEXTS, seed=seed)
    is_text = examples.inputs.values.ndim == 1
    if is_text and len(sample) and _attention(model, examples, sample[:1]) is not None:
        results = []
        for start in range(0, len(sample), DELETION_BATCH):
            inputs = examples.collate_inputs(sample[start : start + DELETION_BATCH])
            assert isinstance(inputs, TokenInput)
            results.append(deletion_curve(model, inputs.to(device_of(model))))
        found["deletion"] = mean_deletion(results).to_dict()
    return found


def mean_hop_overlap(model: Any, examples: Examples, *, seed: int = 0) -> dict[str, float]:
    """The mean `hop_overlap` of a sample of inputs; empty for a model without several hops."""
    sample = _sample(np.arange(len(examples)), count=OVERLAP_TEXTS, seed=seed)
    attention = _attention(model, examples, sample) if len(sample) else None
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
    model: Any, examples: Examples, indices: Int64[np.ndarray, " sample"]
) -> TextAttention | None:
    with torch.inference_mode():
        return text_attention(model, examples.collate_inputs(indices).to(device_of(model)))


def class_logits(model: Any, examples: Examples) -> Float[Tensor, "rows classes"]:
    """The logits of all examples, in order."""
    batches = evaluation_batches(examples)
    if not len(batches):
        return torch.zeros(0, 1)
    device = device_of(model)

    def logits_of(number: int) -> Tensor:
        with torch.inference_mode():
            inputs = examples.collate_inputs(batches.indices(number)).to(device)
            logits: Tensor = model.classify(inputs).logits.cpu()
        return logits

    jobs = [partial(logits_of, number) for number in range(len(batches))]
    found = run_in_thread_pool(jobs) if device.type == "cpu" else [job() for job in jobs]
    return torch.cat(found)[torch.from_numpy(batches.order.argsort())]


def linear_predictions(
    train: Examples, test: Examples, *, is_classifier: bool
) -> Shaped[np.ndarray, "items *classes"]:
    """Probabilities of classes (logistic regression) or numbers (ridge regression): a classical baseline.

    Texts are counted in the tokens of the task's preprocessor; frames are summarised by the mean and the
    standard deviation of every feature; images are pixels, averaged to at most 32×32.
    """
    from sklearn.feature_extraction.text import TfidfTransformer
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    dimensions = train.inputs.values.ndim
    rows = MAX_IMAGE_ROWS if dimensions == 4 else MAX_LINEAR_ROWS
    fitted = train.select(np.arange(0, len(train), max(1, -(-len(train) // rows))))
    is_text = dimensions == 1
    scale: Any = TfidfTransformer(sublinear_tf=True) if is_text else StandardScaler()
    kind: Any = LogisticRegression(max_iter=MAX_LINEAR_ITERATIONS) if is_classifier else Ridge()
    features = {1: _counts, 2: _moments, 4: _pixels}[dimensions]
    size = 1 + int(max(train.inputs.values.max(), test.inputs.values.max())) if is_text else 0
    model = make_pipeline(scale, kind)
    model.fit(features(fitted, size), fitted.targets)
    if not is_classifier:
        return np.asarray(model.predict(features(test, size)))
    found = np.zeros((len(test), 1 + int(max(model.classes_))))
    found[:, model.classes_] = model.predict_proba(features(test, size))
    return found


def _counts(examples: Examples, size: int) -> Any:
    """A sparse matrix of token counts."""
    from scipy.sparse import csr_matrix

    inputs = examples.inputs
    ones = np.ones(len(inputs.values))
    indices = inputs.values.astype(np.int64)  # a writeable copy
    matrix = csr_matrix((ones, indices, inputs.offsets), shape=(len(inputs), size))
    matrix.sum_duplicates()
    return matrix


def _moments(examples: Examples, _: int) -> Any:
    """Mean and standard deviation of every feature over the frames."""
    rows = [examples.inputs[row] for row in range(len(examples))]
    return np.array([np.concatenate([row.mean(axis=0), row.std(axis=0)]) for row in rows])


def _pixels(examples: Examples, _: int) -> Any:
    """The pixels of each image, of large ones averaged."""
    images = torch.from_numpy(examples.inputs.values.astype(np.float32))
    height, width = (min(side, MAX_IMAGE_SIDE) for side in images.shape[2:])
    return F.adaptive_avg_pool2d(images, (height, width)).flatten(1).numpy()
