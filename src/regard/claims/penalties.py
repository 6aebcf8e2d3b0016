"""Structured self-attention (Lin et al. 2017): overlap of hops, Frobenius and pairwise KL penalties.

A is the attention weight matrix with one row per hop and one column per position. The penalties are those
of `regard.layers.pooling`; elementwise forms of the pairwise KL divergence are in
`experiments/penalties.py`, for comparison of their costs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from regard.claims.engine import (
    claim,
    curve_figure,
    interleaved_seconds,
    line,
    matrix_figure,
    ratio_interval,
    verdict_over,
)
from regard.claims.experiments.penalties import (
    KL_FORMS,
    THIRD,
    VARIANTS,
    Weights,
    distributions,
    flops_ratio,
    formula_error,
    has_all_pairs,
    hop,
    is_nonnegative,
    one_minus_overlap,
    overlap,
    overlap_violations,
    random_weights,
    sampled_kl,
    self_overlap_figure,
    separate_hops,
    terms_text,
    trained_overlaps,
    two_hop_kl,
    variance_residual,
)
from regard.core.errors import RegardError
from regard.core.masks import Causal
from regard.core.records.claim import Finding
from regard.layers.multi_head import MultiHead
from regard.layers.pooling import StructuredPooling, frobenius_penalty
from regard.studies.statistics.paired import seed_interval

# Rounding of a sum of n numbers in float64.
ROUNDING = 1e-12
STRUCTURED = "structured"
# All pairs of distributions are in memory at once: at most 1,287².
GRID_RANGES = {"positions": (1, 6), "parts": (1, 8)}


@claim(
    statement="Every row of attention weights sums to one.",
    formula="Σⱼ A[i, j] = 1",
    source="Lin et al. 2017, eq. 6",
    proof="numeric",
    ranges={"n": (1, 256), "hops": (1, 16)},
)
def rows_sum_to_one(
    *, mechanism: str = STRUCTURED, n: int = 24, hops: int = 6, seed: int = 0
) -> Finding:
    # Ordinary inputs, constant inputs, and inputs for which a naive softmax overflows.
    found = [
        weights_of(mechanism, n=n, hops=hops, scale=scale, seed=seed) for scale in (1.0, 0.0, 1e4)
    ]
    worst = max(float((weights.sum(dim=-1) - 1).abs().max()) for weights in found)
    return Finding(
        verdict="holds" if worst <= ROUNDING else "fails",
        reason=f"The largest |Σ − 1| of {3 * hops} rows in float64 is {worst:.2g} (tolerance {ROUNDING}).",
        values={"largest_error": worst, "rows": 3 * hops},
        figure=matrix_figure(
            "Attention weights A, one row per hop",
            (found[0][0]).tolist(),
            rows=(f"hop {hop}" for hop in range(len(found[0][0]))),
        ),
        counter_example=f"A row of '{mechanism}' sums to 1 with an error of {worst:.3g}.",
    )


def weights_of(mechanism: str, *, n: int, hops: int, scale: float, seed: int) -> Weights:
    """Weights of structured pooling, or of a mechanism with one head per hop."""
    torch.manual_seed(seed)
    x = scale * torch.randn(1, n, 4 * hops, dtype=torch.float64)
    with torch.no_grad():
        if mechanism == STRUCTURED:
            pooling = StructuredPooling(model_dim=4 * hops, hidden_dim=16, hops=hops).double()
            weights: Tensor = pooling(x).weights
            return weights
        layer = MultiHead(
            model_dim=4 * hops, num_heads=hops, mechanism=mechanism, max_length=n
        ).double()
        # The last position attends to all, also in causal-only mechanisms.
        return layer.weights(x, mask=Causal())[:, :, -1]


@claim(
    statement="The overlap of two hops is between 0 and 1, and 0 only if their supports are disjoint.",
    formula="0 ≤ (AAᵀ)[i, j] ≤ 1,  = 0 ⇔ supports disjoint;  1 − a·b = Σ_{j≠k} aⱼ bₖ",
    source="Lin et al. 2017, sec. 2.2",
    proof="symbolic",
    ranges=GRID_RANGES,
)
def overlaps_lie_in_the_unit_interval(*, positions: int = 4, parts: int = 6) -> Finding:
    a, b = hop("a", positions=positions), hop("b", positions=positions)
    residual = one_minus_overlap(a, b)  # 1 − a·b = Σ aⱼbₖ over j ≠ k
    proved = is_nonnegative(overlap(a, b)) and is_nonnegative(residual)
    rows = distributions(positions=positions, parts=parts)
    outside, wrong_zeros = overlap_violations(rows, parts=parts)
    holds = proved and not outside and not wrong_zeros
    chosen = rows[:: max(1, len(rows) // 10)]
    names = tuple("·".join(str(part) for part in row) for row in chosen)
    overlaps = (chosen @ chosen.T) / parts**2
    return Finding(
        verdict="holds" if holds else "fails",
        reason=f"For {positions} positions, with 1 written as (Σa)(Σb), 1 − a·b expands to "
        f"{terms_text(residual)} and a·b to {terms_text(overlap(a, b))}; "
        f"{'no term' if proved else 'some term'} can be negative, and a sum of non-negative terms is 0 "
        f"only if all are. Checked in integers on {len(rows) ** 2} pairs of distributions in units of "
        f"1/{parts}: {outside} overlaps outside [0, 1], {wrong_zeros} with a wrong zero.",
        values={
            "proved": proved,
            "pairs": len(rows) ** 2,
            "outside": outside,
            "wrong_zeros": wrong_zeros,
        },
        figure=matrix_figure(
            f"Overlaps of distributions, in units of 1/{parts}",
            overlaps.tolist(),
            rows=names,
            columns=names,
        ),
        counter_example=f"1 − a·b is {residual}; {outside} and {wrong_zeros} pairs violate the statement.",
    )


@claim(
    statement="Two hops with equal weights have an overlap of 1.",
    formula="a = b ⇒ a·b = 1",
    source="course notes: attention penalties",
    proof="symbolic",
    known_false=True,
    ranges={"positions": (1, 6), "parts": (2, 8)},  # parts=1 has only one-hot rows
)
def equal_hops_overlap_by_one(*, positions: int = 4, parts: int = 6) -> Finding:
    rows = distributions(positions=positions, parts=parts)
    squares = (rows**2).sum(axis=1)
    ones, least = int((squares == parts**2).sum()), int(squares.argmin())
    shown = ", ".join(f"{part}/{parts}" for part in rows[least])
    counter = (
        f"a = b = ({shown}): a·b = {squares[least]}/{parts**2} = {squares[least] / parts**2:.3f}."
    )
    return Finding(
        verdict="holds" if ones == len(rows) else "fails",
        reason=f"{ones} of {len(rows)} distributions have a self-overlap of 1: the one-hot ones.",
        values={"min": float(squares[least]) / parts**2, "ones": ones, "distributions": len(rows)},
        figure=self_overlap_figure(positions=positions),
        counter_example=counter,
    )


@claim(
    statement="Two hops with equal weights have an overlap of ‖a‖², which is 1 only for one-hot weights.",
    formula="a = b ⇒ 1/n ≤ a·b = ‖a‖² ≤ 1",
    source="course notes: attention penalties (corrected)",
    proof="symbolic",
    ranges=GRID_RANGES,
)
def equal_hops_overlap_by_squared_norm(*, positions: int = 4, parts: int = 6) -> Finding:
    a = hop("a", positions=positions)
    # 1 − ‖a‖² = Σ aⱼaₖ over j ≠ k: 0 only if one position has all the weight.
    residual, difference = one_minus_overlap(a, a), variance_residual(a)
    proved = is_nonnegative(residual) and has_all_pairs(residual, a, a) and difference == 0
    rows = distributions(positions=positions, parts=parts)
    squares, one_hot = np.diagonal(rows @ rows.T), (rows == parts).any(axis=1)
    # ‖a‖² ≥ 1/n in integers: n · Σ parts² ≥ (Σ parts)².
    wrong = ((squares == parts**2) != one_hot) | (positions * squares < parts**2)
    holds = proved and not wrong.any()
    return Finding(
        verdict="holds" if holds else "fails",
        reason=f"For {positions} positions, with 1 written as (Σa)², 1 − ‖a‖² expands to "
        f"{terms_text(residual)} over all pairs of positions: 0 only for a one-hot. n‖a‖² − 1 "
        f"differs from Σ (aⱼ − aₖ)² over j < k by {difference}. Checked in integers on {len(rows)} "
        f"distributions in units of 1/{parts}, {int(one_hot.sum())} of them one-hot: "
        f"{int(wrong.sum())} violations.",
        values={
            "proved": proved,
            "one_hot": int(one_hot.sum()),
            "ones": int((squares == parts**2).sum()),
        },
        figure=self_overlap_figure(positions=positions),
        counter_example=f"1 − ‖a‖² is {residual}; {int(wrong.sum())} distributions violate the statement.",
    )


@claim(
    statement="The Frobenius penalty needs a third of the FLOPs of the pairwise KL penalty.",
    formula="‖AAᵀ − I‖²: 2r²n;  Σᵢⱼ KL(aᵢ ‖ aⱼ): 6r²n elementwise, 2r²n + 4rn as a matrix product",
    source="Lin et al. 2017, sec. 2.2",
    proof="counted",
    ranges={"hops": (1, 32), "n": (1, 512), "tolerance": (0, 10)},
)
def frobenius_takes_a_third_of_kl(
    *, hops: int = 30, n: int = 128, tolerance: float = 0.1
) -> Finding:
    ratios = {form: flops_ratio(kl, hops=hops, n=n) for form, kl in KL_FORMS.items()}
    thirds = [form for form, ratio in ratios.items() if abs(ratio - THIRD) <= tolerance * THIRD]
    summary = "; ".join(f"{ratio:.3f} of “{form}”" for form, ratio in ratios.items())
    lengths = (8, 16, 32, 64, 128)
    curves = [
        line(form, lengths, [flops_ratio(kl, hops=hops, n=length) for length in lengths])
        for form, kl in KL_FORMS.items()
    ]
    third = line("a third", (8, 128), (THIRD, THIRD), dashed=True)
    return Finding(
        verdict=verdict_over(thirds, ratios),
        reason=f"FLOPs of the Frobenius penalty relative to KL, {hops} hops over {n} positions: {summary}.",
        values={**ratios, "tolerance": tolerance},
        figure=curve_figure(
            f"FLOPs of the Frobenius penalty relative to KL, {hops} hops",
            ("length", "ratio"),
            *curves,
            third,
            log="x",
        ),
        condition=f"KL is computed as {' or as '.join(thirds)}",
        counter_example=f"The ratios are {summary}.",
    )


@claim(
    statement="The Frobenius penalty takes at most a third of the time of the pairwise KL penalty.",
    formula="t(‖AAᵀ − I‖²) ≤ ⅓ · t(Σᵢⱼ KL(aᵢ ‖ aⱼ))",
    source="Lin et al. 2017, sec. 2.2",
    proof="measured",
    ranges={"hops": (1, 32), "n": (1, 512), "batch_size": (1, 8), "rounds": (1, 50)},
)
def frobenius_takes_a_third_of_the_time(
    *, hops: int = 30, n: int = 128, batch_size: int = 2, rounds: int = 15
) -> Finding:
    weights = random_weights(hops=hops, n=n, batch_size=batch_size)
    penalties = {"frobenius": frobenius_penalty, **KL_FORMS}
    times = interleaved_seconds(
        {name: lambda penalty=penalty: penalty(weights) for name, penalty in penalties.items()},  # type: ignore[misc]
        rounds=rounds,
    )
    ratios = {form: ratio_interval(times["frobenius"], times[form]) for form in KL_FORMS}
    within = [form for form, ratio in ratios.items() if ratio.high <= THIRD]
    summary = "; ".join(
        f"{s.median:.3f} [{s.low:.3f}, {s.high:.3f}] of “{f}”" for f, s in ratios.items()
    )
    medians = {form: ratio.median for form, ratio in ratios.items()}
    return Finding(
        verdict=verdict_over(within, medians),
        reason=f"Relative time, median of {rounds} interleaved rounds with 95 % interval: {summary}.",
        values=medians,
        figure=curve_figure(
            "Time per round",
            ("round", "microseconds"),
            *(
                line(name, range(1, len(seconds) + 1), [1e6 * each for each in seconds])
                for name, seconds in times.items()
            ),
            log="y",
        ),
        condition=f"KL is computed as {' or as '.join(within)}",
        counter_example=f"The ratios are {summary}.",
    )


@claim(
    statement="Pairwise KL is minimal for equal hops and grows as they diverge, so it must be maximised.",
    formula="Σᵢⱼ KL(aᵢ ‖ aⱼ) ≥ 0, = 0 ⇔ all rows equal",
    source="Lin et al. 2017, sec. 2.2",
    proof="numeric",
    ranges={"hops": (2, 32), "n": (2, 256)},
)
def kl_has_to_be_maximised(*, hops: int = 4, n: int = 12, seed: int = 0) -> Finding:
    validate_positions(hops, n)
    distances, kl, frobenius = separate_hops(hops=hops, n=n, seed=seed)
    kl_equal, kl_ratio = sampled_kl(hops=hops, n=n, seed=seed)
    tolerance = hops * ROUNDING  # every hop is compared with all others
    minimal_if_equal = max(abs(kl[0]), kl_equal) <= tolerance and kl_ratio >= 1
    rises = bool(np.diff(kl).min() > 0)
    holds = minimal_if_equal and rises
    return Finding(
        verdict="holds" if holds else "fails",
        reason=(
            f"The KL of equal random hops is at most {kl_equal:.1g} (float64; tolerance {tolerance:.1g}), "
            f"that of others at least {kl_ratio:.2g} times ½‖a − b‖₁². As {hops} equal hops move to "
            f"different positions, KL goes from {abs(kl[0]):.1f} to {kl[-1]:.1f}, "
            f"{'' if rises else 'not '}monotonically; the Frobenius penalty, which is minimised, goes from "
            f"{frobenius[0]:.2f} to {frobenius[-1]:.2g}."
        ),
        values={"kl_equal": kl_equal, "ratio_to_bound": kl_ratio, "kl_separate": float(kl[-1])}
        | {"kl_rises": rises, "frobenius_separate": float(frobenius[-1])},
        figure=curve_figure(
            f"Penalties of {hops} diverging hops",
            ("score distance", "penalty"),
            line("pairwise KL", distances, kl),
            line("‖AAᵀ − I‖²", distances, frobenius),
        ),
        counter_example=(
            f"KL of equal hops {kl_equal:.2g}, of others {kl_ratio:.2g} times the bound; smallest step "
            f"{np.diff(kl).min():.2g}."
        ),
    )


def validate_positions(hops: int, n: int) -> None:
    """Raise an error if there are fewer positions than hops."""
    if n < hops:
        raise RegardError(
            f"n={n}: {hops} hops need {hops} different positions. Choose n={hops} or more."
        )


@claim(
    statement="Pairwise KL has no upper bound.",
    formula="a = (1−ε, ε), b = (ε, 1−ε):  KL(a‖b) + KL(b‖a) = 2(1−2ε) log((1−ε)/ε) → ∞ as ε → 0",
    source="Lin et al. 2017, sec. 2.2",
    proof="numeric",
    ranges={"bound": (0, 1e290)},
)
def kl_has_no_upper_bound(*, bound: float = 1e6) -> Finding:
    sharpness = 1.0  # −log ε
    while two_hop_kl(sharpness) <= bound and sharpness < 1e300:
        sharpness *= 2
    beyond = two_hop_kl(sharpness) > bound
    error = formula_error()
    sharpnesses = tuple(0.25 * 2**step for step in range(12))
    hops = torch.tensor([[[s, 0.0], [0.0, s]] for s in sharpnesses], dtype=torch.float64).softmax(
        dim=-1
    )
    return Finding(
        verdict="holds" if beyond and error <= 1e-9 else "fails",
        reason=f"With ε = exp(−{sharpness:.3g}) the divergence is {two_hop_kl(sharpness):.4g}, "
        f"{'' if beyond else 'not '}above the bound {bound:.3g}. The formula, which grows as −2 log ε, "
        f"equals the penalty to a relative {error:.1g} down to ε = exp(−600) (tolerance 1e-9).",
        values={
            "sharpness": sharpness,
            "divergence": two_hop_kl(sharpness),
            "formula_error": error,
        },
        figure=curve_figure(
            "Two diverging hops: KL is unbounded, the Frobenius penalty is bounded",
            ("−log ε", "penalty"),
            line("pairwise KL", sharpnesses, map(two_hop_kl, sharpnesses)),
            line("‖AAᵀ − I‖²", sharpnesses, frobenius_penalty(hops).tolist()),
            log="x",
        ),
        counter_example=(
            f"The formula has a relative error of {error:.1g}."
            if beyond
            else f"No ε gives more than {bound:.3g}."
        ),
    )


@claim(
    statement="Training with a penalty reduces the overlap between hops.",
    formula="mean cos(aᵢ, aⱼ) with ‖AAᵀ − I‖² or − KL in the loss  <  without",
    source="Lin et al. 2017, sec. 4.2",
    proof="measured",
    trained=True,
    ranges={"seeds": (2, 20), "steps": (1, 2000), "penalty_weight": (0, 1000)},
)
def penalty_lowers_redundancy(
    *, seeds: int = 5, steps: int = 150, penalty_weight: float = 1.0
) -> Finding:
    overlaps = trained_overlaps(seeds=seeds, steps=steps, penalty_weight=penalty_weight)
    drops = {
        variant: [o - w for o, w in zip(overlaps["none"], overlaps[variant], strict=True)]
        for variant in VARIANTS[1:]
    }
    lower = [variant for variant, values in drops.items() if significantly_positive(values)]
    means = {variant: sum(values) / len(values) for variant, values in overlaps.items()}
    summary = ", ".join(f"{variant} {mean:.3f}" for variant, mean in means.items())
    return Finding(
        verdict=verdict_over(lower, {variant: means[variant] for variant in drops}),
        reason=f"Mean cosine similarity of hops on the test split, over {seeds} seeds: {summary}. Paired "
        "by seed, the 95 % t interval of the reduction is above 0 for: "
        f"{', '.join(lower) or 'no penalty'}.",
        values=means,
        figure=curve_figure(
            "Overlap of hops on the test split, by seed",
            ("seed", "mean cosine similarity of two hops"),
            *(
                line(variant, range(len(values)), values, points_only=True)
                for variant, values in overlaps.items()
            ),
        ),
        condition=f"the penalty is {' or '.join(lower)}",
        counter_example=f"The overlaps are {summary}.",
    )


def significantly_positive(drops: Sequence[float]) -> bool:
    """Whether the 95 % t interval of the mean is above 0; False for a single seed."""
    interval = seed_interval(drops)
    return interval is not None and interval.low > 0
