"""Features of kernels in place of exp(q·k): which a kernel takes, and how near it is to softmax.

The features of q and k are written φ; H is how many there are, K how many terms of a series, D the width of
queries and keys.
"""

from __future__ import annotations

import math

from regard.claims.engine import claim
from regard.claims.experiments.kernel_figures import (
    approach_picture,
    features_picture,
    quadratic_picture,
    reach_picture,
    sign_picture,
    square_picture,
    weights_picture,
)
from regard.claims.experiments.kernels import (
    FARTHEST,
    PLACES,
    at_ones,
    difference,
    dot,
    exponential_series,
    feature_counts,
    feature_error,
    first_negative,
    largest_reach,
    outer_features,
    output_error,
    square_gap,
    taylor_features,
    vectors,
    worst_error,
)
from regard.core.errors import RegardError
from regard.core.records.claim import Finding, Verdict
from regard.mechanisms.kernels.power_series import PolynomialAttention, TaylorAttention

# What the features of regard may differ from the series by: sums of some tens of rounded products.
FEATURE_TOLERANCE = 1e-10
# Of more terms the sign, at the scores where it turns, is lost in the rounding of float64.
MOST_TERMS = 48


@claim(
    statement="The first K terms of exp(q·k) are a dot product of features of q and of k.",
    formula="Σ_{m<K} (q·k)ᵐ/m! = φ(q)·φ(k)",
    source="seed 002; Keles et al. 2023",
    proof="symbolic",
    ranges={"width": (1, 4), "terms": (1, 6)},
)
def taylor_terms_are_a_dot_product(*, width: int = 3, terms: int = 4, seed: int = 0) -> Finding:
    """Multiply both sides out; then hold the features of the mechanism against the series."""
    q, k = vectors(width)
    series = exponential_series(dot(q, k), terms=terms)
    left = difference(dot(taylor_features(q, terms=terms), taylor_features(k, terms=terms)), series)
    kernel = TaylorAttention(key_dim=width, num_terms=terms, scale=1.0)
    rounding = feature_error(kernel, width=width, seed=seed)
    sound = left == 0 and rounding <= FEATURE_TOLERANCE
    return Finding(
        verdict="holds" if sound else "fails",
        because=(
            f"Multiplied out for D = {width} and K = {terms}, the two sides differ by {left}. The features "
            f"that regard computes give the series to {rounding:.1g} in float64 (allowed: 1e-10)."
        ),
        figures={
            "difference": str(left),
            "features": len(taylor_features(q, terms=terms)),
            "largest_relative_error": rounding,
        },
        picture=weights_picture(terms),
        counter_example=""
        if sound
        else f"The sides differ by {left}, the numbers by {rounding:.1g}.",
    )


@claim(
    statement="vec(ttᵀ) is the feature map of the quadratic term of exp(q·k).",
    formula="vec(qqᵀ)·vec(kkᵀ) = (q·k)²/2",
    source="seed 002, answer 1.2",
    proof="symbolic",
    marked_wrong=True,
    ranges={"width": (1, 8), "divisor": (1, 100)},
)
def outer_product_gives_the_quadratic_term(*, width: int = 2, divisor: int = 1) -> Finding:
    """Multiply both sides out; a divisor of 2 puts it right."""
    q, k = vectors(width)
    given = dot(outer_features(q, divisor=divisor), outer_features(k, divisor=divisor))
    left = difference(given, dot(q, k) ** 2 / 2)
    term, found = width**2 / 2, at_ones(given)
    return Finding(
        verdict="holds" if left == 0 else "fails",
        because=(
            f"With φ(t) = vec(ttᵀ)/√{divisor}, φ(q)·φ(k) minus (q·k)²/2 is {left}. "
            "The half of the series has to be in φ: vec(ttᵀ)/√2."
        ),
        figures={"difference": str(left), "given_at_ones": found, "term_at_ones": term},
        picture=quadratic_picture(divisor),
        counter_example=(
            ""
            if left == 0
            else f"q = k = (1, …, 1) of width {width}: φ(q)·φ(k) = {found:g}, (q·k)²/2 = {term:g}."
        ),
    )


