"""The batches of a task, epoch after epoch, from any place on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from regard.core.errors import RegardError
from regard.core.task import Task


class BatchStream:
    """Batch `batch` of epoch `epoch` comes next."""

    def __init__(self, task: Task, *, epoch: int, batch: int) -> None:
        """Begin at that place."""
        self.task = task
        self.epoch = epoch
        self.batch = batch
        self._batches: Sequence[Any] = self._of(epoch)

    @property
    def epochs(self) -> float:
        """How many passes over the data have been made."""
        return self.epoch + self.batch / len(self._batches)

    def take(self, count: int) -> list[Any]:
        """The next `count` batches; an epoch that ends is followed by the next."""
        taken = []
        for _ in range(count):
            if self.batch >= len(self._batches):
                self._batches = self._of(self.epoch + 1)
                self.epoch, self.batch = self.epoch + 1, 0
            taken.append(self._batches[self.batch])
            self.batch += 1
        return taken

    def _of(self, epoch: int) -> Sequence[Any]:
        batches = self.task.epoch(epoch)
        if len(batches) == 0:
            raise RegardError(
                f"Epoch {epoch} has no batches, so there is nothing to train on. Check that the "
                "training part of the data is not empty."
            )
        return batches
