"""Feature maps of Taylor and polynomial kernels, and how well they approximate softmax attention.

φ is the feature map, H the number of features, K the number of terms of the Taylor series, D the key
dimension.
"""

from __future__ import annotations

import math

import numpy as np
import sympy
import torch

from regard.claims.engine import claim, curve_figure, line
from regard.claims.experiments.kernels import (
    GRID_POINTS,
    MAX_NORM_BOUND,
    at_ones,
    difference,
    dot,
    feature_counts,
    feature_error,
    features_figure,
    first_negative_score,
    largest_norm_bound,
    outer_features,
    output_error,
    series_at,
    square_figure,
    square_gap,
    taylor_features,
    vectors,
    weights_figure,
    worst_error,
)
from regard.core.errors import RegardError
from regard.core.records.claim import Finding, Verdict
from regard.mechanisms.kernels.power_series import PolynomialAttention, TaylorAttention

# Rounding of sums of some tens of products.
FEATURE_TOLERANCE = 1e-10
# With more terms, float64 rounding hides the sign change.
MAX_TERMS = 48


@claim(
    statement="The first K terms of exp(q·k) are a dot product of features of q and of k.",
    formula="Σ_{m<K} (q·k)ᵐ/m! = φ(q)·φ(k)",
    source="Keles et al. 2023",
    proof="symbolic",
    ranges={"key_dim": (1, 4), "terms": (1, 6)},
)
def taylor_terms_are_a_dot_product(*, key_dim: int = 3, terms: int = 4, seed: int = 0) -> Finding:
    """Expand both sides symbolically; then compare the mechanism's features with the series."""
    q, k = vectors(key_dim)
    series = sympy.Add(*((dot(q, k)) ** m / sympy.factorial(m) for m in range(terms)))
    residual = difference(
        dot(taylor_features(q, terms=terms), taylor_features(k, terms=terms)), series
    )
    kernel = TaylorAttention(key_dim=key_dim, num_terms=terms, scale=1.0)
    rounding = feature_error(kernel, key_dim=key_dim, seed=seed)
    holds = residual == 0 and rounding <= FEATURE_TOLERANCE
    return Finding(
        verdict="holds" if holds else "fails",
        reason=f"Expanded for D = {key_dim} and K = {terms}, the two sides differ by {residual}. The "
        f"features that regard computes reproduce the series to {rounding:.1g} in float64 "
        "(tolerance 1e-10).",
        values={
            "difference": str(residual),
            "features": len(taylor_features(q, terms=terms)),
            "largest_relative_error": rounding,
        },
        figure=weights_figure(terms),
        counter_example=f"The sides differ by {residual}, the numbers by {rounding:.1g}.",
    )


@claim(
    statement="vec(ttᵀ) is the feature map of the quadratic term of exp(q·k).",
    formula="vec(qqᵀ)·vec(kkᵀ) = (q·k)²/2",
    source="course notes: Taylor features",
    proof="symbolic",
    known_false=True,
    ranges={"key_dim": (1, 8), "divisor": (1, 100)},
)
def outer_product_gives_the_quadratic_term(*, key_dim: int = 2, divisor: int = 1) -> Finding:
    """Expand both sides symbolically; divisor=2 corrects the statement."""
    q, k = vectors(key_dim)
    product = dot(outer_features(q, divisor=divisor), outer_features(k, divisor=divisor))
    residual = difference(product, dot(q, k) ** 2 / 2)
    term, value = key_dim**2 / 2, at_ones(product)
    scores = np.linspace(-2, 2, 41)
    return Finding(
        verdict="holds" if residual == 0 else "fails",
        reason=f"With φ(t) = vec(ttᵀ)/√{divisor}, φ(q)·φ(k) minus (q·k)²/2 is {residual}. "
        "φ must include the factor ½ of the series: vec(ttᵀ)/√2.",
        values={"difference": str(residual), "product_at_ones": value, "term_at_ones": term},
        figure=curve_figure(
            "Quadratic term of exp(q·k), and kernel of vec(ttᵀ)",
            ("q·k", ""),
            line("(q·k)²/2", scores, scores**2 / 2),
            line(f"vec(qqᵀ)·vec(kkᵀ)/{divisor}", scores, scores**2 / divisor, dashed=True),
        ),
        counter_example=(
            f"q = k = (1, …, 1) with D = {key_dim}: φ(q)·φ(k) = {value:g}, (q·k)²/2 = {term:g}."
        ),
    )


