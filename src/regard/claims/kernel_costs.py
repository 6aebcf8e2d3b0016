"""What attention with a kernel in place of exp(q·k) costs: operations, time and memory, beside softmax.

D is the width of queries and keys, M that of values, N the length, H the number of features.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise

from regard.claims.engine import claim, median_interval
from regard.claims.experiments.kernel_figures import (
    crossing_picture,
    growth_picture,
    memory_picture,
    seconds_picture,
)
from regard.claims.experiments.kernels import (
    MemoryShape,
    counted_crossing_of,
    counts_of,
    kernel_products,
    measured_crossings,
    memory_shares,
    numbers_held,
    products_of_both,
    seconds_by_length,
)
from regard.core.records.claim import Finding, MatrixPicture
from regard.mechanisms.kernels.power_series import TaylorAttention
from regard.mechanisms.scores.dot_product import DotAttention

MEMORY_SIZES = {"length": (8, 512), "width": (1, 64), "value_width": (1, 64)}


@claim(
    statement="Attention with the Taylor kernel is linear in the length.",
    formula="operations ∝ L",
    source="seed 002, answer 1.4; Katharopoulos et al. 2020",
    proof="counted",
    ranges={"width": (1, 16), "terms": (1, 4), "length": (16, 256)},
)
def kernel_attention_is_linear_in_length(
    *, width: int = 8, terms: int = 3, length: int = 64, form: str = "linear"
) -> Finding:
    """Count operations at lengths that double."""
    lengths = [length * 2**step for step in range(4)]
    kernel = TaylorAttention(key_dim=width, num_terms=terms, form=form)
    taken = [counts_of(kernel, length=n, width=width).operations for n in lengths]
    softmax = [counts_of(DotAttention(), length=n, width=width).operations for n in lengths]
    growth, rival = taken[-1] / taken[-2], softmax[-1] / softmax[-2]
    linear = all(abs(after / before - 2) <= 0.01 for before, after in pairwise(taken))
    return Finding(
        verdict="holds" if linear else "fails",
        because=(
            f"Twice the length takes {growth:.3f} times the operations; softmax attention takes "
            f"{rival:.3f} times."
        ),
        figures={"growth": growth, "softmax_growth": rival, "operations": taken[-1]},
        picture=growth_picture("length L", lengths, {"Taylor": taken, "softmax": softmax}),
        counter_example=""
        if linear
        else f"L = {lengths[-2]} → {lengths[-1]}: {growth:.3f} times, not 2.",
    )


@claim(
    statement="Attention with the Taylor kernel is linear in the width D.",
    formula="operations ∝ D",
    source="seed 002, answer 1.4",
    proof="counted",
    marked_wrong=True,
    ranges={"terms": (1, 4), "width": (1, 12), "value_width": (1, 64), "length": (1, 1024)},
)
def kernel_attention_is_linear_in_width(
    *, terms: int = 3, width: int = 8, value_width: int = 8, length: int = 256
) -> Finding:
    """Count products at widths that double, values left as they are."""
    widths = [width, 2 * width, 4 * width]
    taken = [
        kernel_products(terms=terms, width=d, value_width=value_width, length=length)
        for d in widths
    ]
    growth = taken[-1] / taken[-2]
    linear = 1.9 <= growth <= 2.05
    return Finding(
        verdict="holds" if linear else "fails",
        because=(
            f"With values of one width, D = {widths[-2]} → {widths[-1]} takes {growth:.2f} times the "
            f"products: linear in H, L and M, but H itself grows as D to the power {terms - 1}."
        ),
        figures={"growth": growth, "exponent": math.log2(growth), "products": taken[-1]},
        picture=growth_picture(
            "width D",
            widths,
            {"counted": taken, "if linear": [taken[0] * d // width for d in widths]},
        ),
        counter_example=""
        if linear
        else f"D = {widths[-2]} → {widths[-1]}: {growth:.2f} times, not 2.",
    )


@claim(
    statement="Attention with a kernel of degree 2 takes N·D²·M, softmax attention N²·max(D, M).",
    formula="4·N·C(D+2, 2)·M products against 2·N²·(D + M)",
    source="seed 004",
    proof="counted",
    ranges={"length": (1, 512), "width": (2, 32), "value_width": (1, 128)},
)
def quadratic_kernel_takes_its_products(
    *, length: int = 128, width: int = 8, value_width: int = 12
) -> Finding:
    """Count products with each size doubled in turn, and divide by what is said."""
    shapes = [
        (f * length, g * width, h * value_width)
        for f, g, h in ((1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1, 2))
    ]
    rows = [products_of_both(length=n, width=d, value_width=m) for n, d, m in shapes]
    shares = [
        (row[0] / (n * d * d * m), row[1] / (n * n * max(d, m)))
        for row, (n, d, m) in zip(rows, shapes, strict=True)
    ]
    # A sum and a product of the same order differ by a factor that no size moves far.
    bounded = all(2 <= kernel <= 6 and 2 <= softmax <= 4 for kernel, softmax in shares)
    return Finding(
        verdict="holds" if bounded else "fails",
        because=(
            "With each size doubled in turn, the products counted stay "
            f"{min(s[0] for s in shares):.2f} to {max(s[0] for s in shares):.2f} times N·D²·M and "
            f"{min(s[1] for s in shares):.2f} to {max(s[1] for s in shares):.2f} times N²·max(D, M)."
        ),
        figures={"kernel_products": rows[0][0], "softmax_products": rows[0][1]},
        picture=MatrixPicture(
            title="products counted over the order said",
            values=tuple(shares),
            row_labels=tuple(f"N={n} D={d} M={m}" for n, d, m in shapes),
            column_labels=("kernel / N·D²·M", "softmax / N²·max(D, M)"),
        ),
        counter_example="" if bounded else f"The factors are {shares}.",
    )


@claim(
    statement="A kernel of degree 2 takes fewer operations than softmax attention from about N = D² on.",
    formula="N ≈ D²",
    source="seed 004",
    proof="counted",
    ranges={"widest": (4, 32), "near": (1, 100), "power": (1, 3)},
)
def kernel_overtakes_softmax_in_operations(
    *, widest: int = 32, near: float = 2.0, power: int = 2
) -> Finding:
    """Count both at lengths about D², for widths that double, and find where they cross."""
    widths = [4 * 2**step for step in range(int(math.log2(widest)) - 1)]
    crossings = {d: counted_crossing_of(power=power, width=d) for d in widths}
    ratios = {d: n / d**2 for d, n in crossings.items() if n is not None}
    inside = len(ratios) == len(widths) and all(1 / near <= r <= near for r in ratios.values())
    shown = ", ".join(
        f"{n} (D = {d}, {ratios[d]:.2f}·D²)" if n else f"none up to {2 * d * d} (D = {d})"
        for d, n in crossings.items()
    )
    return Finding(
        verdict="holds" if inside else "fails",
        because=(
            f"The counts cross at N = {shown}; asked for: within a factor of {near:g} of D². With every "
            f"product once, a kernel of degree {power} has about {features_of_degree(power)} features, and "
            "about there it tends to."
        ),
        figures={f"ratio_{d}": ratio for d, ratio in ratios.items()},
        picture=crossing_picture(crossings),
        counter_example="" if inside else f"Not within a factor of {near:g} of D²: N = {shown}.",
    )


@claim(
    statement="Here a kernel of degree 2 is quicker than softmax attention from about N = D² on.",
    formula="N ≈ D²",
    source="seed 004",
    proof="measured",
    ranges={"width": (2, 20), "heads": (1, 4), "near": (1, 100), "rounds": (1, 20)},
)
def kernel_overtakes_softmax_on_the_clock(
    *, width: int = 16, heads: int = 2, near: float = 2.0, rounds: int = 5
) -> Finding:
    """Time both at lengths about D², in turns, and find where they cross in each round."""
    lengths = [width**2 * 2**step // 2 for step in range(5)]
    seconds = seconds_by_length(width=width, heads=heads, lengths=lengths, rounds=rounds)
    crossings = [n for n in measured_crossings(seconds, lengths=lengths) if n is not None]
    if not crossings:
        return never_overtakes(seconds, lengths)
    found = median_interval([n / width**2 for n in crossings])
    in_all = len(crossings) == rounds
    told = "" if in_all else f"; in {rounds - len(crossings)} rounds not up to N = {lengths[-1]}"
    return Finding(
        verdict="holds" if in_all and 1 / near <= found.low <= found.high <= near else "holds if",
        because=(
            f"D = M = {width}, {heads} heads, one thread, processor time, {rounds} rounds in turns: it is "
            f"quicker from N = {found.median * width**2:.0f} on, {found.median:.2f}·D² (from "
            f"{found.low:.2f} to {found.high:.2f} in single rounds{told})."
        ),
        figures={"ratio": found.median, "low": found.low, "high": found.high}
        | {"rounds": rounds, "crossed": len(crossings)},
        picture=seconds_picture(seconds, lengths=lengths, square=width**2),
        boundary=f"N ≥ {found.median:.2f}·D² ({found.low:.2f} to {found.high:.2f}{told}) at D = {width}",
    )


@claim(
    statement="Softmax attention with its weights in the open holds about N² + N(D + M) numbers.",
    formula="memory = Θ(N² + N(D + M))",
    source="corrects seed 004",
    proof="counted",
    ranges=MEMORY_SIZES,
)
def softmax_memory_is_quadratic_in_length(
    *, length: int = 64, width: int = 16, value_width: int = 16
) -> Finding:
    """Count numbers held with each size raised in turn, and divide by what is said."""
    shares = memory_shares(length=length, width=width, value_width=value_width, with_values=False)
    bounded = all(1 <= share <= 3 for share in shares.values())
    return Finding(
        verdict="holds" if bounded else "fails",
        because=(
            f"Counted at the peak, inputs and output included, over {len(shares)} shapes: "
            f"{min(shares.values()):.2f} to {max(shares.values()):.2f} times N² + N(D + M)."
        ),
        figures={"least": min(shares.values()), "most": max(shares.values())},
        picture=memory_picture(length=length, width=width, value_width=value_width),
        counter_example="" if bounded else f"{shares}",
    )


@claim(
    statement="Softmax attention holds N²·M numbers.",
    formula="memory = Θ(N²M + ND)",
    source="seed 004",
    proof="counted",
    marked_wrong=True,
    ranges=MEMORY_SIZES,
)
def softmax_memory_is_quadratic_times_width(
    *, length: int = 64, width: int = 16, value_width: int = 16
) -> Finding:
    """Count numbers held with each size raised in turn, and divide by what is said."""
    shares = memory_shares(length=length, width=width, value_width=value_width, with_values=True)
    bounded = max(shares.values()) <= 3 * min(shares.values())
    wide = MemoryShape(length, width, 16 * value_width)
    held = numbers_held(wide)
    return Finding(
        verdict="holds" if bounded else "fails",
        because=(
            f"Of N²M + ND, {max(shares.values()):.2f} times is held in one shape and "
            f"{min(shares.values()):.3f} times in another: a wider value costs N numbers more, not N²."
        ),
        figures={"least": min(shares.values()), "most": max(shares.values()), "held": held},
        picture=memory_picture(length=length, width=width, value_width=value_width),
        counter_example=(
            ""
            if bounded
            else f"N = {length}, D = {width}, M = {wide.value_width}: {held:,} numbers are held, "
            f"N²M alone would be {length**2 * wide.value_width:,}."
        ),
    )


def features_of_degree(power: int) -> str:
    """How many monomials up to a degree there are, for a large width."""
    return {1: "D"}.get(power, f"D{'⁰¹²³⁴⁵⁶⁷⁸⁹'[power]}/{math.factorial(power)}")


def never_overtakes(seconds: dict[str, list[list[float]]], lengths: Sequence[int]) -> Finding:
    """What is found where the kernel was the slower at the greatest length in every round."""
    taken = {name: statistics.median(times[-1]) for name, times in seconds.items()}
    return Finding(
        verdict="fails",
        because=f"In no round is the kernel the quicker at N = {lengths[-1]}, the greatest tried.",
        figures={"seconds": taken["polynomial"], "softmax_seconds": taken["dot"]},
        picture=seconds_picture(seconds, lengths=lengths, square=lengths[0] * 2),
        counter_example=f"N = {lengths[-1]}: {taken['polynomial']:.3g} s against {taken['dot']:.3g} s.",
    )
