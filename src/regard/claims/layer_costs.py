"""Costs of layers: FLOPs, sequential operations and maximum path length (Vaswani et al. 2017, table 1).

n is the length, d the model dimension, k the kernel size of a convolution, r the radius of a window, h the
number of heads. Costs are counted on regard's own layers (`core/counter.py`); some are timed as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise, product as all_of

import numpy as np

from regard.claims.engine import (
    claim,
    count_ops,
    curve_figure,
    layer_call,
    line,
    matrix_figure,
    verdict_over,
)
from regard.claims.experiments.layer_costs import (
    CELL_NAMES,
    Count,
    attention_flops,
    convolution_flops,
    crossing_length,
    growth,
    growth_figure,
    layers_until_connected,
    mechanism_connectivity,
    plain_flops,
    recurrent_counter,
    recurrent_flops,
    recurrent_path_length,
    self_attention_flops,
    sequential_depth,
    time_ratios,
    two_lines_figure,
    window_connectivity,
)
from regard.core.records.claim import Finding, Verdict
from regard.layers.multi_head import MultiHead
from regard.layers.recurrent import Recurrent

WITHOUT_PROJECTIONS = "without projections, against a plain RNN"
SMALL_GRID = ((8, 8), (8, 16), (16, 8), (16, 24), (40, 16))


def proportional(
    count: Callable[..., int],
    term: Callable[..., int],
    sizes: Sequence[tuple[int, ...]],
    *,
    layer: str,
    formula: str,
) -> Finding:
    """Whether the counted FLOPs are a constant times a term at all sizes."""
    constants = [count(*size) / term(*size) for size in sizes]
    least, greatest = min(constants), max(constants)
    holds = math.isclose(least, greatest, rel_tol=1e-12)
    summary = f"between {least:.4g} and {greatest:.4g} times {formula}"
    lengths = (8, 16, 32, 64)
    return Finding(
        verdict="holds" if holds else "fails",
        reason=(
            f"{layer}: matmul FLOPs at {len(sizes)} sizes are "
            + (f"exactly {least:g} · {formula}." if holds else f"{summary}.")
        ),
        values={"min_constant": least, "max_constant": greatest},
        figure=curve_figure(
            f"Matmul FLOPs of {layer}",
            ("length n", "matmul FLOPs"),
            *(line(f"d = {d}", lengths, [count(n, d) for n in lengths]) for d in (8, 16, 32)),
            log="xy",
        ),
        counter_example=f"Matmul FLOPs are {summary}: the ratio is not constant.",
    )


@claim(
    statement="Self-attention needs Θ(n²·d) operations, without projections.",
    formula="QKᵀ and AV: 2 · 2n²d",
    source="Vaswani et al. 2017, table 1",
    proof="counted",
)
def self_attention_takes_n_squared_d(*, with_projections: bool = False) -> Finding:
    count = self_attention_flops if with_projections else attention_flops
    return proportional(
        count, lambda n, d: n * n * d, SMALL_GRID, layer="self-attention", formula="n²d"
    )


@claim(
    statement="A recurrent layer needs Θ(n·d²) operations.",
    formula="g gates: n · g · 2(d² + d²) — 16nd² for an LSTM, 12nd² for a GRU, 4nd² for a plain RNN",
    source="Vaswani et al. 2017, table 1",
    proof="counted",
)
def recurrent_layer_takes_n_d_squared(*, cell: str = "lstm") -> Finding:
    return proportional(
        lambda n, d: recurrent_flops(n, d, cell=cell),
        lambda n, d: n * d * d,
        SMALL_GRID,
        layer=f"a recurrent layer ({cell})",
        formula="nd²",
    )


@claim(
    statement="A convolutional layer needs Θ(k·n·d²) operations.",
    formula="n outputs · d filters · k·d weights · 2",
    source="Vaswani et al. 2017, table 1",
    proof="counted",
    ranges={"widest": (3, 31)},
)
def convolution_takes_k_n_d_squared(*, widest: int = 9) -> Finding:
    sizes = [(n, d, k) for n, d in SMALL_GRID for k in range(3, widest + 1, 2)]
    return proportional(
        convolution_flops,
        lambda n, d, k: k * n * d * d,
        sizes,
        layer=f"a convolution (k from 3 to {widest})",
        formula="k·n·d²",
    )


@claim(
    statement="h heads of size d/h cost the same as one head of size d.",
    formula="matmul FLOPs: 8nd² + 4n²d for every h;  softmax: 5hn² more",
    source="Vaswani et al. 2017, sec. 3.2.2",
    proof="counted",
    ranges={"n": (1, 256), "d": (1, 256), "tolerance": (0, 100)},
)
def multi_head_costs_the_same_as_one_head(
    *, n: int = 32, d: int = 64, tolerance: float = 0.1
) -> Finding:
    heads = [h for h in range(1, d + 1) if d % h == 0]
    counted = [count_ops(layer_call(MultiHead(model_dim=d, num_heads=h), n=n, d=d)) for h in heads]
    excess = [each.flops / counted[0].flops - 1 for each in counted]
    within = [h for h, more in zip(heads, excess, strict=True) if more <= tolerance]
    matmul_flops = sorted({each.matmul_flops for each in counted})
    return Finding(
        verdict=heads_verdict(matmul_flops, all_within=within == heads),
        reason=f"At n = {n}, d = {d} there are {' or '.join(map(str, matmul_flops))} matmul FLOPs"
        f"{' for every h' if len(matmul_flops) == 1 else ''}; but every head has its own softmax: with "
        f"{d} heads total FLOPs are {excess[-1]:.0%} higher than with one.",
        values={
            "matmul_flops": matmul_flops[0],
            "max_heads_within": within[-1],
            "max_excess": excess[-1],
        },
        figure=curve_figure(
            "Self-attention with h heads of size d/h",
            ("heads h", "FLOPs"),
            line("matmul FLOPs", heads, [each.matmul_flops for each in counted]),
            line("total FLOPs", heads, [each.flops for each in counted]),
            log="x",
        ),
        condition=f"h ≤ {within[-1]} (d/h ≥ {d // within[-1]}), for total FLOPs within {tolerance:.0%}",
        counter_example=f"Matmul FLOPs are {matmul_flops}.",
    )


def heads_verdict(matmul_flops: Sequence[int], *, all_within: bool) -> Verdict:
    """Matmul FLOPs must be equal; total FLOPs may be higher for some numbers of heads."""
    if len(matmul_flops) > 1:
        return "fails"
    return "holds" if all_within else "holds if"


@claim(
    statement="Self-attention needs fewer operations than a recurrent layer if n < d.",
    formula="4n²d [+ 8nd²] < 2g·2nd²  ⇔  n < d(g − 2), g gates; without projections n < g·d",
    source="Vaswani et al. 2017, sec. 4",
    proof="counted",
    ranges={"d": (1, 64)},
)
def self_attention_is_cheaper_below_d(*, d: int = 16) -> Finding:
    lengths = {WITHOUT_PROJECTIONS: crossing_length(attention_flops, plain_flops, d=d)} | {
        f"with projections, against {cell}": crossing_length(
            self_attention_flops, recurrent_counter(cell), d=d
        )
        for cell in CELL_NAMES
    }
    satisfied = [case for case, length in lengths.items() if length >= d]
    summary = "; ".join(f"{case}: {condition_text(length / d)}" for case, length in lengths.items())
    step = max(1, d // 4)
    grid = range(step, 3 * d + 1, step)
    kinds: dict[str, Count] = {
        "self-attention": self_attention_flops,
        "without projections": attention_flops,
        **{cell: recurrent_counter(cell) for cell in CELL_NAMES},
    }
    return Finding(
        verdict=verdict_over(satisfied, lengths),
        reason=f"Counted at d = {d}, self-attention has fewer matmul FLOPs for — {summary}.",
        values={case: length / d for case, length in lengths.items()},
        figure=curve_figure(
            f"Matmul FLOPs at d = {d}",
            ("length n", "matmul FLOPs"),
            *(
                # Recurrent layers are linear in n: two points are enough.
                line(kind, ends, [count(n, d) for n in ends])
                for kind, count in kinds.items()
                for ends in ((grid[0], grid[-1]) if kind in CELL_NAMES else grid,)
            ),
            marks=((d, "n = d"), (2 * d, "n = 2d")),
        ),
        condition=f"compared {', or '.join(satisfied)}",
        counter_example=summary,
    )


def condition_text(ratio: float) -> str:
    """The condition n < ratio · d as text."""
    if ratio == 0:
        return "no length"
    return "n < d" if ratio == 1 else f"n < {ratio:g}d"


@claim(
    statement="Self-attention is faster than a recurrent layer if n < d.",
    formula="t(self-attention) < t(recurrent) for n < d, forward, one sequence",
    source="Vaswani et al. 2017, sec. 4",
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
    satisfied = [cell for cell, found in faster.items() if found == below]
    parts = [
        f"at n = {', '.join(map(str, ns))} against {cell}" for cell, ns in faster.items() if ns
    ]
    summary = ", ".join(f"{cell} {found[below[-1]].median:.2f}" for cell, found in ratios.items())
    return Finding(
        verdict=verdict_over(satisfied, ratios) if satisfied or not parts else "holds if",
        reason=(
            f"Time of self-attention divided by that of a recurrent layer, median of {rounds} interleaved "
            f"rounds, at d = {d} and n = {below[-1]}: {summary}; the figure has 95 % intervals. Unlike a "
            "recurrent layer, self-attention has no sequential dependence."
        ),
        values={
            f"{cell} at {n}": found[n].median for cell, found in ratios.items() for n in lengths
        },
        figure=curve_figure(
            "Time of self-attention relative to a recurrent layer",
            ("length n", "time ratio"),
            *(
                line(
                    cell,
                    found,
                    [each.median for each in found.values()],
                    low=[each.low for each in found.values()],
                    high=[each.high for each in found.values()],
                )
                for cell, found in ratios.items()
            ),
            log="xy",
            marks=((d, "n = d"),),
        ),
        condition="; ".join(parts),
        counter_example=f"The time ratios at n = {below[-1]} are {summary}.",
    )


@claim(
    statement="Self-attention needs O(1) sequential operations, a recurrent layer Θ(n).",
    formula="longest chain of operators: O(1) against Θ(n)",
    source="Vaswani et al. 2017, table 1",
    proof="counted",
    ranges={"d": (2, 64), "longest": (16, 512)},
)
def sequential_steps_are_constant(*, d: int = 8, longest: int = 64, cell: str = "lstm") -> Finding:
    lengths = [longest // 8, longest // 4, longest // 2, longest]
    attention = [sequential_depth(MultiHead(model_dim=d, num_heads=2), n=n, d=d) for n in lengths]
    recurrent = [
        sequential_depth(Recurrent(model_dim=d, hidden_dim=d, cell=cell), n=n, d=d) for n in lengths
    ]
    per_token = np.diff(recurrent) / np.diff(lengths)
    holds = len(set(attention)) == 1 and len(set(per_token)) == 1 and per_token[0] >= 1
    return Finding(
        verdict="holds" if holds else "fails",
        reason=f"For n from {lengths[0]} to {longest} the longest chain of dependent operators grows from "
        f"{attention[0]} to {attention[-1]} in self-attention and from {recurrent[0]} to "
        f"{recurrent[-1]} in a recurrent layer ({cell}): {per_token[0]:g} per token.",
        values={
            "attention": attention[-1],
            "recurrent": recurrent[-1],
            "per_token": float(per_token[0]),
        },
        figure=two_lines_figure(
            "Longest chain of dependent operators", "operators", lengths, attention, recurrent
        ),
        counter_example=f"Chains: {attention} and {recurrent}.",
    )


@claim(
    statement="The maximum path length is O(1) in self-attention and Θ(n) in a recurrent layer.",
    formula="maximum path length: O(1) against Θ(n)",
    source="Vaswani et al. 2017, table 1",
    proof="counted",
    ranges={"longest": (8, 128)},
)
def path_length_is_constant(*, mechanism: str = "scaled_dot", longest: int = 32) -> Finding:
    lengths = [longest // 4, longest // 2, longest]
    attention = [layers_until_connected(mechanism_connectivity(mechanism, n=n)) for n in lengths]
    recurrent = [recurrent_path_length(Recurrent(model_dim=4, hidden_dim=4), n=n) for n in lengths]
    holds = set(attention) == {1} and recurrent == lengths
    return Finding(
        verdict="holds" if holds else "fails",
        reason=(
            f"For n = {lengths}: with '{mechanism}' all positions are connected after {attention} layers, "
            "by non-zero weights; the shortest path from the first token to the last output of a "
            f"recurrent layer has {recurrent} steps in its autograd graph."
        ),
        values={"attention": attention[-1] or "never", "recurrent": recurrent[-1]},
        figure=two_lines_figure(
            "Maximum path length", "layers or steps", lengths, attention, recurrent
        ),
        counter_example=f"Path lengths: {attention} and {recurrent}.",
    )


@claim(
    statement="With a window of radius r, the maximum path length of self-attention is ⌈(n−1)/r⌉ layers.",
    formula="path = ⌈(n − 1)/r⌉",
    source="Vaswani et al. 2017, sec. 4",
    proof="counted",
    ranges={"longest": (2, 64)},
)
def window_path_is_n_over_r(*, longest: int = 20) -> Finding:
    sizes = [(n, r) for n, r in all_of(range(2, longest + 1, 3), (1, 2, 3, 5, 8))]
    found = {(n, r): layers_until_connected(window_connectivity(n, r)) for n, r in sizes}
    wrong = path_mismatches(found, lambda n, r: math.ceil((n - 1) / r))
    lengths, radii = sorted({n for n, _ in found}), sorted({r for _, r in found})
    return Finding(
        verdict="fails" if wrong else "holds",
        reason=(
            f"For {len(found) - len(wrong)} of {len(found)} pairs of n and r all positions are connected "
            "by non-zero weights after exactly ⌈(n − 1)/r⌉ layers."
        ),
        values={"pairs": len(found), "wrong": len(wrong)},
        figure=matrix_figure(
            "Layers until all positions are connected",
            (tuple(float(found[n, r] or 0) for n in lengths) for r in radii),
            rows=(f"r = {r}" for r in radii),
            columns=(f"n = {n}" for n in lengths),
        ),
        counter_example="; ".join(wrong[:1]),
    )


def path_mismatches(
    found: Mapping[tuple[int, int], int | None], formula: Callable[[int, int], int]
) -> list[str]:
    """Pairs of n and r for which the formula is wrong."""
    return [
        f"n = {n}, r = {r}: {layers} layers, expected {max(1, formula(n, r))}."
        for (n, r), layers in found.items()
        if layers != max(1, formula(n, r))
    ]


@claim(
    statement="The cost of softmax attention is quadratic in the length.",
    formula="FLOPs(n) = a·n² + b·n + c, a > 0",
    source="Vaswani et al. 2017, table 1",
    proof="counted",
    ranges={"d": (1, 128)},
)
def softmax_attention_is_quadratic(*, mechanism: str = "scaled_dot", d: int = 16) -> Finding:
    lengths, counted = growth(mechanism, d=d)
    second = np.diff(counted, n=2)
    quadratic = bool((second > 0).all() and len(set(second)) == 1)
    doubled = counted[-1] / counted[(len(counted) - 1) // 2]
    summary = f"from n = {lengths[(len(lengths) - 1) // 2]} to {lengths[-1]} FLOPs grow {doubled:.2f}-fold"
    return Finding(
        verdict="holds" if quadratic else "fails",
        reason=f"The FLOPs of '{mechanism}' at {len(lengths)} equally spaced lengths have "
        f"{'a' if quadratic else 'no'} constant positive second difference, as a quadratic has; "
        f"{summary}.",
        values={"second_difference": int(second[0]), "doubling": float(doubled)},
        figure=growth_figure(lengths, counted, mechanism),
        counter_example=f"Second differences: {[int(s) for s in second]}.",
    )


@claim(
    statement="The cost of softmax attention is exponential in the length.",
    formula="FLOPs(n + s) / FLOPs(n) constant above 1",
    source="course notes: attention complexity",
    proof="counted",
    known_false=True,
    ranges={"d": (1, 128)},
)
def softmax_attention_is_exponential(*, mechanism: str = "scaled_dot", d: int = 16) -> Finding:
    lengths, counted = growth(mechanism, d=d)
    factors = [after / before for before, after in pairwise(counted)]
    # All factors equal and above 1, up to 1 %.
    exponential = min(factors) > 1.01 and max(factors) <= 1.01 * min(factors)
    extrapolated = counted[0] * factors[0] ** (len(counted) - 1)
    return Finding(
        verdict="holds" if exponential else "fails",
        reason=(
            f"{lengths[0]} more tokens multiply the FLOPs by a factor that falls from {factors[0]:.2f} to "
            f"{factors[-1]:.2f}; for an exponential it would be constant."
        ),
        values={"first_factor": factors[0], "last_factor": factors[-1], "flops": counted[-1]},
        figure=growth_figure(lengths, counted, mechanism, exponential=factors[0]),
        counter_example=(
            f"n = {lengths[-1]}: {counted[-1]:,} FLOPs; an exponential through the first two lengths "
            f"would have {extrapolated:,.0f}."
        ),
    )
