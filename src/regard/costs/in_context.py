"""How much longer operators take inside real work than alone in a loop.

Alone, an operator finds its numbers in the cache and its memory at hand; inside a mechanism others
have been there meanwhile, the more so in training, where what is kept for the way back takes fresh memory.
Real calls of middling length, traced and run, give factors for products and for what moves numbers: those,
near 1, that make the relative errors smallest. Fused operators do all their work in one call, and a
decoded token's numbers are few: they have none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from regard.core.cost import AttentionShape
from regard.costs.attention_workloads import Example
from regard.costs.trace import Trace, trace
from regard.costs.workload import Mode

GROUPS = ("products", "moving")
ALONE = (
    *("attention", "attention_backward", "causal_attention", "causal_attention_backward"),
    *("recurrent", "recurrent_backward", "convolution", "convolution_backward", "view"),
)
MECHANISMS_SHOWN = (
    *("general", "location", "window", "synthesizer_dense"),
    *("elu", "taylor", "random_features", "retention", "delta"),
)
PAST_ONLY = ("retention", "delta")
SHOWN: tuple[Mode, ...] = ("forward", "train")
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
    for mode in SHOWN
    if shape.causal or name not in PAST_ONLY
)
# How strongly the factors are held near 1, in units of one example's squared relative error.
HELD = 0.5
LEAST = 0.5

Factors = dict[str, dict[str, float]]
"""By mode, then by group."""

NO_FACTORS: Factors = {mode: dict.fromkeys(GROUPS, 1.0) for mode in SHOWN}


def group_of(kind: str) -> str | None:
    """Which factor a kind of operator has, if any."""
    if kind in ALONE:
        return None
    return "products" if kind in ("product", "solve") else "moving"


def found_factors(
    spent: Mapping[Example, float], seconds_by_kind: Callable[[Trace], dict[str, float]]
) -> Factors:
    """The factors; `seconds_by_kind` is what a trace takes with all of them 1."""
    return {mode: _of_mode(mode, spent, seconds_by_kind) for mode in SHOWN}


def _of_mode(
    mode: Mode,
    spent: Mapping[Example, float],
    seconds_by_kind: Callable[[Trace], dict[str, float]],
) -> dict[str, float]:
    shares, left_over = [], []
    for example, seconds in spent.items():
        if example.mode != mode:
            continue
        parts = dict.fromkeys((*GROUPS, None), 0.0)
        for kind, taken in seconds_by_kind(trace(example.workload())).items():
            parts[group_of(kind)] += taken / seconds
        shares.append([parts[group] for group in GROUPS])
        left_over.append(1.0 - parts[None])
    held = np.sqrt(HELD) * np.eye(len(GROUPS))
    left = np.vstack([np.array(shares), held])
    right = np.concatenate([np.array(left_over), held.sum(axis=1)])
    found, *_ = np.linalg.lstsq(left, right, rcond=None)
    return dict(zip(GROUPS, (float(max(LEAST, factor)) for factor in found), strict=True))
