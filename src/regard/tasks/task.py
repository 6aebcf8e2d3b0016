"""The base class of tasks: data, loss, metrics and predictions of one problem."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, Self

from pydantic import Field, field_validator

from regard.core.batches import Batch
from regard.core.errors import RegardError
from regard.core.options import Options, PositiveInt, Probability
from regard.core.protocols import Decode, Loss
from regard.core.registry import unknown_name
from regard.core.traits import InputKind, TargetKind
from regard.data.batching import Batches, Collate, evaluation_batches, token_batches
from regard.data.dataset import Dataset
from regard.data.examples import Examples
from regard.data.preprocessor import Preprocessor
from regard.data.readers.arrays import ArrayReader
from regard.data.readers.text_file import Reader, RowErrors
from regard.data.readers.text_reader import Target, TextReader
from regard.data.splits import EvalSplit, Split
from regard.tasks.metrics import metric_class
from regard.tasks.metrics.metric import Metric

FILE_OPTIONS = ("format", "header", "source_column", "target_column", "max_line_bytes")
Baselines = dict[str, dict[str, Any]]


class TaskOptions(Options):
    """Options of every task.

    Args:
        train_file: Training data: a file, or the name of an embedded dataset.
        validation_file, test_file: Evaluation data; without them, splits of the training data by a hash of
            the input.
        validation_fraction: Fraction held out without `validation_file`.
        test_fraction: Fraction held out with neither `validation_file` nor `test_file`.
        skip_bad_rows: Skip and list malformed rows instead of raising.
        batch_tokens: Maximum number of positions in a batch, padding included.
        metric: The metric that selects the best checkpoint.
        metrics: Names of further metrics to report.
    """

    SECTION: ClassVar[str] = "task"

    train_file: str | None = None
    validation_file: str | None = None
    test_file: str | None = None
    validation_fraction: Probability = 0.05
    test_fraction: Probability = 0.05
    skip_bad_rows: bool = False
    batch_tokens: PositiveInt = 2048
    metric: str = ""
    metrics: Annotated[tuple[str, ...], Field(strict=False)] = ()


class FileOptions(TaskOptions):
    """As `TaskOptions`, with those of text files.

    Args:
        format: File format; default: by the extension.
        header: Whether the first row is a header; a column given by name implies it.
        source_column, target_column: Index from 0, or name, of the input and of its target; several columns
            of the input with a comma between them.
    """

    format: str | None = None
    header: bool = False
    source_column: int | str | None = None
    target_column: int | str | None = None

    @field_validator("source_column", mode="before")
    @classmethod
    def _join_columns(cls, value: Any) -> Any:
        return ",".join(map(str, value)) if isinstance(value, list | tuple) else value


class EvalResult(NamedTuple):
    """Scores of a model on a split, its prediction for each input, and the raw model outputs."""

    scores: dict[str, float]
    predictions: list[Any]
    outputs: Any = None


class Task(ABC):
    """Data, loss, metrics and predictions of one problem; implements `TrainingTask`.

    Args:
        dataset: The data splits and the preprocessor.
        options: An instance of `options_class`.
        seed: Random seed of the data order.
        decode: Greedy decoding or beam search; ignored by tasks that generate nothing.
    """

    options_class: ClassVar[type[TaskOptions]]
    preprocessor_class: ClassVar[type[Preprocessor]]
    input_kind: ClassVar[InputKind] = "tokens"
    target_kind: ClassVar[TargetKind]
    # The first is the default.
    metrics: ClassVar[tuple[Metric, ...]]
    # Embedded datasets by name; the first is the default.
    datasets: ClassVar[Mapping[str, Callable[[Any], Reader]]] = {}
    # What a text file has beside each text, and its format if the extension is unknown.
    file_target: ClassVar[Target] = "text"
    default_format: ClassVar[str | None] = None
    # Whether a model of this task generates a continuation of a text.
    is_generative: ClassVar[bool] = False

    def __init__(self, *, dataset: Dataset, options: Any, seed: int, decode: Decode) -> None:
        # Evaluation alone needs only a preprocessor and a validation split in `dataset`.
        self.dataset = dataset
        self.options = options
        self.seed = seed
        self.decode = decode
        chosen = self.metric_named(options.metric, options)
        self.metric, self.lower_is_better = chosen.name, chosen.lower_is_better
        if not len(dataset.validation):
            raise RegardError(
                "The validation split is empty. Give a file with --validation-file, or raise "
                f"task.validation_fraction={options.validation_fraction}."
            )

    @classmethod
    def from_options(
        cls, options: Any, *, seed: int, decode: Decode, preprocessor: Any = None
    ) -> Self:
        """Read the data files that the options name; a given preprocessor is reused."""
        dataset = cls.read_dataset(options, preprocessor)
        return cls(dataset=dataset, options=options, seed=seed, decode=decode)

    @classmethod
    def all_metrics(cls, options: Any = None) -> tuple[Metric, ...]:
        """The metrics of the task, and those that the option `task.metrics` adds by name."""
        own = {metric.name for metric in cls.metrics}
        extra = [name for name in getattr(options, "metrics", ()) if name not in own]
        return (*cls.metrics, *(metric_class(name)() for name in dict.fromkeys(extra)))

    @classmethod
    def metric_named(cls, name: str, options: Any = None) -> Metric:
        """The metric of this name; the default metric if it is empty."""
        found = {metric.name: metric for metric in cls.all_metrics(options)}
        if name and name not in found:
            raise unknown_name("metric", name, found)
        return found[name] if name else cls.metrics[0]

    @classmethod
    def scores(
        cls, predictions: Sequence[Any], references: Sequence[Any], options: Any = None
    ) -> dict[str, float]:
        """Every metric that is a function of the predictions."""
        return {
            metric.name: metric(predictions, references)
            for metric in cls.all_metrics(options)
            if metric.is_itemwise
        }

    @classmethod
    def signatures(cls, options: Any = None) -> dict[str, str]:
        """Signatures of the metrics that have several definitions."""
        metrics = cls.all_metrics(options)
        return {metric.name: metric.signature for metric in metrics if metric.signature}

    @classmethod
    def reader(cls, options: Any, file: str | None) -> Reader:
        """The reader of a file or of an embedded dataset; of the default dataset for None."""
        name = next(iter(cls.datasets), None) if file is None else file
        if name is None:
            raise RegardError(
                "The task has no embedded data. Name a file with --train-file, such as my.tsv."
            )
        if name in cls.datasets:
            return cls.datasets[name](options)
        if cls.input_kind == "frames":
            return ArrayReader(path=Path(name))
        given = {each: getattr(options, each) for each in FILE_OPTIONS if hasattr(options, each)}
        return TextReader.from_text(
            name, target=cls.file_target, default_format=cls.default_format, **given
        )

    @classmethod
    def readers(cls, options: Any) -> dict[Split, Reader]:
        """The reader of the training data, and those of splits that have data of their own."""
        found: dict[Split, Reader] = {"train": cls.reader(options, options.train_file)}
        if options.validation_file:
            found["validation"] = cls.reader(options, options.validation_file)
        if options.test_file:
            found["test"] = cls.reader(options, options.test_file)
        return found

    @classmethod
    def read_dataset(cls, options: Any, preprocessor: Any = None) -> Dataset:
        """The data splits and the preprocessor; a given one is reused, None fits a new one."""
        readers = cls.readers(options)
        return Dataset.read(cls.preprocessor_class, options, readers, preprocessor=preprocessor)

    @classmethod
    def read_split(
        cls, file: str, options: Any, *, preprocessor: Any, errors: RowErrors
    ) -> EvalSplit:
        """Read another file to evaluate on."""
        reader = cls.reader(options, file)
        found: EvalSplit = preprocessor.split(reader.rows(errors=errors), path=reader.path)
        return found

    @classmethod
    @abstractmethod
    def predict(
        cls, model: Any, inputs: Sequence[Any], preprocessor: Any, decode: Decode
    ) -> list[Any]:
        """The prediction for each input, in order."""

    def epoch(self, number: int) -> Batches:
        """The batches of one epoch, created lazily; a function of seed and epoch number."""
        return self.batches(self.dataset.train, epoch=number)

    def batches(self, examples: Examples, *, epoch: int, collate: Collate | None = None) -> Batches:
        """The examples in random order, in batches of similar length, filled by tokens."""
        return token_batches(
            examples,
            max_tokens=self.options.batch_tokens,
            seed=self.seed,
            epoch=epoch,
            collate=collate,
        )

    @abstractmethod
    def loss(self, model: Any, batch: Batch) -> Loss:
        """The training loss of a batch."""

    def eval_batches(self, split: EvalSplit) -> Batches:
        """The batches of a split that its loss is computed on."""
        return evaluation_batches(self.dataset.preprocessor.encode_split(split))

    @abstractmethod
    def evaluate_on(self, model: Any, split: EvalSplit) -> EvalResult:
        """Loss, metrics and predictions on a split."""

    def evaluate(self, model: Any) -> dict[str, float]:
        """Scores on the validation split."""
        return self.evaluate_on(model, self.dataset.validation).scores

    def details(self, model: Any, split: EvalSplit, result: EvalResult) -> dict[str, Any]:
        """Further results of the best checkpoint, as JSON values."""
        del model, split, result
        return {}

    def notes(self, split: EvalSplit) -> list[str]:
        """Warnings about a split, one line each."""
        found: list[str] = self.dataset.preprocessor.notes(split)
        return found

    def validate_metric(self, model: Any) -> None:
        """Raise, before training, if this model cannot be scored by the chosen metric."""
        del model

    @classmethod
    def inherited_options(cls, own: Mapping[str, Any], task_options: Any) -> dict[str, Any]:
        """Options of a pre-training stage that follow from those of the fine-tuning task."""
        del own, task_options
        return {}

    @classmethod
    def decode_kwargs(cls, options: Any) -> dict[str, Any]:
        """Keyword arguments of `decode` for the final predictions; empty without decoding."""
        del options
        return {}

    def baselines(self, split: EvalSplit) -> Baselines:
        """Trivial and classical baselines, fitted on the training split: name → scores and seconds."""
        del split
        return {}

    def baseline_scores(self, predictions: Any, split: EvalSplit) -> dict[str, float]:
        """The scores of what a baseline predicts."""
        return self.scores(predictions, split.references, self.options)

    def baseline(
        self, found: Baselines, name: str, split: EvalSplit, predict: Callable[[], Any]
    ) -> None:
        """Add the scores of the predictions of a baseline, and the time to fit and predict."""
        begin = time.perf_counter()
        predictions = predict()
        seconds = time.perf_counter() - begin
        scores = self.baseline_scores(predictions, split)
        found[name] = {"scores": scores, "seconds": round(seconds, 3)}


def device_of(model: Any) -> Any:
    """The device of the model's parameters."""
    return next(iter(model.parameters())).device
