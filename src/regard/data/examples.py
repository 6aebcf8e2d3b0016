"""Encoded examples in flat arrays: sequences of tokens or frames, each with a target, and their padding.

    inputs.values    c a t o x              targets.values   K AE T AA K S      or class ids, or numbers
    inputs.offsets   0 3 5                  targets.offsets  0 3 6

Sequence i has the values between offsets i and i + 1 (a ragged array). A token takes four bytes and a
sequence eight more, about an eighth of lists of Python integers. START, END and padding are added when a
batch is collated.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from jaxtyping import Int32, Int64

from regard.core.batches import (
    END,
    PAD,
    START,
    Batch,
    ClassTarget,
    FrameInput,
    Input,
    SequenceTarget,
    TokenInput,
    ValueTarget,
)

EVAL_BATCH_TOKENS = 8192  # larger than in training: evaluation stores no gradients


class FlatPositions(NamedTuple):
    """Row and position within the row for every element of a flat array; row i begins at `offsets[i]`."""

    row: Int64[np.ndarray, " positions"]
    within: Int64[np.ndarray, " positions"]
    offsets: Int64[np.ndarray, " rows_and_one"]


def flat_positions(lengths: Int64[np.ndarray, " rows"]) -> FlatPositions:
    """The positions of rows of these lengths, concatenated.

    >>> flat_positions(np.array([2, 0, 1])).within.tolist()
    [0, 1, 0]
    """
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    row = np.repeat(np.arange(len(lengths)), lengths)
    return FlatPositions(row, np.arange(offsets[-1]) - offsets[row], offsets)


@dataclass(frozen=True, eq=False)
class Ragged:
    """Sequences of different lengths: int32 tokens, or float32 vectors (frames). Read-only."""

    values: np.ndarray
    offsets: Int64[np.ndarray, " rows_and_one"]

    @classmethod
    def of(cls, rows: Iterable[Any]) -> Self:
        """From lists of tokens or arrays of frames, in one pass."""
        ends, frames, tokens = array("q", [0]), [], array("i")
        for row in rows:
            if isinstance(row, np.ndarray) and row.ndim == 2:
                frames.append(np.asarray(row, dtype=np.float32))
            else:
                tokens.extend(row)
            ends.append(ends[-1] + len(row))
        values = np.concatenate(frames) if frames else np.frombuffer(tokens, dtype=np.int32)
        values.flags.writeable = False
        return cls(values, np.frombuffer(ends, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> np.ndarray:
        if not 0 <= index < len(self):
            raise IndexError(f"There is no sequence {index}: there are {len(self)}.")
        return self.values[self.offsets[index] : self.offsets[index + 1]]

    @property
    def lengths(self) -> Int64[np.ndarray, " rows"]:
        """The length of each sequence."""
        return np.diff(self.offsets)

    def select(self, rows: Int64[np.ndarray, " rows"]) -> Self:
        """These sequences, in this order."""
        row, within, offsets = flat_positions(self.lengths[rows])
        return type(self)(self.values[self.offsets[rows][row] + within], offsets)

    @classmethod
    def concatenate(cls, parts: Sequence[Self]) -> Self:
        """The sequences of all parts, in order."""
        lengths = np.concatenate([part.lengths for part in parts])
        values = np.concatenate([part.values for part in parts])
        return cls(values, flat_positions(lengths).offsets)

    def padded(
        self, rows: Int64[np.ndarray, " rows"], *, start: bool = False, end: bool = False
    ) -> tuple[np.ndarray, Int64[np.ndarray, " rows"]]:
        """These sequences padded to the longest, with START and END if wanted, and their lengths."""
        firsts, counts = self.offsets[rows], self.lengths[rows]
        lengths = counts + start + end
        width = int(lengths.max(initial=0))
        kind = np.float32 if self.values.ndim > 1 else np.int64
        filled = np.full((len(rows) * width, *self.values.shape[1:]), PAD, dtype=kind)
        row, within, _ = flat_positions(counts)
        filled[row * width + start + within] = self.values[firsts[row] + within]
        filled = filled.reshape(len(rows), width, *self.values.shape[1:])
        if start:
            filled[:, 0] = START
        if end:
            filled[np.arange(len(rows)), lengths - 1] = END
        return filled, lengths


Targets = Ragged | np.ndarray | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Examples:
    """Encoded inputs with their targets: sequences, class ids (integers), numbers (floats), or nothing.

    segments    the sentence of each token of `inputs`, flat, where texts are split into sentences
    start, end  whether collation adds START before and END after each input
    owners      the row that each example is a chunk of, where rows are split
    """

    inputs: Ragged
    targets: Targets = None
    segments: Int32[np.ndarray, " total"] | None = None
    owners: Int64[np.ndarray, " examples"] | None = None
    start: bool = False
    end: bool = False

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def input_lengths(self) -> Int64[np.ndarray, " examples"]:
        """Positions of each input in a batch."""
        return self.inputs.lengths + self.start + self.end

    @property
    def target_lengths(self) -> Int64[np.ndarray, " examples"]:
        """Positions of each target in a batch: START and END included; 1 for a class or a number."""
        if isinstance(self.targets, Ragged):
            return self.targets.lengths + 2
        return np.full(len(self), 0 if self.targets is None else 1)

    @property
    def num_bytes(self) -> int:
        """Memory of the encoded examples."""
        return sum(part.nbytes for part in self._arrays())

    def _arrays(self) -> list[np.ndarray]:
        targets = self.targets
        parts = [self.inputs.offsets, self.inputs.values, self.segments, self.owners]
        parts += [targets.offsets, targets.values] if isinstance(targets, Ragged) else [targets]
        return [part for part in parts if part is not None]

    def select(self, rows: Int64[np.ndarray, " rows"]) -> Self:
        """These examples, in this order."""
        targets = self.targets
        segments = None if self.segments is None else Ragged(self.segments, self.inputs.offsets)
        return replace(
            self,
            inputs=self.inputs.select(rows),
            targets=targets.select(rows)
            if isinstance(targets, Ragged)
            else None
            if targets is None
            else targets[rows],
            segments=None if segments is None else segments.select(rows).values,
            owners=None if self.owners is None else self.owners[rows],
        )

    def fingerprint(self) -> str:
        """A hash of all examples in order, the same on every machine."""
        digest = hashlib.blake2b(digest_size=16)
        for part in self._arrays():
            digest.update(np.ascontiguousarray(part, dtype=part.dtype.newbyteorder("<")).data)
        return digest.hexdigest()

    @property
    def eval_batch_tokens(self) -> int:
        """Positions in a batch of an evaluation."""
        return EVAL_BATCH_TOKENS

    def collate_inputs(self, rows: Int64[np.ndarray, " rows"]) -> Input:
        """The padded inputs of these examples."""
        values, lengths = self.inputs.padded(rows, start=self.start, end=self.end)
        padded = bool(len(lengths)) and int(lengths.min()) < values.shape[1]
        tensor, sizes = torch.from_numpy(values), torch.from_numpy(lengths)
        if values.ndim == 3:
            return FrameInput(tensor, sizes, padded)
        segments = None
        if self.segments is not None:
            # The segment of padding is that of the last token.
            position = np.minimum(np.arange(values.shape[1])[None], lengths[:, None] - 1)
            index = self.inputs.offsets[rows][:, None] + position
            segments = torch.from_numpy(self.segments[index].astype(np.int64))
        return TokenInput(tensor, sizes, segments, padded)

    def collate(self, rows: Int64[np.ndarray, " rows"]) -> Batch:
        """The padded batch of these examples."""
        return Batch(self.collate_inputs(rows), self.collate_targets(rows))

    def collate_targets(self, rows: Int64[np.ndarray, " rows"]) -> Any:
        """The padded targets of these examples; None if they have none."""
        targets = self.targets
        if isinstance(targets, Ragged):
            tokens, lengths = targets.padded(rows, start=True, end=True)
            padded = int(lengths.min(initial=tokens.shape[1])) < tokens.shape[1]
            return SequenceTarget(torch.from_numpy(tokens), torch.from_numpy(lengths), padded)
        if targets is None:
            return None
        values = torch.from_numpy(targets[rows])
        is_float = np.issubdtype(targets.dtype, np.floating)
        return ValueTarget(values) if is_float else ClassTarget(values)


def concatenate_pairs(parts: Sequence[Examples]) -> Examples:
    """The examples of all parts, whose targets are sequences, in order."""
    return replace(
        parts[0],
        inputs=Ragged.concatenate([part.inputs for part in parts]),
        targets=Ragged.concatenate(
            [part.targets for part in parts if isinstance(part.targets, Ragged)]
        ),
        owners=None,
    )
