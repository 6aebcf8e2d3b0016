"""Exact softmax attention, softmax(query @ key.T * scale + bias) @ value, in blocks of query rows.

A block of rows is multiplied only with the keys that its rows may attend to, so causal attention does
about half the work, and a window of radius r takes O(length · r · width) time and memory.

As in Rabe and Staats, "Self-attention does not need O(n^2) memory" (2021), and Dao et al.,
"FlashAttention" (2022), there is no full score matrix. Here a block takes all of its keys at once and
needs no running maximum, and the weights are saved for the backward pass when they are few. The backward
pass is hand-written because autograd turns the gradient of each slice of the keys into a zero-filled
tensor of full length.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.core.mechanism import ScoreBias, first_order_only

# Query rows per block: fewer compute less outside the band, more make faster matrix products.
ROWS = 64


class Block(NamedTuple):
    """Query rows start:stop, which attend to the keys first:last."""

    start: int
    stop: int
    first: int
    last: int

    @property
    def scores(self) -> int:
        """The number of query–key pairs."""
        return (self.stop - self.start) * (self.last - self.first)


def reach(query_length: int, key_length: int, causal: bool, radius: int | None) -> tuple[int, int]:
    """The number of keys before and after its own position that a query attends to."""
    farthest = max(query_length, key_length)
    before = farthest if radius is None else min(radius, farthest)
    return before, 0 if causal else before


def plan_blocks(
    *, query_length: int, key_length: int, causal: bool, radius: int | None
) -> list[Block]:
    """Blocks of query rows, each with the range of keys that any of its rows attends to."""
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
    """The mask and bias of a call, computed block by block."""

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
        """The number of keys before and after its own position that a query attends to."""
        return reach(self.query_length, self.key_length, self.causal, self.radius)

    @cached_property
    def blocks(self) -> list[Block]:
        """The blocks that have keys."""
        return plan_blocks(
            query_length=self.query_length,
            key_length=self.key_length,
            causal=self.causal,
            radius=self.radius,
        )

    @cached_property
    def band(self) -> Tensor | None:
        """The additive causal or window mask of a block, keys beyond the sequence included."""
        if not self.causal and self.radius is None:
            return None
        before, after = self.reach
        ones = self.like.new_ones(ROWS, before + ROWS + after, dtype=torch.bool)
        seen = ones.triu().tril(before + after)
        return self.like.new_zeros(()).where(seen, -math.inf)

    def bias_at(self, block: Block) -> Tensor | None:
        """The score bias of a block."""
        if self.bias is None:
            return None
        query_positions = torch.arange(block.start, block.stop, device=self.like.device)
        key_positions = torch.arange(block.first, block.last, device=self.like.device)
        values = self.bias.values(query_positions + self.offset, key_positions)
        return values.expand(1, self.heads, len(query_positions), len(key_positions))

    def mask(self, block: Block, bias: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        """The additive mask of a block, and its rows without a key, for all lanes."""
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
            disallowed = ~_part(rows, axis=3, start=block.first, stop=block.last)
            hidden = disallowed if hidden is None else hidden | disallowed
        if hidden is not None:
            mask = (self.like.new_zeros(()) if mask is None else mask).where(~hidden, -math.inf)
        if mask is None:
            return None, None
        blind = None
        # With as many keys as queries, the band leaves every query at least its own position.
        if hidden is not None or bias is not None or self.offset < 0:
            blind = self._lanes(mask.amax(dim=-1, keepdim=True) == -math.inf)
        return self._lanes(mask.to(self.like.dtype)), blind

    def _lanes(self, tensor: Tensor) -> Tensor:
        return tensor.expand(self.batch, self.heads, *tensor.shape[-2:]).flatten(0, 1)


def _part(tensor: Tensor, *, axis: int, start: int, stop: int) -> Tensor:
    """A range of an axis, or all of an axis of size 1, which broadcasts."""
    return tensor if tensor.shape[axis] == 1 else tensor.narrow(axis, start, stop - start)


# Scores of one step: 1 MB of float32, which stays in the CPU cache until the softmax.
STEP_SCORES = 1 << 18
# Where blocks are faster than the fused causal kernel, measured on one core: enough numbers per block to
# outweigh call overhead, wide enough products, and not so long that half-empty tiles are rare.
BLOCKED_NUMBERS, BLOCKED_WIDTH, BLOCKED_LENGTH = 1 << 17, 32, 1536
# Weights are saved for the backward pass up to this multiple of the inputs and the output, so that memory
# stays linear in length; otherwise they are recomputed.
MAX_SAVED_WEIGHTS = 2


class _Step(NamedTuple):
    """One block of rows for some lanes; a lane is one head of one example."""

    block: Block
    lanes: slice
    mask: Tensor | None
    blind: Tensor | None

    def of_query(self, tensor: Tensor) -> Tensor:
        return tensor[self.lanes, self.block.start : self.block.stop]

    def of_key(self, tensor: Tensor) -> Tensor:
        return tensor[self.lanes, self.block.first : self.block.last]

    def weights(self, query: Tensor, key: Tensor, scale: float) -> Tensor:
        query, key = self.of_query(query), self.of_key(key)
        if self.mask is None:
            scores = torch.baddbmm(query.new_empty(()), query, key.mT, beta=0, alpha=scale)
        else:
            scores = torch.baddbmm(self.mask[self.lanes], query, key.mT, alpha=scale)
        # In place, which saves the page faults of a new tensor.
        weights = torch.softmax(scores, dim=-1, out=scores)
        # A row of zero weights has a zero output and, in the backward pass, only zero gradients.
        return weights if self.blind is None else weights.masked_fill_(self.blind[self.lanes], 0.0)


def _steps(pattern: Pattern, learned: Sequence[Tensor], *, masked: bool = True) -> Iterator[_Step]:
    lanes = pattern.batch * pattern.heads
    for index, block in enumerate(pattern.blocks):
        mask = blind = None
        if masked:
            mask, blind = pattern.mask(block, learned[index] if learned else pattern.bias_at(block))
        width = max(1, STEP_SCORES // block.scores)
        for lane in range(0, lanes, width):
            yield _Step(block, slice(lane, lane + width), mask, blind)


class _BlockedSoftmax(torch.autograd.Function):
    """Tensors are (lanes, length, width); `learned` is empty, or has a trainable bias per block."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        scale: float,
        pattern: Pattern,
        *learned: Tensor,
    ) -> Tensor:
        output = query.new_zeros(*query.shape[:2], value.shape[2])
        held = query.numel() + key.numel() + value.numel() + output.numel()
        weight_count = len(query) * sum(block.scores for block in pattern.blocks)
        keep = any(ctx.needs_input_grad) and keeps_weights(weights=weight_count, held=held)
        kept = []
        for step in _steps(pattern, learned):
            weights = step.weights(query, key, scale)
            step.of_query(output).copy_(torch.bmm(weights, step.of_key(value)))
            if keep:
                kept.append(weights)
        ctx.scale, ctx.pattern, ctx.learned = scale, pattern, len(learned)
        ctx.save_for_backward(query, key, value, output, *learned, *kept)
        return output

    @staticmethod
    @first_order_only
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, output, *others = ctx.saved_tensors
        learned, kept = others[: ctx.learned], others[ctx.learned :]
        (grad_output,) = gradients
        scale, pattern = ctx.scale, ctx.pattern
        grad_query, grad_key, grad_value = map(torch.zeros_like, (query, key, value))
        grad_scores: list[Tensor] = []
        for index, step in enumerate(_steps(pattern, learned, masked=not kept)):
            weights = kept[index] if kept else step.weights(query, key, scale)
            upstream = step.of_query(grad_output)
            # A batched product into a slice would run lane by lane on one thread.
            step.of_key(grad_value).add_(torch.bmm(weights.mT, upstream))
            # The softmax's Jacobian subtracts each row's weighted mean of its weights' gradients,
            # which is the product of the row's output and its gradient.
            mean = (upstream * step.of_query(output)).sum(dim=-1, keepdim=True)
            grad = torch.bmm(upstream, step.of_key(value).mT).sub_(mean).mul_(weights)
            step.of_query(grad_query).copy_(torch.bmm(grad, step.of_key(key)).mul_(scale))
            step.of_key(grad_key).add_(torch.bmm(grad.mT, step.of_query(query)), alpha=scale)
            if learned:
                if step.lanes.start == 0:
                    grad_scores.append(grad.new_empty(len(query), *grad.shape[1:]))
                grad_scores[-1][step.lanes] = grad
        grad_learned = [
            grad.view(pattern.batch, pattern.heads, *grad.shape[1:]).sum(dim=0, keepdim=True)
            for grad in grad_scores
        ]
        return grad_query, grad_key, grad_value, None, None, *grad_learned


