"""Attention weights as distributions, and what keeps several hops from looking at one place.

A is the weight matrix of structured self-attention (Lin et al. 2017): a row for every hop, a column for
every position. The penalties are those of `layers/penalties.py`; the element-by-element forms of the
pairwise KL divergence are written here, to be counted beside the product that is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.claims.claim import claim
from regard.claims.drawn_lines import line
from regard.claims.interleaved import interleaved_seconds, quotient
from regard.claims.trained_hops import ARMS, trained_overlaps
from regard.core.claim_record import CurvePicture, Finding, MatrixPicture, Verdict
from regard.core.counter import Counter
from regard.core.masks import Causal
from regard.layers.multi_head import MultiHead
from regard.layers.penalties import frobenius_penalty, pairwise_kl_penalty
from regard.layers.structured_pooling import StructuredPooling
from regard.studies.seed_interval import seed_interval

THIRD = 1 / 3
# Rows are sums of n rounded numbers: a few units in the last place of float64.
ROUNDING = 1e-12
STRUCTURED = "structured"

Weights = Float[Tensor, "batch hops length"]


@claim(
    statement="Every row of attention weights sums to one.",
    formula="Σⱼ A[i, j] = 1",
    source="seed 000; Lin et al. 2017, eq. 6",
    proof="numeric",
)
def rows_sum_to_one(*, of: str = STRUCTURED, n: int = 24, hops: int = 6, seed: int = 0) -> Finding:
    # Inputs of ordinary size, all alike, and so large that a softmax is one-hot or overflows if naive.
    found = [weights_of(of, n=n, hops=hops, scale=scale, seed=seed) for scale in (1.0, 0.0, 1e4)]
    worst = max(float((weights.sum(dim=-1) - 1).abs().max()) for weights in found)
    return Finding(
        verdict="holds" if worst <= ROUNDING else "fails",
        because=f"The largest |Σ − 1| of {3 * hops} rows in float64 is {worst:.2g}; allowed: {ROUNDING}.",
        figures={"largest_error": worst, "rows": 3 * hops},
        picture=_matrix("A: every row is a distribution", found[0][0]),
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
    formula="0 ≤ (AAᵀ)[i, j] ≤ 1,  = 0 ⇔ supports disjoint;  1 − a·b = Σₖ aₖ (1 − bₖ)",
    source="seed 000 (which writes < for ≤); Lin et al. 2017, sec. 2.2",
    proof="symbolic",
)
def overlaps_lie_in_the_unit_interval(*, places: int = 4, parts: int = 6) -> Finding:
    rows = distributions(places=places, parts=parts)
    outside, wrong_zeros = overlap_faults(rows, parts=parts)
    sound = not outside and not wrong_zeros
    return Finding(
        verdict="holds" if sound else "fails",
        because=(
            f"In whole numbers, for all {len(rows) ** 2} pairs of distributions of {parts} equal parts "
            f"over {places} places: {outside} overlaps outside [0, 1], {wrong_zeros} that are 0 with a "
            "shared "
            "place or not 0 without. In general 1 − a·b = Σ aₖ(1 − bₖ), a sum of numbers that are not "
            "negative, and so is a·b."
        ),
        figures={"pairs": len(rows) ** 2, "outside": outside, "wrong_zeros": wrong_zeros},
        picture=_overlaps_picture(rows, parts=parts),
        counter_example="" if sound else f"{outside} overlaps are outside [0, 1].",
    )


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


@claim(
    statement="Two hops with equal weights overlap by 1.",
    formula="a = b ⇒ a·b = 1",
    source="seed 000",
    proof="symbolic",
    marked_wrong=True,
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
        picture=_self_overlap_picture(places=places),
        counter_example="" if ones == len(rows) else counter,
    )


@claim(
    statement="Two hops with equal weights overlap by ‖a‖², which is 1 only if both are the same one-hot.",
    formula="a = b ⇒ 1/n ≤ a·b = ‖a‖² ≤ 1",
    source="corrects seed 000",
    proof="symbolic",
)
def equal_hops_overlap_by_their_squared_length(*, places: int = 4, parts: int = 6) -> Finding:
    rows = distributions(places=places, parts=parts)
    squares = np.diagonal(rows @ rows.T)
    one_hot = (rows == parts).any(axis=1)
    # ‖a‖² ≥ 1/n in whole numbers: n · Σ parts² ≥ (Σ parts)².
    sound = bool(((squares == parts**2) == one_hot).all() and (places * squares >= parts**2).all())
    return Finding(
        verdict="holds" if sound else "fails",
        because=(
            f"In whole numbers, for all {len(rows)} distributions of {parts} equal parts: the "
            f"{int(one_hot.sum())} one-hot ones give 1, all others less, and none below 1/{places}."
        ),
        figures={"one_hot": int(one_hot.sum()), "ones": int((squares == parts**2).sum())},
        picture=_self_overlap_picture(places=places),
        counter_example="" if sound else "A distribution that is not one-hot has ‖a‖² = 1.",
    )


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


@claim(
    statement="The Frobenius penalty takes a third of the operations of the pairwise KL penalty.",
    formula="‖AAᵀ − I‖²: 2r²n;  Σᵢⱼ KL(aᵢ ‖ aⱼ): 6r²n element by element, 2r²n + 4rn as a product",
    source="seed 000; Lin et al. 2017, sec. 2.2",
    proof="counted",
)
def frobenius_takes_a_third_of_kl(
    *, hops: int = 30, n: int = 128, tolerance: float = 0.1
) -> Finding:
    shares = {form: operations_share(kl, hops=hops, n=n) for form, kl in KL_FORMS.items()}
    thirds = [form for form, share in shares.items() if abs(share - THIRD) <= tolerance * THIRD]
    told = "; ".join(f"{share:.3f} of “{form}”" for form, share in shares.items())
    return Finding(
        verdict=holds_of(thirds, shares),
        because=f"Counted for {hops} hops over {n} places, the Frobenius penalty takes {told}.",
        figures={**shares, "tolerance": tolerance},
        picture=_shares_picture(hops=hops),
        boundary=f"KL is computed as {' or as '.join(thirds)}, and not otherwise" if thirds else "",
        counter_example="" if thirds else f"The shares are {told}.",
    )


def holds_of(fitting: Sequence[str], forms: Mapping[str, float]) -> Verdict:
    """Of all forms, of some, or of none."""
    if len(fitting) == len(forms):
        return "holds"
    return "holds if" if fitting else "fails"


def operations_share(kl: Callable[[Weights], Tensor], *, hops: int, n: int) -> float:
    """The Frobenius penalty's operations as a share of those of a KL penalty."""
    frobenius = counted_operations(frobenius_penalty, hops=hops, n=n)
    return frobenius / counted_operations(kl, hops=hops, n=n)


