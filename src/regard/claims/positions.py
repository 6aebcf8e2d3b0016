"""Positional encodings: shifts of sinusoidal positions are rotations; permutation equivariance.

Properties of sinusoidal positions are proved symbolically, then checked on `SinusoidalPositions`.
Equivariance is tested on `MultiHead` with every positional encoding, every mechanism and the causal mask.
"""

from __future__ import annotations

import sympy
import torch
from torch import Tensor

from regard.claims.engine import claim, curve_figure, line, matrix_figure, verdict_over
from regard.core.masks import NO_MASK, Causal
from regard.core.records.claim import Finding, MatrixFigure
from regard.core.registry import lookup
from regard.layers.multi_head import MultiHead
from regard.layers.names import POSITIONS
from regard.layers.positions import SinusoidalPositions, build_position
from regard.mechanisms import MECHANISMS

OMEGA, TIME, OTHER, SHIFT = sympy.symbols("omega t s k", real=True)
# Relative changes below this are float64 rounding.
TOLERANCE = 1e-9
# Start positions t of PE(t)·PE(t + k).
STARTS = (0, 100, 1000)


@claim(
    statement="Shifting a sinusoidal position by k is a linear map that does not depend on the position t.",
    formula="T⁽ᵏ⁾ PE(t) = PE(t + k)  for all t",
    source="Vaswani et al. 2017, section 3.5",
    proof="symbolic",
    ranges={
        "model_dim": (2, 64),
        "shift": (-100_000, 100_000),
        "positions": (1, 100_000),
        "base": (1, 1e9),
    },
)
def shifting_is_one_linear_map(
    *, model_dim: int = 12, shift: int = 7, positions: int = 512, base: float = 10_000.0
) -> Finding:
    """Symbolically for one (sin, cos) pair; then for the matrix and table of the layer."""
    residual = shift_residual(rotation(OMEGA * SHIFT))
    layer = SinusoidalPositions(model_dim=model_dim, base=base)
    matrix, indices = layer.shift_matrix(shift), torch.arange(positions)
    error = float((layer.table(indices) @ matrix.T - layer.table(indices + shift)).abs().max())
    # Angles near t have a rounding error of about t times the float64 epsilon.
    tolerance = 8 * torch.finfo(torch.float64).eps * (positions + abs(shift))
    holds = residual == sympy.zeros(2, 1) and error <= tolerance
    names = tuple(f"{('sin', 'cos')[index % 2]} ω{index // 2}" for index in range(len(matrix)))
    return Finding(
        verdict="holds" if holds else "fails",
        reason=f"With T⁽ᵏ⁾ the rotation by ωk, T⁽ᵏ⁾ PE(t) − PE(t + k) expands to {list(residual)} for all "
        f"ω, t and k; the layer's matrix shifts its table by {shift} with an error of {error:.1e} over "
        f"{positions} positions (rounding tolerance {tolerance:.1e}).",
        values={"error": error, "tolerance": tolerance, "positions": positions},
        figure=matrix_figure(
            (f"T⁽ᵏ⁾ for k = {shift}: a rotation of each pair"),
            matrix.tolist(),
            rows=names,
            columns=names,
        ),
        counter_example=f"symbolic residual: {list(residual)}; error of the layer: {error:.1e}",
    )


@claim(
    statement="The shift matrix is orthogonal and independent of the position, so the dot product of two "
    "positions depends only on their distance.",
    formula="T⁽ᵏ⁾ without t,  T⁽ᵏ⁾ᵀ T⁽ᵏ⁾ = I,  PE(t)·PE(t + k) = Σᵢ cos ωᵢk",
    source="Vaswani et al. 2017, section 3.5",
    proof="symbolic",
    ranges={"model_dim": (2, 128), "max_distance": (1, 512), "base": (1, 1e9)},
)
def shift_matrix_is_orthogonal(
    *, model_dim: int = 64, max_distance: int = 128, base: float = 10_000.0
) -> Finding:
    """Symbolically for one (sin, cos) pair; then for the matrices and table of the layer."""
    block = rotation(OMEGA * SHIFT)
    solved, square = solved_residual(block), orthogonality_residual(block)
    products, expected = products_by_distance(
        model_dim=model_dim, max_distance=max_distance, base=base
    )
    error = float((products - expected).abs().max())
    layer = SinusoidalPositions(model_dim=model_dim, base=base)
    matrices = torch.stack([layer.shift_matrix(shift) for shift in range(max_distance + 1)])
    identity = torch.eye(model_dim, dtype=matrices.dtype)
    skew = float((matrices.mT @ matrices - identity).abs().max())
    tolerance = model_dim * torch.finfo(torch.float64).eps * (max_distance + STARTS[-1])
    holds = solved == square == sympy.zeros(2, 2) and max(error, skew) <= tolerance
    distances = range(len(expected))
    # Every third point, with different offsets, so that points do not overlap.
    points = [
        line(f"PE({start})·PE({start} + k)", distances[offset::3], row[offset::3], points_only=True)
        for offset, (start, row) in enumerate(zip(STARTS, products.tolist(), strict=True))
    ]
    curve = line("Σᵢ cos ωᵢk", distances, expected, dashed=True)
    return Finding(
        verdict="holds" if holds else "fails",
        reason="Solved from any two positions t and s, T differs from the rotation by ωk by "
        f"{solved.tolist()}, so it is independent of both, and TᵀT − I simplifies to {square.tolist()}; "
        f"the layer's matrices are orthogonal within {skew:.1e}, and from t = "
        f"{', '.join(map(str, STARTS))} its dot products are Σᵢ cos ωᵢk within {error:.1e} (rounding "
        f"tolerance {tolerance:.1e}).",
        values={"error": error, "skew": skew, "tolerance": tolerance, "model_dim": model_dim},
        figure=curve_figure(
            "Dot product of two positions by distance",
            ("distance k", "dot product"),
            curve,
            *points,
        ),
        counter_example=f"TᵀT − I is {square.tolist()} symbolically and up to {skew:.1e} in the layer; the "
        f"dot products differ by {error:.1e}",
    )


