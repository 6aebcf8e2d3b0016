"""What `cost` declares is what a counter measures on the running mechanism."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch

from regard.conformance.case import BATCH, HEADS, KV_HEADS, LONG, Case
from regard.conformance.inputs import extend, forward, start
from regard.conformance.verdict import CheckFailed, demand
from regard.core.cost import AttentionShape, Cost
from regard.core.counter import Counter
from regard.core.state import state_size

# Long enough that a mechanism which can leave the quadratic form has left it.
LONGEST = 521
MEMORY_FACTOR = 2.0


class Measured(NamedTuple):
    """A call's shape, what was declared for it, and what was counted in it."""

    shape: AttentionShape
    declared: Cost
    counter: Counter


def declared_products(case: Case) -> None:
    """`products` is exactly the multiply-adds of the matrix products that run, times two."""
    for shape, declared, counter in _measure(case, _SHAPES):
        _equal("products", declared.products, counter.products, shape)


def declared_functions(case: Case) -> None:
    """`functions` is exactly how many times exp, tanh and the like are evaluated."""
    for shape, declared, counter in _measure(case, _SHAPES):
        _equal("functions", declared.functions, counter.functions, shape)


def declared_memory(case: Case) -> None:
    """`memory` is within a factor of two of the numbers held at the peak of a long call."""
    for shape, declared, counter in _measure(case, ((1, HEADS, LONGEST, LONGEST),)):
        ratio = declared.memory / max(counter.peak_memory, 1)
        if not 1 / MEMORY_FACTOR <= ratio <= MEMORY_FACTOR:
            raise CheckFailed(
                f"cost declares memory={declared.memory} and the counter measures "
                f"{counter.peak_memory}, a factor of {ratio:.3g} (allowed: {MEMORY_FACTOR:g}), "
                f"for {shape}"
            )


def declared_parameters(case: Case) -> None:
    """`parameters` is how many trainable numbers the mechanism has."""
    shape = _shape(case, BATCH, HEADS, 7, 11, causal=case.open_mask.causal)
    _equal(
        "parameters", case.mechanism.cost(shape).parameters, case.mechanism.num_parameters, shape
    )


def declared_state(case: Case) -> None:
    """`state` is how many numbers the decoding state holds after that many tokens."""
    for kv_heads in (HEADS, KV_HEADS):
        for length in (1, 11, LONG):
            if not case.fits(length):
                continue
            inputs = case.draw(num_kv_heads=kv_heads, query_length=1, key_length=length)
            state = extend(case.mechanism, start(case.mechanism, inputs), inputs)
            shape = _shape(case, BATCH, kv_heads, 1, length, causal=case.open_mask.causal)
            _equal("state", case.mechanism.cost(shape).state, state_size(state), shape)


_SHAPES = (
    (BATCH, HEADS, 7, 11),
    (BATCH, KV_HEADS, 11, 11),
    (BATCH, KV_HEADS, 13, 11),
    (1, HEADS, 1, 67),
    (2, HEADS, LONG, LONG),
    (1, HEADS, 67, LONG),
    (1, KV_HEADS, LONGEST, LONGEST),
)


def _measure(case: Case, sizes: tuple[tuple[int, int, int, int], ...]) -> Iterator[Measured]:
    """Count one forward call of every (batch, kv heads, queries, keys), causal and not."""
    for value_dim in (case.value_dim, case.key_dim):
        sized = case.sized(max_length=LONGEST, value_dim=value_dim)
        for batch_size, kv_heads, queries, keys in sizes:
            if not sized.fits(keys):
                continue
            inputs = sized.draw(
                batch_size=batch_size,
                num_kv_heads=kv_heads,
                query_length=queries,
                key_length=keys,
            )
            for mask in sized.plain_masks:
                with torch.no_grad(), Counter() as counter:
                    forward(sized.mechanism, inputs, mask)
                shape = _shape(sized, batch_size, kv_heads, queries, keys, causal=mask.causal)
                yield Measured(shape, sized.mechanism.cost(shape), counter)


def _shape(
    case: Case, batch_size: int, kv_heads: int, queries: int, keys: int, *, causal: bool
) -> AttentionShape:
    return AttentionShape(
        batch_size=batch_size,
        num_heads=case.num_heads,
        num_kv_heads=kv_heads,
        query_length=queries,
        key_length=keys,
        key_dim=case.key_dim,
        value_dim=case.value_dim,
        query_dim=case.query_dim,
        causal=causal,
    )


def _equal(what: str, declared: int, counted: int, shape: AttentionShape) -> None:
    times = f" ({declared / counted:.4g} times)" if counted else ""
    demand(
        declared == counted,
        f"cost declares {what}={declared} and {counted} were counted{times}, for {shape}",
    )