@claim(
    statement="K terms need 1 + D + … + Dᴷ⁻¹ features, or C(D+K−1, K−1) without duplicate monomials, "
    "and no fewer.",
    formula="H = Σ_{i<K} Dⁱ, or C(D+K−1, K−1)",
    source="course notes: Taylor features (corrected)",
    proof="counted",
    ranges={"key_dim": (1, 4), "terms": (1, 5)},
)
def taylor_feature_count(*, key_dim: int = 3, terms: int = 4) -> Finding:
    """Count the mechanism's features and compare with the rank of the kernel, a lower bound."""
    rows = [
        feature_counts(key_dim=d, terms=k)
        for d in range(1, key_dim + 1)
        for k in range(1, terms + 1)
    ]
    wrong = [
        row for row in rows if not row["tensor"] >= row["made"] == row["symmetric"] == row["rank"]
    ]
    last = rows[-1]
    return Finding(
        verdict="fails" if wrong else "holds",
        reason=f"For {len(rows) - len(wrong)} of {len(rows)} pairs of D ≤ {key_dim}, K ≤ {terms} the "
        "mechanism has C(D+K−1, K−1) features, which is the rank of the kernel, a lower bound. At "
        f"the largest: {last['made']} features, {last['tensor']} with x₁x₂ and x₂x₁ separate.",
        values=last,
        figure=features_figure(key_dim=key_dim, terms=terms),
        counter_example=f"{wrong[:1]}",
    )


@claim(
    statement="K terms need Dᴷ⁻¹ features.",
    formula="H = Dᴷ⁻¹",
    source="course notes: Taylor features",
    proof="counted",
    known_false=True,
    ranges={"key_dim": (1, 4), "terms": (1, 5)},
)
def taylor_feature_count_is_a_power(*, key_dim: int = 2, terms: int = 3) -> Finding:
    """Count the mechanism's features."""
    counts = feature_counts(key_dim=key_dim, terms=terms)
    claimed = key_dim ** (terms - 1)
    agrees = claimed in (counts["tensor"], counts["made"])
    return Finding(
        verdict="holds" if agrees else "fails",
        reason=f"D = {key_dim}, K = {terms}: {claimed} features are those of the last term alone. All "
        f"terms have {counts['tensor']}, or {counts['made']} without duplicate monomials.",
        values={**counts, "claimed": claimed},
        figure=features_figure(key_dim=key_dim, terms=terms),
        counter_example=f"D = {key_dim}, K = {terms}: Dᴷ⁻¹ = {claimed}, but the mechanism has "
        f"{counts['made']}, and at least {counts['rank']} are necessary.",
    )