def counted_operations(penalty: Callable[[Weights], Tensor], *, hops: int, n: int) -> int:
    """Products, functions and arithmetic of one evaluation."""
    weights = _random_weights(hops=hops, n=n)
    with Counter() as counter:
        penalty(weights)
    return counter.products + counter.functions + counter.arithmetic


@claim(
    statement="The Frobenius penalty takes no more than a third of the time of the pairwise KL penalty.",
    formula="t(‖AAᵀ − I‖²) ≤ ⅓ · t(Σᵢⱼ KL(aᵢ ‖ aⱼ))",
    source="seed 000; Lin et al. 2017, sec. 2.2",
    proof="measured",
)
def frobenius_takes_a_third_of_the_time(
    *, hops: int = 30, n: int = 128, batch_size: int = 2, rounds: int = 15
) -> Finding:
    weights = _random_weights(hops=hops, n=n, batch_size=batch_size)
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
        verdict=holds_of(within, medians),
        because=f"Medians of {rounds} rounds in turns, 95 % intervals: the Frobenius penalty takes {told}.",
        figures=medians,
        picture=_times_picture(times),
        boundary=f"KL is computed as {' or as '.join(within)}" if within else "",
        counter_example="" if within else f"The shares are {told}.",
    )


@claim(
    statement="Pairwise KL is least for equal hops and grows as they part, so it has to be maximised.",
    formula="Σᵢⱼ KL(aᵢ ‖ aⱼ) ≥ 0, = 0 ⇔ all rows equal",
    source="corrects seed 000; Lin et al. 2017, sec. 2.2",
    proof="numeric",
)
def kl_has_to_be_maximised(*, hops: int = 4, n: int = 12, seed: int = 0) -> Finding:
    distances, kl, frobenius = parting(hops=hops, n=n, seed=seed)
    rises = bool(np.diff(kl).min() > 0 and abs(kl[0]) <= ROUNDING)
    falls = bool(np.diff(frobenius).max() < 0)
    return Finding(
        verdict="holds" if rises and falls else "fails",
        because=(
            f"As {hops} equal hops are moved apart, each to a place of its own, KL goes from "
            f"{abs(kl[0]):.1f} to {kl[-1]:.1f}, up at every step, and the Frobenius penalty from "
            f"{frobenius[0]:.2f} down to {frobenius[-1]:.2g} (float64; equal hops give 0 to "
            f"{ROUNDING}): the one is to be maximised, the other minimised."
        ),
        figures={
            "kl_equal": float(kl[0]),
            "kl_apart": float(kl[-1]),
            "kl_rises": rises,
            "falls": falls,
        },
        picture=CurvePicture(
            title=f"{hops} hops moved apart",
            x_label="distance of scores",
            y_label="penalty",
            curves=(
                line(label="pairwise KL", x=distances, y=kl),
                line(label="‖AAᵀ − I‖²", x=distances, y=frobenius),
            ),
        ),
        counter_example="" if rises and falls else "There is a step along which KL does not rise.",
    )


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


