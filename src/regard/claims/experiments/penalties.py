"""Experiments with penalties on hops: overlaps, forms of KL, trained structured classifiers, figures.

Bounds on overlaps are proved symbolically: weights are non-negative and sum to one, so 1 can be written as
their sum, and an expansion without negative terms is non-negative for all distributions. They are also
checked in integers on all distributions in units of 1/parts.
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

from regard.claims.engine import count_ops, curve_figure, line, num_threads
from regard.core.errors import RegardError
from regard.core.protocols import hop_overlap
from regard.core.records.claim import CurveFigure
from regard.data.batching import evaluation_batches
from regard.layers.pooling import frobenius_penalty, pairwise_kl_penalty
from regard.models.classifiers.structured import StructuredClassifier
from regard.runs.build import build_task
from regard.runs.load import load
from regard.runs.spec import RunSpec, Sections
from regard.studies.execution.jobs import run_job

Hop = tuple[sympy.Symbol, ...]


def distributions(*, positions: int, parts: int) -> Int[np.ndarray, "rows positions"]:
    """All distributions of `parts` units over `positions`, as integers.

    >>> distributions(positions=2, parts=2).tolist()
    [[0, 2], [1, 1], [2, 0]]
    """
    bars = combinations(range(parts + positions - 1), positions - 1)
    cuts = np.array([(-1, *chosen, parts + positions - 1) for chosen in bars])
    return np.diff(cuts, axis=1) - 1


def overlap_violations(rows: Int[np.ndarray, "rows positions"], *, parts: int) -> tuple[int, int]:
    """Number of overlaps outside [0, 1]; number of zeros with common support or non-zeros without."""
    overlaps = rows @ rows.T
    common_support = (rows > 0).astype(int) @ (rows > 0).T.astype(int) > 0
    outside = (overlaps < 0) | (overlaps > parts**2)
    return int(outside.sum()), int(((overlaps != 0) != common_support).sum())


def hop(name: str, *, positions: int) -> Hop:
    """Symbolic non-negative weights of one hop."""
    return sympy.symbols(f"{name}1:{positions + 1}", nonnegative=True)


def overlap(a: Hop, b: Hop) -> sympy.Expr:
    """a·b."""
    return sympy.Add(*(one * other for one, other in zip(a, b, strict=True)))


def one_minus_overlap(a: Hop, b: Hop) -> sympy.Expr:
    """1 − a·b with 1 written as (Σa)(Σb), expanded.

    >>> one_minus_overlap(hop("a", positions=2), hop("b", positions=2))
    a1*b2 + a2*b1
    """
    return sympy.expand(sympy.Add(*a) * sympy.Add(*b) - overlap(a, b))


def is_nonnegative(expression: sympy.Expr) -> bool:
    """Whether every term is a product of non-negative numbers."""
    return all(term.is_nonnegative for term in sympy.Add.make_args(expression))


def terms_text(expression: sympy.Expr) -> str:
    """The number of terms as text."""
    terms = [term for term in sympy.Add.make_args(expression) if term != 0]
    return f"a sum of {len(terms)} products" if terms else "0"


def has_all_pairs(expression: sympy.Expr, a: Hop, b: Hop) -> bool:
    """Whether aⱼbₖ is a term for all j ≠ k."""
    pairs = {a[j] * b[k] for j in range(len(a)) for k in range(len(b)) if j != k}
    return pairs <= set(expression.as_coefficients_dict())


def variance_residual(a: Hop) -> sympy.Expr:
    """n‖a‖² − 1 minus Σ_{j<k} (aⱼ − aₖ)², with 1 written as (Σa)²; 0 proves ‖a‖² ≥ 1/n."""
    squares = sympy.Add(*((one - other) ** 2 for one, other in combinations(a, 2)))
    return sympy.expand(len(a) * overlap(a, a) - sympy.Add(*a) ** 2 - squares)


Weights = Float[Tensor, "batch hops length"]


def elementwise_kl(weights: Weights) -> Float[Tensor, " batch"]:
    """Σ KL(aᵢ ‖ aⱼ) as Σ a log a − a log b, with two logarithms per position and pair."""
    first, second = torch.broadcast_tensors(weights[:, :, None], weights[:, None])
    return (first * first.log() - first * second.log()).sum(dim=(1, 2, 3))


def quotient_kl(weights: Weights) -> Float[Tensor, " batch"]:
    """Σ KL(aᵢ ‖ aⱼ) as Σ a log(a / b), with one logarithm and one division per position and pair."""
    first, second = weights[:, :, None], weights[:, None]
    return (first * (first / second).log()).sum(dim=(1, 2, 3))


KL_FORMS: dict[str, Callable[[Weights], Tensor]] = {
    "Σ a log a − a log b for every pair": elementwise_kl,
    "Σ a log(a/b) for every pair": quotient_kl,
    "entropies − A·log Aᵀ, one matrix product": pairwise_kl_penalty,
}


def flops_ratio(kl: Callable[[Weights], Tensor], *, hops: int, n: int) -> float:
    """FLOPs of the Frobenius penalty divided by those of a KL penalty."""
    weights = random_weights(hops=hops, n=n)
    counted = [count_ops(lambda of=of: of(weights)) for of in (frobenius_penalty, kl)]  # type: ignore[misc]
    return counted[0].flops / counted[1].flops


def random_weights(*, hops: int, n: int, batch_size: int = 1) -> Weights:
    """Softmax of random normal scores."""
    generator = torch.Generator().manual_seed(0)
    return torch.randn(batch_size, hops, n, generator=generator, dtype=torch.float64).softmax(
        dim=-1
    )


def separate_hops(
    *, hops: int, n: int, seed: int, most: float = 12.0, steps: int = 25
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Equal hops moved to different positions: score distance, KL and Frobenius penalty."""
    start = torch.randn(n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) / 4
    distances = torch.linspace(0, most, steps, dtype=torch.float64)
    directions = torch.eye(hops, n, dtype=torch.float64)
    weights = (start + distances[:, None, None] * directions).softmax(dim=-1)
    both = pairwise_kl_penalty(weights), frobenius_penalty(weights)
    return (distances.numpy(), both[0].numpy(), both[1].numpy())