def blocks_pay(*, rows: int, length: int, width: int) -> bool:
    """Whether a training step on a CPU is faster in blocks."""
    return (
        rows * length * width >= BLOCKED_NUMBERS
        and width >= BLOCKED_WIDTH
        and ROWS < length <= min(BLOCKED_LENGTH, 24 * width)
    )


def keeps_weights(*, weights: int, held: int) -> bool:
    """Whether the weights are saved for backward; `held` is the size of the inputs and the output."""
    return weights <= MAX_SAVED_WEIGHTS * held


def softmax_attention(
    query: Float[Tensor, "batch heads query_length width"],
    key: Float[Tensor, "batch key_heads key_length width"],
    value: Float[Tensor, "batch key_heads key_length value_width"],
    *,
    scale: float,
    causal: bool = False,
    radius: int | None = None,
    lengths: Int[Tensor, " batch"] | None = None,
    allowed: Bool[Tensor, "*broadcast"] | None = None,
    bias: ScoreBias | None = None,
) -> Float[Tensor, "batch heads query_length value_width"]:
    """Exact softmax attention; zeros for a query with no key to attend to.

    The last query has the position of the last key. `causal` masks later keys, `radius` keys farther
    away, `lengths` keys past each example's end, and `allowed`, broadcastable to (batch, heads,
    query_length, key_length), keys where it is False. `key` and `value` may have fewer heads than
    `query` (grouped-query attention).
    """
    batch, heads, query_length, width = query.shape
    _, key_heads, key_length, value_width = value.shape
    plain = lengths is None and allowed is None and bias is None and radius is None
    # Torch's kernel is fused for equal widths only, and aligns the first query with the first key.
    trained = torch.is_grad_enabled() and query.device.type == "cpu"
    blocked = query_length != key_length or (
        trained and blocks_pay(rows=batch * heads, length=query_length, width=width)
    )
    if plain and width == value_width and not (causal and blocked):
        return F.scaled_dot_product_attention(
            query, key, value, scale=scale, is_causal=causal, enable_gqa=key_heads != heads
        )
    if key_heads != heads:
        key, value = (
            tensor.unsqueeze(2).expand(-1, -1, heads // key_heads, -1, -1).flatten(1, 2)
            for tensor in (key, value)
        )
    pattern = Pattern(
        batch=batch,
        heads=heads,
        query_length=query_length,
        key_length=key_length,
        causal=causal,
        radius=radius,
        lengths=lengths,
        allowed=None if allowed is None else allowed[(None,) * (4 - allowed.ndim)],
        bias=bias,
        like=query.detach(),
    )
    # A trainable bias is computed here, outside the autograd function, so that gradients reach it. Of
    # any other, only one block is in memory at a time.
    biases = map(pattern.bias_at, pattern.blocks)
    first = next(biases, None)
    learned = [first, *biases] if first is not None and first.requires_grad else []
    output = _BlockedSoftmax.apply(  # type: ignore[no-untyped-call]
        query.flatten(0, 1), key.flatten(0, 1), value.flatten(0, 1), scale, pattern, *learned
    )
    return cast(Tensor, output).view(batch, heads, query_length, value_width)
