"""Positions: a shift is one rotation, and without positions self-attention does not see the order.

Sinusoidal positions are proved in symbols and then held against `SinusoidalPositions`, so that the proof is
about what is used. The order of tokens is tried on `MultiHead` itself: with every kind of positions, every
mechanism, and with the causal mask.
"""

from __future__ import annotations

import sympy
import torch
from torch import Tensor

from regard.claims.engine import claim
from regard.core.masks import NO_MASK, Causal
from regard.core.records.claim import Curve, CurvePicture, Finding, MatrixPicture, Verdict
from regard.core.registry import look_up
from regard.layers.multi_head import MultiHead
from regard.layers.positions import POSITIONS, SinusoidalPositions, build_position
from regard.mechanisms import MECHANISMS

OMEGA, TIME, OTHER, SHIFT = sympy.symbols("omega t s k", real=True)
# A change above this is a change; rounding in float64 stays far below, and every real one far above.
SEEN = 1e-9
# Three positions far apart, whose products with their neighbours are drawn over one another.
DRAWN_FROM = (0, 100, 1000)


@claim(
    statement="Moving a sinusoidal position by k is one linear map, the same for every position t.",
    formula="T⁽ᵏ⁾ PE(t) = PE(t + k)  for all t",
    source="seed 001; Vaswani et al. 2017, section 3.5",
    proof="symbolic",
    ranges={
        "width": (2, 64),
        "shift": (-100_000, 100_000),
        "positions": (1, 100_000),
        "base": (1, 1e9),
    },
)
def shifting_is_one_linear_map(
    *, width: int = 12, shift: int = 7, positions: int = 512, base: float = 10_000.0
) -> Finding:
    """Of one (sin, cos) pair in symbols; then of the layer's own matrix and table."""
    rest = shift_rest(rotation(OMEGA * SHIFT))
    layer = SinusoidalPositions(model_dim=width, base=base)
    matrix, places = layer.shift_matrix(shift), torch.arange(positions)
    error = float((layer.table(places) @ matrix.T - layer.table(places + shift)).abs().max())
    # An angle near t is rounded to about t times the precision of float64.
    allowed = 8 * torch.finfo(torch.float64).eps * (positions + abs(shift))
    holds = rest == sympy.zeros(2, 1) and error <= allowed
    return Finding(
        verdict="holds" if holds else "fails",
        because=f"With the rotation by ωk, T⁽ᵏ⁾ PE(t) − PE(t + k) expands to {list(rest)} for any ω, t "
        f"and k; the layer's matrix moves its table by {shift} with an error of {error:.1e} at "
        f"{positions} positions, where rounding explains up to {allowed:.1e}.",
        figures={"error": error, "allowed": allowed, "positions": positions},
        picture=matrix_picture(f"T⁽ᵏ⁾ for k = {shift}: a rotation of each pair", matrix),
        counter_example=f"what is left in symbols: {list(rest)}; error of the layer: {error:.1e}",
    )


@claim(
    statement="The matrix of a shift does not depend on the position and is orthogonal, so the product "
    "of two positions depends on their distance only.",
    formula="T⁽ᵏ⁾ without t,  T⁽ᵏ⁾ᵀ T⁽ᵏ⁾ = I,  PE(t)·PE(t + k) = Σᵢ cos ωᵢk",
    source="seed 001; Vaswani et al. 2017, section 3.5",
    proof="symbolic",
    ranges={"width": (2, 128), "farthest": (1, 512), "base": (1, 1e9)},
)
def shift_matrix_is_orthogonal(
    *, width: int = 64, farthest: int = 128, base: float = 10_000.0
) -> Finding:
    """Of one (sin, cos) pair in symbols; then of the layer's own matrices and table."""
    block = rotation(OMEGA * SHIFT)
    solved, square = solved_rest(block), orthogonality_rest(block)
    products, expected = products_by_distance(width=width, farthest=farthest, base=base)
    error = float((products - expected).abs().max())
    skew = orthogonality_error(width=width, farthest=farthest, base=base)
    allowed = width * torch.finfo(torch.float64).eps * (farthest + DRAWN_FROM[-1])
    holds = solved == square == sympy.zeros(2, 2) and max(error, skew) <= allowed
    return Finding(
        verdict="holds" if holds else "fails",
        because="Solved from any two positions t and s, T differs from the rotation by ωk by "
        f"{solved.tolist()}, so neither is in it, and TᵀT − I simplifies to {square.tolist()}; the layer's "
        f"matrices are orthogonal within {skew:.1e}, and from t = {', '.join(map(str, DRAWN_FROM))} its "
        f"products are Σᵢ cos ωᵢk within {error:.1e}, where rounding explains up to {allowed:.1e}.",
        figures={"error": error, "skew": skew, "allowed": allowed, "width": width},
        picture=distance_picture(products, expected),
        counter_example=f"TᵀT − I is {square.tolist()} in symbols and up to {skew:.1e} in the layer; the "
        f"products differ by {error:.1e}",
    )