@claim(
    statement="Without positional encodings self-attention is permutation-equivariant.",
    formula="attend(P X) = P attend(X)  for every permutation P",
    source="Vaswani et al. 2017, section 3.5",
    proof="numeric",
    ranges={"length": (2, 64)},
)
def self_attention_is_permutation_equivariant(
    *,
    position: str = "none",
    mechanism: str = "scaled_dot",
    causal: bool = False,
    length: int = 24,
    seed: int = 0,
) -> Finding:
    """Change `position`, `mechanism` or `causal` to break the equivariance."""
    errors = permutation_errors(position, mechanism, causal=causal, length=length, seed=seed)
    worst = max(errors, key=lambda name: errors[name])
    return Finding(
        verdict="holds" if errors[worst] < TOLERANCE else "fails",
        reason=f"Permuting the input and permuting the output differ by at most {errors[worst]:.1e} of "
        f"the largest output, over {len(errors)} permutations of {length} tokens (float64; tolerance "
        f"{TOLERANCE:.0e}).",
        values=errors,
        figure=order_figure(
            {
                f"positions: {position}": errors,
                "positions: sinusoidal": permutation_errors(
                    "sinusoidal", mechanism, causal=causal, length=length, seed=seed
                ),
            },
            f"Relative change by permutation, {mechanism}",
        ),
        counter_example=f"{worst}: the output changes by {errors[worst]:.1e} of its largest entry",
    )


@claim(
    statement="Every positional encoding breaks the permutation equivariance of self-attention.",
    formula="attend(P X + PE) ≠ P attend(X + PE)  for some permutation P",
    source="Vaswani et al. 2017; Su et al. 2021; Press et al. 2022",
    proof="numeric",
    ranges={"length": (3, 64)},
)
def positions_break_permutation_equivariance(
    *, mechanism: str = "scaled_dot", length: int = 24, seed: int = 0
) -> Finding:
    """All positional encodings; "none" is in the figure only."""
    errors = {
        name: permutation_errors(name, mechanism, length=length, seed=seed) for name in POSITIONS
    }
    largest = {name: max(row.values()) for name, row in errors.items()}
    equivariant = [name for name in POSITIONS if name != "none" and largest[name] < TOLERANCE]
    return Finding(
        verdict="fails" if equivariant else "holds",
        reason="A permutation changes the output by at least "
        f"{min(largest[name] for name in POSITIONS if name != 'none'):.1e} of its largest entry with "
        f"positional encodings, and by {largest['none']:.1e} without. ALiBi, which has no direction, "
        f"changes it by {errors['alibi']['reversal']:.1e} under reversal.",
        values={name: largest[name] for name in POSITIONS},
        figure=order_figure(errors, f"Relative change by permutation, {mechanism}"),
        counter_example=f"no permutation changes the output with: {', '.join(equivariant)}",
    )


