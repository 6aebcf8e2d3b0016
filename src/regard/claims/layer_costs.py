"""What a layer takes: operations, steps that wait for one another, and how far apart positions are.

n is the length, d the width, k the width of a convolution, r the radius of a window, h the number of heads.
Everything is counted on regard's own layers while they run (`core/counter.py`), then some of it is timed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise, product as all_of

import numpy as np

from regard.claims.engine import claim, counter_of, layer_run, of_all
from regard.claims.experiments.layer_costs import (
    CELL_NAMES,
    against_recurrent_picture,
    attention_products,
    boundary,
    chain,
    convolution_products,
    growth,
    growth_picture,
    heads_picture,
    layers_until_all_meet,
    mechanism_reach,
    plain_products,
    products_of,
    products_picture,
    recurrent_products,
    self_attention_products,
    steps_until_read,
    time_ratio_picture,
    time_ratios,
    two_lines_picture,
    window_picture,
    window_reach,
)
from regard.core.records.claim import Finding, Verdict
from regard.layers.multi_head import MultiHead
from regard.layers.recurrent import Recurrent

BARE = "without projections, against a plain RNN"
SMALL_GRID = ((8, 8), (8, 16), (16, 8), (16, 24), (40, 16))


def proportional(
    count: Callable[..., int],
    term: Callable[..., int],
    sizes: Sequence[tuple[int, ...]],
    *,
    layer: str,
    written: str,
) -> Finding:
    """Whether what was counted is one constant times a term, at all sizes: of n, d and others."""
    constants = [count(*size) / term(*size) for size in sizes]
    least, greatest = min(constants), max(constants)
    holds = math.isclose(least, greatest, rel_tol=1e-12)
    told = f"between {least:.4g} and {greatest:.4g} times {written}"
    return Finding(
        verdict="holds" if holds else "fails",
        because=(
            f"{layer}: the products counted at {len(sizes)} sizes are "
            + (f"exactly {least:g} · {written} at each." if holds else f"{told}.")
        ),
        figures={"least_constant": least, "greatest_constant": greatest},
        picture=products_picture(count, layer),
        counter_example="" if holds else f"They are {told}: there is no one constant.",
    )


@claim(
    statement="Self-attention takes n²·d operations, the projections left out.",
    formula="QKᵀ and AV: 2 · 2n²d",
    source="seed 001; Vaswani et al. 2017, table 1",
    proof="counted",
)
def self_attention_takes_n_squared_d(*, with_projections: bool = False) -> Finding:
    count = self_attention_products if with_projections else attention_products
    return proportional(
        count, lambda n, d: n * n * d, SMALL_GRID, layer="self-attention", written="n²d"
    )


@claim(
    statement="A recurrent layer takes n·d² operations.",
    formula="g gates: n · g · 2(d² + d²) — 16nd² for an LSTM, 12nd² for a GRU, 4nd² for a plain RNN",
    source="seed 001; Vaswani et al. 2017, table 1",
    proof="counted",
)
def recurrent_layer_takes_n_d_squared(*, cell: str = "lstm") -> Finding:
    return proportional(
        lambda n, d: recurrent_products(n, d, cell=cell),
        lambda n, d: n * d * d,
        SMALL_GRID,
        layer=f"a recurrent layer ({cell})",
        written="nd²",
    )


@claim(
    statement="A convolutional layer takes k·n·d² operations.",
    formula="n outputs · d filters · k·d weights · 2",
    source="seed 001; Vaswani et al. 2017, table 1",
    proof="counted",
    ranges={"widest": (3, 31)},
)
def convolution_takes_k_n_d_squared(*, widest: int = 9) -> Finding:
    sizes = [(n, d, k) for n, d in SMALL_GRID for k in range(3, widest + 1, 2)]
    return proportional(
        convolution_products,
        lambda n, d, k: k * n * d * d,
        sizes,
        layer=f"a convolution (k from 3 to {widest})",
        written="k·n·d²",
    )


@claim(
    statement="h heads of width d/h cost what one head of width d costs.",
    formula="products: 8nd² + 4n²d whatever h;  softmax: 5hn² more",
    source="seed 001; Vaswani et al. 2017, sec. 3.2.2",
    proof="counted",
    ranges={"n": (1, 256), "d": (1, 256), "tolerance": (0, 100)},
)
def heads_cost_what_one_costs(*, n: int = 32, d: int = 64, tolerance: float = 0.1) -> Finding:
    heads = [h for h in range(1, d + 1) if d % h == 0]
    counted = [counter_of(layer_run(MultiHead(model_dim=d, num_heads=h), n=n, d=d)) for h in heads]
    excess = [each.operations / counted[0].operations - 1 for each in counted]
    within = [h for h, more in zip(heads, excess, strict=True) if more <= tolerance]
    products = sorted({each.products for each in counted})
    return Finding(
        verdict=heads_verdict(products, all_within=within == heads),
        because=(
            f"At n = {n}, d = {d} there are {' or '.join(map(str, products))} products"
            f"{', whatever h' if len(products) == 1 else ''}; but every head has a softmax of its own, and "
            f"with {d} heads all operations together are {excess[-1]:.0%} more than with one."
        ),
        figures={
            "products": products[0],
            "most_heads_within": within[-1],
            "greatest_excess": excess[-1],
        },
        picture=heads_picture(heads, counted),
        boundary=f"h ≤ {within[-1]} (d/h ≥ {d // within[-1]}), for all operations within {tolerance:.0%}",
        counter_example=f"The products are {products}." if len(products) > 1 else "",
    )


def heads_verdict(products: Sequence[int], *, all_within: bool) -> Verdict:
    """Products must be equal; all operations may be more for some numbers of heads."""
    if len(products) > 1:
        return "fails"
    return "holds" if all_within else "holds if"


@claim(
    statement="Self-attention takes fewer operations than a recurrent layer when n < d.",
    formula="4n²d [+ 8nd²] < 2g·2nd²  ⇔  n < d(g − 2), g gates; without projections n < g·d",
    source="seed 000; Vaswani et al. 2017, sec. 4",
    proof="counted",
    ranges={"d": (1, 64)},
)
def self_attention_is_cheaper_below_d(*, d: int = 16) -> Finding:
    boundaries = {BARE: boundary(attention_products, plain_products, d=d)} | {
        f"with projections, against {cell}": boundary(
            self_attention_products, products_of(cell), d=d
        )
        for cell in CELL_NAMES
    }
    fitting = [rival for rival, first_not in boundaries.items() if first_not >= d]
    told = "; ".join(f"{rival}: {in_widths(first / d)}" for rival, first in boundaries.items())
    return Finding(
        verdict=of_all(fitting, boundaries),
        because=f"Counted at d = {d}, self-attention has fewer products — {told}.",
        figures={rival: first_not / d for rival, first_not in boundaries.items()},
        picture=against_recurrent_picture(d=d),
        boundary=f"it is taken {', or '.join(fitting)}",
        counter_example="" if fitting else told,
    )


def in_widths(boundary: float) -> str:
    """A boundary of n in units of d."""
    if boundary == 0:
        return "at no length"
    return "n < d" if boundary == 1 else f"n < {boundary:g}d"


@claim(
    statement="Self-attention takes less time than a recurrent layer when n < d.",
    formula="t(self-attention) < t(recurrent) for n < d, forward, one sequence",
    source="seed 000; Vaswani et al. 2017, sec. 4",
    proof="measured",
    ranges={"d": (2, 128), "num_heads": (1, 16), "rounds": (1, 30)},
)
def self_attention_is_faster_below_d(
    *, d: int = 64, num_heads: int = 4, rounds: int = 7
) -> Finding:
    lengths = [n for n in (d // 8, d // 4, d // 2, d - 1, 2 * d, 4 * d) if n > 0]
    ratios = {
        cell: time_ratios(cell, lengths, d=d, heads=num_heads, rounds=rounds) for cell in CELL_NAMES
    }
    faster = {
        cell: [n for n in lengths if n < d and found[n].high < 1] for cell, found in ratios.items()
    }
    below = [n for n in lengths if n < d]
    fitting = [cell for cell, found in faster.items() if found == below]
    parts = [
        f"at n = {', '.join(map(str, ns))} against {cell}" for cell, ns in faster.items() if ns
    ]
    told = ", ".join(f"{cell} {found[below[-1]].median:.2f}" for cell, found in ratios.items())
    return Finding(
        verdict=of_all(fitting, ratios) if fitting or not parts else "holds if",
        because=(
            f"Medians of {rounds} rounds in turns at d = {d}, with 95 % intervals in the picture: at "
            f"n = {below[-1]} self-attention takes these parts of a recurrent layer's time: {told}. Unlike "
            "those of a recurrent layer its steps do not wait for one another."
        ),
        figures={
            f"{cell} at {n}": found[n].median for cell, found in ratios.items() for n in lengths
        },
        picture=time_ratio_picture(ratios, d=d),
        boundary="; ".join(parts),
        counter_example="" if parts else f"The parts at n = {below[-1]} are {told}.",
    )


@claim(
    statement="Self-attention takes a constant number of steps in turn, a recurrent layer Θ(n).",
    formula="longest chain of operators: O(1) against Θ(n)",
    source="seed 000; Vaswani et al. 2017, table 1",
    proof="counted",
    ranges={"d": (2, 64), "longest": (16, 512)},
)
def sequential_steps_are_constant(*, d: int = 8, longest: int = 64, cell: str = "lstm") -> Finding:
    lengths = [longest // 8, longest // 4, longest // 2, longest]
    attention = [chain(MultiHead(model_dim=d, num_heads=2), n=n, d=d) for n in lengths]
    recurrent = [chain(Recurrent(model_dim=d, hidden_dim=d, cell=cell), n=n, d=d) for n in lengths]
    per_token = np.diff(recurrent) / np.diff(lengths)
    holds = len(set(attention)) == 1 and len(set(per_token)) == 1 and per_token[0] >= 1
    return Finding(
        verdict="holds" if holds else "fails",
        because=(
            f"For n from {lengths[0]} to {longest} the longest chain of operators, each waiting for "
            "the one "
            f"before, is {attention[0]} to {attention[-1]} in self-attention, {recurrent[0]} to "
            f"{recurrent[-1]} in a recurrent layer ({cell}): {per_token[0]:g} more for every token."
        ),
        figures={
            "attention": attention[-1],
            "recurrent": recurrent[-1],
            "per_token": float(per_token[0]),
        },
        picture=two_lines_picture(
            "Longest chain of operators", "operators in turn", lengths, attention, recurrent
        ),
        counter_example="" if holds else f"Chains: {attention} and {recurrent}.",
    )


@claim(
    statement="Any two positions are one step apart in self-attention, up to n in a recurrent layer.",
    formula="longest path: O(1) against Θ(n)",
    source="seed 000; Vaswani et al. 2017, table 1",
    proof="counted",
    ranges={"longest": (8, 128)},
)
def path_length_is_constant(*, mechanism: str = "scaled_dot", longest: int = 32) -> Finding:
    lengths = [longest // 4, longest // 2, longest]
    attention = [layers_until_all_meet(mechanism_reach(mechanism, n=n)) for n in lengths]
    recurrent = [steps_until_read(Recurrent(model_dim=4, hidden_dim=4), n=n) for n in lengths]
    holds = set(attention) == {1} and recurrent == lengths
    return Finding(
        verdict="holds" if holds else "fails",
        because=(
            f"For n = {lengths}: with '{mechanism}' all positions meet after {attention} layers, by the "
            "weights that are not 0; the shortest way from the first token to the last output of a "
            f"recurrent layer leads through {recurrent} of its steps, by the graph of its gradients."
        ),
        figures={"attention": attention[-1] or "never", "recurrent": recurrent[-1]},
        picture=two_lines_picture(
            "Longest path between positions", "layers or steps", lengths, attention, recurrent
        ),
        counter_example="" if holds else f"Paths: {attention} and {recurrent}.",
    )


@claim(
    statement="Restricted to a window of radius r, self-attention has a longest path of ⌈(n−1)/r⌉ layers.",
    formula="path = ⌈(n − 1)/r⌉",
    source="seed 000; Vaswani et al. 2017, sec. 4",
    proof="counted",
    ranges={"longest": (2, 64)},
)
def window_path_is_n_over_r(*, longest: int = 20) -> Finding:
    sizes = [(n, r) for n, r in all_of(range(2, longest + 1, 3), (1, 2, 3, 5, 8))]
    found = {(n, r): layers_until_all_meet(window_reach(n, r)) for n, r in sizes}
    wrong = path_faults(found, lambda n, r: math.ceil((n - 1) / r))
    return Finding(
        verdict="fails" if wrong else "holds",
        because=(
            f"By the weights that are not 0: in {len(found) - len(wrong)} of {len(found)} pairs of n and r "
            "all positions have met after exactly ⌈(n − 1)/r⌉ layers."
        ),
        figures={"pairs": len(found), "wrong": len(wrong)},
        picture=window_picture(found),
        counter_example=wrong[0] if wrong else "",
    )


def path_faults(
    found: Mapping[tuple[int, int], int | None], formula: Callable[[int, int], int]
) -> list[str]:
    """Where a formula of n and r is not what was found."""
    return [
        f"n = {n}, r = {r}: {layers} layers, not {max(1, formula(n, r))}."
        for (n, r), layers in found.items()
        if layers != max(1, formula(n, r))
    ]


@claim(
    statement="The cost of softmax attention is quadratic in the length.",
    formula="operations(n) = a·n² + b·n + c, a > 0",
    source="seed 002; Vaswani et al. 2017, table 1",
    proof="counted",
    ranges={"d": (1, 128)},
)
def softmax_attention_is_quadratic(*, mechanism: str = "scaled_dot", d: int = 16) -> Finding:
    lengths, counted = growth(mechanism, d=d)
    second = np.diff(counted, n=2)
    quadratic = bool((second > 0).all() and len(set(second)) == 1)
    doubled = counted[-1] / counted[(len(counted) - 1) // 2]
    told = (
        f"from n = {lengths[(len(lengths) - 1) // 2]} to {lengths[-1]} they grow {doubled:.2f}-fold"
    )
    return Finding(
        verdict="holds" if quadratic else "fails",
        because=(
            f"The operations of '{mechanism}', counted at {len(lengths)} lengths at equal steps, have "
            f"{'a constant positive' if quadratic else 'no constant positive'} second difference, as a "
            f"quadratic has; {told}."
        ),
        figures={"second_difference": int(second[0]), "doubling": float(doubled)},
        picture=growth_picture(lengths, counted, mechanism),
        counter_example="" if quadratic else f"Second differences: {[int(s) for s in second]}.",
    )


@claim(
    statement="Softmax attention gets exponentially slower with the length.",
    formula="operations(n + s) / operations(n) constant above 1",
    source="seed 002",
    proof="counted",
    marked_wrong=True,
    ranges={"d": (1, 128)},
)
def softmax_attention_is_exponential(*, mechanism: str = "scaled_dot", d: int = 16) -> Finding:
    lengths, counted = growth(mechanism, d=d)
    factors = [after / before for before, after in pairwise(counted)]
    exponential = is_exponential(factors)
    would_be = counted[0] * factors[0] ** (len(counted) - 1)
    return Finding(
        verdict="holds" if exponential else "fails",
        because=(
            f"Each {lengths[0]} tokens more multiply the operations by a factor that goes from "
            f"{factors[0]:.2f} to {factors[-1]:.2f}; of an exponential it would stay the same."
        ),
        figures={"first_factor": factors[0], "last_factor": factors[-1], "operations": counted[-1]},
        picture=growth_picture(lengths, counted, mechanism, exponential=factors[0]),
        counter_example=""
        if exponential
        else (
            f"n = {lengths[-1]}: {counted[-1]:,} operations; an exponential through the first two lengths "
            f"would have {would_be:,.0f}."
        ),
    )


def is_exponential(factors: Sequence[float], *, tolerance: float = 0.01) -> bool:
    """Whether equal steps multiply by one factor above 1."""
    return min(factors) > 1 + tolerance and max(factors) <= (1 + tolerance) * min(factors)
