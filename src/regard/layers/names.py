"""Position encodings and pooling layers by name.

The tables hold strings, so that listing them imports neither them nor torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Entry:
    """Module, class and description of a position encoding, and what it acts on.

    Those that act on tokens are added to the embeddings, before the first block: `position(x, start)`.
    Those that act on heads or scores are passed to each `MultiHead` as `position`.
    """

    module: str
    class_name: str
    acts_on: Literal["tokens", "heads", "scores"]
    summary: str
    reference: str


POSITIONS: dict[str, Entry] = {
    "sinusoidal": Entry(
        "positions",
        "SinusoidalPositions",
        "tokens",
        "fixed sines and cosines, added",
        "Vaswani et al. 2017",
    ),
    "learned": Entry(
        "positions",
        "LearnedPositions",
        "tokens",
        "a learned vector per position, added",
        "Gehring et al. 2017",
    ),
    "rotary": Entry(
        "rotary", "Rotary", "heads", "queries and keys rotated by their position", "Su et al. 2021"
    ),
    "alibi": Entry(
        "alibi",
        "Alibi",
        "scores",
        "a penalty on scores, linear in the distance",
        "Press et al. 2022",
    ),
    "none": Entry(
        "positions",
        "NoPositions",
        "tokens",
        "no position information but the mask",
        "Haviv et al. 2022",
    ),
}


@dataclass(frozen=True)
class PoolingEntry:
    """Module, class and description of a pooling layer."""

    module: str
    class_name: str
    summary: str
    reference: str


POOLING: dict[str, PoolingEntry] = {
    "ContextPooling": PoolingEntry(
        "pooling",
        "ContextPooling",
        "one vector of a sequence, by a learned context vector",
        "Yang et al. 2016",
    ),
    "StructuredPooling": PoolingEntry(
        "pooling",
        "StructuredPooling",
        "several vectors (hops) of a sequence, by a learned matrix",
        "Lin et al. 2017",
    ),
    "SentencePooling": PoolingEntry(
        "sentence_pooling",
        "SentencePooling",
        "one vector of each sentence of a document, optionally with its context",
        "Yang et al. 2016; Remy et al. 2019",
    ),
}