@claim(
    statement="Without positions self-attention is permutation-equivariant: it does not see the order.",
    formula="attend(P X) = P attend(X)  for every permutation P",
    source="seed 001; Vaswani et al. 2017, section 3.5",
    proof="numeric",
    ranges={"length": (2, 64)},
)
def order_is_unseen_without_positions(
    *,
    position: str = "none",
    mechanism: str = "scaled_dot",
    causal: bool = False,
    length: int = 24,
    seed: int = 0,
) -> Finding:
    """Change `position`, `mechanism` or `causal` to see what brings the order in."""
    gaps = order_gaps(position, mechanism, causal=causal, length=length, seed=seed)
    worst = max(gaps, key=lambda name: gaps[name])
    return Finding(
        verdict="holds" if gaps[worst] < SEEN else "fails",
        because=f"Permuting the tokens and permuting the output differ by at most {gaps[worst]:.1e} of "
        f"the largest output, over {len(gaps)} permutations of {length} tokens (float64; below "
        f"{SEEN:.0e} is rounding).",
        figures=gaps,
        picture=order_picture(
            {
                f"positions: {position}": gaps,
                "positions: sinusoidal": order_gaps(
                    "sinusoidal", mechanism, causal=causal, length=length, seed=seed
                ),
            },
            f"What a permutation changes, {mechanism}",
        ),
        counter_example=f"{worst}: the output changes by {gaps[worst]:.1e} of its largest entry",
    )


@claim(
    statement="With positions self-attention sees the order, whichever kind of positions it is.",
    formula="attend(P X + PE) ≠ P attend(X + PE)  for some permutation P",
    source="seed 001; Vaswani et al. 2017; Su et al. 2021; Press et al. 2022",
    proof="numeric",
    ranges={"length": (3, 64)},
)
def positions_show_the_order(
    *, mechanism: str = "scaled_dot", length: int = 24, seed: int = 0
) -> Finding:
    """Every kind of positions there is; "none" stands in the picture and has no vote."""
    gaps = {name: order_gaps(name, mechanism, length=length, seed=seed) for name in POSITIONS}
    largest = {name: max(row.values()) for name, row in gaps.items()}
    blind = [name for name in POSITIONS if name != "none" and largest[name] < SEEN]
    return Finding(
        verdict="fails" if blind else "holds",
        because="The output changes by at least "
        f"{min(largest[name] for name in POSITIONS if name != 'none'):.1e} of its largest entry with "
        f"positions, and by {largest['none']:.1e} without. Alibi, a distance without a direction, changes "
        f"it by {gaps['alibi']['reversal']:.1e} for a text and its mirror image.",
        figures={name: largest[name] for name in POSITIONS},
        picture=order_picture(gaps, f"What a permutation changes, {mechanism}"),
        counter_example=f"no permutation changes anything with: {', '.join(blind)}",
    )


@claim(
    statement="Without positions every attention mechanism is permutation-equivariant.",
    formula="attend(P X) = P attend(X)  for every mechanism",
    source="seed 001, taken beyond scaled dot; Tay et al. 2021; Haviv et al. 2022",
    proof="numeric",
    ranges={"length": (8, 64)},
)
def order_is_unseen_by_every_mechanism(*, length: int = 24, seed: int = 0) -> Finding:
    """Those that only read the past are tried with the causal mask they need."""
    gaps = {name: order_gaps("none", name, length=length, seed=seed) for name in MECHANISMS}
    unseen = [name for name in gaps if max(gaps[name].values()) < SEEN]
    seen = [name for name in gaps if name not in unseen]
    verdict: Verdict = "holds if" if seen and unseen else ("holds" if unseen else "fails")
    return Finding(
        verdict=verdict,
        because=f"{len(unseen)} of {len(gaps)} mechanisms commute with every permutation tried. Places are "
        f"built in, by a window, by weights for places, or by reading the past only: "
        f"{', '.join(seen) or 'in none'}.",
        figures={name: max(row.values()) for name, row in gaps.items()},
        picture=order_picture(gaps, "What a permutation changes, by mechanism"),
        boundary=f"the mechanism weighs keys by what they hold: {', '.join(unseen)}",
        counter_example=f"none is: {', '.join(seen)}",
    )


def rotation(angle: sympy.Expr) -> sympy.Matrix:
    """What turns (sin a, cos a) into (sin(a + angle), cos(a + angle))."""
    sine, cosine = sympy.sin(angle), sympy.cos(angle)
    return sympy.Matrix([[cosine, sine], [-sine, cosine]])


def pair(time: sympy.Expr) -> sympy.Matrix:
    """PE at a time, of one wave."""
    return sympy.Matrix([sympy.sin(OMEGA * time), sympy.cos(OMEGA * time)])


def shift_rest(block: sympy.Matrix) -> sympy.Matrix:
    """block · PE(t) − PE(t + k) of one pair, expanded: zero where the block is a shift."""
    return (block * pair(TIME) - pair(TIME + SHIFT)).expand(trig=True)


