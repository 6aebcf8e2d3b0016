"""The minimum of an L2-regularised linear autoencoder, and the parameters of a recursive autoencoder.

Minima are found by descent without eigenvectors (`regard.models.autoencoders.linear`) and compared with an
eigenvalue decomposition (PCA). X is centred, s₁ ≥ s₂ ≥ … are the eigenvalues of XXᵀ/n, K is the code size
and λ the penalty on both factors (Kunin et al. 2019).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from torch import nn

from regard.claims.engine import claim, count_parameters, curve_figure, line, matrix_figure
from regard.core.records.claim import CurveFigure, Finding, Verdict
from regard.models.autoencoders.linear import Factors, descend
from regard.models.autoencoders.recursive import RecursiveAutoencoder

# Stopping criterion: change of the product of the factors in one iteration.
CONVERGENCE_TOLERANCE = 1e-10
TOLERANCE = 1e-6
SAMPLES, FEATURES = 200, 8
PENALTIES = (0, 100)
# Descent converges slowly if an eigenvalue is within this fraction of the penalty.
MARGIN = 0.05


class DescentResult(NamedTuple):
    """Converged factors, and the eigenvalue decomposition of the data."""

    factors: Factors
    eigenvalues: Float[np.ndarray, " features"]
    axes: Float[np.ndarray, "features features"]


@claim(
    statement="At the minimum the encoder is the transposed decoder.",
    formula="λ > 0 ⇒ W₁ = W₂ᵀ",
    source="Kunin et al. 2019, theorem 2.1",
    proof="numeric",
    ranges={"components": (1, FEATURES), "penalty": PENALTIES, "max_iter": (1, 20_000)},
)
def encoder_is_the_decoder_transposed(
    *, components: int = 3, penalty: float = 0.2, max_iter: int = 5000, seed: int = 0
) -> Finding:
    """Minimise from a random start and compare both factors."""
    encoder, decoder = run_descent(
        components, penalty=penalty, max_iter=max_iter, seed=seed
    ).factors
    error = float(np.abs(encoder - decoder.T).max())
    return Finding(
        verdict="holds" if error <= TOLERANCE else "fails",
        reason=f"K = {components}, λ = {penalty:g}, random start: the largest entry of W₁ − W₂ᵀ is "
        f"{error:.1g} (tolerance {TOLERANCE:g}). A rotation of the codes rotates both factors.",
        values={"error": error, "largest_entry": float(np.abs(encoder).max())},
        figure=matrix_figure(
            "W₁ (top) and W₂ᵀ (bottom)",
            np.vstack([encoder, decoder.T]).tolist(),
            rows=(f"{name} {i + 1}" for name in ("W₁", "W₂ᵀ") for i in range(components)),
        ),
        counter_example=f"λ = {penalty:g}: they differ by {error:.3g}.",
    )


@claim(
    statement="The codes span the top-K principal subspace.",
    formula="rows of W₁ span u₁ … u_K",
    source="Baldi and Hornik 1989; Kunin et al. 2019",
    proof="numeric",
    ranges={"components": (1, FEATURES), "penalty": PENALTIES, "max_iter": (1, 20_000)},
)
def codes_span_the_principal_subspace(
    *, components: int = 3, penalty: float = 0.2, max_iter: int = 5000, seed: int = 0
) -> Finding:
    """Largest principal angle between the rows of W₁ and the first K eigenvectors."""
    result = run_descent(components, penalty=penalty, max_iter=max_iter, seed=seed)
    kept = int((result.eigenvalues[:components] > penalty).sum())
    sine = largest_angle_sine(result.factors.encoder, result.axes[:, :kept])
    verdict: Verdict = (
        "fails" if sine > TOLERANCE else "holds" if kept == components else "holds if"
    )
    return Finding(
        verdict=verdict,
        reason=f"K = {components}, λ = {penalty:g}: the sine of the largest principal angle is "
        f"{sine:.1g} (tolerance {TOLERANCE:g}); {kept} of the {components} eigenvalues exceed λ.",
        values={"sine": sine, "kept": kept},
        figure=matrix_figure(
            "|cosine| between rows of W₁ and principal axes",
            cosines(result),
            rows=(f"row {i + 1}" for i in range(components)),
            columns=(f"u{i + 1}" for i in range(FEATURES)),
        ),
        condition=f"λ < s_K = {result.eigenvalues[components - 1]:.3f}; here only {kept} axes are spanned",
        counter_example=f"K = {components}: the largest principal angle has a sine of {sine:.3g}.",
    )


@claim(
    statement="The penalty shrinks the singular values of the encoder.",
    formula="σᵢ = √max(0, 1 − λ/sᵢ)",
    source="Kunin et al. 2019, theorem 2.1",
    proof="numeric",
    ranges={"components": (1, FEATURES), "penalty": PENALTIES},
)
def singular_values_are_shrunk(
    *, components: int = 5, penalty: float = 0.2, seed: int = 0
) -> Finding:
    """Compare the singular values of the encoder with the formula."""
    result = run_descent(components, penalty=penalty, seed=seed)
    values = np.linalg.svd(result.factors.encoder, compute_uv=False)
    expected = shrunk(result.eigenvalues[:components], penalty)
    error = float(np.abs(values - expected).max())
    return Finding(
        verdict="holds" if error <= TOLERANCE else "fails",
        reason=f"λ = {penalty:g}: found {_listed(values)}, formula {_listed(expected)}; largest difference "
        f"{error:.1g} (tolerance {TOLERANCE:g}).",
        values={"error": error, "largest": float(values[0]), "smallest": float(values[-1])},
        figure=_values_figure(result, values, penalty=penalty),
        counter_example=f"λ = {penalty:g}: they differ by {error:.3g}.",
    )


@claim(
    statement="The singular values of the encoder are 1.",
    formula="σᵢ = 1",
    source="course notes: linear autoencoders",
    proof="numeric",
    known_false=True,
    ranges={"components": (1, FEATURES), "penalty": PENALTIES},
)
def singular_values_are_one(*, components: int = 3, penalty: float = 0.2, seed: int = 0) -> Finding:
    """Compare the singular values of the encoder with 1."""
    result = run_descent(components, penalty=penalty, seed=seed)
    values = np.linalg.svd(result.factors.encoder, compute_uv=False)
    error = float(np.abs(values - 1).max())
    return Finding(
        verdict="holds" if error <= TOLERANCE else "fails",
        reason=f"λ = {penalty:g}: they are {_listed(values)}. The penalty shrinks both factors, more for "
        "axes with less variance; without a penalty they are 1.",
        values={"error": error, "largest": float(values[0]), "smallest": float(values[-1])},
        figure=_values_figure(result, values, penalty=penalty),
        counter_example=f"λ = {penalty:g}: {_listed(values)}.",
    )


@claim(
    statement="The encoder has rank K.",
    formula="rank W₁ = #{i ≤ K: sᵢ > λ}",
    source="Kunin et al. 2019",
    proof="numeric",
    ranges={"components": (1, FEATURES), "largest_penalty": PENALTIES},
)
def encoder_has_full_rank(
    *, components: int = 5, largest_penalty: float = 3.0, seed: int = 0
) -> Finding:
    """Increase the penalty beyond every eigenvalue and count the remaining components."""
    eigenvalues = run_descent(components, penalty=0.0, seed=seed).eigenvalues[:components]
    penalties = away_from(eigenvalues, [largest_penalty * step / 12 for step in range(13)])
    ranks = [rank_at(components, penalty=penalty, seed=seed) for penalty in penalties]
    expected = [int((eigenvalues > penalty).sum()) for penalty in penalties]
    last, agree = float(eigenvalues[-1]), sum(a == b for a, b in zip(ranks, expected, strict=True))
    full: Verdict = "holds" if min(ranks) == components else "holds if"
    return Finding(
        verdict=full if ranks == expected else "fails",
        reason=f"At {agree} of {len(penalties)} penalties from 0 to {largest_penalty:g}, none within "
        f"{MARGIN:.0%} of an eigenvalue, the rank is the number of eigenvalues above λ; it falls from "
        f"{max(ranks)} to {min(ranks)}, and s_K = {last:.3f}.",
        values={
            "s_k": last,
            "max_rank": max(ranks),
            "min_rank": min(ranks),
            "agrees": ranks == expected,
        },
        figure=curve_figure(
            "Rank of the encoder by penalty",
            ("penalty λ", "rank of W₁"),
            line("rank", penalties, ranks),
            marks=((value, f"s{index + 1}") for index, value in enumerate(eigenvalues)),
        ),
        condition=f"λ < s_K = {last:.3f}",
        counter_example=f"Ranks {ranks}, expected {expected}.",
    )


@claim(
    statement="A recursive autoencoder has 4·D_p·D_x + D_p + 2·D_x + D_c·D_p + D_c parameters.",
    formula="4·D_p·D_x + D_p + 2·D_x + D_c·D_p + D_c",
    source="Socher et al. 2011",
    proof="counted",
    ranges={"word_dim": (1, 256), "classes": (1, 1000), "phrase_dim": (1, 256)},
)
def recursive_autoencoder_parameter_count(
    *, word_dim: int = 24, classes: int = 5, phrase_dim: int = 16
) -> Finding:
    """Count separate layers with two sizes, and `RecursiveAutoencoder`, which has D_p = D_x."""
    layers = layers_count(word_dim=word_dim, phrase_dim=phrase_dim, classes=classes)
    model = model_count(word_dim=word_dim, classes=classes)
    expected = [
        formula_count(word_dim=word_dim, phrase_dim=p, classes=classes)
        for p in (phrase_dim, word_dim)
    ]
    agrees = [layers, model] == expected
    dims = (8, 16, 32, 64)
    counted = [model_count(word_dim=d, classes=classes) for d in dims]
    formula = [formula_count(word_dim=d, phrase_dim=d, classes=classes) for d in dims]
    return Finding(
        verdict="holds" if agrees else "fails",
        reason=(
            f"D_x = {word_dim}, D_c = {classes}: with D_p = {phrase_dim} the three layers have {layers:,} "
            f"parameters ({expected[0]:,} expected); the model, with D_p = D_x, has {model:,} without its "
            f"embedding ({expected[1]:,} expected)."
        ),
        values={
            "layers": layers,
            "model": model,
            "expected_layers": expected[0],
            "expected_model": expected[1],
        },
        figure=curve_figure(
            f"Parameters without the embedding, {classes} classes",
            ("dimension D", "parameters"),
            line("counted", dims, counted, points_only=True),
            line("4D² + 3D + D_c·D + D_c", dims, formula, dashed=True),
            log="xy",
        ),
        counter_example=f"{[layers, model]} counted, {expected} expected.",
    )


def away_from(eigenvalues: Float[np.ndarray, " kept"], penalties: list[float]) -> list[float]:
    """The penalties that are not within `MARGIN` of an eigenvalue.

    >>> away_from(np.array([2.0, 1.0]), [0.0, 0.99, 1.5])
    [0.0, 1.5]
    """
    return [p for p in penalties if bool((np.abs(eigenvalues - p) > MARGIN * p).all())]


def run_descent(
    components: int, *, penalty: float, seed: int, max_iter: int = 5000
) -> DescentResult:
    """Minimise the loss on random samples with decreasing variances along rotated axes."""
    generator = np.random.default_rng(seed)
    rotation = np.linalg.qr(generator.standard_normal((FEATURES, FEATURES))).Q
    scales = np.sqrt([4.0, 2.5, 1.5, 0.9, 0.5, 0.25, 0.1, 0.05])
    samples = generator.standard_normal((SAMPLES, FEATURES)) * scales @ rotation.T
    root = (samples - samples.mean(axis=0)) / np.sqrt(SAMPLES)
    minimum = descend(
        root,
        n_components=components,
        penalty=penalty,
        max_iter=max_iter,
        tol=CONVERGENCE_TOLERANCE,
        generator=np.random.RandomState(seed),
    )
    eigenvalues, axes = np.linalg.eigh(root.T @ root)
    return DescentResult(minimum.factors, eigenvalues[::-1], axes[:, ::-1])


def shrunk(eigenvalues: Float[np.ndarray, " kept"], penalty: float) -> Float[np.ndarray, " kept"]:
    """√max(0, 1 − λ/sᵢ).

    >>> shrunk(np.array([4.0, 1.0]), 3.0)
    array([0.5, 0. ])
    """
    return np.sqrt(np.maximum(0, 1 - penalty / eigenvalues))


def largest_angle_sine(
    rows: Float[np.ndarray, "components features"], axes: Float[np.ndarray, "features kept"]
) -> float:
    """Sine of the largest principal angle between two subspaces; 1 if their dimensions differ."""
    _, sizes, basis = np.linalg.svd(rows, full_matrices=False)
    basis = basis[sizes > TOLERANCE]
    if len(basis) != axes.shape[1]:
        return 1.0
    residual = basis - basis @ axes @ axes.T
    return float(np.linalg.norm(residual, ord=2))


def cosines(result: DescentResult) -> tuple[tuple[float, ...], ...]:
    """|cosine| between rows of the encoder and principal axes; 0 for a zero row."""
    encoder = result.factors.encoder
    lengths = np.maximum(np.linalg.norm(encoder, axis=1, keepdims=True), 1e-300)
    return tuple(map(tuple, np.abs(encoder / lengths @ result.axes).tolist()))


def rank_at(components: int, *, penalty: float, seed: int) -> int:
    """Rank of the encoder at the minimum."""
    encoder = run_descent(components, penalty=penalty, max_iter=400, seed=seed).factors.encoder
    return int(np.linalg.matrix_rank(encoder, tol=TOLERANCE))


def formula_count(*, word_dim: int, phrase_dim: int, classes: int) -> int:
    """Closed-form number of parameters.

    >>> formula_count(word_dim=2, phrase_dim=3, classes=1)  # 24 + 3 + 4 + 3 + 1
    35
    """
    return 4 * phrase_dim * word_dim + phrase_dim + 2 * word_dim + classes * phrase_dim + classes


def layers_count(*, word_dim: int, phrase_dim: int, classes: int) -> int:
    """Parameters of an encoder of two words, a decoder and a classifier."""
    layers = nn.ModuleList(
        [
            nn.Linear(2 * word_dim, phrase_dim),
            nn.Linear(phrase_dim, 2 * word_dim),
            nn.Linear(phrase_dim, classes),
        ]
    )
    return count_parameters(layers)


def model_count(*, word_dim: int, classes: int) -> int:
    """Parameters of `RecursiveAutoencoder` without its word embedding."""
    model = RecursiveAutoencoder(source=11, outputs=classes, model_dim=word_dim)
    return count_parameters(model) - count_parameters(model.embedding)


def _listed(values: Float[np.ndarray, " values"]) -> str:
    return ", ".join(f"{value:.4f}" for value in values)


def _values_figure(
    result: DescentResult, values: Float[np.ndarray, " values"], *, penalty: float
) -> CurveFigure:
    grid = np.linspace(result.eigenvalues[-1], result.eigenvalues[0], 60)
    return curve_figure(
        f"Singular values of the encoder, λ = {penalty:g}",
        ("eigenvalue s", "σ"),
        line("√max(0, 1 − λ/s)", grid, shrunk(grid, penalty), dashed=True),
        line("found by descent", result.eigenvalues[: len(values)], values, points_only=True),
        marks=((penalty, "λ"),),
    )
