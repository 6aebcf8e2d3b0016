"""What a layer takes: operations, steps that wait for one another, and how far apart positions are.

n is the length, d the width, k the width of a convolution, r the radius of a window, h the number of heads.
Everything is counted on regard's own layers while they run (`core/counter.py`), then some of it is timed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from itertools import product as all_of
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.claims.claim import claim
from regard.claims.counted_runs import counter_of, layer_run, mechanism_run, operations
from regard.claims.drawn_lines import line
from regard.claims.interleaved import MedianInterval, interleaved_seconds, quotient
from regard.core.claim_record import CurvePicture, Finding, MatrixPicture, Verdict
from regard.core.counter import Counter
from regard.core.errors import RegardError
from regard.layers.convolution import Convolution
from regard.layers.multi_head import MultiHead
from regard.layers.recurrent import Recurrent
from regard.mechanisms import build_mechanism
from regard.mechanisms.window import WindowAttention

CELL_NAMES = ("lstm", "gru", "tanh")
BARE = "without projections, against a plain RNN"
SMALL_GRID = ((8, 8), (8, 16), (16, 8), (16, 24), (40, 16))

Count = Callable[[int, int], int]


def attention_products(n: int, d: int) -> int:
    """Of scaled dot attention alone."""
    return counter_of(mechanism_run("scaled_dot", n=n, d=d)).products


def self_attention_products(n: int, d: int) -> int:
    """Of the layer: the four projections too."""
    return counter_of(layer_run(MultiHead(model_dim=d, num_heads=1), n=n, d=d)).products


def recurrent_products(n: int, d: int, *, cell: str = "lstm") -> int:
    """Of a recurrent layer as wide as its input."""
    layer = Recurrent(model_dim=d, hidden_dim=d, cell=cell)
    return counter_of(layer_run(layer, n=n, d=d)).products


def convolution_products(n: int, d: int, k: int = 3) -> int:
    """Of a convolution as wide as its input."""
    return counter_of(layer_run(Convolution(model_dim=d, width=k), n=n, d=d)).products


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
        picture=_products_picture(count, layer),
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
)
def heads_cost_what_one_costs(*, n: int = 32, d: int = 64, tolerance: float = 0.1) -> Finding:
    heads = [h for h in range(1, d + 1) if d % h == 0]
    counted = [counter_of(layer_run(MultiHead(model_dim=d, num_heads=h), n=n, d=d)) for h in heads]
    excess = [operations(each) / operations(counted[0]) - 1 for each in counted]
    within = [h for h, more in zip(heads, excess, strict=True) if more <= tolerance]
    products = sorted({each.products for each in counted})
    return Finding(
        verdict=heads_verdict(products, all_within=within == heads),
        because=(
            f"At n = {n}, d = {d} there are {', '.join(map(str, products))} products, whatever h; but "
            f"every head has a softmax of its own, and with {d} heads all operations together are "
            f"{excess[-1]:.0%} more than with one."
        ),
        figures={
            "products": products[0],
            "most_heads_within": within[-1],
            "greatest_excess": excess[-1],
        },
        picture=_heads_picture(heads, counted),
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
        picture=_against_recurrent_picture(d=d),
        boundary=f"it is taken {', or '.join(fitting)}",
        counter_example="" if fitting else told,
    )


def in_widths(boundary: float) -> str:
    """A boundary of n in units of d."""
    if boundary == 0:
        return "at no length"
    return "n < d" if boundary == 1 else f"n < {boundary:g}d"


def plain_products(n: int, d: int) -> int:
    """Of a plain RNN: its nd² has the constant that the n²d of attention has."""
    return recurrent_products(n, d, cell="tanh")


def products_of(cell: str) -> Count:
    """The count of a recurrent layer with this cell."""
    return lambda n, d: recurrent_products(n, d, cell=cell)


def boundary(first: Count, second: Count, *, d: int) -> int:
    """The least n at which the first no longer has fewer products; 0 if it never has. Found by halving."""
    low, high = 0, 8 * d
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if first(middle, d) < second(middle, d) else (low, middle)
    return high if low else 0


def of_all(fitting: Sequence[str], rivals: Mapping[str, object]) -> Verdict:
    """Of all rivals, of some, or of none."""
    if len(fitting) == len(rivals):
        return "holds"
    return "holds if" if fitting else "fails"


@claim(
    statement="Self-attention takes less time than a recurrent layer when n < d.",
    formula="t(self-attention) < t(recurrent) for n < d, forward, one sequence",
    source="seed 000; Vaswani et al. 2017, sec. 4",
    proof="measured",
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
            f"n = {below[-1]} self-attention takes these parts of a recurrent layer's time: {told}. Its "
            "steps do not wait for one another, so the time is less even where the operations are more."
        ),
        figures={
            f"{cell} at {n}": found[n].median for cell, found in ratios.items() for n in lengths
        },
        picture=_time_ratio_picture(ratios, d=d),
        boundary="; ".join(parts),
        counter_example="" if parts else f"The parts at n = {below[-1]} are {told}.",
    )


def time_ratios(
    cell: str, lengths: Sequence[int], *, d: int, heads: int, rounds: int
) -> dict[int, MedianInterval]:
    """Length → the time of self-attention as a part of the recurrent layer's."""
    torch.manual_seed(0)
    attention = MultiHead(model_dim=d, num_heads=heads).eval()
    recurrent = Recurrent(model_dim=d, hidden_dim=d, cell=cell).eval()
    found = {}
    for n in lengths:
        runs = {
            "attention": layer_run(attention, n=n, d=d),
            "recurrent": layer_run(recurrent, n=n, d=d),
        }
        with torch.no_grad():
            times = interleaved_seconds(runs, rounds=rounds)
        found[n] = quotient(times["attention"], times["recurrent"])
    return found


