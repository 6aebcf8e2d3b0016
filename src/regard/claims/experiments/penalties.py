"""Overlaps of hops: of all distributions of a few parts in whole numbers, and of every one in symbols.

A distribution is a row of numbers that are not negative and sum to one, so that 1 may be written as their
sum. What then has no negative term shows a bound for all of them at once.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from functools import cache
from itertools import combinations
from pathlib import Path

import numpy as np
import sympy
import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.claims.engine import counter_of, line, one_thread
from regard.core.errors import RegardError
from regard.core.protocols import hop_overlap
from regard.core.records.claim import CurvePicture, MatrixPicture
from regard.layers.pooling import frobenius_penalty, pairwise_kl_penalty
from regard.models.classifiers.structured import StructuredClassifier
from regard.runs.build import build_task
from regard.runs.load import load
from regard.runs.spec import RunSpec, Sections
from regard.studies.execution.jobs import execute
from regard.tasks.classification.corpus import text_rows
from regard.tasks.text_task import evaluation_cuts, plain_batch

Hop = tuple[sympy.Symbol, ...]


def distributions(*, places: int, parts: int) -> Int[np.ndarray, "rows places"]:
    """Every way to lay `parts` equal parts on `places` places, as whole numbers.

    >>> distributions(places=2, parts=2).tolist()
    [[0, 2], [1, 1], [2, 0]]
    """
    bars = combinations(range(parts + places - 1), places - 1)
    cuts = np.array([(-1, *chosen, parts + places - 1) for chosen in bars])
    return np.diff(cuts, axis=1) - 1


def overlap_faults(rows: Int[np.ndarray, "rows places"], *, parts: int) -> tuple[int, int]:
    """How many overlaps, in units of 1/parts², leave [0, 1]; how many zeros are not where they belong."""
    overlaps = rows @ rows.T
    share_a_place = (rows > 0).astype(int) @ (rows > 0).T.astype(int) > 0
    outside = (overlaps < 0) | (overlaps > parts**2)
    return int(outside.sum()), int(((overlaps != 0) != share_a_place).sum())


def hop(name: str, *, places: int) -> Hop:
    """Weights of one hop, unknown but not negative."""
    return sympy.symbols(f"{name}1:{places + 1}", nonnegative=True)


def overlap(a: Hop, b: Hop) -> sympy.Expr:
    """a·b."""
    return sympy.Add(*(one * other for one, other in zip(a, b, strict=True)))


def beside_the_overlap(a: Hop, b: Hop) -> sympy.Expr:
    """1 − a·b, the 1 written as (Σa)(Σb), multiplied out.

    >>> beside_the_overlap(hop("a", places=2), hop("b", places=2))
    a1*b2 + a2*b1
    """
    return sympy.expand(sympy.Add(*a) * sympy.Add(*b) - overlap(a, b))


def is_never_negative(expression: sympy.Expr) -> bool:
    """Whether every term is a product of numbers that are not negative; nothing is a sum of none."""
    return all(term.is_nonnegative for term in sympy.Add.make_args(expression))


def sum_of(expression: sympy.Expr) -> str:
    """In words."""
    terms = [term for term in sympy.Add.make_args(expression) if term != 0]
    return f"a sum of {len(terms)} products" if terms else "0"


def has_every_pair(expression: sympy.Expr, a: Hop, b: Hop) -> bool:
    """Whether aⱼbₖ is a term of it for all j ≠ k; with no negative term it is 0 only if they all are."""
    pairs = {a[j] * b[k] for j in range(len(a)) for k in range(len(b)) if j != k}
    return pairs <= set(expression.as_coefficients_dict())


def spread_rest(a: Hop) -> sympy.Expr:
    """n‖a‖² − 1 less Σ_{j<k} (aⱼ − aₖ)², the 1 written as (Σa)²: 0 if ‖a‖² ≥ 1/n because squares are."""
    squares = sympy.Add(*((one - other) ** 2 for one, other in combinations(a, 2)))
    return sympy.expand(len(a) * overlap(a, a) - sympy.Add(*a) ** 2 - squares)


# Penalties on hops in the forms they are written in: what each takes, and where KL leads.
#
# The element-by-element forms of the pairwise KL divergence are written out here, to be counted
# beside the product that `layers/penalties.py` uses.


Weights = Float[Tensor, "batch hops length"]


def elementwise_kl(weights: Weights) -> Float[Tensor, " batch"]:
    """Σ KL(aᵢ ‖ aⱼ) as Σ a log a − a log b, both logarithms taken at every place of every pair."""
    first, second = torch.broadcast_tensors(weights[:, :, None], weights[:, None])
    return (first * first.log() - first * second.log()).sum(dim=(1, 2, 3))


def quotient_kl(weights: Weights) -> Float[Tensor, " batch"]:
    """The same as Σ a log(a / b): one logarithm and one division at every place of every pair."""
    first, second = weights[:, :, None], weights[:, None]
    return (first * (first / second).log()).sum(dim=(1, 2, 3))


KL_FORMS: dict[str, Callable[[Weights], Tensor]] = {
    "Σ a log a − a log b for every pair": elementwise_kl,
    "Σ a log(a/b) for every pair": quotient_kl,
    "entropies − A·log Aᵀ, one product": pairwise_kl_penalty,
}


def operations_share(kl: Callable[[Weights], Tensor], *, hops: int, n: int) -> float:
    """The Frobenius penalty's operations as a share of those of a KL penalty."""
    weights = random_weights(hops=hops, n=n)
    counted = [counter_of(lambda of=of: of(weights)) for of in (frobenius_penalty, kl)]  # type: ignore[misc]
    return counted[0].operations / counted[1].operations