@claim(
    statement="Pairwise KL has no upper bound.",
    formula="a = (1−ε, ε), b = (ε, 1−ε):  KL(a‖b) + KL(b‖a) = 2(1−2ε) log((1−ε)/ε) → ∞ as ε → 0",
    source="seed 000; Lin et al. 2017, sec. 2.2",
    proof="numeric",
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
            f"With ε = exp(−{sharpness:.3g}) the two hops diverge by {two_hop_kl(sharpness):.4g}, above "
            f"the {bound:.3g} asked for, and so for any bound: the divergence grows as −2 log ε. The "
            f"formula equals the penalty to a relative {error:.1g} down to ε = exp(−600)."
        ),
        figures={
            "sharpness": sharpness,
            "divergence": two_hop_kl(sharpness),
            "formula_error": error,
        },
        picture=_unbounded_picture(),
        counter_example="" if beyond else f"No ε gives more than {bound}.",
    )


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


@claim(
    statement="Training with a penalty lowers the redundancy between hops.",
    formula="mean cos(aᵢ, aⱼ) with ‖AAᵀ − I‖² or − KL in the loss  <  without",
    source="seed 000; Lin et al. 2017, sec. 4.2",
    proof="measured",
    trained=True,
)
def penalty_lowers_redundancy(
    *, seeds: int = 5, steps: int = 150, penalty_weight: float = 1.0
) -> Finding:
    overlaps = trained_overlaps(seeds=seeds, steps=steps, penalty_weight=penalty_weight)
    drops = {
        arm: [o - w for o, w in zip(overlaps["none"], overlaps[arm], strict=True)]
        for arm in ARMS[1:]
    }
    lower = [arm for arm, of_seeds in drops.items() if surely_positive(of_seeds)]
    means = {arm: sum(values) / len(values) for arm, values in overlaps.items()}
    told = ", ".join(f"{arm} {mean:.3f}" for arm, mean in means.items())
    return Finding(
        verdict=holds_of(lower, {arm: means[arm] for arm in drops}),
        because=(
            f"Mean overlap (cosine) of hops on held-out films, over {seeds} seeds: {told}. Paired by seed, "
            f"the 95 % t interval of the drop lies above 0 for: {', '.join(lower) or 'no penalty'}."
        ),
        figures=means,
        picture=_overlap_points(overlaps),
        boundary=f"the penalty is {' or '.join(lower)}" if lower else "",
        counter_example="" if lower else f"The overlaps are {told}.",
    )


def surely_positive(drops: Sequence[float]) -> bool:
    """Whether the 95 % t interval of the mean lies above 0; two seeds or more are needed to say so."""
    interval = seed_interval(drops)
    return interval is not None and interval.low > 0


def _random_weights(*, hops: int, n: int, batch_size: int = 1) -> Weights:
    drawn = torch.Generator().manual_seed(0)
    return torch.randn(batch_size, hops, n, generator=drawn, dtype=torch.float64).softmax(dim=-1)


def _matrix(title: str, values: Float[Tensor, "hops length"]) -> MatrixPicture:
    return MatrixPicture(
        title=title,
        values=tuple(tuple(row) for row in values.tolist()),
        row_labels=tuple(f"hop {hop}" for hop in range(len(values))),
    )


def _overlaps_picture(rows: Int[np.ndarray, "rows places"], *, parts: int) -> MatrixPicture:
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


def _self_overlap_picture(*, places: int) -> CurvePicture:
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


def _shares_picture(*, hops: int) -> CurvePicture:
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


def _times_picture(times: dict[str, list[float]]) -> CurvePicture:
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


def _unbounded_picture() -> CurvePicture:
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


def _overlap_points(overlaps: dict[str, list[float]]) -> CurvePicture:
    return CurvePicture(
        title="Overlap of hops on held-out texts, by seed",
        x_label="seed",
        y_label="mean cosine of two hops",
        curves=tuple(
            line(label=arm, x=tuple(range(len(values))), y=values, points_only=True)
            for arm, values in overlaps.items()
        ),
    )
