"""Where the loss of a regularised linear autoencoder is least, and what a recursive one has to learn.

The linear ones are found by the descent of `models/factor_descent.py`, which knows no eigenvectors, and
held against an eigenvalue decomposition. X is centred, s₁ ≥ s₂ ≥ … are the eigenvalues of XXᵀ/n, K the
width of the code and λ the penalty on both factors (Kunin et al. 2019).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from torch import nn

from regard.claims.engine import claim
from regard.core.records.claim import Curve, CurvePicture, Finding, MatrixPicture, Verdict
from regard.models.autoencoders.linear import Factors, descend
from regard.models.autoencoders.recursive import RecursiveAutoencoder

# The descent rests when a round changes the product of its factors by less than 1e-10.
AT_REST = 1e-10
TOLERANCE = 1e-6
SAMPLES, FEATURES = 200, 8
PENALTIES = (0, 100)
# A component whose eigenvalue is so near to the penalty, as a share of it, is kept or dropped very slowly.
MARGIN = 0.05


class Descended(NamedTuple):
    """Factors where the descent rests, and what an eigenvalue decomposition says of the data."""

    factors: Factors
    eigenvalues: Float[np.ndarray, " features"]
    axes: Float[np.ndarray, "features features"]


@claim(
    statement="At the least loss the encoder is the decoder transposed.",
    formula="λ > 0 ⇒ W₁ = W₂ᵀ",
    source="seed 004, question 1; Kunin et al. 2019, theorem 2.1",
    proof="numeric",
    ranges={"components": (1, FEATURES), "penalty": PENALTIES, "rounds": (1, 20_000)},
)
def encoder_is_the_decoder_transposed(
    *, components: int = 3, penalty: float = 0.2, rounds: int = 5000, seed: int = 0
) -> Finding:
    """Descend from a random start and compare the two."""
    encoder, decoder = descended(components, penalty=penalty, rounds=rounds, seed=seed).factors
    apart = float(np.abs(encoder - decoder.T).max())
    return Finding(
        verdict="holds" if apart <= TOLERANCE else "fails",
        because=(
            f"After a descent from a random start, K = {components} and λ = {penalty:g}, no entry of "
            f"W₁ − W₂ᵀ exceeds {apart:.1g} (allowed: {TOLERANCE:g}). Rotated codes rotate both."
        ),
        figures={"apart": apart, "largest_entry": float(np.abs(encoder).max())},
        picture=MatrixPicture(
            title="W₁, and below it W₂ᵀ",
            values=tuple(map(tuple, np.vstack([encoder, decoder.T]).tolist())),
            row_labels=tuple(
                f"{name} {i + 1}" for name in ("W₁", "W₂ᵀ") for i in range(components)
            ),
        ),
        counter_example=""
        if apart <= TOLERANCE
        else f"λ = {penalty:g}: they differ by {apart:.3g}.",
    )


@claim(
    statement="The codes span the top-K principal subspace.",
    formula="rows of W₁ span u₁ … u_K",
    source="seed 004, question 1; Baldi and Hornik 1989; Kunin et al. 2019",
    proof="numeric",
    ranges={"components": (1, FEATURES), "penalty": PENALTIES, "rounds": (1, 20_000)},
)
def codes_span_the_principal_subspace(
    *, components: int = 3, penalty: float = 0.2, rounds: int = 5000, seed: int = 0
) -> Finding:
    """Descend, and find the largest angle between the rows of W₁ and the first K eigenvectors."""
    found = descended(components, penalty=penalty, rounds=rounds, seed=seed)
    kept = int((found.eigenvalues[:components] > penalty).sum())
    sine = largest_sine(found.factors.encoder, found.axes[:, :kept])
    verdict: Verdict = (
        "fails" if sine > TOLERANCE else "holds" if kept == components else "holds if"
    )
    return Finding(
        verdict=verdict,
        because=(
            f"K = {components}, λ = {penalty:g}: the sine of the largest angle between the spans is "
            f"{sine:.1g} (allowed: {TOLERANCE:g}); {kept} of the {components} eigenvalues exceed λ."
        ),
        figures={"sine": sine, "kept": kept},
        picture=MatrixPicture(
            title="|cosine| of each row of W₁ with each principal axis",
            values=cosines(found),
            row_labels=tuple(f"row {i + 1}" for i in range(components)),
            column_labels=tuple(f"u{i + 1}" for i in range(FEATURES)),
        ),
        boundary=(
            f"λ < s_K = {found.eigenvalues[components - 1]:.3f}; here only the first {kept} are spanned"
            if verdict == "holds if"
            else ""
        ),
        counter_example=(
            f"K = {components}: the largest angle has a sine of {sine:.3g}."
            if verdict == "fails"
            else ""
        ),
    )


@claim(
    statement="The singular values of the encoder are shrunk by the penalty over the eigenvalue.",
    formula="σᵢ = √max(0, 1 − λ/sᵢ)",
    source="corrects seed 004; Kunin et al. 2019, theorem 2.1",
    proof="numeric",
    ranges={"components": (1, FEATURES), "penalty": PENALTIES},
)
def singular_values_are_shrunk(
    *, components: int = 5, penalty: float = 0.2, seed: int = 0
) -> Finding:
    """Descend, and compare the singular values of the encoder with the formula."""
    found = descended(components, penalty=penalty, seed=seed)
    values = np.linalg.svd(found.factors.encoder, compute_uv=False)
    said = shrunk(found.eigenvalues[:components], penalty)
    apart = float(np.abs(values - said).max())
    return Finding(
        verdict="holds" if apart <= TOLERANCE else "fails",
        because=(
            f"λ = {penalty:g}: found {_listed(values)}, by the formula {_listed(said)}; they differ by "
            f"{apart:.1g} (allowed: {TOLERANCE:g})."
        ),
        figures={"apart": apart, "largest": float(values[0]), "smallest": float(values[-1])},
        picture=_values_picture(found, values, penalty=penalty),
        counter_example=""
        if apart <= TOLERANCE
        else f"λ = {penalty:g}: they differ by {apart:.3g}.",
    )


@claim(
    statement="The singular values of the encoder are 1.",
    formula="σᵢ = 1",
    source="seed 004, question 1",
    proof="numeric",
    marked_wrong=True,
    ranges={"components": (1, FEATURES), "penalty": PENALTIES},
)
def singular_values_are_one(*, components: int = 3, penalty: float = 0.2, seed: int = 0) -> Finding:
    """Descend, and look at the singular values of the encoder."""
    found = descended(components, penalty=penalty, seed=seed)
    values = np.linalg.svd(found.factors.encoder, compute_uv=False)
    apart = float(np.abs(values - 1).max())
    return Finding(
        verdict="holds" if apart <= TOLERANCE else "fails",
        because=(
            f"λ = {penalty:g}: they are {_listed(values)}. A penalty on both factors makes both smaller, "
            "by the more the less variance an axis has; only without one are they 1."
        ),
        figures={"apart": apart, "largest": float(values[0]), "smallest": float(values[-1])},
        picture=_values_picture(found, values, penalty=penalty),
        counter_example="" if apart <= TOLERANCE else f"λ = {penalty:g}: {_listed(values)}.",
    )


@claim(
    statement="The encoder has rank K.",
    formula="rank W₁ = #{i ≤ K: sᵢ > λ}",
    source="seed 004, which takes it for granted; Kunin et al. 2019",
    proof="numeric",
    ranges={"components": (1, FEATURES), "largest_penalty": PENALTIES},
)
def encoder_has_full_rank(
    *, components: int = 5, largest_penalty: float = 3.0, seed: int = 0
) -> Finding:
    """Raise the penalty past every eigenvalue and count what the descent keeps."""
    eigenvalues = descended(components, penalty=0.0, seed=seed).eigenvalues[:components]
    penalties = clear_of(eigenvalues, [largest_penalty * step / 12 for step in range(13)])
    ranks = [rank_at(components, penalty=penalty, seed=seed) for penalty in penalties]
    said = [int((eigenvalues > penalty).sum()) for penalty in penalties]
    last, agree = float(eigenvalues[-1]), sum(a == b for a, b in zip(ranks, said, strict=True))
    full: Verdict = "holds" if min(ranks) == components else "holds if"
    return Finding(
        verdict=full if ranks == said else "fails",
        because=(
            f"At {agree} of {len(penalties)} penalties from 0 to {largest_penalty:g}, none within "
            f"{MARGIN:.0%} of an eigenvalue, the descent keeps as many components as eigenvalues exceed λ; "
            f"it keeps from {max(ranks)} down to {min(ranks)}, and s_K = {last:.3f}."
        ),
        figures={"s_k": last, "most": max(ranks), "least": min(ranks), "agrees": ranks == said},
        picture=_rank_picture(penalties, ranks, eigenvalues),
        boundary=f"λ < s_K = {last:.3f}",
        counter_example=f"Ranks {ranks}, said {said}.",
    )


@claim(
    statement="A recursive autoencoder has 4·D_p·D_x + D_p + 2·D_x + D_c·D_p + D_c parameters.",
    formula="4·D_p·D_x + D_p + 2·D_x + D_c·D_p + D_c",
    source="seed 004, question 1; Socher et al. 2011",
    proof="counted",
    ranges={"width": (1, 256), "classes": (1, 1000), "phrase_width": (1, 256)},
)
def recursive_autoencoder_has_so_many_parameters(
    *, width: int = 24, classes: int = 5, phrase_width: int = 16
) -> Finding:
    """Count the three layers at two widths, and the model of regard, whose phrases are as wide as words."""
    apart = layers_count(width=width, phrase_width=phrase_width, classes=classes)
    model = model_count(width=width, classes=classes)
    said = [said_count(width=width, phrase_width=p, classes=classes) for p in (phrase_width, width)]
    agrees = [apart, model] == said
    return Finding(
        verdict="holds" if agrees else "fails",
        because=(
            f"D_x = {width}, D_c = {classes}: with D_p = {phrase_width} there are {apart:,} in the three "
            f"layers ({said[0]:,} said); the model, whose D_p is D_x, has {model:,} beside its table of "
            f"words ({said[1]:,} said)."
        ),
        figures={"layers": apart, "model": model, "said_layers": said[0], "said_model": said[1]},
        picture=_count_picture(classes=classes),
        counter_example="" if agrees else f"{[apart, model]} counted, {said} said.",
    )


def clear_of(eigenvalues: Float[np.ndarray, " kept"], penalties: list[float]) -> list[float]:
    """Those penalties that are not too near to an eigenvalue.

    >>> clear_of(np.array([2.0, 1.0]), [0.0, 0.99, 1.5])
    [0.0, 1.5]
    """
    return [p for p in penalties if bool((np.abs(eigenvalues - p) > MARGIN * p).all())]


def descended(components: int, *, penalty: float, seed: int, rounds: int = 5000) -> Descended:
    """Random samples with variances that fall from axis to axis, turned; and the least loss on them."""
    generator = np.random.default_rng(seed)
    turn = np.linalg.qr(generator.standard_normal((FEATURES, FEATURES))).Q
    spreads = np.sqrt([4.0, 2.5, 1.5, 0.9, 0.5, 0.25, 0.1, 0.05])
    samples = generator.standard_normal((SAMPLES, FEATURES)) * spreads @ turn.T
    root = (samples - samples.mean(axis=0)) / np.sqrt(SAMPLES)
    found = descend(
        root,
        n_components=components,
        penalty=penalty,
        max_iter=rounds,
        tol=AT_REST,
        generator=np.random.RandomState(seed),
    )
    eigenvalues, axes = np.linalg.eigh(root.T @ root)
    return Descended(found.factors, eigenvalues[::-1], axes[:, ::-1])


def shrunk(eigenvalues: Float[np.ndarray, " kept"], penalty: float) -> Float[np.ndarray, " kept"]:
    """√max(0, 1 − λ/sᵢ).

    >>> shrunk(np.array([4.0, 1.0]), 3.0)
    array([0.5, 0. ])
    """
    return np.sqrt(np.maximum(0, 1 - penalty / eigenvalues))


def largest_sine(
    rows: Float[np.ndarray, "components features"], axes: Float[np.ndarray, "features kept"]
) -> float:
    """Of the angles between what the rows span and what the axes span; 1 if one spans more."""
    _, sizes, right = np.linalg.svd(rows, full_matrices=False)
    right = right[sizes > TOLERANCE]
    if len(right) != axes.shape[1]:
        return 1.0
    beyond = right - right @ axes @ axes.T
    return float(np.linalg.norm(beyond, ord=2))


def cosines(found: Descended) -> tuple[tuple[float, ...], ...]:
    """Between each row of the encoder and each principal axis; 0 for a row that is zero."""
    encoder = found.factors.encoder
    lengths = np.maximum(np.linalg.norm(encoder, axis=1, keepdims=True), 1e-300)
    return tuple(map(tuple, np.abs(encoder / lengths @ found.axes).tolist()))


def rank_at(components: int, *, penalty: float, seed: int) -> int:
    """How many components the descent keeps."""
    encoder = descended(components, penalty=penalty, rounds=400, seed=seed).factors.encoder
    return int(np.linalg.matrix_rank(encoder, tol=TOLERANCE))


def said_count(*, width: int, phrase_width: int, classes: int) -> int:
    """By the formula.

    >>> said_count(width=2, phrase_width=3, classes=1)  # 24 + 3 + 4 + 3 + 1
    35
    """
    return 4 * phrase_width * width + phrase_width + 2 * width + classes * phrase_width + classes


def layers_count(*, width: int, phrase_width: int, classes: int) -> int:
    """Of an encoder of two words, a decoder and a classifier."""
    layers = nn.ModuleList(
        [
            nn.Linear(2 * width, phrase_width),
            nn.Linear(phrase_width, 2 * width),
            nn.Linear(phrase_width, classes),
        ]
    )
    return sum(parameter.numel() for parameter in layers.parameters())


def model_count(*, width: int, classes: int) -> int:
    """Of the recursive autoencoder, without its table of words."""
    model = RecursiveAutoencoder(vocabulary=11, classes=classes, model_dim=width)
    words = sum(parameter.numel() for parameter in model.embedding.parameters())
    return sum(parameter.numel() for parameter in model.parameters()) - words


def _listed(values: Float[np.ndarray, " values"]) -> str:
    return ", ".join(f"{value:.4f}" for value in values)


def _values_picture(
    found: Descended, values: Float[np.ndarray, " values"], *, penalty: float
) -> CurvePicture:
    places = np.linspace(found.eigenvalues[-1], found.eigenvalues[0], 60)
    return CurvePicture(
        title=f"singular values of the encoder, λ = {penalty:g}",
        x_label="eigenvalue s",
        y_label="σ",
        curves=(
            Curve(
                label="√max(0, 1 − λ/s)",
                x=tuple(places.tolist()),
                y=tuple(shrunk(places, penalty).tolist()),
                dashed=True,
            ),
            Curve(
                label="found by descent",
                x=tuple(found.eigenvalues[: len(values)].tolist()),
                y=tuple(values.tolist()),
                points_only=True,
            ),
        ),
        marks=((penalty, "λ"),),
    )


def _rank_picture(
    penalties: list[float], ranks: list[int], eigenvalues: Float[np.ndarray, " kept"]
) -> CurvePicture:
    return CurvePicture(
        title="components that the descent keeps",
        x_label="penalty λ",
        y_label="rank of W₁",
        curves=(Curve(label="rank", x=tuple(penalties), y=tuple(map(float, ranks))),),
        marks=tuple((float(value), f"s{place + 1}") for place, value in enumerate(eigenvalues)),
    )


def _count_picture(*, classes: int) -> CurvePicture:
    widths = (8, 16, 32, 64)
    return CurvePicture(
        title=f"parameters beside the table of words, {classes} classes",
        x_label="width D",
        y_label="parameters",
        x_scale="log",
        y_scale="log",
        curves=(
            Curve(
                label="counted",
                x=tuple(map(float, widths)),
                y=tuple(float(model_count(width=d, classes=classes)) for d in widths),
                points_only=True,
            ),
            Curve(
                label="4D² + 3D + D_c·D + D_c",
                x=tuple(map(float, widths)),
                y=tuple(
                    float(said_count(width=d, phrase_width=d, classes=classes)) for d in widths
                ),
                dashed=True,
            ),
        ),
    )
