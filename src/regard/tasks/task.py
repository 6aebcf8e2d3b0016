"""The base class of tasks: data, loss, metrics and predictions of one problem."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence, Sized
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeVar, runtime_checkable

from regard.core.batches import PairBatch, TextBatch
from regard.core.errors import RegardError
from regard.core.protocols import Decode, Loss
from regard.core.registry import lookup
from regard.data.batching import Batches, evaluation_batches, token_batches
from regard.data.readers.text_file import RowErrors
from regard.data.splits import EvalSplit
from regard.data.token_store import TokenStore
from regard.tasks.metrics.metric import MetricTable

TensorBatch = TypeVar("TensorBatch", PairBatch, TextBatch)
EVAL_BATCH_TOKENS = 8192  # larger than in training: evaluation stores no gradients


class EvalResult(NamedTuple):
    """Scores of a model on a split, its prediction for each input, and the raw model outputs."""

    scores: dict[str, float]
    predictions: list[str]
    outputs: Any = None


@runtime_checkable
class Vocabularies(Protocol):
    """The vocabularies of a task, as stored in a run folder."""

    def as_json(self) -> dict[str, Any]:
        """The vocabularies as JSON values."""
        ...

    @classmethod
    def from_json(cls, record: object) -> Self:
        """Load the output of `as_json`."""
        ...

    def for_warm_start(self) -> Self:
        """The part that a task initialised from this run takes over."""
        ...

    def sizes(self) -> dict[str, int]:
        """Vocabulary sizes and number of classes, as keyword arguments of a model."""
        ...


class Task(MetricTable, ABC):
    """Data, loss, metrics and predictions of one problem; implements `TrainingTask`.

    Args:
        corpus: The data splits and the vocabularies.
        options: An instance of `options_class`.
        seed: Random seed of the data order.
        decode: Greedy decoding or beam search; ignored by tasks that generate nothing.
    """

    options_class: ClassVar[type[Any]]
    vocabularies_class: ClassVar[type[Any]]
    # Whether a model of this task generates a continuation of a text.
    is_generative: ClassVar[bool] = False

    def __init__(self, *, corpus: Any, options: Any, seed: int, decode: Decode) -> None:
        # Evaluation alone needs only vocabularies and a validation split in `corpus`.
        self.corpus = corpus
        self.options = options
        self.seed = seed
        self.decode = decode
        self.metric = options.metric or next(iter(self.metrics))
        self.lower_is_better = lookup("metric", self.metric, self.metrics)
        if not len(corpus.validation):
            raise RegardError(
                "The validation split is empty. Give a file with --validation-file, or raise "
                f"task.validation_fraction={options.validation_fraction}."
            )

    @classmethod
    def from_options(
        cls, options: Any, *, seed: int, decode: Decode, vocabularies: Any = None
    ) -> Self:
        """Read the data files that the options name; given vocabularies are reused."""
        corpus = cls.read_corpus(options, vocabularies)
        return cls(corpus=corpus, options=options, seed=seed, decode=decode)

    @classmethod
    @abstractmethod
    def read_corpus(cls, options: Any, vocabularies: Any) -> Any:
        """The data splits and vocabularies; given vocabularies are reused, None builds new ones."""

    @classmethod
    @abstractmethod
    def read_split(
        cls, file: str, options: Any, *, vocabularies: Any = None, errors: RowErrors
    ) -> EvalSplit:
        """Read another file to evaluate on."""

    @classmethod
    @abstractmethod
    def predict(
        cls, model: Any, texts: Sequence[str], vocabularies: Any, decode: Decode, *, options: Any
    ) -> list[str]:
        """The prediction for each text, in order."""

    @classmethod
    @abstractmethod
    def cost_kwargs(cls, batch: Any) -> dict[str, int]:
        """The sizes of a batch, as keyword arguments of the model's `cost`."""

    @abstractmethod
    def epoch(self, number: int) -> Any:
        """The batches of one epoch, created lazily; a function of seed and epoch number."""

    def batches(self, store: TokenStore, *, epoch: int) -> Batches:
        """The rows of `store` in random order, in batches of similar length, filled by tokens."""
        return token_batches(
            store, max_tokens=self.options.batch_tokens, seed=self.seed, epoch=epoch
        )

    @abstractmethod
    def loss(self, model: Any, batch: Any) -> Loss:
        """The training loss of a batch."""

    @abstractmethod
    def evaluate_on(self, model: Any, split: EvalSplit) -> EvalResult:
        """Loss, metrics and predictions on a split."""

    def evaluate(self, model: Any) -> dict[str, float]:
        """Scores on the validation split."""
        return self.evaluate_on(model, self.corpus.validation).scores

    def details(self, model: Any, split: EvalSplit, result: EvalResult) -> dict[str, Any]:
        """Further results of the best checkpoint, as JSON values."""
        del model, split, result
        return {}

    def notes(self, split: EvalSplit) -> list[str]:
        """Warnings about a split, one line each."""
        del split
        return []

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

    def baselines(self, split: EvalSplit) -> dict[str, float]:
        """Scores of trivial baselines, such as the majority baseline, by name."""
        del split
        return {}


def validate_options(options: Any, rule: str, is_valid: Callable[[Any], bool], *names: str) -> None:
    """Raise unless the named options are valid; `rule` completes "it must be"."""
    for name in names:
        if not is_valid(value := getattr(options, name)):
            raise RegardError(f"task.{name}={value}: it must be {rule}.")


def validate_positive(options: Any, *names: str) -> None:
    """Raise unless the named options are 1 or more."""
    validate_options(options, "1 or more", lambda value: value >= 1, *names)


def validate_proper_fractions(options: Any, *names: str) -> None:
    """Raise unless the named options are from 0 to below 1."""
    validate_options(options, "from 0 to below 1", lambda value: 0 <= value < 1, *names)


def validate_train_split(train: Sized, options: Any, *, units: str, path: object = None) -> None:
    """Raise if the training split is empty."""
    if not len(train):
        of_file = "" if path is None else f" of '{path}'"
        raise RegardError(
            f"The training split{of_file} is empty. Give more {units}, or lower "
            f"task.validation_fraction={options.validation_fraction} and "
            f"task.test_fraction={options.test_fraction}."
        )


def eval_batches(store: TokenStore) -> Batches:
    """All rows, batched by length for evaluation; the longest row always fits."""
    longest = int((store.source_lengths + store.target_lengths).max(initial=0)) + 3
    return evaluation_batches(store, max_tokens=max(EVAL_BATCH_TOKENS, longest))


def to_device_of(model: Any, batch: TensorBatch) -> TensorBatch:
    """The batch on the device of the model's parameters."""
    device = next(iter(model.parameters())).device
    return type(batch)(*(tensor.to(device) for tensor in batch))
