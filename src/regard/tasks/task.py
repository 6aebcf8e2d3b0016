"""What a run asks of a task beyond what training asks: its data, what its models are, what they write."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, Self, runtime_checkable

from regard.core.errors import RegardError
from regard.core.protocols import Decode, Loss
from regard.core.registry import look_up
from regard.data.readers.text_file import BadRows
from regard.data.splits import HeldOut
from regard.tasks.metrics.metric import ItemScores


class Assessed(NamedTuple):
    """How a model scored on a part, what it wrote for each source, and what that was read from."""

    scores: dict[str, float]
    predicted: list[str]
    outputs: Any = None


@runtime_checkable
class Vocabularies(Protocol):
    """How texts become numbers, as kept in a run's folder."""

    def as_json(self) -> dict[str, Any]:
        """As JSON values."""
        ...

    @classmethod
    def from_json(cls, record: object) -> Self:
        """What `as_json` wrote."""
        ...

    def to_start_with(self) -> Self:
        """What a task that starts from a run with these takes over."""
        ...

    def sizes(self) -> dict[str, int]:
        """The sizes a model is built with: numbers of tokens and labels, by the model's own words."""
        ...


class RunTask(ItemScores, ABC):
    """Data, loss, metrics and outputs of one problem; it meets `core.task.Task`."""

    options_class: ClassVar[type[Any]]
    vocabularies_class: ClassVar[type[Any]]
    # Whether a model of this task goes on with a text, instead of answering it.
    goes_on: ClassVar[bool] = False

    def __init__(self, *, corpus: Any, options: Any, seed: int, decode: Decode) -> None:
        # To score a model, a corpus of its vocabularies and a part to develop on is enough.
        self.corpus = corpus
        self.options = options
        self.seed = seed
        self.decode = decode
        self.metric = options.metric or next(iter(self.metrics))
        self.lower_is_better = look_up("metric", self.metric, self.metrics)
        if not len(corpus.validation):
            raise RegardError(
                "There is nothing held out to evaluate on. Give a file with --validation, or raise "
                f"task.validation_share={options.validation_share}."
            )

    @classmethod
    @abstractmethod
    def from_options(
        cls, options: Any, *, seed: int, decode: Decode, vocabularies: Any = None
    ) -> Self:
        """Read the files the options name; known vocabularies are used again."""

    @classmethod
    @abstractmethod
    def scores(cls, predicted: Sequence[str], answers: Sequence[Sequence[str]]) -> dict[str, float]:
        """Every metric that is a function of what was predicted."""

    @classmethod
    @abstractmethod
    def held_out(
        cls, text: str, options: Any, *, vocabularies: Any = None, bad: BadRows
    ) -> HeldOut:
        """A file to score a model with these vocabularies on, other than those of the options."""

    @classmethod
    @abstractmethod
    def predict(
        cls,
        model: Any,
        texts: Sequence[str],
        vocabularies: Any,
        decode: Decode,
        *,
        options: Any,
    ) -> list[str]:
        """What the model makes of each text, in their order."""

    @classmethod
    @abstractmethod
    def cost_words(cls, batch: Any) -> dict[str, int]:
        """The sizes of a batch, by the words of its model's `cost`."""

    @abstractmethod
    def epoch(self, number: int) -> Any:
        """The batches of one pass, made one at a time; a function of seed and number alone."""

    @abstractmethod
    def loss(self, model: Any, batch: Any) -> Loss:
        """The loss of a batch."""

    @abstractmethod
    def assess_on(self, model: Any, part: HeldOut) -> Assessed:
        """Scores on any part, the loss among them, and the predictions they are of."""

    def evaluate(self, model: Any) -> dict[str, float]:
        """Scores on the part held out for development."""
        return self.assess_on(model, self.corpus.validation).scores

    def details(self, model: Any, part: HeldOut, assessed: Assessed) -> dict[str, Any]:
        """What is told of the kept weights beside their scores, as JSON values."""
        del model, part, assessed
        return {}

    def notes(self, part: HeldOut) -> list[str]:
        """What has to be known of a part before scores on it are believed, a line each."""
        del part
        return []

    def require_metric(self, model: Any) -> None:
        """Refuse a metric that this model has no score of, before it is trained."""
        del model

    @classmethod
    def taken_over(cls, own: Mapping[str, Any], task_options: Any) -> dict[str, Any]:
        """As a pre-training with options of its `own`: what it takes over of the task that it is for."""
        del own, task_options
        return {}

    @classmethod
    def decoding(cls, options: Any) -> dict[str, Any]:
        """The words of `decode` that final outputs are made with; none where nothing is decoded."""
        del options
        return {}

    def baselines(self, part: HeldOut) -> dict[str, float]:
        """What is reached without a model, by name."""
        del part
        return {}