@claim(
    statement="Taylor-kernel attention converges to softmax attention as K grows.",
    formula="D⁻¹ φ(Q) φ(K)ᵀ V → softmax(QKᵀ) V",
    source="Keles et al. 2023",
    proof="numeric",
    ranges={"norm": (0, 20), "terms": (1, 30), "key_dim": (1, 3), "tolerance": (0, 1)},
)
def taylor_attention_converges_to_softmax(
    *, norm: float = 2.0, terms: int = 18, key_dim: int = 2, tolerance: float = 1e-10, seed: int = 0
) -> Finding:
    """Compare outputs for an increasing number of terms."""
    counts = range(1, terms + 1)
    errors = [output_error(terms=k, norm=norm, key_dim=key_dim, keys=16, seed=seed) for k in counts]
    bounds = [norm**k / math.factorial(k) for k in counts]
    converged = errors[-1] <= tolerance
    return Finding(
        verdict="holds" if converged else "fails",
        reason=f"Random queries and keys with ‖q‖‖k‖ = {norm:g}, computed with features in float64: the "
        f"output error is {errors[0]:.2g} with one term and {errors[-1]:.2g} with {terms} "
        f"(tolerance {tolerance:g}).",
        values={"first_error": errors[0], "last_error": errors[-1], "terms": terms},
        figure=curve_figure(
            f"Error of Taylor attention against softmax, ‖q‖‖k‖ = {norm:g}",
            ("terms K", "largest output error"),
            line("measured", counts, [max(error, 1e-17) for error in errors]),
            line("‖q‖ᴷ‖k‖ᴷ/K!", counts, [max(bound, 1e-17) for bound in bounds], dashed=True),
            log="y",
        ),
        counter_example=f"‖q‖‖k‖ = {norm:g}, K = {terms}: output error {errors[-1]:.3g}.",
    )


@claim(
    statement="Attention with K Taylor terms approximates softmax attention.",
    formula="Σⱼ |A_K[i, j] − softmax[i, j]| ≤ ε",
    source="course notes: Taylor features, which state no condition",
    proof="numeric",
    ranges={"terms": (1, 24), "error": (1e-4, 2), "keys": (2, 32), "max_terms": (1, 24)},
)
def taylor_attention_approximates_softmax(
    *, terms: int = 3, error: float = 0.01, keys: int = 8, max_terms: int = 8
) -> Finding:
    """Find the largest ‖q‖‖k‖ for which the worst case tried stays within the error."""
    term_counts = sorted({*range(1, max_terms + 1), terms})
    bounds = {k: largest_norm_bound(terms=k, error=error, keys=keys) for k in term_counts}
    bound = bounds[terms]
    twice = worst_error(terms=terms, norm_bound=2 * bound, keys=keys)
    return Finding(
        verdict=norm_bound_verdict(bound),
        reason=f"With {keys} keys, some scores at an end of [−R, R] and the others at one of {GRID_POINTS} "
        f"grid points, {terms} terms stay within {error:g} of softmax up to R = ‖q‖‖k‖ = "
        f"{bound:.3f}; at twice that the error is {twice:.2g}. R was searched up to "
        f"{MAX_NORM_BOUND:g}; other scores may have a slightly larger error.",
        values={
            "norm_bound": bound,
            "error_at_twice": twice,
            **{f"norm_bound_{k}": each for k, each in bounds.items()},
        },
        figure=curve_figure(
            f"Largest ‖q‖‖k‖ with an error of at most {error:g}",
            ("terms K", "‖q‖‖k‖"),
            line("found by search", bounds, bounds.values()),
        ),
        condition=f"‖q‖‖k‖ ≤ {bound:.3f} for K = {terms}, ε = {error:g}, {keys} keys, for the scores tried",
        counter_example=f"K = {terms}, {keys} keys: error above {error:g} for every ‖q‖‖k‖.",
    )