@claim(
    statement="Self-attention takes a constant number of steps in turn, a recurrent layer Θ(n).",
    formula="longest chain of operators: O(1) against Θ(n)",
    source="seed 000; Vaswani et al. 2017, table 1",
    proof="counted",
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
        picture=_two_lines(
            "Longest chain of operators", "operators in turn", lengths, attention, recurrent
        ),
        counter_example="" if holds else f"Chains: {attention} and {recurrent}.",
    )


def chain(layer: nn.Module, *, n: int, d: int) -> int:
    """The longest chain of operators each of which needed the one before."""
    return counter_of(layer_run(layer, n=n, d=d)).depth


@claim(
    statement="Any two positions are one step apart in self-attention, up to n in a recurrent layer.",
    formula="longest path: O(1) against Θ(n)",
    source="seed 000; Vaswani et al. 2017, table 1",
    proof="counted",
)
def path_length_is_constant(*, mechanism: str = "scaled_dot", longest: int = 32) -> Finding:
    lengths = [longest // 4, longest // 2, longest]
    attention = [layers_until_all_meet(mechanism_reach(mechanism, n=n)) for n in lengths]
    recurrent = [steps_until_read(n) for n in lengths]
    holds = set(attention) == {1} and recurrent == lengths
    return Finding(
        verdict="holds" if holds else "fails",
        because=(
            f"For n = {lengths}: with '{mechanism}' all positions meet after {attention} layers, by the "
            f"weights that are not 0; a recurrent layer has taken {recurrent} steps when the first "
            "token reaches the last output, by gradients."
        ),
        figures={"attention": attention[-1], "recurrent": recurrent[-1]},
        picture=_two_lines(
            "Longest path between positions", "layers or steps", lengths, attention, recurrent
        ),
        counter_example="" if holds else f"Paths: {attention} and {recurrent}.",
    )


def mechanism_reach(mechanism: str, *, n: int, d: int = 4) -> np.ndarray:
    """Which position reads which in one layer of a mechanism."""
    built: Any = build_mechanism(mechanism, query_dim=d, key_dim=d, num_heads=1, max_length=n)
    drawn = torch.Generator().manual_seed(0)
    query, key = (torch.randn(1, 1, n, d, generator=drawn, dtype=torch.float64) for _ in range(2))
    with torch.no_grad():
        weights: Tensor = built.double().weights(query, key)
    return np.asarray((weights[0, 0] != 0).numpy())


def layers_until_all_meet(reach: np.ndarray) -> int:
    """How many layers of this reach are needed until every position has reached every other."""
    met, layers = reach, 1
    while not met.all():
        further = (met.astype(int) @ reach.astype(int)) > 0
        if (further == met).all():
            raise RegardError(
                "However many layers, some positions never meet. Choose a wider reach."
            )
        met, layers = further, layers + 1
    return layers


def steps_until_read(n: int, *, d: int = 4) -> int:
    """Steps of a recurrent layer from the first token until an output that is n tokens on depends on it."""
    torch.manual_seed(0)
    layer = Recurrent(model_dim=d, hidden_dim=d).double()
    tokens = torch.randn(1, n, d, dtype=torch.float64, requires_grad=True)
    state, steps = layer.start(1), 0
    for place in range(n):
        output, state = layer.step(state, tokens[:, place : place + 1])
        steps += 1
    (gradient,) = torch.autograd.grad(output.sum(), tokens)
    return steps if bool((gradient[0, 0] != 0).any()) else 0


@claim(
    statement="Restricted to a window of radius r, self-attention has a longest path of ⌈(n−1)/r⌉ layers.",
    formula="path = ⌈(n − 1)/r⌉",
    source="seed 000; Vaswani et al. 2017, sec. 4",
    proof="counted",
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
        figures={"pairs": len(found), "wrong": len(wrong), "path_at_longest": found[sizes[-1]]},
        picture=_window_picture(found),
        counter_example=wrong[0] if wrong else "",
    )


def window_reach(n: int, r: int) -> np.ndarray:
    """Which position reads which in one layer of window attention."""
    drawn = torch.Generator().manual_seed(0)
    query, key = (torch.randn(1, 1, n, 4, generator=drawn, dtype=torch.float64) for _ in range(2))
    weights = WindowAttention(radius=r).weights(query, key)
    return np.asarray((weights[0, 0] != 0).numpy())


def path_faults(
    found: Mapping[tuple[int, int], int], formula: Callable[[int, int], int]
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
        picture=_growth_picture(lengths, counted, mechanism),
        counter_example="" if quadratic else f"Second differences: {[int(s) for s in second]}.",
    )


@claim(
    statement="Softmax attention gets exponentially slower with the length.",
    formula="operations(n + s) / operations(n) constant above 1",
    source="seed 002",
    proof="counted",
    marked_wrong=True,
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
        picture=_growth_picture(lengths, counted, mechanism, exponential=factors[0]),
        counter_example=""
        if exponential
        else (
            f"n = {lengths[-1]}: {counted[-1]:,} operations; an exponential through the first two lengths "
            f"would have {would_be:,.0f}."
        ),
    )


def growth(mechanism: str, *, d: int) -> tuple[list[int], list[int]]:
    """Lengths at equal steps, and all operations of a mechanism there."""
    lengths = [32 * place for place in range(1, 11)]
    counters = [counter_of(mechanism_run(mechanism, n=n, d=d)) for n in lengths]
    return lengths, [operations(counter) for counter in counters]


def is_exponential(factors: Sequence[float], *, tolerance: float = 0.01) -> bool:
    """Whether equal steps multiply by one factor above 1."""
    return min(factors) > 1 + tolerance and max(factors) <= (1 + tolerance) * min(factors)


def _products_picture(count: Callable[..., int], layer: str) -> CurvePicture:
    lengths = (8, 16, 32, 64)
    return CurvePicture(
        title=f"Products of {layer}",
        x_label="length n",
        y_label="products",
        x_scale="log",
        y_scale="log",
        curves=tuple(
            line(label=f"d = {d}", x=lengths, y=tuple(float(count(n, d)) for n in lengths))
            for d in (8, 16, 32)
        ),
    )


def _heads_picture(heads: Sequence[int], counted: Sequence[Counter]) -> CurvePicture:
    whole = [float(operations(counter)) for counter in counted]
    products = [float(c.products) for c in counted]
    return CurvePicture(
        title="Self-attention with h heads of width d/h",
        x_label="heads h",
        y_label="operations",
        x_scale="log",
        curves=(
            line(label="products", x=heads, y=products),
            line(label="all operations", x=heads, y=whole),
        ),
    )


def _against_recurrent_picture(*, d: int) -> CurvePicture:
    lengths = tuple(range(d // 4, 3 * d + 1, d // 4)) if d >= 4 else tuple(range(1, 3 * d + 1))
    kinds: dict[str, Count] = {
        "self-attention": self_attention_products,
        "its n²d alone": attention_products,
        **{cell: products_of(cell) for cell in CELL_NAMES},
    }
    return CurvePicture(
        title=f"Products at width d = {d}",
        x_label="length n",
        y_label="products",
        curves=tuple(
            # Recurrent layers are straight lines: two points draw them.
            line(label=kind, x=ends, y=tuple(float(count(n, d)) for n in ends))
            for kind, count in kinds.items()
            for ends in ((lengths[0], lengths[-1]) if kind in CELL_NAMES else lengths,)
        ),
        marks=((float(d), "n = d"), (float(2 * d), "n = 2d")),
    )


def _time_ratio_picture(
    ratios: Mapping[str, Mapping[int, MedianInterval]], *, d: int
) -> CurvePicture:
    return CurvePicture(
        title="Time of self-attention as a part of a recurrent layer's",
        x_label="length n",
        y_label="part of the time",
        x_scale="log",
        y_scale="log",
        curves=tuple(
            line(
                label=cell,
                x=found,
                y=tuple(each.median for each in found.values()),
                low=tuple(each.low for each in found.values()),
                high=tuple(each.high for each in found.values()),
            )
            for cell, found in ratios.items()
        ),
        marks=((float(d), "n = d"),),
    )


def _two_lines(
    title: str,
    y_label: str,
    lengths: Sequence[int],
    attention: Sequence[int],
    recurrent: Sequence[int],
) -> CurvePicture:
    return CurvePicture(
        title=title,
        x_label="length n",
        y_label=y_label,
        curves=(
            line(label="self-attention", x=lengths, y=attention),
            line(label="recurrent", x=lengths, y=recurrent),
        ),
    )


def _window_picture(found: Mapping[tuple[int, int], int]) -> MatrixPicture:
    lengths, radii = sorted({n for n, _ in found}), sorted({r for _, r in found})
    return MatrixPicture(
        title="Layers until all positions have met",
        values=tuple(tuple(float(found[n, r]) for n in lengths) for r in radii),
        row_labels=tuple(f"r = {r}" for r in radii),
        column_labels=tuple(f"n = {n}" for n in lengths),
    )


def _growth_picture(
    lengths: Sequence[int],
    counted: Sequence[int],
    mechanism: str,
    *,
    exponential: float | None = None,
) -> CurvePicture:
    curves = [line(label=mechanism, x=lengths, y=tuple(float(each) for each in counted))]
    if exponential is not None:
        grown = tuple(float(counted[0]) * exponential**place for place in range(len(lengths)))
        curves.append(line(label="exponential", x=lengths, y=grown, dashed=True))
    return CurvePicture(
        title="Operations by length",
        x_label="length n",
        y_label="operations",
        y_scale="log" if exponential is not None else "linear",
        curves=tuple(curves),
    )
