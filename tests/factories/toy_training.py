"""A task small enough to be trained in a test: which letter follows, learnt through dropout.

Run as a program, it is a training to be killed: `python -m tests.factories.toy_training FOLDER [--resume]`.
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
    """Letters and the letters that follow."""

    number: int
    given: Tensor
    wanted: Tensor

    @property
    def num_predictions(self) -> int:
        return self.wanted.numel()

    @property
    def num_tokens(self) -> int:
        return 2 * self.wanted.numel()


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

    def forward(self, given: Tensor) -> Tensor:
        hidden = torch.tanh(self.hidden(self.dropout(self.embedding(given))))
        return self.output(self.norm(hidden))


class ToyEpoch(Sequence[Any]):
    """Batches made when asked for, from the epoch's number alone."""

    def __init__(self, *, number: int, size: int, rows: int) -> None:
        self.number, self.size, self.rows = number, size, rows

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: Any) -> ToyBatch:
        name = 1000 * self.number + index
        generator = torch.Generator().manual_seed(name)
        given = torch.randint(LETTERS, (self.rows + index % 3,), generator=generator)
        return ToyBatch(name, given, (3 * given + 1) % LETTERS)


class ToyTask:
    """`notes` is the file in which the order of the batches is noted; `pause` makes it slow."""

    metric = "error"
    lower_is_better = True

    def __init__(
        self, *, batches: int = 5, rows: int = 4, notes: Path | None = None, pause: float = 0.0
    ) -> None:
        self.batches, self.rows, self.notes, self.pause = batches, rows, notes, pause
        self.seen: list[int] = []

    def epoch(self, number: int) -> ToyEpoch:
        return ToyEpoch(number=number, size=self.batches, rows=self.rows)

    def loss(self, model: Any, batch: ToyBatch) -> Loss:
        self.seen.append(batch.number)
        # A fingerprint of the order of all batches so far, which checkpoints hold.
        model.order.mul_(31).add_(batch.number)
        model.calls.add_(1)
        self._note(f"{int(model.calls)} {batch.number}")
        time.sleep(self.pause)
        total = nn.functional.cross_entropy(model(batch.given), batch.wanted, reduction="sum")
        return Loss(total, batch.num_predictions)

    def evaluate(self, model: Any) -> dict[str, float]:
        self._note("evaluating")
        time.sleep(10 * self.pause)
        torch.rand(3)  # would change the dropout that follows, were its trace not removed
        given = torch.arange(LETTERS)
        wanted = (3 * given + 1) % LETTERS
        scores = model(given)
        return {
            "error": float(nn.functional.cross_entropy(scores, wanted)),
            "right": float((scores.argmax(-1) == wanted).float().mean()),
        }

    def _note(self, line: str) -> None:
        if self.notes is not None:
            with self.notes.open("a", encoding="utf-8") as file:
                file.write(f"{line}\n")


# Each mixes an optimiser with an averaging, so that all are killed.
MIXTURES: list[dict[str, Any]] = [
    {"optimizer": "adamw", "averaging": "exponential"},
    {"optimizer": "adamw", "averaging": "last", "average_last": 3, "accumulate": 2},
    {"optimizer": "muon", "averaging": "none"},
    {"optimizer": "muon", "averaging": "exponential", "keep": "last"},
]


def main(words: list[str] | None = None) -> None:
    """A training of a few hundred steps, with many evaluations and checkpoints."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--resume", action="store_true")
    given = parser.parse_args(words)
    torch.set_num_threads(1)
    given.folder.mkdir(parents=True, exist_ok=True)
    options = MIXTURES[given.seed % len(MIXTURES)]
    train(
        model=ToyModel(seed=given.seed, width=64),
        task=ToyTask(batches=17, notes=given.folder / "order.txt", pause=0.002),
        options=TrainingOptions(
            steps=given.steps,
            warmup_steps=10,
            learning_rate=1e-2,
            evaluate_every=23,
            log_every=7,
            checkpoint_every=11,
            **options,
        ),
        folder=given.folder,
        seed=given.seed,
        resume=given.resume,
    )


if __name__ == "__main__":
    main()