@claim(
    statement="K terms take 1 + D + … + Dᴷ⁻¹ features, or C(D+K−1, K−1) with every product once, "
    "and no fewer.",
    formula="H = Σ_{i<K} Dⁱ, or C(D+K−1, K−1)",
    source="corrects seed 002, answer 1.2",
    proof="counted",
    ranges={"width": (1, 4), "terms": (1, 5)},
)
def taylor_needs_so_many_features(*, width: int = 3, terms: int = 4) -> Finding:
    """Count what the mechanism makes, and find the rank below which nothing can go."""
    rows = [
        feature_counts(width=d, terms=k) for d in range(1, width + 1) for k in range(1, terms + 1)
    ]
    wrong = [
        row for row in rows if not row["tensor"] >= row["made"] == row["symmetric"] == row["rank"]
    ]
    last = rows[-1]
    return Finding(
        verdict="fails" if wrong else "holds",
        because=(
            f"For {len(rows) - len(wrong)} of {len(rows)} pairs of D ≤ {width}, K ≤ {terms} the mechanism "
            "makes C(D+K−1, K−1) features, and that is the rank of the kernel, below which no features can "
            f"go. At the last: {last['made']} features, {last['tensor']} with x₁x₂ and x₂x₁ apart."
        ),
        figures=last,
        picture=features_picture(width=width, terms=terms),
        counter_example=f"{wrong[0]}" if wrong else "",
    )


@claim(
    statement="K terms take Dᴷ⁻¹ features.",
    formula="H = Dᴷ⁻¹",
    source="seed 002, answer 1.2",
    proof="counted",
    marked_wrong=True,
    ranges={"width": (1, 4), "terms": (1, 5)},
)
def taylor_needs_a_power_of_features(*, width: int = 2, terms: int = 3) -> Finding:
    """Count what the mechanism makes."""
    counts = feature_counts(width=width, terms=terms)
    said = width ** (terms - 1)
    agrees = said in (counts["tensor"], counts["made"])
    return Finding(
        verdict="holds" if agrees else "fails",
        because=(
            f"D = {width}, K = {terms}: {said} features are those of the last term. With those below it "
            f"there are {counts['tensor']}, and {counts['made']} with every product once."
        ),
        figures={**counts, "said": said},
        picture=features_picture(width=width, terms=terms),
        counter_example=(
            ""
            if agrees
            else f"D = {width}, K = {terms}: Dᴷ⁻¹ = {said}, but {counts['made']} are made, and fewer "
            f"than {counts['rank']} cannot do."
        ),
    )


@claim(
    statement="Attention with the Taylor kernel approaches softmax attention as K grows.",
    formula="D⁻¹ φ(Q) φ(K)ᵀ V → softmax(QKᵀ) V",
    source="seed 002; Keles et al. 2023",
    proof="numeric",
    ranges={"norm": (0, 20), "terms": (1, 30), "width": (1, 3), "tolerance": (0, 1)},
)
def taylor_attention_approaches_softmax(
    *, norm: float = 2.0, terms: int = 18, width: int = 2, tolerance: float = 1e-10, seed: int = 0
) -> Finding:
    """Add term after term, through features, until nothing is left between the two."""
    errors = [
        output_error(terms=k, norm=norm, width=width, keys=16, seed=seed)
        for k in range(1, terms + 1)
    ]
    near = errors[-1] <= tolerance
    return Finding(
        verdict="holds" if near else "fails",
        because=(
            f"Random queries and keys with ‖q‖‖k‖ = {norm:g}, through features in float64: outputs are off "
            f"by {errors[0]:.2g} with one term and by {errors[-1]:.2g} with {terms} (asked for: "
            f"{tolerance:g})."
        ),
        figures={"first_error": errors[0], "last_error": errors[-1], "terms": terms},
        picture=approach_picture(errors, norm=norm),
        counter_example=""
        if near
        else f"‖q‖‖k‖ = {norm:g}, K = {terms}: still off by {errors[-1]:.3g}.",
    )


@claim(
    statement="Attention with K terms of the series stands in for softmax attention.",
    formula="Σⱼ |A_K[i, j] − softmax[i, j]| ≤ ε",
    source="seed 002, answer 1.3, which names no condition",
    proof="numeric",
    ranges={"terms": (1, 24), "error": (1e-4, 2), "keys": (2, 32), "most_terms": (1, 24)},
)
def taylor_attention_is_near_softmax(
    *, terms: int = 3, error: float = 0.01, keys: int = 8, most_terms: int = 8
) -> Finding:
    """Search for the largest ‖q‖‖k‖ at which the worst scores that were tried keep within the error."""
    tried = sorted({*range(1, most_terms + 1), terms})
    reaches = {k: largest_reach(terms=k, error=error, keys=keys) for k in tried}
    here, twice = reaches[terms], worst_error(terms=terms, reach=2 * reaches[terms], keys=keys)
    return Finding(
        verdict=reach_verdict(here),
        because=(
            f"Of the scores of {keys} keys that were tried (some at an end of [−R, R], the others at one "
            f"of {PLACES} places in it), {terms} terms keep within {error:g} of softmax up to "
            f"R = ‖q‖‖k‖ = {here:.3f}; at twice that they are off by {twice:.2g}. R was searched up to "
            f"{FARTHEST:g}; other scores may be off by a little more."
        ),
        figures={
            "reach": here,
            "error_at_twice": twice,
            **{f"reach_{k}": r for k, r in reaches.items()},
        },
        picture=reach_picture(reaches, error=error),
        boundary=f"‖q‖‖k‖ ≤ {here:.3f} for K = {terms}, ε = {error:g} and {keys} keys, of the scores tried",
        counter_example=f"K = {terms}, {keys} keys: above {error:g} however small ‖q‖‖k‖ is.",
    )


