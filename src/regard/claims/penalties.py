"""Attention weights as distributions, and what keeps several hops from looking at one place.

A is the weight matrix of structured self-attention (Lin et al. 2017): a row for every hop, a column for
every position. The penalties are those of `layers/penalties.py`; the element-by-element forms of the
pairwise KL divergence are written here, to be counted beside the product that is used.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from regard.claims.engine import claim, interleaved_seconds, of_all, quotient
from regard.claims.experiments.penalties import (
    ARMS,
    KL_FORMS,
    THIRD,
    Weights,
    beside_the_overlap,
    distributions,
    formula_error,
    has_every_pair,
    hop,
    is_never_negative,
    kl_of_draws,
    operations_share,
    overlap,
    overlap_faults,
    overlap_points_picture,
    overlaps_picture,
    parting,
    parting_picture,
    random_weights,
    self_overlap_picture,
    shares_picture,
    spread_rest,
    sum_of,
    times_picture,
    trained_overlaps,
    two_hop_kl,
    unbounded_picture,
    weights_picture,
)
from regard.core.errors import RegardError
from regard.core.masks import Causal
from regard.core.records.claim import Finding
from regard.layers.multi_head import MultiHead
from regard.layers.pooling import StructuredPooling, frobenius_penalty
from regard.studies.statistics.paired import seed_interval

# Rows are sums of n rounded numbers: a few units in the last place of float64.
ROUNDING = 1e-12
STRUCTURED = "structured"
# All pairs of distributions are held at once: 1,287 of them at most.
FEW = {"places": (1, 6), "parts": (1, 8)}


@claim(
    statement="Every row of attention weights sums to one.",
    formula="Σⱼ A[i, j] = 1",
    source="seed 000; Lin et al. 2017, eq. 6",
    proof="numeric",
    ranges={"n": (1, 256), "hops": (1, 16)},
)
def rows_sum_to_one(*, of: str = STRUCTURED, n: int = 24, hops: int = 6, seed: int = 0) -> Finding:
    # Inputs of ordinary size, all alike, and so large that a softmax is one-hot or overflows if naive.
    found = [weights_of(of, n=n, hops=hops, scale=scale, seed=seed) for scale in (1.0, 0.0, 1e4)]
    worst = max(float((weights.sum(dim=-1) - 1).abs().max()) for weights in found)
    return Finding(
        verdict="holds" if worst <= ROUNDING else "fails",
        because=f"The largest |Σ − 1| of {3 * hops} rows in float64 is {worst:.2g}; allowed: {ROUNDING}.",
        figures={"largest_error": worst, "rows": 3 * hops},
        picture=weights_picture("A: every row is a distribution", found[0][0]),
        counter_example=f"A row of '{of}' is off by {worst:.3g}." if worst > ROUNDING else "",
    )


def weights_of(of: str, *, n: int, hops: int, scale: float, seed: int) -> Weights:
    """The weights of structured pooling, or of the first example of a mechanism with so many heads."""
    torch.manual_seed(seed)
    x = scale * torch.randn(1, n, 4 * hops, dtype=torch.float64)
    with torch.no_grad():
        if of == STRUCTURED:
            pooling = StructuredPooling(model_dim=4 * hops, hidden_dim=16, hops=hops).double()
            weights: Tensor = pooling(x).weights
            return weights
        layer = MultiHead(model_dim=4 * hops, num_heads=hops, mechanism=of, max_length=n).double()
        # The last position may see all: some mechanisms read the past only.
        return layer.weights(x, mask=Causal())[:, :, -1]


@claim(
    statement="Overlaps of two hops lie between 0 and 1, and are 0 exactly where they share no place.",
    formula="0 ≤ (AAᵀ)[i, j] ≤ 1,  = 0 ⇔ supports disjoint;  1 − a·b = Σ_{j≠k} aⱼ bₖ",
    source="seed 000 (which writes < for ≤); Lin et al. 2017, sec. 2.2",
    proof="symbolic",
    ranges=FEW,
)
def overlaps_lie_in_the_unit_interval(*, places: int = 4, parts: int = 6) -> Finding:
    a, b = hop("a", places=places), hop("b", places=places)
    rest = beside_the_overlap(a, b)  # 1 − a·b = Σ aⱼbₖ over j ≠ k
    proved = is_never_negative(overlap(a, b)) and is_never_negative(rest)
    rows = distributions(places=places, parts=parts)
    outside, wrong_zeros = overlap_faults(rows, parts=parts)
    sound = proved and not outside and not wrong_zeros
    return Finding(
        verdict="holds" if sound else "fails",
        because=(
            f"Multiplied out for {places} places, with the 1 as (Σa)(Σb), 1 − a·b is {sum_of(rest)}; a·b "
            f"is {sum_of(overlap(a, b))}. {'None' if proved else 'Some'} of them can be negative; a sum of "
            f"such as cannot is 0 only if all of it is. In whole numbers, of {len(rows) ** 2} pairs of "
            f"distributions of {parts} equal parts, {outside} overlaps lie outside [0, 1], and "
            f"{wrong_zeros} are 0 with a shared place or not 0 without."
        ),
        figures={
            "proved": proved,
            "pairs": len(rows) ** 2,
            "outside": outside,
            "wrong_zeros": wrong_zeros,
        },
        picture=overlaps_picture(rows, parts=parts),
        counter_example=f"1 − a·b is {rest}; {outside} and {wrong_zeros} of the pairs do otherwise.",
    )


@claim(
    statement="Two hops with equal weights overlap by 1.",
    formula="a = b ⇒ a·b = 1",
    source="seed 000",
    proof="symbolic",
    marked_wrong=True,
    ranges={"places": (1, 6), "parts": (2, 8)},  # one part makes one-hots alone
)
def equal_hops_overlap_by_one(*, places: int = 4, parts: int = 6) -> Finding:
    rows = distributions(places=places, parts=parts)
    squares = (rows**2).sum(axis=1)
    ones, least = int((squares == parts**2).sum()), int(squares.argmin())
    shown = ", ".join(f"{part}/{parts}" for part in rows[least])
    counter = (
        f"a = b = ({shown}): a·b = {squares[least]}/{parts**2} = {squares[least] / parts**2:.3f}."
    )
    return Finding(
        verdict="holds" if ones == len(rows) else "fails",
        because=f"Of {len(rows)} distributions {ones} overlap with themselves by 1: the one-hot ones.",
        figures={
            "least": float(squares[least]) / parts**2,
            "ones": ones,
            "distributions": len(rows),
        },
        picture=self_overlap_picture(places=places),
        counter_example="" if ones == len(rows) else counter,
    )


@claim(
    statement="Two hops with equal weights overlap by ‖a‖², which is 1 only if both are the same one-hot.",
    formula="a = b ⇒ 1/n ≤ a·b = ‖a‖² ≤ 1",
    source="corrects seed 000",
    proof="symbolic",
    ranges=FEW,
)
def equal_hops_overlap_by_their_squared_length(*, places: int = 4, parts: int = 6) -> Finding:
    a = hop("a", places=places)
    # 1 − ‖a‖² = Σ aⱼaₖ over j ≠ k: 0 only if no two places have weight.
    rest, apart = beside_the_overlap(a, a), spread_rest(a)
    proved = is_never_negative(rest) and has_every_pair(rest, a, a) and apart == 0
    rows = distributions(places=places, parts=parts)
    squares, one_hot = np.diagonal(rows @ rows.T), (rows == parts).any(axis=1)
    # ‖a‖² ≥ 1/n in whole numbers: n · Σ parts² ≥ (Σ parts)².
    wrong = ((squares == parts**2) != one_hot) | (places * squares < parts**2)
    sound = proved and not wrong.any()
    return Finding(
        verdict="holds" if sound else "fails",
        because=(
            f"Multiplied out for {places} places, with the 1 as (Σa)², 1 − ‖a‖² is {sum_of(rest)}, of "
            "every two places: 0 only for a one-hot. n‖a‖² − 1 differs from Σ (aⱼ − aₖ)² over j < k by "
            f"{apart}. In whole numbers, of {len(rows)} distributions of {parts} equal parts, "
            f"{int(one_hot.sum())} of them one-hot, {int(wrong.sum())} do otherwise."
        ),
        figures={
            "proved": proved,
            "one_hot": int(one_hot.sum()),
            "ones": int((squares == parts**2).sum()),
        },
        picture=self_overlap_picture(places=places),
        counter_example=f"1 − ‖a‖² is {rest}; {int(wrong.sum())} distributions do otherwise.",
    )


@claim(
    statement="The Frobenius penalty takes a third of the operations of the pairwise KL penalty.",
    formula="‖AAᵀ − I‖²: 2r²n;  Σᵢⱼ KL(aᵢ ‖ aⱼ): 6r²n element by element, 2r²n + 4rn as a product",
    source="seed 000; Lin et al. 2017, sec. 2.2",
    proof="counted",
    ranges={"hops": (1, 32), "n": (1, 512), "tolerance": (0, 10)},
)
def frobenius_takes_a_third_of_kl(
    *, hops: int = 30, n: int = 128, tolerance: float = 0.1
) -> Finding:
    shares = {form: operations_share(kl, hops=hops, n=n) for form, kl in KL_FORMS.items()}
    thirds = [form for form, share in shares.items() if abs(share - THIRD) <= tolerance * THIRD]
    told = "; ".join(f"{share:.3f} of “{form}”" for form, share in shares.items())
    return Finding(
        verdict=of_all(thirds, shares),
        because=f"Counted for {hops} hops over {n} places, the Frobenius penalty takes {told}.",
        figures={**shares, "tolerance": tolerance},
        picture=shares_picture(hops=hops),
        boundary=f"KL is computed as {' or as '.join(thirds)}, and not otherwise" if thirds else "",
        counter_example="" if thirds else f"The shares are {told}.",
    )


@claim(
    statement="The Frobenius penalty takes no more than a third of the time of the pairwise KL penalty.",
    formula="t(‖AAᵀ − I‖²) ≤ ⅓ · t(Σᵢⱼ KL(aᵢ ‖ aⱼ))",
    source="seed 000; Lin et al. 2017, sec. 2.2",
    proof="measured",
    ranges={"hops": (1, 32), "n": (1, 512), "batch_size": (1, 8), "rounds": (1, 50)},
)
def frobenius_takes_a_third_of_the_time(
    *, hops: int = 30, n: int = 128, batch_size: int = 2, rounds: int = 15
) -> Finding:
    weights = random_weights(hops=hops, n=n, batch_size=batch_size)
    rivals = {"frobenius": frobenius_penalty, **KL_FORMS}
    times = interleaved_seconds(
        {name: lambda penalty=penalty: penalty(weights) for name, penalty in rivals.items()},  # type: ignore[misc]
        rounds=rounds,
    )
    shares = {form: quotient(times["frobenius"], times[form]) for form in KL_FORMS}
    within = [form for form, share in shares.items() if share.high <= THIRD]
    told = "; ".join(
        f"{s.median:.3f} [{s.low:.3f}, {s.high:.3f}] of “{f}”" for f, s in shares.items()
    )
    medians = {form: share.median for form, share in shares.items()}
    return Finding(
        verdict=of_all(within, medians),
        because=f"Medians of {rounds} rounds in turns, 95 % intervals: the Frobenius penalty takes {told}.",
        figures=medians,
        picture=times_picture(times),
        boundary=f"KL is computed as {' or as '.join(within)}" if within else "",
        counter_example="" if within else f"The shares are {told}.",
    )


@claim(
    statement="Pairwise KL is least for equal hops and grows as they part, so it has to be maximised.",
    formula="Σᵢⱼ KL(aᵢ ‖ aⱼ) ≥ 0, = 0 ⇔ all rows equal",
    source="corrects seed 000; Lin et al. 2017, sec. 2.2",
    proof="numeric",
    ranges={"hops": (2, 32), "n": (2, 256)},
)
def kl_has_to_be_maximised(*, hops: int = 4, n: int = 12, seed: int = 0) -> Finding:
    require_places(hops, n)
    distances, kl, frobenius = parting(hops=hops, n=n, seed=seed)
    of_equal, of_others = kl_of_draws(hops=hops, n=n, seed=seed)
    rounding = hops * ROUNDING  # every hop is compared with all others
    least_at_equal = max(abs(kl[0]), of_equal) <= rounding and of_others >= 1
    rises = bool(np.diff(kl).min() > 0)
    sound = least_at_equal and rises
    return Finding(
        verdict="holds" if sound else "fails",
        because=(
            f"Of random hops, equal ones have a KL of {of_equal:.1g} at most (float64; up to "
            f"{rounding:.1g} is 0), others at least {of_others:.2g} times ½‖a − b‖₁². As {hops} equal hops "
            f"are moved apart, each to a place of its own, KL goes from {abs(kl[0]):.1f} to {kl[-1]:.1f}, "
            f"{'' if rises else 'not '}up at every step; the Frobenius penalty, which is to be minimised, "
            f"goes from {frobenius[0]:.2f} to {frobenius[-1]:.2g}."
        ),
        figures={"kl_equal": of_equal, "times_the_bound": of_others, "kl_apart": float(kl[-1])}
        | {"kl_rises": rises, "frobenius_apart": float(frobenius[-1])},
        picture=parting_picture(distances, kl, frobenius, hops=hops),
        counter_example=(
            f"Equal hops have {of_equal:.2g}, others {of_others:.2g} times the bound; the least step is "
            f"{np.diff(kl).min():.2g}."
        ),
    )


def require_places(hops: int, n: int) -> None:
    """Each hop is moved to a place of its own."""
    if n < hops:
        raise RegardError(
            f"n={n}: {hops} hops need a place each to be moved to. Choose n of {hops} or more."
        )


@claim(
    statement="Pairwise KL has no upper bound.",
    formula="a = (1−ε, ε), b = (ε, 1−ε):  KL(a‖b) + KL(b‖a) = 2(1−2ε) log((1−ε)/ε) → ∞ as ε → 0",
    source="seed 000; Lin et al. 2017, sec. 2.2",
    proof="numeric",
    ranges={"bound": (0, 1e290)},
)
def kl_has_no_upper_bound(*, bound: float = 1e6) -> Finding:
    sharpness = 1.0  # −log ε
    while two_hop_kl(sharpness) <= bound and sharpness < 1e300:
        sharpness *= 2
    beyond = two_hop_kl(sharpness) > bound
    error = formula_error()
    return Finding(
        verdict="holds" if beyond and error <= 1e-9 else "fails",
        because=(
            f"With ε = exp(−{sharpness:.3g}) the two hops diverge by {two_hop_kl(sharpness):.4g}, which is "
            f"{'' if beyond else 'not '}above the {bound:.3g} asked for. The formula, which grows as "
            f"−2 log ε, equals the penalty to a relative {error:.1g} down to ε = exp(−600) (allowed: 1e-9)."
        ),
        figures={
            "sharpness": sharpness,
            "divergence": two_hop_kl(sharpness),
            "formula_error": error,
        },
        picture=unbounded_picture(),
        counter_example=(
            f"The formula is off by {error:.1g}."
            if beyond
            else f"No ε gives more than {bound:.3g}."
        ),
    )


@claim(
    statement="Training with a penalty lowers the redundancy between hops.",
    formula="mean cos(aᵢ, aⱼ) with ‖AAᵀ − I‖² or − KL in the loss  <  without",
    source="seed 000; Lin et al. 2017, sec. 4.2",
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
        for variant in ARMS[1:]
    }
    lower = [variant for variant, of_seeds in drops.items() if surely_positive(of_seeds)]
    means = {variant: sum(values) / len(values) for variant, values in overlaps.items()}
    told = ", ".join(f"{variant} {mean:.3f}" for variant, mean in means.items())
    return Finding(
        verdict=of_all(lower, {variant: means[variant] for variant in drops}),
        because=(
            f"Mean overlap (cosine) of hops on held-out films, over {seeds} seeds: {told}. Paired by seed, "
            f"the 95 % t interval of the drop lies above 0 for: {', '.join(lower) or 'no penalty'}."
        ),
        figures=means,
        picture=overlap_points_picture(overlaps),
        boundary=f"the penalty is {' or '.join(lower)}" if lower else "",
        counter_example="" if lower else f"The overlaps are {told}.",
    )


def surely_positive(drops: Sequence[float]) -> bool:
    """Whether the 95 % t interval of the mean lies above 0; two seeds or more are needed to say so."""
    interval = seed_interval(drops)
    return interval is not None and interval.low > 0
