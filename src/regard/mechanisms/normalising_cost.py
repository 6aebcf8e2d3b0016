"""What drawing a mask, a softmax and an average take in arithmetic: `core.masks` and `core.normalise`."""

from __future__ import annotations

from regard.core.cost import AttentionShape
from regard.core.counter import SOFTMAX_ARITHMETIC


def boolean_arithmetic(shape: AttentionShape) -> int:
    """`Mask.boolean` of the causal mask or of none: positions, distances, and their signs."""
    distances = 2 * shape.query_length + shape.pairs
    return distances + (shape.pairs if shape.causal else 0)


def softmax_arithmetic(shape: AttentionShape) -> int:
    """`softmax_over_keys` of all pairs, under the causal mask or none."""
    pairs = shape.rows * shape.pairs
    if not shape.causal:
        return SOFTMAX_ARITHMETIC * pairs
    # Once for all rows: which queries have no key (3 a pair, 1 a query). Then two times a filling.
    return (SOFTMAX_ARITHMETIC + 2) * pairs + 3 * shape.pairs + shape.query_length


def average_arithmetic(rows: int, width: int) -> int:
    """`average` of so many rows: the guard is 4 operations, and the inverse multiplies every number."""
    return rows * (4 + width)
