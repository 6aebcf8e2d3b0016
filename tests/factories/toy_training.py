"""A toy task and model for tests of the training loop: predict the next letter.

A training run for tests to kill and resume: `python -m tests.factories.toy_training FOLDER [--resume]`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.core.protocols import Loss
from regard.training.loop import train
from regard.training.options import TrainingOptions

LETTERS, WIDTH = 11, 7


class ToyBatch(NamedTuple):
    """Letters, and the next letter of each."""

    number: int
    inputs: Tensor
    targets: Tensor

    @property
    def num_predictions(self) -> int:
        return self.targets.numel()

    @property
    def num_tokens(self) -> int:
        return 2 * self.targets.numel()


class ToyModel(nn.Module):
    """An embedding and two linear layers, with dropout in between; `calls` counts batches."""

    calls: Tensor
    order: Tensor

    def __init__(self, *, seed: int = 0, dropout: float = 0.3, width: int = WIDTH) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.embedding = nn.Embedding(LETTERS, width)
            self.hidden = nn.Linear(width, width)
            self.norm = nn.LayerNorm(width)
            self.dropout = nn.Dropout(dropout)
            self.output = nn.Linear(width, LETTERS)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("order", torch.zeros((), dtype=torch.int64))

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = torch.tanh(self.hidden(self.dropout(self.embedding(inputs))))
        return self.output(self.norm(hidden))


class ToyEpoch(Sequence[Any]):
    """Lazy batches, a function of the epoch."""

    def __init__(self, *, number: int, size: int, rows: int) -> None:
        self.number, self.size, self.rows = number, size, rows

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: Any) -> ToyBatch:
        name = 1000 * self.number + index
        generator = torch.Generator().manual_seed(name)
        inputs = torch.randint(LETTERS, (self.rows + index % 3,), generator=generator)
        return ToyBatch(name, inputs, (3 * inputs + 1) % LETTERS)


class ToyTask:
    """`log` is a file for the order of batches; `pause` slows training down."""

    metric = "error"
    lower_is_better = True

    def __init__(
        self, *, batches: int = 5, rows: int = 4, log: Path | None = None, pause: float = 0.0
    ) -> None:
        self.batches, self.rows, self.log, self.pause = batches, rows, log, pause
        self.seen: list[int] = []

    def epoch(self, number: int) -> ToyEpoch:
        return ToyEpoch(number=number, size=self.batches, rows=self.rows)

    def loss(self, model: Any, batch: ToyBatch) -> Loss:
        self.seen.append(batch.number)
        # A fingerprint of the order of batches, stored in checkpoints.
        model.order.mul_(31).add_(batch.number)
        model.calls.add_(1)
        self._write(f"{int(model.calls)} {batch.number}")
        time.sleep(self.pause)
        total = nn.functional.cross_entropy(model(batch.inputs), batch.targets, reduction="sum")
        return Loss(total, batch.num_predictions)

    def evaluate(self, model: Any) -> dict[str, float]:
        self._write("evaluating")
        time.sleep(10 * self.pause)
        torch.rand(3)  # the loop must restore the random state after evaluation
        inputs = torch.arange(LETTERS)
        targets = (3 * inputs + 1) % LETTERS
        scores = model(inputs)
        return {
            "error": float(nn.functional.cross_entropy(scores, targets)),
            "accuracy": float((scores.argmax(-1) == targets).float().mean()),
        }

    def _write(self, line: str) -> None:
        if self.log is not None:
            with self.log.open("a", encoding="utf-8") as file:
                file.write(f"{line}\n")


# Every optimizer and every averaging.
OPTION_SETS: list[dict[str, Any]] = [
    {"optimizer": "adamw", "averaging": "exponential"},
    {"optimizer": "adamw", "averaging": "last", "average_last": 3, "accumulate": 2},
    {"optimizer": "muon", "averaging": "none"},
    {"optimizer": "sgd", "averaging": "none"},
    {"optimizer": "muon", "averaging": "exponential", "keep": "last"},
]


def main(argv: list[str] | None = None) -> None:
    """A few hundred steps with many evaluations and checkpoints."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--resume", action="store_true")
    arguments = parser.parse_args(argv)
    torch.set_num_threads(1)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    options = OPTION_SETS[arguments.seed % len(OPTION_SETS)]
    train(
        model=ToyModel(seed=arguments.seed, width=64),
        task=ToyTask(batches=17, log=arguments.folder / "order.txt", pause=0.002),
        options=TrainingOptions(
            steps=arguments.steps,
            warmup_steps=10,
            learning_rate=1e-2,
            evaluate_every=23,
            log_every=7,
            checkpoint_every=11,
            **options,
        ),
        folder=arguments.folder,
        seed=arguments.seed,
        resume=arguments.resume,
    )


if __name__ == "__main__":
    main()
