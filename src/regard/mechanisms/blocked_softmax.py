"""Exact softmax attention, softmax(query @ key.T * scale + bias) @ value, in blocks of query rows.

Every mechanism with a softmax of dot products ends here. A block of rows meets only the keys its
rows may see, so causal attention does about half the work, and a window of radius r takes
O(length * r * width) time and memory.

That attention needs no full score matrix is from Rabe and Staats, "Self-attention does not need
O(n^2) memory" (2021), and Dao et al., "FlashAttention" (2022). Unlike theirs, a block here takes
all of its keys at once and so needs no running maximum, and the weights are kept for the backward
pass when they are few. The backward pass is written out because autograd turns the gradient of
each slice of the keys into a zero-filled tensor of full length.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.core.first_order import first_order
from regard.core.mechanism import ScoreBias
from regard.mechanisms.block_pattern import ROWS, Block, Pattern

# Scores of one step: 1 MB of float32 stay in the cache between the products and the softmax.
STEP_SCORES = 1 << 18
# Where blocks beat a fused causal kernel, measured on one core: enough numbers a block to outweigh
# the calls, wide enough products, and not so long that the kernel's half-empty tiles are rare.
BLOCKED_NUMBERS, BLOCKED_WIDTH, BLOCKED_LENGTH = 1 << 17, 32, 1536
# Weights are kept for the backward pass while they are at most so many times the inputs and the
# output, which holds memory linear in length; otherwise they are computed a second time.
KEPT_WEIGHTS = 2


class _Step(NamedTuple):
    """One block of rows for some of the lanes, a lane being one head of one example."""

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
        # In place, so that there is one fresh tensor less to page in.
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
    """Tensors are (lanes, length, width); `learned` holds a bias for each block, or nothing."""

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
    @first_order
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
            # Into a slice, a batched product goes lane by lane, which keeps a second thread waiting.
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
    """Whether training on a CPU is faster in blocks; the forward pass alone never is."""
    return (
        rows * length * width >= BLOCKED_NUMBERS
        and width >= BLOCKED_WIDTH
        and ROWS < length <= min(BLOCKED_LENGTH, 24 * width)
    )


def keeps_weights(*, weights: int, held: int) -> bool:
    """Whether the backward pass finds the weights kept, beside `held` numbers of inputs and output."""
    return weights <= KEPT_WEIGHTS * held


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
    """Attend exactly; a query that may attend to nothing gets zeros.

    The last query stands at the last key's position. `causal` hides later keys, `radius` those
    farther away than it, `lengths` those past each example's end, and `allowed`, broadcastable to
    (batch, heads, query_length, key_length), those where it is False. `key` and `value` may have
    fewer heads than `query`, each then serving as many consecutive heads of `query`.
    """
    batch, heads, query_length, width = query.shape
    _, key_heads, key_length, value_width = value.shape
    plain = lengths is None and allowed is None and bias is None and radius is None
    # Torch's own kernel is fused for equal widths, and aligns the first query with the first key.
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
    # Gradients reach only a bias computed outside the blocked function. Of a bias that wants none,
    # no more than one block is held at a time.
    biases = map(pattern.bias_at, pattern.blocks)
    first = next(biases, None)
    learned = [first, *biases] if first is not None and first.requires_grad else []
    output = _BlockedSoftmax.apply(  # type: ignore[no-untyped-call]
        query.flatten(0, 1), key.flatten(0, 1), value.flatten(0, 1), scale, pattern, *learned
    )
    return cast(Tensor, output).view(batch, heads, query_length, value_width)