@claim(
    statement="The weights of a Taylor kernel are never negative.",
    formula="Σ_{m<K} sᵐ/m! ≥ 0",
    source="seed 002, which divides by their sum; Keles et al. 2023",
    proof="numeric",
    ranges={"least_terms": (1, MOST_TERMS), "most_terms": (1, MOST_TERMS)},
)
def taylor_weights_are_not_negative(*, least_terms: int = 1, most_terms: int = 8) -> Finding:
    """Search each series for the score where it turns negative."""
    if least_terms > most_terms:
        raise RegardError(
            f"least_terms={least_terms} is above most_terms={most_terms}: no series is tried. Swap them."
        )
    zeros = {k: first_negative(k) for k in range(least_terms, most_terms + 1)}
    negative = {k: zero for k, zero in zeros.items() if zero is not None}
    shown = ", ".join(f"{zero:.4f} (K = {k})" for k, zero in negative.items())
    return Finding(
        verdict="holds if" if negative else "holds",
        because=(
            f"Series of odd degree turn negative for scores below {shown}. "
            if negative
            else "No K tried has a score with a negative kernel. "
        )
        + f"Looked for down to a score of −{FARTHEST:g}.",
        figures={"turning": len(negative), **{f"zero_{k}": zero for k, zero in negative.items()}},
        picture=sign_picture(sorted(zeros), zeros=negative),
        boundary=f"no score is below {shown}; of the other K tried always" if negative else "",
    )


@claim(
    statement="(q·k + 1)² is a dot product of features: 1, √2 xᵢ, xᵢ², √2 xᵢxⱼ.",
    formula="(q·k + 1)² = φ(q)·φ(k)",
    source="seed 004, with its √2 put right",
    proof="symbolic",
    ranges={"width": (1, 10)},
)
def squared_kernel_is_a_dot_product(*, width: int = 4, seed: int = 0) -> Finding:
    """Multiply both sides out; then hold the features of the mechanism against the kernel."""
    left = square_gap(width=width, linear_factor=2)
    rounding = feature_error(PolynomialAttention(key_dim=width), width=width, seed=seed)
    sound = left == 0 and rounding <= FEATURE_TOLERANCE
    return Finding(
        verdict="holds" if sound else "fails",
        because=(
            f"Multiplied out for D = {width}, the two sides differ by {left}. The features that regard "
            f"computes give the kernel to {rounding:.1g} in float64 (allowed: 1e-10)."
        ),
        figures={
            "difference": str(left),
            "largest_relative_error": rounding,
            "features": math.comb(width + 2, 2),
        },
        picture=square_picture(linear_factor=2),
        counter_example=""
        if sound
        else f"The sides differ by {left}, the numbers by {rounding:.1g}.",
    )


@claim(
    statement="The features of (q·k + 1)² have their linear terms without √2.",
    formula="φ(x) = (1, xᵢ, xᵢ², √2 xᵢxⱼ)",
    source="seed 004",
    proof="symbolic",
    marked_wrong=True,
    ranges={"width": (1, 10), "linear_factor": (0, 100)},
)
def squared_kernel_without_the_root(*, width: int = 2, linear_factor: int = 1) -> Finding:
    """Multiply both sides out; a linear factor of 2 puts it right."""
    left = square_gap(width=width, linear_factor=linear_factor)
    kernel = (width + 1) ** 2
    return Finding(
        verdict="holds" if left == 0 else "fails",
        because=(
            f"φ(q)·φ(k) minus (q·k + 1)² is {left}: the middle term is {linear_factor} q·k, and "
            + ("so it should be." if left == 0 else "should be 2 q·k.")
        ),
        figures={
            "difference": str(left),
            "kernel_at_ones": kernel,
            "given_at_ones": kernel + at_ones(left),
        },
        picture=square_picture(linear_factor=linear_factor),
        counter_example=(
            ""
            if left == 0
            else f"q = k = (1, …, 1) of width {width}: φ(q)·φ(k) = {kernel + at_ones(left):g}, "
            f"(q·k + 1)² = {kernel}."
        ),
    )


def reach_verdict(reach: float) -> Verdict:
    """It holds up to a bound, without one as far as was searched, or nowhere."""
    if reach <= 0:
        return "fails"
    return "holds" if reach >= FARTHEST else "holds if"
