"""Costs of linear (kernel) attention against softmax attention: FLOPs, time and memory.

D is the key dimension, M the value dimension, N (or L) the length, H the number of features.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise

from regard.claims.engine import claim, curve_figure, line, matrix_figure, median_interval
from regard.claims.experiments.kernels import (
    MemoryShape,
    count_attention_ops,
    growth_figure,
    kernel_and_softmax_flops,
    kernel_flops,
    measured_crossings,
    memory_figure,
    memory_ratios,
    peak_numbers,
    polynomial_crossing,
    seconds_by_length,
    seconds_figure,
)
from regard.core.records.claim import Finding
from regard.mechanisms.kernels.linear_attention import FormChoice
from regard.mechanisms.kernels.power_series import TaylorAttention
from regard.mechanisms.scores.dot_product import DotAttention

MEMORY_SIZES = {"length": (8, 512), "key_dim": (1, 64), "value_dim": (1, 64)}


@claim(
    statement="The cost of Taylor-kernel attention is linear in the length.",
    formula="FLOPs ∝ L",
    source="Katharopoulos et al. 2020",
    proof="counted",
    ranges={"key_dim": (1, 16), "terms": (1, 4), "length": (16, 256)},
)
def kernel_attention_is_linear_in_length(
    *, key_dim: int = 8, terms: int = 3, length: int = 64, form: FormChoice = "linear"
) -> Finding:
    """Count FLOPs at doubling lengths."""
    lengths = [length * 2**step for step in range(4)]
    kernel = TaylorAttention(key_dim=key_dim, num_terms=terms, form=form)
    flops = [count_attention_ops(kernel, length=n, key_dim=key_dim).flops for n in lengths]
    softmax = [
        count_attention_ops(DotAttention(), length=n, key_dim=key_dim).flops for n in lengths
    ]
    growth, softmax_growth = flops[-1] / flops[-2], softmax[-1] / softmax[-2]
    linear = all(abs(after / before - 2) <= 0.01 for before, after in pairwise(flops))
    return Finding(
        verdict="holds" if linear else "fails",
        reason=f"Doubling the length multiplies FLOPs by {growth:.3f}; for softmax attention by "
        f"{softmax_growth:.3f}.",
        values={"growth": growth, "softmax_growth": softmax_growth, "flops": flops[-1]},
        figure=growth_figure("length L", lengths, {"Taylor": flops, "softmax": softmax}),
        counter_example=f"L = {lengths[-2]} → {lengths[-1]}: {growth:.3f} times, not 2.",
    )


@claim(
    statement="The cost of Taylor-kernel attention is linear in the key dimension D.",
    formula="FLOPs ∝ D",
    source="course notes: Taylor features",
    proof="counted",
    known_false=True,
    ranges={"terms": (1, 4), "key_dim": (1, 12), "value_dim": (1, 64), "length": (1, 1024)},
)
def kernel_attention_is_linear_in_width(
    *, terms: int = 3, key_dim: int = 8, value_dim: int = 8, length: int = 256
) -> Finding:
    """Count matmul FLOPs at doubling key dimensions with a fixed value dimension."""
    key_dims = [key_dim, 2 * key_dim, 4 * key_dim]
    flops = [
        kernel_flops(terms=terms, key_dim=d, value_dim=value_dim, length=length) for d in key_dims
    ]
    growth = flops[-1] / flops[-2]
    linear = 1.9 <= growth <= 2.05
    return Finding(
        verdict="holds" if linear else "fails",
        reason=(
            f"With a fixed value dimension, D = {key_dims[-2]} → {key_dims[-1]} multiplies matmul FLOPs by "
            f"{growth:.2f}: the cost is linear in H, L and M, but H grows as D to the power {terms - 1}."
        ),
        values={"growth": growth, "exponent": math.log2(growth), "matmul_flops": flops[-1]},
        figure=growth_figure(
            "key dimension D",
            key_dims,
            {"counted": flops, "if linear": [flops[0] * d // key_dim for d in key_dims]},
        ),
        counter_example=f"D = {key_dims[-2]} → {key_dims[-1]}: {growth:.2f} times, not 2.",
    )


@claim(
    statement="Attention with a degree-2 kernel costs Θ(N·D²·M), softmax attention Θ(N²·max(D, M)).",
    formula="matmul FLOPs: 4·N·C(D+2, 2)·M against 2·N²·(D + M)",
    source="course notes: kernel attention",
    proof="counted",
    ranges={"length": (1, 512), "key_dim": (2, 32), "value_dim": (1, 128)},
)
def quadratic_kernel_matmul_flops(
    *, length: int = 128, key_dim: int = 8, value_dim: int = 12
) -> Finding:
    """Double each size in turn and divide the counted matmul FLOPs by the stated order."""
    shapes = [
        (f * length, g * key_dim, h * value_dim)
        for f, g, h in ((1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1, 2))
    ]
    rows = [kernel_and_softmax_flops(length=n, key_dim=d, value_dim=m) for n, d, m in shapes]
    ratios = [
        (row[0] / (n * d * d * m), row[1] / (n * n * max(d, m)))
        for row, (n, d, m) in zip(rows, shapes, strict=True)
    ]
    # Functions of the same order differ by a bounded factor.
    bounded = all(2 <= kernel <= 6 and 2 <= softmax <= 4 for kernel, softmax in ratios)
    return Finding(
        verdict="holds" if bounded else "fails",
        reason="With each size doubled in turn, the matmul FLOPs counted are "
        f"{min(s[0] for s in ratios):.2f} to {max(s[0] for s in ratios):.2f} times N·D²·M and "
        f"{min(s[1] for s in ratios):.2f} to {max(s[1] for s in ratios):.2f} times N²·max(D, M).",
        values={"kernel_flops": rows[0][0], "softmax_flops": rows[0][1]},
        figure=matrix_figure(
            "Matmul FLOPs counted, divided by the stated order",
            ratios,
            rows=(f"N={n} D={d} M={m}" for n, d, m in shapes),
            columns=("kernel / N·D²·M", "softmax / N²·max(D, M)"),
        ),
        counter_example=f"The factors are {ratios}.",
    )


@claim(
    statement="A degree-2 kernel needs fewer FLOPs than softmax attention from about N = D².",
    formula="N ≈ D²",
    source="course notes: kernel attention",
    proof="counted",
    ranges={"widest": (4, 32), "factor": (1, 100), "power": (1, 3)},
)
def quadratic_kernel_beats_softmax_in_flops(
    *, widest: int = 32, factor: float = 2.0, power: int = 2
) -> Finding:
    """Find the length at which the FLOPs cross, for doubling key dimensions."""
    key_dims = [4 * 2**step for step in range(int(math.log2(widest)) - 1)]
    crossings = {d: polynomial_crossing(power=power, key_dim=d) for d in key_dims}
    ratios = {d: n / d**2 for d, n in crossings.items() if n is not None}
    within = len(ratios) == len(key_dims) and all(
        1 / factor <= r <= factor for r in ratios.values()
    )
    shown = ", ".join(
        f"{n} (D = {d}, {ratios[d]:.2f}·D²)" if n else f"none up to {2 * d * d} (D = {d})"
        for d, n in crossings.items()
    )
    found = {d: n for d, n in crossings.items() if n is not None}
    return Finding(
        verdict="holds" if within else "fails",
        reason=f"The FLOPs cross at N = {shown}; required: within a factor of {factor:g} of D². Without "
        f"duplicate monomials a degree-{power} kernel has about {monomial_count_text(power)} features, "
        "which is the asymptotic crossing.",
        values={f"ratio_{d}": ratio for d, ratio in ratios.items()},
        figure=curve_figure(
            "Length at which the FLOPs cross",
            ("key dimension D", "length N"),
            line("counted", found, found.values()),
            line("D²", crossings, [d**2 for d in crossings], dashed=True),
            line("D²/2", crossings, [d**2 / 2 for d in crossings], dashed=True),
            log="xy",
        ),
        counter_example=f"Not within a factor of {factor:g} of D²: N = {shown}.",
    )


@claim(
    statement="On this machine a degree-2 kernel is faster than softmax attention from about N = D².",
    formula="N ≈ D²",
    source="course notes: kernel attention",
    proof="measured",
    ranges={"key_dim": (2, 20), "heads": (1, 4), "factor": (1, 100), "rounds": (1, 20)},
)
def quadratic_kernel_beats_softmax_in_time(
    *, key_dim: int = 16, heads: int = 2, factor: float = 2.0, rounds: int = 5
) -> Finding:
    """Time both, interleaved, at lengths around D², and find the crossing in each round."""
    lengths = [key_dim**2 * 2**step // 2 for step in range(5)]
    seconds = seconds_by_length(key_dim=key_dim, heads=heads, lengths=lengths, rounds=rounds)
    crossings = [n for n in measured_crossings(seconds, lengths=lengths) if n is not None]
    if not crossings:
        return no_crossing_finding(seconds, lengths)
    ratio = median_interval([n / key_dim**2 for n in crossings])
    in_all = len(crossings) == rounds
    missing = "" if in_all else f"; in {rounds - len(crossings)} rounds not up to N = {lengths[-1]}"
    return Finding(
        verdict="holds"
        if in_all and 1 / factor <= ratio.low <= ratio.high <= factor
        else "holds if",
        reason=f"D = M = {key_dim}, {heads} heads, one thread, CPU time, {rounds} interleaved rounds: "
        f"faster from N = {ratio.median * key_dim**2:.0f} on, {ratio.median:.2f}·D² "
        f"({ratio.low:.2f} to {ratio.high:.2f} over rounds{missing}).",
        values={"ratio": ratio.median, "low": ratio.low, "high": ratio.high}
        | {"rounds": rounds, "crossed": len(crossings)},
        figure=seconds_figure(seconds, lengths=lengths, square=key_dim**2),
        condition=f"N ≥ {ratio.median:.2f}·D² ({ratio.low:.2f} to {ratio.high:.2f}{missing}), D = "
        f"{key_dim}",
    )


@claim(
    statement="Softmax attention with materialised weights needs Θ(N² + N(D + M)) memory.",
    formula="memory = Θ(N² + N(D + M))",
    source="course notes: kernel attention (corrected)",
    proof="counted",
    ranges=MEMORY_SIZES,
)
def softmax_memory_is_quadratic_in_length(
    *, length: int = 64, key_dim: int = 16, value_dim: int = 16
) -> Finding:
    """Count the numbers in memory with each size raised in turn, and divide by the stated order."""
    ratios = memory_ratios(length=length, key_dim=key_dim, value_dim=value_dim, with_values=False)
    bounded = all(1 <= ratio <= 3 for ratio in ratios.values())
    return Finding(
        verdict="holds" if bounded else "fails",
        reason=f"Peak memory, inputs and output included, over {len(ratios)} shapes: "
        f"{min(ratios.values()):.2f} to {max(ratios.values()):.2f} times N² + N(D + M).",
        values={"min": min(ratios.values()), "max": max(ratios.values())},
        figure=memory_figure(length=length, key_dim=key_dim, value_dim=value_dim),
        counter_example=f"{ratios}",
    )


@claim(
    statement="Softmax attention needs Θ(N²·M) memory.",
    formula="memory = Θ(N²M + ND)",
    source="course notes: kernel attention",
    proof="counted",
    known_false=True,
    ranges=MEMORY_SIZES,
)
def softmax_memory_is_quadratic_times_width(
    *, length: int = 64, key_dim: int = 16, value_dim: int = 16
) -> Finding:
    """Count the numbers in memory with each size raised in turn, and divide by the stated order."""
    ratios = memory_ratios(length=length, key_dim=key_dim, value_dim=value_dim, with_values=True)
    bounded = max(ratios.values()) <= 3 * min(ratios.values())
    wide = MemoryShape(length, key_dim, 16 * value_dim)
    peak = peak_numbers(wide)
    return Finding(
        verdict="holds" if bounded else "fails",
        reason=f"Peak memory is {max(ratios.values()):.2f} times N²M + ND for one shape and "
        f"{min(ratios.values()):.3f} times for another: each value dimension adds N numbers, not N².",
        values={"min": min(ratios.values()), "max": max(ratios.values()), "peak": peak},
        figure=memory_figure(length=length, key_dim=key_dim, value_dim=value_dim),
        counter_example=f"N = {length}, D = {key_dim}, M = {wide.value_dim}: {peak:,} numbers at the peak; "
        f"N²M is {length**2 * wide.value_dim:,}.",
    )


def monomial_count_text(power: int) -> str:
    """Asymptotic number of monomials up to a degree."""
    return {1: "D"}.get(power, f"D{'⁰¹²³⁴⁵⁶⁷⁸⁹'[power]}/{math.factorial(power)}")


def no_crossing_finding(seconds: dict[str, list[list[float]]], lengths: Sequence[int]) -> Finding:
    """The finding if the kernel is slower at the greatest length in every round."""
    medians = {name: statistics.median(times[-1]) for name, times in seconds.items()}
    return Finding(
        verdict="fails",
        reason=f"In no round is the kernel faster at N = {lengths[-1]}, the greatest length.",
        values={"seconds": medians["polynomial"], "softmax_seconds": medians["dot"]},
        figure=seconds_figure(seconds, lengths=lengths, square=lengths[0] * 2),
        counter_example=f"N = {lengths[-1]}: {medians['polynomial']:.3g} s against {medians['dot']:.3g} s.",
    )
