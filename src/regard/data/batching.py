"""Batching by token count with length bucketing.

Examples of similar length share a batch, which keeps padding low, and a batch holds as many as fit into
`max_tokens`, so that all batches cost about the same. Composition and order are a function of (seed,
epoch); batches are collated lazily. Only lengths matter, whatever the content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import overload

import numpy as np
from jaxtyping import Int64

from regard.core.batches import Batch
from regard.core.errors import RegardError
from regard.data.examples import Examples

# Receives how many rows of an evaluation were read, and of how many.
Progress = Callable[[int, int], None]
_PROGRESS: ContextVar[Progress | None] = ContextVar("progress", default=None)

Collate = Callable[[Int64[np.ndarray, " rows"]], Batch]


def length_order(
    examples: Examples, rows: Int64[np.ndarray, " examples"]
) -> Int64[np.ndarray, " examples"]:
    """Indices that sort `rows` by input length, then target length; the sort is stable.

    Target lengths alternate between ascending and descending from one input length to the next, so
    that a batch across two input lengths has targets of similar length.
    """
    source, target = examples.inputs.lengths[rows], examples.target_lengths[rows]
    return np.lexsort((np.where(source % 2 == 0, target, -target), source))


def batch_bounds(
    examples: Examples,
    order: Int64[np.ndarray, " examples"],
    *,
    max_tokens: int,
) -> tuple[Int64[np.ndarray, " batches"], Int64[np.ndarray, " batches"]]:
    """Start and end of each batch in `order`; each takes as many as fit."""
    source, target = examples.input_lengths[order], examples.target_lengths[order]
    lengths = source + target
    if len(lengths) and int(lengths.max()) > max_tokens:
        longest = int(lengths.argmax())
        count = int((lengths > max_tokens).sum())
        raise RegardError(
            f"Example {int(order[longest])} has {int(lengths[longest])} tokens, but a batch holds "
            f"max_tokens={max_tokens} ({count} are too long). Raise max_tokens to "
            f"{int(lengths.max())} or more, or remove long examples from the data."
        )
    cuts = [0] if len(order) else []
    start = source_width = target_width = 0
    for index, (source_length, target_length) in enumerate(
        zip(source.tolist(), target.tolist(), strict=True)
    ):
        source_width = max(source_width, source_length)
        target_width = max(target_width, target_length)
        rows = index + 1 - start
        if rows * (source_width + target_width) > max_tokens:
            cuts.append(index)
            start, source_width, target_width = index, source_length, target_length
    starts = np.array(cuts, dtype=np.int64)
    return starts, np.append(starts[1:], len(order)).astype(np.int64)[: len(starts)]


@dataclass(frozen=True, kw_only=True, eq=False)
class Batches(Sequence[Batch]):
    """The batches of one epoch, collated lazily: batch i has the rows order[starts[i]:ends[i]]."""

    examples: Examples
    order: Int64[np.ndarray, " examples"]
    starts: Int64[np.ndarray, " batches"]
    ends: Int64[np.ndarray, " batches"]
    collate: Collate | None = None
    on_read: Progress | None = None

    def __len__(self) -> int:
        return len(self.starts)

    def indices(self, index: int) -> Int64[np.ndarray, " rows"]:
        """The indices of the examples in batch `index`, row by row."""
        if self.on_read is not None:
            self.on_read(int(self.ends[index]), len(self.order))
        return self.order[self.starts[index] : self.ends[index]]

    @overload
    def __getitem__(self, index: int) -> Batch: ...

    @overload
    def __getitem__(self, index: slice) -> Batches: ...

    def __getitem__(self, index: int | slice) -> Batch | Batches:
        """One batch; or, for a slice, a lazy sequence of batches."""
        if isinstance(index, slice):
            return replace(self, starts=self.starts[index], ends=self.ends[index])
        return (self.collate or self.examples.collate)(self.indices(index))


def token_batches(
    examples: Examples,
    *,
    max_tokens: int,
    seed: int,
    epoch: int,
    bucket: bool = True,
    collate: Collate | None = None,
) -> Batches:
    """Batches of at most `max_tokens` positions: rows × (input width + target width), padding included.

    With `bucket`, shuffled examples are sorted by length, cut into batches, and the batches shuffled.
    Without, batches are cut from the shuffled examples.
    """
    generator = np.random.default_rng([seed, epoch])
    order = generator.permutation(len(examples))
    if bucket:
        order = order[length_order(examples, order)]
    starts, ends = batch_bounds(examples, order, max_tokens=max_tokens)
    if bucket:
        shuffled = generator.permutation(len(starts))
        starts, ends = starts[shuffled], ends[shuffled]
    return Batches(examples=examples, order=order, starts=starts, ends=ends, collate=collate)


@contextmanager
def evaluation_progress(progress: Progress | None) -> Iterator[None]:
    """Report the batches of evaluations to `progress` inside the context."""
    token = _PROGRESS.set(progress)
    try:
        yield
    finally:
        _PROGRESS.reset(token)


def evaluation_batches(
    examples: Examples, *, max_tokens: int | None = None, collate: Collate | None = None
) -> Batches:
    """All examples sorted by length, not shuffled; `indices` maps results back. By default all fit."""
    if max_tokens is None:
        longest = int((examples.input_lengths + examples.target_lengths).max(initial=0))
        max_tokens = max(examples.eval_batch_tokens, longest)
    order = length_order(examples, np.arange(len(examples)))
    starts, ends = batch_bounds(examples, order, max_tokens=max_tokens)
    return Batches(
        examples=examples,
        order=order,
        starts=starts,
        ends=ends,
        collate=collate,
        on_read=_PROGRESS.get(),
    )
