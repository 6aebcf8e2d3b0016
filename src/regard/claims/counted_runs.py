"""Calls of layers and mechanisms on drawn numbers, and what the counter sees of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from regard.core.counter import Counter
from regard.mechanisms import build_mechanism


def counter_of(run: Callable[[], object]) -> Counter:
    """What the counter saw of one run without gradients."""
    with torch.no_grad(), Counter() as counter:
        run()
    return counter


def layer_run(layer: nn.Module, *, n: int, d: int) -> Callable[[], object]:
    """A call of a layer on one sequence."""
    x = torch.randn(1, n, d, generator=torch.Generator().manual_seed(0))
    return lambda: layer(x)


def mechanism_run(mechanism: str, *, n: int, d: int) -> Callable[[], object]:
    """A call of a mechanism alone, on queries, keys and values that are given."""
    built: Any = build_mechanism(mechanism, query_dim=d, key_dim=d, max_length=n)
    drawn = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(1, 1, n, d, generator=drawn) for _ in range(3))
    return lambda: built(query, key, value)
