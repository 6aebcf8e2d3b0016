"""Those who are told how a run goes: a display, a log, a test."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from regard.training.options import TrainingOptions
from regard.training.outcome import Outcome


class Start(NamedTuple):
    """A run begins, or goes on after `step`, or turns out to be `finished`.

    `best` is the best metric so far, if there is one.
    """

    folder: Path
    options: TrainingOptions
    parameters: int
    step: int
    tokens: int
    seconds: float
    share: float
    metric: str
    lower_is_better: bool
    best: float | None
    finished: Literal["budget", "patience"] | None


class StepTaken(NamedTuple):
    """One step: its mean loss, and where the run stands after it. `share` is that of the budget."""

    step: int
    epoch: int
    tokens: int
    operations: int
    loss: float
    learning_rate: float
    gradient_norm: float
    seconds: float
    share: float


class Evaluation(NamedTuple):
    """The scores after a step; `improved` says that the metric is the best so far."""

    step: int
    scores: dict[str, float]
    metric: str
    improved: bool
    best: float | None


@runtime_checkable
class Watcher(Protocol):
    """Told of everything as it happens; must not disturb the model or torch's random numbers."""

    def started(self, info: Start) -> None:
        """Before the first step."""
        ...

    def stepped(self, info: StepTaken) -> None:
        """After every step, so be quick."""
        ...

    def evaluated(self, scores: Evaluation) -> None:
        """After every evaluation."""
        ...

    def saved(self, path: Path) -> None:
        """After a checkpoint or the kept weights were written."""
        ...

    def ended(self, outcome: Outcome | None) -> None:
        """At the very end, always; None if an error ended the run."""
        ...


class Audience:
    """Several watchers as one."""

    def __init__(self, watchers: Sequence[Watcher]) -> None:
        """They are told in this order."""
        self.watchers = watchers

    def started(self, info: Start) -> None:
        """Tell all."""
        for watcher in self.watchers:
            watcher.started(info)

    def stepped(self, info: StepTaken) -> None:
        """Tell all."""
        for watcher in self.watchers:
            watcher.stepped(info)

    def evaluated(self, scores: Evaluation) -> None:
        """Tell all."""
        for watcher in self.watchers:
            watcher.evaluated(scores)

    def saved(self, path: Path) -> None:
        """Tell all."""
        for watcher in self.watchers:
            watcher.saved(path)

    def ended(self, outcome: Outcome | None) -> None:
        """Tell all."""
        for watcher in self.watchers:
            watcher.ended(outcome)
