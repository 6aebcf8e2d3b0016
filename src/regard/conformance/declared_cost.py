"""Checks of declared costs: FLOPs, memory, state, sequential steps and maximum path length as measured.

A mechanism that declares no cost has a counted one, to which these checks do not apply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from itertools import pairwise
from typing import NamedTuple

import torch

from regard.conformance.case import (
    BATCH,
    HEADS,
    KV_HEADS,
    LONG,
    Case,
    CheckFailed,
    Inputs,
    NotApplicable,
    require,
)
from regard.core.cost import AttentionShape, Cost
from regard.core.counter import Counter
from regard.core.counting import layers_to_connect
from regard.core.masks import Causal, Mask
from regard.core.mechanism import state_size

# Long enough that mechanisms with a linear form use it.
LONGEST = 521
MEMORY_FACTOR = 2.0
FLOPS_TOLERANCE = 0.02
# Wide enough that constant terms are negligible.
WIDE = 16


def of_declared_cost(check: Callable[[Case], None]) -> Callable[[Case], None]:
    """Decorate a check that does not apply to a mechanism without a declared cost."""

    @wraps(check)
    def checked(case: Case) -> None:
        if not case.mechanism.declares_cost:
            raise NotApplicable("it declares no cost, so its cost is counted")
        check(case)

    return checked


class Measured(NamedTuple):
    """The shape of a call, its declared cost, and its measured counts."""

    shape: AttentionShape
    declared: Cost
    counter: Counter


@of_declared_cost
def declared_matmul_flops(case: Case) -> None:
    """Declared matmul FLOPs equal those counted."""
    for shape, declared, counter in _measure(case, _SHAPES):
        _equal("matmul_flops", declared.matmul_flops, counter.matmul_flops, shape)


@of_declared_cost
def declared_transcendental_ops(case: Case) -> None:
    """Declared evaluations of exp, tanh and the like equal those counted."""
    for shape, declared, counter in _measure(case, _SHAPES):
        _equal("transcendental_ops", declared.transcendental_ops, counter.transcendental_ops, shape)


@of_declared_cost
def declared_flops(case: Case) -> None:
    """Declared FLOPs are within 2 % of those counted."""
    wide = case.sized(key_dim=WIDE, query_dim=WIDE, value_dim=WIDE + 1)
    for shape, declared, counter in _measure(wide, _WIDE_SHAPES):
        error = abs(declared.flops - counter.flops)
        if error > FLOPS_TOLERANCE * counter.flops:
            raise CheckFailed(
                f"cost declares flops={declared.flops} and {counter.flops} were counted "
                f"({declared.flops / counter.flops:.4g} times, allowed: ±{FLOPS_TOLERANCE:.0%}); "
                f"elementwise_ops={declared.elementwise_ops} declared, {counter.elementwise_ops} "
                f"counted, for {shape}"
            )


@of_declared_cost
def declared_backward_matmul_flops(case: Case) -> None:
    """Declared matmul FLOPs of training, forward and backward, equal those counted."""
    for sized, inputs, mask in _calls(case, _SHAPES):
        leaves = inputs.leaves()
        tensors = [*leaves.tensors().values(), *sized.mechanism.parameters()]
        with torch.no_grad(), Counter(memory=False) as forward:
            sized.forward(inputs, mask)
        with Counter(memory=False) as training:
            output = sized.forward(leaves, mask)
            torch.autograd.grad(output, tensors, torch.ones_like(output), allow_unused=True)
        shape = _shape_of(sized, inputs, causal=mask.causal)
        declared = sized.mechanism.cost(shape).backward_matmul_flops
        counted = training.matmul_flops - forward.matmul_flops
        _equal("backward_matmul_flops", declared, counted, shape)


@of_declared_cost
def declared_step_matmul_flops(case: Case) -> None:
    """Declared matmul FLOPs of one decoding step equal those counted."""
    if not case.supports(Causal()):
        raise NotApplicable("it does not support causal masks, so it cannot decode")
    for batch_size, kv_heads, length in _STATES:
        if not case.fits(length + 1):
            continue
        inputs = case.draw_tokens(length + 1, batch_size=batch_size, num_kv_heads=kv_heads)
        before, token = inputs.tokens(slice(0, length)), inputs.tokens(slice(length, None))
        with torch.no_grad():
            state = case.extend(case.start(before), before)
            with Counter() as counter:
                case.step(state, token)
        shape = _shape_of(case, before, causal=True)
        declared = case.mechanism.cost(shape).step_matmul_flops
        _equal("step_matmul_flops", declared, counter.matmul_flops, shape)


@of_declared_cost
def declared_memory(case: Case) -> None:
    """Declared memory is within a factor of two of the peak."""
    for shape, declared, counter in _measure(case, ((1, HEADS, LONGEST, LONGEST),)):
        ratio = declared.memory / max(counter.peak_memory, 1)
        if not 1 / MEMORY_FACTOR <= ratio <= MEMORY_FACTOR:
            raise CheckFailed(
                f"cost declares memory={declared.memory} and the counter measures "
                f"{counter.peak_memory}, a factor of {ratio:.3g} (allowed: {MEMORY_FACTOR:g}), "
                f"for {shape}"
            )


@of_declared_cost
def declared_parameters(case: Case) -> None:
    """Declared parameters equal the number of trainable parameters."""
    shape = _shape(case, BATCH, HEADS, 7, 11, causal=case.open_mask.causal)
    _equal(
        "parameters", case.mechanism.cost(shape).parameters, case.mechanism.num_parameters, shape
    )


@of_declared_cost
def declared_state(case: Case) -> None:
    """Declared state equals the number of elements of the decoding state."""
    for kv_heads in (HEADS, KV_HEADS):
        for length in (1, 11, LONG):
            if not case.fits(length):
                continue
            inputs = case.draw(num_kv_heads=kv_heads, query_length=1, key_length=length)
            state = case.extend(case.start(inputs), inputs)
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
# (batch, key/value heads, tokens in the state)
_STATES = ((BATCH, HEADS, 1), (BATCH, KV_HEADS, 11), (1, HEADS, 67), (1, KV_HEADS, LONG - 1))


def _calls(
    case: Case, sizes: tuple[tuple[int, int, int, int], ...]
) -> Iterator[tuple[Case, Inputs, Mask]]:
    """One call per (batch, kv heads, queries, keys) and plain mask, with unequal and equal widths."""
    for value_dim in (case.value_dim, case.key_dim):
        sized = case.sized(max_length=LONGEST, value_dim=value_dim)
        for batch_size, kv_heads, queries, keys in sizes:
            if not sized.fits(keys):
                continue
            inputs = sized.draw(
                batch_size=batch_size, num_kv_heads=kv_heads, query_length=queries, key_length=keys
            )
            for mask in sized.plain_masks:
                yield sized, inputs, mask


def _measure(case: Case, sizes: tuple[tuple[int, int, int, int], ...]) -> Iterator[Measured]:
    """The declared cost and measured counts of these calls."""
    for sized, inputs, mask in _calls(case, sizes):
        with torch.no_grad(), Counter() as counter:
            sized.forward(inputs, mask)
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
    require(
        declared == counted,
        f"cost declares {what}={declared} and {counted} were counted{times}, for {shape}",
    )


LENGTHS = (LONG, 521, 1031)


@of_declared_cost
def declared_sequential_steps(case: Case) -> None:
    """Sequential steps grow with the length if and only if the chain of dependent operators does."""
    sized = case.sized(max_length=max(LENGTHS), num_heads=1)
    lengths = [length for length in LENGTHS if sized.fits(length)]
    if len(lengths) < 2:
        raise NotApplicable(
            f"max_length={sized.capabilities.max_length} is too short to measure growth"
        )
    for mask in sized.plain_masks:
        declared, measured = [], []
        for length in lengths:
            inputs = sized.draw_tokens(length, batch_size=1)
            with torch.no_grad(), Counter() as counter:
                sized.forward(inputs, mask)
            measured.append(counter.depth)
            declared.append(
                sized.mechanism.cost(_shape_of(sized, inputs, causal=mask.causal)).sequential_steps
            )
        require(
            min(declared) >= 1, f"cost declares {declared} sequential steps; it takes at least 1"
        )
        require(
            _grows(declared) == _grows(measured),
            f"for {lengths} keys under {mask} cost declares {declared} sequential steps, and the "
            f"longest chain of dependent operators is {measured}: one grows and the other does not",
        )


@of_declared_cost
def declared_max_path_length(case: Case) -> None:
    """The maximum path length is the number of layers that connects all visible positions."""
    if "self" not in case.capabilities.roles:
        raise NotApplicable("it does not support self-attention")
    for length in (13, LONG):
        if not case.fits(length):
            continue
        for mask in case.plain_masks:
            inputs = case.draw(batch_size=1, query_length=length, key_length=length, scale=0.5)
            connected = (case.weights(inputs, mask) != 0).any(dim=1).any(dim=0)
            declared = case.mechanism.cost(
                _shape_of(case, inputs, causal=mask.causal)
            ).max_path_length
            measured = layers_to_connect(connected, causal=mask.causal)
            if declared != measured:
                raise CheckFailed(
                    f"cost declares max_path_length={declared}, and the nonzero weights of {length} "
                    f"positions under {mask} connect them in {measured or '0 (never)'} layers"
                )


def _grows(counts: list[int]) -> bool:
    # At every length: a switch to another form makes the chain longer only once.
    return all(later > earlier for earlier, later in pairwise(counts))
