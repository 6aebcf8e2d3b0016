"""Which keys a block of query rows sees, and what is added to its scores.

The plan of blocks is plain arithmetic, shared by the attention that runs it and the cost that prices it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from regard.core.mechanism import ScoreBias

# Fewer rows compute less outside the band, more rows make better matrix products.
ROWS = 64


class Block(NamedTuple):
    """Query rows start:stop, which see no keys but first:last."""

    start: int
    stop: int
    first: int
    last: int

    @property
    def scores(self) -> int:
        """How many pairs it computes."""
        return (self.stop - self.start) * (self.last - self.first)


def reach(query_length: int, key_length: int, causal: bool, radius: int | None) -> tuple[int, int]:
    """How many keys before and after its own position a query sees."""
    # The farthest a query can stand from a key is the greater length.
    farthest = max(query_length, key_length)
    before = farthest if radius is None else min(radius, farthest)
    return before, 0 if causal else before


def plan_blocks(
    *, query_length: int, key_length: int, causal: bool, radius: int | None
) -> list[Block]:
    """Blocks of query rows, each with the stretch of keys that some row of it sees."""
    before, after = reach(query_length, key_length, causal, radius)
    offset = key_length - query_length
    blocks = []
    for start in range(0, query_length, ROWS):
        stop = min(start + ROWS, query_length)
        first = max(0, start + offset - before)
        last = min(key_length, stop + offset + after)
        if first < last:
            blocks.append(Block(start, stop, first, last))
    return blocks


@dataclass(frozen=True, kw_only=True)
class Pattern:
    """Who may see whom, told one block at a time."""

    batch: int
    heads: int
    query_length: int
    key_length: int
    causal: bool
    radius: int | None
    lengths: Tensor | None
    allowed: Tensor | None
    bias: ScoreBias | None
    like: Tensor

    @property
    def offset(self) -> int:
        """The position of the first query among the keys."""
        return self.key_length - self.query_length

    @property
    def reach(self) -> tuple[int, int]:
        """How many keys before and after its own position a query sees."""
        return reach(self.query_length, self.key_length, self.causal, self.radius)

    @cached_property
    def blocks(self) -> list[Block]:
        """The blocks that have keys to see."""
        return plan_blocks(
            query_length=self.query_length,
            key_length=self.key_length,
            causal=self.causal,
            radius=self.radius,
        )

    @cached_property
    def band(self) -> Tensor | None:
        """The mask of a block none of whose keys lie outside the sequence."""
        if not self.causal and self.radius is None:
            return None
        before, after = self.reach
        ones = self.like.new_ones(ROWS, before + ROWS + after, dtype=torch.bool)
        seen = ones.triu().tril(before + after)
        return self.like.new_zeros(()).where(seen, -math.inf)

    def bias_at(self, block: Block) -> Tensor | None:
        """What the bias adds to a block's scores."""
        if self.bias is None:
            return None
        query_positions = torch.arange(block.start, block.stop, device=self.like.device)
        key_positions = torch.arange(block.first, block.last, device=self.like.device)
        values = self.bias.values(query_positions + self.offset, key_positions)
        return values.expand(1, self.heads, len(query_positions), len(key_positions))

    def mask(self, block: Block, bias: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        """Return what to add to the scores and which rows are blind, for all lanes."""
        mask = bias
        if self.band is not None:
            column = block.first - (block.start + self.offset - self.reach[0])
            band = self.band[: block.stop - block.start, column:][:, : block.last - block.first]
            mask = band if mask is None else mask + band
        hidden = None
        if self.lengths is not None:
            key_positions = torch.arange(block.first, block.last, device=self.like.device)
            hidden = key_positions >= self.lengths[:, None, None, None]
        if self.allowed is not None:
            rows = _part(self.allowed, axis=2, start=block.start, stop=block.stop)
            refused = ~_part(rows, axis=3, start=block.first, stop=block.last)
            hidden = refused if hidden is None else hidden | refused
        if hidden is not None:
            mask = (self.like.new_zeros(()) if mask is None else mask).where(~hidden, -math.inf)
        if mask is None:
            return None, None
        blind = None
        # With as many keys as queries, a band alone leaves every query at least its own position.
        if hidden is not None or bias is not None or self.offset < 0:
            blind = self._lanes(mask.amax(dim=-1, keepdim=True) == -math.inf)
        return self._lanes(mask.to(self.like.dtype)), blind

    def _lanes(self, tensor: Tensor) -> Tensor:
        return tensor.expand(self.batch, self.heads, *tensor.shape[-2:]).flatten(0, 1)


def _part(tensor: Tensor, *, axis: int, start: int, stop: int) -> Tensor:
    """Return a stretch of an axis, or all of an axis whose one entry broadcasts."""
    return tensor if tensor.shape[axis] == 1 else tensor.narrow(axis, start, stop - start)
