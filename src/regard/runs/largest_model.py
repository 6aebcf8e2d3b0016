"""The largest model within limits: a spec's widths scaled together until it no longer fits."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from regard.runs.designs import WIDTH_OF_A_HEAD, option_of
from regard.runs.spec import RunSpec

# model → its widths
WIDTHS = {
    "transformer": ("model_dim", "feed_forward_dim"),
    "recurrent": ("embedding_dim", "hidden_dim"),
}
# Widths grow by a fifth from one size to the next, from a 16th to 16 times the spec's own.
SIZES_A_DOUBLING = 4
SMALLEST, GREATEST = -4 * SIZES_A_DOUBLING, 4 * SIZES_A_DOUBLING

Planned = TypeVar("Planned")


def scaled(spec: RunSpec, size: int) -> RunSpec:
    """The spec so many sizes larger; every width stays a multiple of what its heads need."""
    factor = 2 ** (size / SIZES_A_DOUBLING)
    unit = WIDTH_OF_A_HEAD
    if spec.model == "transformer":
        unit *= option_of(spec, "num_heads")
    unit = math.lcm(unit, 4)
    widths = {
        name: max(1, round(factor * width / unit)) * unit
        for name in WIDTHS[spec.model]
        if (width := option_of(spec, name)) is not None
    }
    return spec if size == 0 else replace(spec, model_options={**spec.model_options, **widths})


def largest(
    plan_at: Callable[[int], Planned], fits: Callable[[Planned], bool]
) -> tuple[Planned | None, Planned | None]:
    """The plan of the greatest size that fits, and of the smallest one tried that does not.

    Sizes are tried in steps that double, then by halves: what fits is taken to fit when smaller.
    """
    at = plan_at(0)
    direction, best, worst = (1, at, None) if fits(at) else (-1, None, at)
    low, high = (0, None) if best is not None else (None, 0)
    reach = 1
    while (high if direction == 1 else low) is None:
        size = max(SMALLEST, min(GREATEST, direction * reach))
        tried = plan_at(size)
        if fits(tried):
            low, best = size, tried
        else:
            high, worst = size, tried
        if size in (SMALLEST, GREATEST):
            break
        reach *= 2
    while low is not None and high is not None and high - low > 1:
        size = (low + high) // 2
        tried = plan_at(size)
        if fits(tried):
            low, best = size, tried
        else:
            high, worst = size, tried
    return best, worst
