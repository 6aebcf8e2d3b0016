"""What the training loop asks of a task: batches, a loss, and a score.

The task owns its data and its loss, so that the loop has nothing to know about either.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor


class Loss(NamedTuple):
    """A loss summed over `num_predictions`; the mean is what is reported and followed."""

    total: Float[Tensor, ""]
    num_predictions: int


class Batch(Protocol):
    """The part of a batch that the loop may rely on."""

    @property
    def num_predictions(self) -> int:
        """What the loss of this batch is summed over."""
        ...

    @property
    def num_tokens(self) -> int:
        """What a budget of tokens counts."""
        ...


@runtime_checkable
class Task(Protocol):
    """Data, loss and metric of one problem."""

    @property
    def metric(self) -> str:
        """The score that decides which weights are kept: a name in what `evaluate` returns."""
        ...

    @property
    def lower_is_better(self) -> bool:
        """Whether a smaller value of the metric is better."""
        ...

    def epoch(self, number: int) -> Sequence[Any]:
        """The batches of one pass, in order; a function of the task's seed and the number alone.

        Its length is known before any batch is made, and batches are made one at a time.
        """
        ...

    def loss(self, model: Any, batch: Any) -> Loss:
        """The loss of a batch."""
        ...

    def evaluate(self, model: Any) -> dict[str, float]:
        """Scores on the held-out part; the model is in evaluation mode, without gradients."""
        ...