def two_hop_kl(sharpness: float) -> float:
    """Symmetric KL between (1 − ε, ε) and (ε, 1 − ε), ε = exp(−sharpness)."""
    small = math.exp(-sharpness)
    return 2 * (1 - 2 * small) * (math.log1p(-small) + sharpness)


def formula_error() -> float:
    """Largest relative difference between `two_hop_kl` and the penalty, for ε ≥ exp(−600)."""
    errors = []
    for sharpness in (1.0, 3.0, 10.0, 30.0, 100.0, 600.0):
        small = math.exp(-sharpness)
        hops = torch.tensor([[[1 - small, small], [small, 1 - small]]], dtype=torch.float64)
        expected = two_hop_kl(sharpness)
        errors.append(abs(float(pairwise_kl_penalty(hops)) - expected) / expected)
    return max(errors)


def sampled_kl(*, hops: int, n: int, seed: int, samples: int = 200) -> tuple[float, float]:
    """Largest |KL| of equal hops; smallest KL of different hops divided by their largest ½‖a − b‖₁².

    The second is at least 1 by Pinsker's inequality if KL is 0 for equal hops only. Hops differ in all
    scores or in one score of one hop, by 0.01 to 10.
    """
    generator = torch.Generator().manual_seed(seed)
    equal = torch.randn(samples, 1, n, generator=generator, dtype=torch.float64).expand(
        -1, hops, -1
    )
    size = 10 ** torch.linspace(-2, 1, samples, dtype=torch.float64)[:, None, None]
    everywhere = size * torch.randn(samples, hops, n, generator=generator, dtype=torch.float64)
    in_one_position = torch.zeros_like(everywhere)
    in_one_position[:, 0, 0] = size[:, 0, 0]
    different = torch.cat([equal + everywhere, equal + in_one_position]).softmax(dim=-1)
    bound = 0.5 * torch.cdist(different, different, p=1.0).amax(dim=(1, 2)) ** 2
    kl_equal = pairwise_kl_penalty(equal.softmax(dim=-1)).abs().max()
    return float(kl_equal), float((pairwise_kl_penalty(different) / bound).min())


# The first is the baseline.
VARIANTS = ("none", "frobenius", "kl")


@cache
def trained_overlaps(*, seeds: int, steps: int, penalty_weight: float) -> dict[str, list[float]]:
    """Variant → mean overlap of hops on the test split, one per seed."""
    if seeds < 2 or steps < 1:
        raise RegardError(
            f"seeds={seeds}, steps={steps}: seeds must be 2 or more and steps 1 or more."
        )
    overlaps: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
    with tempfile.TemporaryDirectory() as root, num_threads(1):
        for seed in range(seeds):
            for variant in VARIANTS:
                folder = Path(root) / f"{variant}-{seed}"
                sections = sections_of(
                    variant, seed=seed, steps=steps, penalty_weight=penalty_weight
                )
                if not run_job(sections, folder):
                    raise KeyboardInterrupt
                overlaps[variant].append(overlap_of(folder))
    return overlaps


def overlap_of(run: Path) -> float:
    """Mean overlap of the hops of a trained run on its test split."""
    trained = load(run)
    assert isinstance(trained.model, StructuredClassifier)
    texts = build_task(trained.spec, preprocessor=trained.preprocessor).dataset.test.inputs
    with torch.inference_mode():
        overlaps = [
            hop_overlap(trained.model.text_attention(batch.input).tokens)
            for batch in evaluation_batches(trained.preprocessor.encode_inputs(texts))
        ]
    return float(torch.cat(overlaps).mean())


def sections_of(variant: str, *, seed: int, steps: int, penalty_weight: float) -> Sections:
    """The spec of one run."""
    sections: Sections = {
        "task": {
            "name": "classify",
            "tokens": "word_punct",
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


THIRD = 1 / 3


def self_overlap_figure(*, positions: int) -> CurveFigure:
    """‖a‖² from uniform to one-hot weights."""
    firsts = [1 / positions + (1 - 1 / positions) * step / 40 for step in range(41)]
    others = max(1, positions - 1)
    squares = [first**2 + (1 - first) ** 2 / others for first in firsts]
    return curve_figure(
        f"Overlap of two equal hops over {positions} positions",
        ("weight of the first position", "a·a"),
        line("‖a‖²", firsts, squares),
        line("1", (firsts[0], firsts[-1]), (1.0, 1.0), dashed=True),
    )