@claim(
    statement="The weights of a Taylor kernel are non-negative.",
    formula="Σ_{m<K} sᵐ/m! ≥ 0",
    source="Keles et al. 2023",
    proof="numeric",
    ranges={"min_terms": (1, MAX_TERMS), "max_terms": (1, MAX_TERMS)},
)
def taylor_weights_are_nonnegative(*, min_terms: int = 1, max_terms: int = 8) -> Finding:
    """Find the score at which each series turns negative."""
    if min_terms > max_terms:
        raise RegardError(
            f"min_terms={min_terms} is greater than max_terms={max_terms}. Swap them."
        )
    zeros = {k: first_negative_score(k) for k in range(min_terms, max_terms + 1)}
    negative = {k: zero for k, zero in zeros.items() if zero is not None}
    shown = ", ".join(f"{zero:.4f} (K = {k})" for k, zero in negative.items())
    scores = torch.linspace(-4, 1, 101, dtype=torch.float64)
    return Finding(
        verdict="holds if" if negative else "holds",
        reason=(
            f"Series of odd degree are negative for scores below {shown}. "
            if negative
            else "No K tried has a negative kernel. "
        )
        + f"Searched down to a score of −{MAX_NORM_BOUND:g}.",
        values={"negative": len(negative), **{f"zero_{k}": zero for k, zero in negative.items()}},
        figure=curve_figure(
            "Taylor series of exp (dashed) by score",
            ("score s", "kernel"),
            *(
                line(f"K = {k}", scores.tolist(), series_at(scores, terms=k).clamp(-3, 3).tolist())
                for k in (sorted(zeros))
                if k <= 5
            ),
            line("exp", scores.tolist(), scores.exp().tolist(), dashed=True),
            marks=((zero, f"K = {k}") for k, zero in negative.items() if zero > -4),
        ),
        condition=f"no score is below {shown}; always for the other K tried",
    )


@claim(
    statement="(q·k + 1)² is a dot product of features: 1, √2 xᵢ, xᵢ², √2 xᵢxⱼ.",
    formula="(q·k + 1)² = φ(q)·φ(k)",
    source="course notes: kernel attention (corrected)",
    proof="symbolic",
    ranges={"key_dim": (1, 10)},
)
def squared_kernel_is_a_dot_product(*, key_dim: int = 4, seed: int = 0) -> Finding:
    """Expand both sides symbolically; then compare the mechanism's features with the kernel."""
    residual = square_gap(key_dim=key_dim, linear_factor=2)
    rounding = feature_error(PolynomialAttention(key_dim=key_dim), key_dim=key_dim, seed=seed)
    holds = residual == 0 and rounding <= FEATURE_TOLERANCE
    return Finding(
        verdict="holds" if holds else "fails",
        reason=f"Expanded for D = {key_dim}, the two sides differ by {residual}. The features that regard "
        f"computes reproduce the kernel to {rounding:.1g} in float64 (tolerance 1e-10).",
        values={
            "difference": str(residual),
            "largest_relative_error": rounding,
            "features": math.comb(key_dim + 2, 2),
        },
        figure=square_figure(linear_factor=2),
        counter_example=f"The sides differ by {residual}, the numbers by {rounding:.1g}.",
    )


@claim(
    statement="The linear features of (q·k + 1)² have no factor √2.",
    formula="φ(x) = (1, xᵢ, xᵢ², √2 xᵢxⱼ)",
    source="course notes: kernel attention",
    proof="symbolic",
    known_false=True,
    ranges={"key_dim": (1, 10), "linear_factor": (0, 100)},
)
def squared_kernel_without_sqrt2(*, key_dim: int = 2, linear_factor: int = 1) -> Finding:
    """Expand both sides symbolically; linear_factor=2 corrects the statement."""
    residual = square_gap(key_dim=key_dim, linear_factor=linear_factor)
    kernel = (key_dim + 1) ** 2
    return Finding(
        verdict="holds" if residual == 0 else "fails",
        reason=(
            f"φ(q)·φ(k) minus (q·k + 1)² is {residual}: the linear term is {linear_factor} q·k, "
            + ("as required." if residual == 0 else "and should be 2 q·k.")
        ),
        values={
            "difference": str(residual),
            "kernel_at_ones": kernel,
            "product_at_ones": kernel + at_ones(residual),
        },
        figure=square_figure(linear_factor=linear_factor),
        counter_example=(
            f"q = k = (1, …, 1) with D = {key_dim}: φ(q)·φ(k) = {kernel + at_ones(residual):g}, "
            f"(q·k + 1)² = {kernel}."
        ),
    )


def norm_bound_verdict(norm_bound: float) -> Verdict:
    """Holds in the whole range that was searched, up to a bound, or nowhere."""
    if norm_bound <= 0:
        return "fails"
    return "holds" if norm_bound >= MAX_NORM_BOUND else "holds if"
