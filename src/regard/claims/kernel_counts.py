"""What softmax attention and kernel attention take for one head: counted, and measured side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from regard.claims.interleaved import interleaved_seconds
from regard.core.cost import AttentionShape
from regard.core.counter import Counter
from regard.core.mechanism import Mechanism
from regard.costs.attention_workloads import attention_workload, drawn
from regard.costs.crossover import crossover
from regard.mechanisms.dot import DotAttention
from regard.mechanisms.polynomial import PolynomialAttention
from regard.mechanisms.taylor import TaylorAttention


class Counts(NamedTuple):
    """Of one call, without gradients."""

    operations: int
    products: int


class MemoryShape(NamedTuple):
    """N keys and queries of width D with values of width M."""

    length: int
    width: int
    value_width: int

    @property
    def inputs(self) -> int:
        """Numbers in queries, keys and values."""
        return self.length * (2 * self.width + self.value_width)


def counts_of(mechanism: Mechanism, *, length: int, width: int, value_width: int = 0) -> Counts:
    """What one call takes; values are as wide as keys unless told."""
    shape = AttentionShape(
        query_length=length, key_length=length, key_dim=width, value_dim=value_width or width
    )
    tensors = drawn(mechanism, shape, queries=length, keys=length)
    with torch.no_grad(), Counter() as counter:
        mechanism(**tensors)
    return Counts(counter.operations, counter.products)


def numbers_held(shape: MemoryShape) -> int:
    """Numbers that softmax attention with its weights in the open holds at its peak, inputs included."""
    query, key = torch.randn(2, 1, 1, shape.length, shape.width)
    value = torch.randn(1, 1, shape.length, shape.value_width)
    with torch.no_grad(), Counter() as counter:
        DotAttention().weights(query, key) @ value
    return shape.inputs + counter.peak_memory


def counted_crossing(kernel: Mechanism, *, width: int, lengths: Sequence[int]) -> int | None:
    """The length from which the kernel takes fewer operations than softmax attention."""

    def operations(mechanism: Mechanism) -> Callable[[int], float]:
        return lambda length: counts_of(mechanism, length=length, width=width).operations

    return crossover(operations(DotAttention()), operations(kernel), lengths)


def seconds_by_length(
    *, width: int, heads: int, lengths: Sequence[int], rounds: int
) -> dict[str, list[list[float]]]:
    """Mechanism → for every length the seconds of each round, all of them measured in turns."""

    def rival(name: str, length: int) -> str:
        return f"{name} at {length}"

    rivals = {
        rival(name, length): attention_workload(
            name,
            AttentionShape(
                num_heads=heads,
                query_length=length,
                key_length=length,
                key_dim=width,
                value_dim=width,
            ),
            "forward",
            options,
        ).prepare()
        for name, options in (("dot", {}), ("polynomial", {"form": "linear"}))
        for length in lengths
    }
    taken = interleaved_seconds(rivals, rounds=rounds)
    return {
        name: [taken[rival(name, length)] for length in lengths] for name in ("dot", "polynomial")
    }


def measured_crossings(
    seconds: dict[str, list[list[float]]], *, lengths: Sequence[int]
) -> list[int | None]:
    """For every round, the length from which the kernel is quicker; None if it is not."""
    places = {length: place for place, length in enumerate(lengths)}
    rounds = range(len(seconds["dot"][0]))

    def taken(name: str, number: int) -> Callable[[int], float]:
        return lambda length: seconds[name][places[length]][number]

    return [crossover(taken("dot", one), taken("polynomial", one), lengths) for one in rounds]


def kernel_products(*, terms: int, width: int, value_width: int, length: int) -> int:
    """Products of Taylor attention by sums of features."""
    kernel = TaylorAttention(key_dim=width, num_terms=terms, form="linear")
    return counts_of(kernel, length=length, width=width, value_width=value_width).products


def products_of_both(*, length: int, width: int, value_width: int) -> tuple[int, int]:
    """Of the kernel of degree 2, and of softmax attention."""
    kernel = PolynomialAttention(key_dim=width, form="linear")
    return (
        counts_of(kernel, length=length, width=width, value_width=value_width).products,
        counts_of(DotAttention(), length=length, width=width, value_width=value_width).products,
    )


def counted_crossing_of(*, power: int, width: int) -> int | None:
    """From which length on (q·k + 1)ᵖ takes fewer operations than softmax attention."""
    kernel = PolynomialAttention(key_dim=width, power=power, form="linear")
    return counted_crossing(
        kernel, width=width, lengths=[width**2 * 2**step // 4 for step in range(4)]
    )


def memory_shares(
    *, length: int, width: int, value_width: int, with_values: bool
) -> dict[MemoryShape, float]:
    """Numbers held over what is said, for shapes with one size raised in turn."""
    shapes = [
        MemoryShape(length, width, value_width),
        MemoryShape(4 * length, width, value_width),
        MemoryShape(length, 16 * width, value_width),
        MemoryShape(length, width, 16 * value_width),
    ]

    def said(shape: MemoryShape) -> int:
        n, d, m = shape
        return n * n * m + n * d if with_values else n * n + n * (d + m)

    return {shape: numbers_held(shape) / said(shape) for shape in shapes}
