"""Softmax and weighted sums within segments of one long row, without padding.

    scores    1 1 | 0 0 0        weights   ½ ½ | ⅓ ⅓ ⅓        sums of values   one vector a segment

As `pooling.pool` of every segment, for segments of very different lengths that follow one another.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor


def softmax_within(
    scores: Float[Tensor, " items"], segment: Int[Tensor, " items"], *, count: int
) -> Float[Tensor, " items"]:
    """Weights that sum to one over the items of each of `count` segments.

    >>> softmax_within(torch.zeros(5), torch.tensor([0, 0, 1, 1, 1]), count=2)
    tensor([0.5000, 0.5000, 0.3333, 0.3333, 0.3333])
    """
    with torch.no_grad():  # a shift of all scores of a segment changes no weight
        least = torch.full((count,), -torch.inf, dtype=scores.dtype, device=scores.device)
        largest = least.scatter_reduce(0, segment, scores, reduce="amax")
    raised = (scores - largest[segment]).exp()
    totals = raised.new_zeros(count).index_add(0, segment, raised)
    return raised / totals[segment]


def sums_within(
    weights: Float[Tensor, " items"],
    values: Float[Tensor, "items width"],
    segment: Int[Tensor, " items"],
    *,
    count: int,
) -> Float[Tensor, "count width"]:
    """The weighted sum of each segment's values; zeros for a segment without items."""
    sums = values.new_zeros(count, values.shape[1])
    return sums.index_add(0, segment, weights[:, None] * values)
