"""What `blocked_softmax` takes: the pairs it computes, and the numbers it holds meanwhile.

As for every declared cost, this is the call without gradients; with them, a plain causal call may go
through blocks where it otherwise would not, and then computes fewer pairs.
"""

from __future__ import annotations

from regard.core.cost import AttentionShape
from regard.mechanisms.block_pattern import ROWS, plan_blocks, reach
from regard.mechanisms.blocked_softmax import STEP_SCORES


def computed_pairs(shape: AttentionShape, *, radius: int | None) -> int:
    """Query–key pairs of one head that are computed, those masked within a block included."""
    return sum(_block_pairs(shape, radius=radius))


def working_numbers(shape: AttentionShape, *, radius: int | None) -> int:
    """Numbers held beside the output at the peak: the scores of one step, and the mask."""
    if _is_fused(shape, radius=radius):
        return shape.rows * shape.query_length
    largest = max(_block_pairs(shape, radius=radius), default=0)
    lanes = min(shape.rows, max(1, STEP_SCORES // max(largest, 1)))
    before, after = reach(shape.query_length, shape.key_length, shape.causal, radius)
    # The band is drawn once for a whole block, from three boolean tensors of its size.
    band = 4 * ROWS * (before + ROWS + after) if shape.causal or radius is not None else 0
    return lanes * largest + band


def _is_fused(shape: AttentionShape, *, radius: int | None) -> bool:
    aligned = shape.query_length == shape.key_length
    return radius is None and shape.key_dim == shape.value_dim and (aligned or not shape.causal)


def _block_pairs(shape: AttentionShape, *, radius: int | None) -> list[int]:
    if _is_fused(shape, radius=radius):
        return [shape.pairs]
    blocks = plan_blocks(
        query_length=shape.query_length,
        key_length=shape.key_length,
        causal=shape.causal,
        radius=radius,
    )
    return [block.scores for block in blocks]
