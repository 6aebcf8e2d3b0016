"""How much longer operators take inside real work than alone in a loop.

Alone, an operator finds its numbers in the cache and its memory at hand; inside a mechanism others
have been there meanwhile. Real calls of middling length, traced and run, give one factor for each group of
operators: the factors, near 1, that make the relative errors smallest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from regard.core.cost import AttentionShape
from regard.costs.attention_workloads import Example
from regard.costs.trace import Trace, trace
from regard.costs.workload import MODES

GROUPS = ("fused", "products", "moving", "calls")
FUSED = (
    *("attention", "attention_backward", "causal_attention", "causal_attention_backward"),
    *("recurrent", "recurrent_backward"),
)
MECHANISMS_SHOWN = (
    *("scaled_dot", "general", "location", "window", "synthesizer_dense"),
    *("elu", "taylor", "random_features", "retention", "delta"),
)
PAST_ONLY = ("retention", "delta")
SHAPES = tuple(
    AttentionShape(
        batch_size=batch,
        num_heads=heads,
        query_length=length,
        key_length=length,
        key_dim=width,
        value_dim=width,
        causal=causal,
    )
    for batch, heads, length, width, causal in ((1, 2, 150, 16, True), (2, 4, 400, 32, False))
)
EXAMPLES = tuple(
    Example(name, shape, mode)
    for name in MECHANISMS_SHOWN
    for shape in SHAPES
    for mode in MODES[:2]
    if shape.causal or name not in PAST_ONLY
)
# How strongly the factors are held near 1, in units of one example's squared relative error.
HELD = 0.5


def group_of(kind: str) -> str:
    """Which factor a kind of operator has."""
    if kind in FUSED:
        return "fused"
    if kind in ("product", "solve", "convolution", "convolution_backward"):
        return "products"
    return "calls" if kind == "view" else "moving"


def found_factors(
    spent: Mapping[Example, float], seconds_by_group: Callable[[Trace], dict[str, float]]
) -> dict[str, float]:
    """The factors; `seconds_by_group` is what a trace takes with all of them 1."""
    rows = []
    for example, seconds in spent.items():
        parts = seconds_by_group(trace(example.workload()))
        rows.append([parts[group] / seconds for group in GROUPS])
    shares = np.array(rows)
    held = np.sqrt(HELD) * np.eye(len(GROUPS))
    left = np.vstack([shares, held])
    right = np.concatenate([np.ones(len(shares)), held.sum(axis=1)])
    found, *_ = np.linalg.lstsq(left, right, rcond=None)
    return dict(zip(GROUPS, (float(max(0.3, factor)) for factor in found), strict=True))
