"""What `cost` declares is what a counter measures on the running mechanism."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from regard.conformance.case import (
    BATCH,
    HEADS,
    KV_HEADS,
    LONG,
    Case,
    CheckFailed,
    Inputs,
    NotApplicable,
    demand,
    extend,
    forward,
    start,
    step,
    weights,
)
from regard.core.cost import AttentionShape, Cost
from regard.core.counter import Counter
from regard.core.masks import Causal, Mask
from regard.core.mechanism import state_size

# Long enough that a mechanism which can leave the quadratic form has left it.
LONGEST = 521
MEMORY_FACTOR = 2.0
ARITHMETIC_TOLERANCE = 0.02
# Wide enough that the numbers which depend on no size do not count.
WIDE = 16


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


def declared_arithmetic(case: Case) -> None:
    """Products, functions and `arithmetic` together are within 2 % of all operations that run."""
    wide = case.sized(key_dim=WIDE, query_dim=WIDE, value_dim=WIDE + 1)
    for shape, declared, counter in _measure(wide, _WIDE_SHAPES):
        apart = abs(declared.operations - counter.operations)
        if apart > ARITHMETIC_TOLERANCE * counter.operations:
            raise CheckFailed(
                f"cost declares arithmetic={declared.arithmetic} and {counter.arithmetic} were counted; "
                f"with products and functions, {declared.operations} operations are declared and "
                f"{counter.operations} counted, {declared.operations / counter.operations:.4g} times "
                f"(allowed: {ARITHMETIC_TOLERANCE:.0%} more or less), for {shape}"
            )


def declared_backward(case: Case) -> None:
    """`backward_products` is exactly the products of the backward pass, what it recomputes included."""
    for sized, inputs, mask in _calls(case, _SHAPES):
        leaves = inputs.leaves()
        output = forward(sized.mechanism, leaves, mask)
        wanted = [*leaves.tensors().values(), *sized.mechanism.parameters()]
        with Counter() as counter:
            torch.autograd.grad(output, wanted, torch.ones_like(output), allow_unused=True)
        shape = _shape_of(sized, inputs, causal=mask.causal)
        declared = sized.mechanism.cost(shape).backward_products
        _equal("backward_products", declared, counter.products, shape)


def declared_step(case: Case) -> None:
    """`step_products` is exactly the products of decoding one token after `key_length` others."""
    if not case.takes(Causal()):
        raise NotApplicable("it takes no causal mask, so it is not decoded with")
    for batch_size, kv_heads, length in _STATES:
        if not case.fits(length + 1):
            continue
        inputs = case.draw_tokens(length + 1, batch_size=batch_size, num_kv_heads=kv_heads)
        before, token = inputs.tokens(slice(0, length)), inputs.tokens(slice(length, None))
        with torch.no_grad():
            state = extend(case.mechanism, start(case.mechanism, before), before)
            with Counter() as counter:
                step(case.mechanism, state, token)
        shape = _shape_of(case, before, causal=True)
        declared = case.mechanism.cost(shape).step_products
        _equal("step_products", declared, counter.products, shape)


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
_WIDE_SHAPES = (
    (BATCH, KV_HEADS, WIDE, WIDE),
    (1, KV_HEADS, 67, LONG),
    (1, HEADS, LONG, 67),
    (2, HEADS, LONG, LONG),
    (1, KV_HEADS, LONGEST, LONGEST),
)
# Batch, key/value heads, and tokens in the state.
_STATES = (
    (BATCH, HEADS, 1),
    (BATCH, KV_HEADS, 11),
    (1, HEADS, 67),
    (1, KV_HEADS, LONG - 1),
)


def _calls(
    case: Case, sizes: tuple[tuple[int, int, int, int], ...]
) -> Iterator[tuple[Case, Inputs, Mask]]:
    """One call of every (batch, kv heads, queries, keys), causal and not, and with equal widths too."""
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
                yield sized, inputs, mask


def _measure(case: Case, sizes: tuple[tuple[int, int, int, int], ...]) -> Iterator[Measured]:
    """What is declared for each of these calls, and counted in it."""
    for sized, inputs, mask in _calls(case, sizes):
        with torch.no_grad(), Counter() as counter:
            forward(sized.mechanism, inputs, mask)
        shape = _shape_of(sized, inputs, causal=mask.causal)
        yield Measured(shape, sized.mechanism.cost(shape), counter)


def _shape_of(case: Case, inputs: Inputs, *, causal: bool) -> AttentionShape:
    batch_size, kv_heads, keys = inputs.key.shape[:3]
    return _shape(case, batch_size, kv_heads, inputs.query_length, keys, causal=causal)


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


# Sequential steps and longest path: what must wait for what, within a layer and across layers.


LENGTHS = (LONG, 521, 1031)


def declared_sequential_steps(case: Case) -> None:
    """`sequential_steps` grows with the length exactly where the chain of operators does."""
    sized = case.sized(max_length=max(LENGTHS), num_heads=1)
    lengths = [length for length in LENGTHS if sized.fits(length)]
    if len(lengths) < 2:
        raise NotApplicable(
            f"it takes no more than {sized.promised.max_length} keys: too few to grow"
        )
    for mask in sized.plain_masks:
        declared, walked = [], []
        for length in lengths:
            inputs = sized.draw_tokens(length, batch_size=1)
            with torch.no_grad(), Counter() as counter:
                forward(sized.mechanism, inputs, mask)
            walked.append(counter.depth)
            declared.append(sized.mechanism.cost(_step_shape(sized, length, mask)).sequential_steps)
        demand(
            min(declared) >= 1, f"cost declares {declared} sequential steps; it takes at least 1"
        )
        demand(
            _grows(declared) == _grows(walked),
            f"for {lengths} keys under {mask} cost declares {declared} sequential steps, and the "
            f"longest chain of dependent operators is {walked}: one grows and the other does not",
        )


def declared_longest_path(case: Case) -> None:
    """Stack the pattern of nonzero weights until every position is reached: that many layers."""
    if "self" not in case.promised.roles:
        raise NotApplicable("it is not for self-attention, so it is not stacked")
    for length in (13, LONG):
        if not case.fits(length):
            continue
        for mask in case.plain_masks:
            inputs = case.draw(batch_size=1, query_length=length, key_length=length, scale=0.5)
            connected = (weights(case.mechanism, inputs, mask) != 0).any(dim=1).any(dim=0)
            declared = case.mechanism.cost(_step_shape(case, length, mask)).longest_path
            walked = _layers(connected, _visible(length, mask))
            if declared != walked:
                raise CheckFailed(
                    f"cost declares longest_path={declared}, and walking along the nonzero weights "
                    f"of {length} positions under {mask} takes {walked or 'forever, which is 0'}"
                )


def _grows(counts: list[int]) -> bool:
    # Every time: a change to another form of the computation makes the chain longer just once.
    return all(later > earlier for earlier, later in pairwise(counts))


def _step_shape(case: Case, length: int, mask: Mask) -> AttentionShape:
    return AttentionShape(
        num_heads=case.num_heads,
        query_length=length,
        key_length=length,
        key_dim=case.key_dim,
        value_dim=case.value_dim,
        query_dim=case.query_dim,
        causal=mask.causal,
    )


def _visible(length: int, mask: Mask) -> Tensor:
    every = torch.ones(length, length, dtype=torch.bool)
    return every.tril() if mask.causal else every


def _layers(connected: Tensor, visible: Tensor) -> int:
    """The smallest number of layers after which every visible pair is connected; 0 if none is."""
    length = len(connected)
    # A position keeps what it has, as the residual connection around every layer does.
    one_layer = connected.float() + torch.eye(length)
    reached = torch.eye(length)
    for layers in range(1, length + 1):
        reached = (reached @ one_layer).clamp(max=1.0)
        if bool((reached[visible] > 0).all()):
            return layers
    return 0
