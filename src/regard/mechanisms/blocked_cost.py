"""What `blocked_softmax` takes: the pairs it computes, and the numbers it holds meanwhile.

The forward pass is the one without gradients, as for every declared cost. With them, a plain causal call
may go through blocks where it otherwise would not, and then computes fewer pairs, forward and backward.
"""

from __future__ import annotations

from regard.core.cost import AttentionShape, Cost
from regard.core.counter import ATTENTION_ARITHMETIC, SOFTMAX_ARITHMETIC
from regard.mechanisms.block_pattern import ROWS, Block, plan_blocks, reach
from regard.mechanisms.blocked_softmax import STEP_SCORES, blocks_pay, keeps_weights


def softmax_attention_cost(shape: AttentionShape, *, radius: int | None) -> Cost:
    """What `softmax_attention` takes, forward and backward."""
    if _is_fused(shape, radius=radius):
        pairs, arithmetic = (
            shape.rows * shape.pairs,
            ATTENTION_ARITHMETIC * shape.rows * shape.pairs,
        )
    else:
        blocks = _blocks(shape, radius=radius)
        pairs = shape.rows * sum(block.scores for block in blocks)
        arithmetic = _blocked_arithmetic(shape, blocks, radius=radius)
    return Cost(
        products=2 * pairs * (shape.key_dim + shape.value_dim),
        functions=pairs,
        arithmetic=arithmetic,
        backward_products=_backward_products(shape, radius=radius),
        memory=shape.output_numbers + _working_numbers(shape, radius=radius),
        sequential_steps=1,
    )


def _is_fused(shape: AttentionShape, *, radius: int | None) -> bool:
    aligned = shape.query_length == shape.key_length
    return radius is None and shape.key_dim == shape.value_dim and (aligned or not shape.causal)


def _blocks(shape: AttentionShape, *, radius: int | None) -> list[Block]:
    return plan_blocks(
        query_length=shape.query_length,
        key_length=shape.key_length,
        causal=shape.causal,
        radius=radius,
    )


def _blocked_arithmetic(shape: AttentionShape, blocks: list[Block], *, radius: int | None) -> int:
    scores = sum(block.scores for block in blocks)
    softmax = SOFTMAX_ARITHMETIC * shape.rows * scores
    if not blocks or (not shape.causal and radius is None):
        return softmax
    before, after = reach(shape.query_length, shape.key_length, shape.causal, radius)
    # The band is drawn once, and added to the scores.
    masked = softmax + ROWS * (before + ROWS + after) + shape.rows * scores
    if shape.query_length <= shape.key_length:
        return masked
    # Rows without a key are looked for once, and zeroed in every lane.
    return masked + scores + sum(block.stop - block.start for block in blocks) + shape.rows * scores


def _backward_products(shape: AttentionShape, *, radius: int | None) -> int:
    in_blocks = shape.causal and blocks_pay(
        rows=shape.rows, length=shape.query_length, width=shape.key_dim
    )
    # Scores again, then the gradients of weights, values, queries and keys.
    again, gradients = 2 * shape.key_dim, 4 * (shape.key_dim + shape.value_dim)
    if _is_fused(shape, radius=radius) and not in_blocks:
        return shape.rows * shape.pairs * (again + gradients)
    pairs = sum(block.scores for block in _blocks(shape, radius=radius))
    held = (shape.query_length + shape.key_length) * (shape.key_dim + shape.value_dim)
    if keeps_weights(weights=pairs, held=held):
        return shape.rows * pairs * gradients
    return shape.rows * pairs * (again + gradients)


def _working_numbers(shape: AttentionShape, *, radius: int | None) -> int:
    """Numbers held beside the output at the peak: the scores of one step, and the mask."""
    if _is_fused(shape, radius=radius):
        return shape.rows * shape.query_length
    largest = max((block.scores for block in _blocks(shape, radius=radius)), default=0)
    lanes = min(shape.rows, max(1, STEP_SCORES // max(largest, 1)))
    before, after = reach(shape.query_length, shape.key_length, shape.causal, radius)
    # The band is drawn once for a whole block, from three boolean tensors of its size.
    band = 4 * ROWS * (before + ROWS + after) if shape.causal or radius is not None else 0
    return lanes * largest + band
