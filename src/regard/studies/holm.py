"""Holm's correction: many comparisons at once, and still one false alarm in twenty studies at most.

The smallest of m p-values is multiplied by m, the next by m − 1, and so on; none may come out smaller
than the one before it, nor larger than one. It asks nothing of the p-values but that each is right by
itself, so arms may share seeds and differ in variance (Holm 1979).
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float


def holm_adjusted(p: Float[np.ndarray, "*studies pairs"]) -> Float[np.ndarray, "*studies pairs"]:
    """Each p as it is to be held against the level, where the last axis is one family.

    >>> holm_adjusted(np.array([0.5, 0.25, 0.125])).tolist()
    [0.5, 0.5, 0.375]
    """
    order = np.argsort(p, axis=-1, kind="stable")
    sorted_p = np.take_along_axis(p, order, axis=-1)
    factors = np.arange(p.shape[-1], 0, -1)
    raised = np.minimum(np.maximum.accumulate(sorted_p * factors, axis=-1), 1.0)
    adjusted = np.empty_like(raised)
    np.put_along_axis(adjusted, order, raised, axis=-1)
    return adjusted