def random_weights(*, hops: int, n: int, batch_size: int = 1) -> Weights:
    """Of scores drawn alike for all."""
    drawn = torch.Generator().manual_seed(0)
    return torch.randn(batch_size, hops, n, generator=drawn, dtype=torch.float64).softmax(dim=-1)


def parting(
    *, hops: int, n: int, seed: int, most: float = 12.0, steps: int = 25
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Hops that start alike and are drawn each to its own place: distance, KL and Frobenius penalty."""
    start = torch.randn(n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) / 4
    distances = torch.linspace(0, most, steps, dtype=torch.float64)
    drawn = torch.eye(hops, n, dtype=torch.float64)
    weights = (start + distances[:, None, None] * drawn).softmax(dim=-1)
    both = pairwise_kl_penalty(weights), frobenius_penalty(weights)
    return (distances.numpy(), both[0].numpy(), both[1].numpy())


def two_hop_kl(sharpness: float) -> float:
    """KL both ways between (1 − ε, ε) and (ε, 1 − ε), ε = exp(−sharpness)."""
    small = math.exp(-sharpness)
    return 2 * (1 - 2 * small) * (math.log1p(-small) + sharpness)


def formula_error() -> float:
    """The largest relative difference between `two_hop_kl` and the penalty, where ε is a number."""
    errors = []
    for sharpness in (1.0, 3.0, 10.0, 30.0, 100.0, 600.0):
        small = math.exp(-sharpness)
        hops = torch.tensor([[[1 - small, small], [small, 1 - small]]], dtype=torch.float64)
        right = two_hop_kl(sharpness)
        errors.append(abs(float(pairwise_kl_penalty(hops)) - right) / right)
    return max(errors)


def kl_of_draws(*, hops: int, n: int, seed: int, draws: int = 200) -> tuple[float, float]:
    """The largest |KL| of equal hops; and over hops that differ, the least KL over ½‖a − b‖₁² of the two
    that differ most, which is 1 or more if KL is 0 for equal hops only (Pinsker's inequality).

    Some differ in all scores, some in one score of one hop, and by between a hundredth and ten.
    """
    drawn = torch.Generator().manual_seed(seed)
    equal = torch.randn(draws, 1, n, generator=drawn, dtype=torch.float64).expand(-1, hops, -1)
    size = 10 ** torch.linspace(-2, 1, draws, dtype=torch.float64)[:, None, None]
    everywhere = size * torch.randn(draws, hops, n, generator=drawn, dtype=torch.float64)
    in_one_place = torch.zeros_like(everywhere)
    in_one_place[:, 0, 0] = size[:, 0, 0]
    apart = torch.cat([equal + everywhere, equal + in_one_place]).softmax(dim=-1)
    least = 0.5 * torch.cdist(apart, apart, p=1.0).amax(dim=(1, 2)) ** 2
    of_equal = pairwise_kl_penalty(equal.softmax(dim=-1)).abs().max()
    return float(of_equal), float((pairwise_kl_penalty(apart) / least).min())


# Small structured classifiers trained with and without a penalty, and how alike their hops came
# out.
#
# The texts are the embedded films, whose language is to be told. All variants share data, seeds and
# budget.


# The first is what the others are compared with.
ARMS = ("none", "frobenius", "kl")


@cache
def trained_overlaps(*, seeds: int, steps: int, penalty_weight: float) -> dict[str, list[float]]:
    """Variant → the mean overlap of hops on the texts held out to test on, seed by seed."""
    if seeds < 2 or steps < 1:
        raise RegardError(
            f"seeds={seeds}, steps={steps}: two seeds or more show a spread, and one step or more trains."
        )
    found: dict[str, list[float]] = {variant: [] for variant in ARMS}
    with tempfile.TemporaryDirectory() as folder, one_thread():
        for seed in range(seeds):
            for variant in ARMS:
                place = Path(folder) / f"{variant}-{seed}"
                sections = sections_of(
                    variant, seed=seed, steps=steps, penalty_weight=penalty_weight
                )
                if not execute(sections, place):
                    raise KeyboardInterrupt
                found[variant].append(overlap_of(place))
    return found


def overlap_of(run: Path) -> float:
    """How alike the hops of a trained run are, on the texts it is tested on."""
    trained = load(run)
    assert isinstance(trained.model, StructuredClassifier)
    texts = build_task(trained.spec, vocabularies=trained.vocabularies).corpus.test.sources
    rows = text_rows(texts, trained.vocabularies, trained.spec.task_options)
    cuts, overlaps = evaluation_cuts(rows), []
    for place in range(len(cuts)):
        batch = plain_batch(rows, cuts.indices(place))
        with torch.inference_mode():
            overlaps.append(hop_overlap(trained.model.reading(batch.tokens, batch.lengths).tokens))
    return float(torch.cat(overlaps).mean())


def sections_of(variant: str, *, seed: int, steps: int, penalty_weight: float) -> Sections:
    """What one run is, in full."""
    sections: Sections = {
        "task": {
            "name": "classify",
            "tokens": "running_words",
            "vocabulary_size": 3000,
            "max_length": 64,
            "batch_tokens": 1024,
        },
        "model": {
            "name": "structured",
            "model_dim": 32,
            "hidden_dim": 24,
            "hops": 4,
            "attention_dim": 24,
            "penalty": variant,
            "penalty_weight": penalty_weight,
            "dropout": 0.2,
        },
        "training": {
            "steps": steps,
            "learning_rate": 5e-3,
            "warmup_steps": min(20, steps),
            "evaluate_every": steps,
            "keep": "last",
        },
        "seed": seed,
        "threads": 1,
    }
    return RunSpec.from_sections(sections).as_sections()


# The pictures of the claims about weights and penalties.


THIRD = 1 / 3


def weights_picture(title: str, values: Float[Tensor, "hops length"]) -> MatrixPicture:
    """A row for every hop."""
    return MatrixPicture(
        title=title,
        values=tuple(tuple(row) for row in values.tolist()),
        row_labels=tuple(f"hop {hop}" for hop in range(len(values))),
    )


def overlaps_picture(rows: Int[np.ndarray, "rows places"], *, parts: int) -> MatrixPicture:
    """Overlaps of some of the distributions, evenly chosen."""
    chosen = rows[:: max(1, len(rows) // 10)]
    names = tuple("·".join(str(part) for part in row) for row in chosen)
    overlaps = (chosen @ chosen.T) / parts**2
    return MatrixPicture(
        title=f"Overlaps of distributions, in parts of 1/{parts}",
        values=tuple(tuple(row) for row in overlaps.tolist()),
        row_labels=names,
        column_labels=names,
    )


def parting_picture(
    distances: np.ndarray, kl: np.ndarray, frobenius: np.ndarray, *, hops: int
) -> CurvePicture:
    """Both penalties as hops are moved apart."""
    return CurvePicture(
        title=f"{hops} hops moved apart",
        x_label="distance of scores",
        y_label="penalty",
        curves=(
            line(label="pairwise KL", x=distances, y=kl),
            line(label="‖AAᵀ − I‖²", x=distances, y=frobenius),
        ),
    )


def self_overlap_picture(*, places: int) -> CurvePicture:
    """‖a‖² from even weights to a one-hot: one place has the share p, the others what is left."""
    shares = [1 / places + (1 - 1 / places) * step / 40 for step in range(41)]
    others = max(1, places - 1)
    squares = [share**2 + (1 - share) ** 2 / others for share in shares]
    return CurvePicture(
        title=f"Overlap of two equal hops over {places} places",
        x_label="weight of the first place",
        y_label="a·a",
        curves=(
            line(label="‖a‖²", x=shares, y=squares),
            line(label="1", x=(shares[0], shares[-1]), y=(1.0, 1.0), dashed=True),
        ),
    )


def shares_picture(*, hops: int) -> CurvePicture:
    """The shares by length."""
    lengths = (8, 16, 32, 64, 128)
    curves = [
        line(
            label=form,
            x=lengths,
            y=tuple(operations_share(kl, hops=hops, n=length) for length in lengths),
        )
        for form, kl in KL_FORMS.items()
    ]
    third = line(label="a third", x=(8, 128), y=(THIRD, THIRD), dashed=True)
    return CurvePicture(
        title=f"Operations of the Frobenius penalty as a share of KL's, {hops} hops",
        x_label="length",
        y_label="share",
        x_scale="log",
        curves=(*curves, third),
    )


def times_picture(times: dict[str, list[float]]) -> CurvePicture:
    """Every form's time in every round."""
    return CurvePicture(
        title="Time of every round",
        x_label="round",
        y_label="microseconds",
        y_scale="log",
        curves=tuple(
            line(
                label=name,
                x=tuple(range(1, len(seconds) + 1)),
                y=tuple(1e6 * each for each in seconds),
            )
            for name, seconds in times.items()
        ),
    )


def unbounded_picture() -> CurvePicture:
    """Both penalties of two hops that part."""
    places = tuple(0.25 * 2**step for step in range(12))
    hops = torch.tensor([[[s, 0.0], [0.0, s]] for s in places], dtype=torch.float64).softmax(dim=-1)
    return CurvePicture(
        title="Two hops that part: KL grows without end, the Frobenius penalty stays within bounds",
        x_label="−log ε",
        y_label="penalty",
        x_scale="log",
        curves=(
            line(label="pairwise KL", x=places, y=tuple(two_hop_kl(place) for place in places)),
            line(label="‖AAᵀ − I‖²", x=places, y=tuple(frobenius_penalty(hops).tolist())),
        ),
    )


def overlap_points_picture(overlaps: dict[str, list[float]]) -> CurvePicture:
    """Every training's overlap."""
    return CurvePicture(
        title="Overlap of hops on held-out texts, by seed",
        x_label="seed",
        y_label="mean cosine of two hops",
        curves=tuple(
            line(label=variant, x=tuple(range(len(values))), y=values, points_only=True)
            for variant, values in overlaps.items()
        ),
    )