def solved_rest(block: sympy.Matrix) -> sympy.Matrix:
    """What the matrix solved from two positions has beyond the block, times its denominator."""
    before = sympy.Matrix.hstack(pair(TIME), pair(OTHER))
    after = sympy.Matrix.hstack(pair(TIME + SHIFT), pair(OTHER + SHIFT))
    return (after * before.adjugate() - block * before.det()).expand(trig=True)


def orthogonality_rest(block: sympy.Matrix) -> sympy.Matrix:
    """blockᵀ · block − I, simplified."""
    return (block.T * block - sympy.eye(2)).applyfunc(sympy.trigsimp)


def products_by_distance(*, width: int, farthest: int, base: float) -> tuple[Tensor, Tensor]:
    """PE(t)·PE(t + k) of the layer for each t of `DRAWN_FROM` and k up to `farthest`; and Σᵢ cos ωᵢk."""
    layer = SinusoidalPositions(model_dim=width, base=base)
    starts, distances = torch.tensor(DRAWN_FROM), torch.arange(farthest + 1)
    near = layer.table(starts[:, None])
    far = layer.table(starts[:, None] + distances)
    # Half the trace of a rotation by ω is cos ω.
    halves = [layer.shift_matrix(int(shift)).trace() / 2 for shift in distances]
    return (near * far).sum(-1), torch.stack(halves)


def orthogonality_error(*, width: int, farthest: int, base: float) -> float:
    """The largest entry of TᵀT − I over the layer's matrices for all shifts up to `farthest`."""
    layer = SinusoidalPositions(model_dim=width, base=base)
    matrices = torch.stack([layer.shift_matrix(shift) for shift in range(farthest + 1)])
    identity = torch.eye(width, dtype=matrices.dtype)
    return float((matrices.mT @ matrices - identity).abs().max())


def order_gaps(
    position: str, mechanism: str, *, causal: bool = False, length: int, seed: int
) -> dict[str, float]:
    """By permutation: how far attending to permuted tokens is from permuting what was attended."""
    width, heads = 16, 2
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        on_tokens = look_up("position", position, POSITIONS).acts_on == "tokens"
        placed = build_position(
            position if on_tokens else "none",
            model_dim=width,
            head_dim=width // heads,
            num_heads=heads,
            max_length=length,
        ).double()
        layer = MultiHead(
            model_dim=width,
            num_heads=heads,
            mechanism=mechanism,
            mechanism_options={"radius": 3} if "window" in mechanism else None,
            position=None if on_tokens else position,
            max_length=length,
        ).double()
        tokens = torch.randn(1, length, width, dtype=torch.float64)
        orders = {
            "two neighbours": torch.tensor([1, 0, *range(2, length)]),
            "reversal": torch.arange(length).flip(0),
            "at random": torch.randperm(length),
        }
    past_only = causal or layer.mechanism.capabilities.requires_causal
    mask = Causal() if past_only else NO_MASK
    with torch.no_grad():
        straight = layer(placed(tokens), mask=mask)
        moved = {name: layer(placed(tokens[:, order]), mask=mask) for name, order in orders.items()}
    return {
        name: float((moved[name] - straight[:, order]).abs().max() / straight.abs().max())
        for name, order in orders.items()
    }


def matrix_picture(title: str, matrix: Tensor) -> MatrixPicture:
    """A matrix with the features it joins: sines and cosines in turn."""
    names = tuple(f"{('sin', 'cos')[place % 2]} ω{place // 2}" for place in range(len(matrix)))
    return MatrixPicture(
        title=title,
        values=tuple(tuple(row) for row in matrix.tolist()),
        row_labels=names,
        column_labels=names,
    )


def distance_picture(products: Tensor, expected: Tensor) -> CurvePicture:
    """The products from each start, and what they should be behind them."""
    distances = tuple(float(shift) for shift in range(len(expected)))
    # Every third, each start from another on, so that none lies on top of another.
    points = [
        Curve(
            label=f"PE({start})·PE({start} + k)",
            x=distances[place::3],
            y=tuple(row[place::3]),
            points_only=True,
        )
        for place, (start, row) in enumerate(zip(DRAWN_FROM, products.tolist(), strict=True))
    ]
    line = Curve(label="Σᵢ cos ωᵢk", x=distances, y=tuple(expected.tolist()), dashed=True)
    return CurvePicture(
        title="The product of two positions, by their distance",
        x_label="distance k",
        y_label="product",
        curves=(line, *points),
    )


def order_picture(gaps: dict[str, dict[str, float]], title: str) -> MatrixPicture:
    """A row for each thing tried, a column for each permutation."""
    return MatrixPicture(
        title=title,
        values=tuple(tuple(row.values()) for row in gaps.values()),
        row_labels=tuple(gaps),
        column_labels=tuple(next(iter(gaps.values()))),
    )
