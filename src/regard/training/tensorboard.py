"""The numbers of a run as TensorBoard shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.core.errors import RegardError
from regard.training.outcome import Outcome
from regard.training.watchers import Evaluation, Start, StepTaken


class TensorBoard:
    """A watcher that writes scalars to `folder`; those of steps as often as metrics are logged."""

    def __init__(self, folder: Path) -> None:
        """Say at once if TensorBoard is not there."""
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise RegardError(
                f"TensorBoard is not installed ({error}). Install it with: pip install "
                "'regard[tensorboard]'"
            ) from error
        self._kind: Any = SummaryWriter
        self._writer: Any = None
        self._every = 1
        self.folder = folder

    def started(self, info: Start) -> None:
        """Open the file; what an earlier session wrote after this step is no longer shown."""
        self._every = info.options.log_every
        self._writer = self._kind(str(self.folder), purge_step=info.step + 1)

    def stepped(self, info: StepTaken) -> None:
        """Loss, learning rate, norm of the gradient, tokens."""
        if info.step % self._every:
            return
        for name in ("loss", "learning_rate", "gradient_norm", "tokens"):
            self._writer.add_scalar(f"training/{name}", getattr(info, name), info.step)

    def evaluated(self, scores: Evaluation) -> None:
        """Every score."""
        for name, value in scores.scores.items():
            self._writer.add_scalar(f"dev/{name}", value, scores.step)

    def saved(self, path: Path) -> None:
        """Hand over what was written, so that it is as far as the checkpoint."""
        self._writer.flush()

    def ended(self, outcome: Outcome | None) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()
