"""CTC by enumeration: every path of a few frames, and the output that it gives."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict

import torch
from torch import Tensor

BLANK = 0
Path = tuple[int, ...]


def collapse(path: Path) -> Path:
    """Merge repeats, then drop blanks."""
    return tuple(token for token, _ in itertools.groupby(path) if token != BLANK)


def paths_by_output(scores: Tensor) -> dict[Path, dict[Path, float]]:
    """Output → each of its paths and log p of that path, from log-probabilities (frames, vocabulary)."""
    rows = scores.tolist()
    found: dict[Path, dict[Path, float]] = defaultdict(dict)
    for path in itertools.product(range(scores.shape[1]), repeat=len(rows)):
        found[collapse(path)][path] = sum(row[token] for row, token in zip(rows, path, strict=True))
    return found


def log_sum(values: object) -> float:
    """log Σ exp of numbers."""
    return math.log(sum(map(math.exp, values)))  # type: ignore[call-overload]


def random_scores(seed: int, *, batch: int, frames: int, vocabulary: int) -> Tensor:
    """Random log-probabilities (batch, frames, vocabulary) in float64."""
    generator = torch.Generator().manual_seed(seed)
    logits = 1.5 * torch.randn(batch, frames, vocabulary, generator=generator)
    return logits.double().log_softmax(-1)
