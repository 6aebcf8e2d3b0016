"""What every pooling layer gives back, and the one way from its scores there.

A pooling layer reads a sequence with queries that are learned, not computed from the input.
"""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from regard.core.masks import Mask
from regard.core.normalise import softmax_over_keys
from regard.layers.padding import refuse_all_but_padding


class Pooled(NamedTuple):
    """The sequence as one vector a hop, and what each hop looked at."""

    context: Float[Tensor, "batch hops width"]
    weights: Float[Tensor, "batch hops length"]


def pool(
    scores: Float[Tensor, "batch hops length"],
    x: Float[Tensor, "batch length width"],
    mask: Mask,
) -> Pooled:
    """Softmax over positions, then weighted sums. Padding has no weight; all padding is zeros."""
    refuse_all_but_padding("Pooling", mask)
    allowed = None if mask.lengths is None else mask.keep(x.shape[1])[:, None]
    weights = softmax_over_keys(scores, allowed)
    return Pooled(context=weights @ x, weights=weights)