@claim(
    statement="Without positional encodings every attention mechanism is permutation-equivariant.",
    formula="attend(P X) = P attend(X)  for every mechanism",
    source="Tay et al. 2021; Haviv et al. 2022",
    proof="numeric",
    ranges={"length": (8, 64)},
)
def every_mechanism_is_permutation_equivariant(*, length: int = 24, seed: int = 0) -> Finding:
    """Causal-only mechanisms are tested with the causal mask."""
    errors = {
        name: permutation_errors("none", name, length=length, seed=seed) for name in MECHANISMS
    }
    satisfied = [name for name in errors if max(errors[name].values()) < TOLERANCE]
    others = [name for name in errors if name not in satisfied]
    verdict = verdict_over(satisfied, errors)
    return Finding(
        verdict=verdict,
        reason=f"{len(satisfied)} of {len(errors)} mechanisms commute with every permutation tried. Those "
        "with a window, position-dependent weights or causal recurrence do not: "
        f"{', '.join(others) or 'none'}.",
        values={name: max(row.values()) for name, row in errors.items()},
        figure=order_figure(errors, "Relative change by permutation, by mechanism"),
        condition=f"weights depend on the content of keys only: {', '.join(satisfied)}",
        counter_example=f"none is equivariant: {', '.join(others)}",
    )


def rotation(angle: sympy.Expr) -> sympy.Matrix:
    """The matrix that maps (sin a, cos a) to (sin(a + angle), cos(a + angle))."""
    sine, cosine = sympy.sin(angle), sympy.cos(angle)
    return sympy.Matrix([[cosine, sine], [-sine, cosine]])


def pair(time: sympy.Expr) -> sympy.Matrix:
    """One (sin, cos) pair of PE(time)."""
    return sympy.Matrix([sympy.sin(OMEGA * time), sympy.cos(OMEGA * time)])


def shift_residual(block: sympy.Matrix) -> sympy.Matrix:
    """block · PE(t) − PE(t + k) of one pair, expanded; zero if the block is the shift."""
    return (block * pair(TIME) - pair(TIME + SHIFT)).expand(trig=True)


def solved_residual(block: sympy.Matrix) -> sympy.Matrix:
    """The matrix solved from two positions minus the block, times its denominator."""
    before = sympy.Matrix.hstack(pair(TIME), pair(OTHER))
    after = sympy.Matrix.hstack(pair(TIME + SHIFT), pair(OTHER + SHIFT))
    return (after * before.adjugate() - block * before.det()).expand(trig=True)


def orthogonality_residual(block: sympy.Matrix) -> sympy.Matrix:
    """blockᵀ · block − I, simplified."""
    return (block.T * block - sympy.eye(2)).applyfunc(sympy.trigsimp)


def products_by_distance(
    *, model_dim: int, max_distance: int, base: float
) -> tuple[Tensor, Tensor]:
    """PE(t)·PE(t + k) of the layer for each t of `STARTS` and k up to `max_distance`; and Σᵢ cos ωᵢk."""
    layer = SinusoidalPositions(model_dim=model_dim, base=base)
    starts, distances = torch.tensor(STARTS), torch.arange(max_distance + 1)
    near = layer.table(starts[:, None])
    far = layer.table(starts[:, None] + distances)
    # Half the trace of a rotation by ω is cos ω.
    halves = [layer.shift_matrix(int(shift)).trace() / 2 for shift in distances]
    return (near * far).sum(-1), torch.stack(halves)


def permutation_errors(
    position: str, mechanism: str, *, causal: bool = False, length: int, seed: int
) -> dict[str, float]:
    """Permutation → relative difference between attention on permuted tokens and permuted output."""
    model_dim, heads = 16, 2
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        on_tokens = lookup("position", position, POSITIONS).acts_on == "tokens"
        encode = build_position(
            position if on_tokens else "none",
            model_dim=model_dim,
            head_dim=model_dim // heads,
            num_heads=heads,
            max_length=length,
        ).double()
        layer = MultiHead(
            model_dim=model_dim,
            num_heads=heads,
            mechanism=mechanism,
            mechanism_options={"radius": 3} if "window" in mechanism else None,
            position=None if on_tokens else position,
            max_length=length,
        ).double()
        tokens = torch.randn(1, length, model_dim, dtype=torch.float64)
        orders = {
            "swap": torch.tensor([1, 0, *range(2, length)]),
            "reversal": torch.arange(length).flip(0),
            "random": torch.randperm(length),
        }
    use_causal = causal or layer.mechanism.capabilities.requires_causal
    mask = Causal() if use_causal else NO_MASK
    with torch.no_grad():
        straight = layer(encode(tokens), mask=mask)
        moved = {name: layer(encode(tokens[:, order]), mask=mask) for name, order in orders.items()}
    return {
        name: float((moved[name] - straight[:, order]).abs().max() / straight.abs().max())
        for name, order in orders.items()
    }


def order_figure(errors: dict[str, dict[str, float]], title: str) -> MatrixFigure:
    """One row per case, one column per permutation."""
    return matrix_figure(
        title,
        (tuple(row.values()) for row in errors.values()),
        rows=errors,
        columns=next(iter(errors.values())),
    )
