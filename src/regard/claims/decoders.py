"""Recurrent decoders: order of computation in Bahdanau and Luong attention, and score functions.

    Bahdanau et al. 2015   h(t−1) → α(t) → c(t) → h(t)      attention before the state update
    Luong et al. 2015      h(t) → α(t) → c(t) → h̃(t)        attention after the state update

The order is tested by changing a token, or the attention parameters, and observing what else changes.
Claims about accuracy use one small study of trained decoders (`experiments/decoders.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import torch
from jaxtyping import Float
from scipy.stats import rankdata

from regard.claims.engine import (
    claim,
    count_ops,
    curve_figure,
    line,
    lines,
    matrix_figure,
    mechanism_call,
    verdict_over,
)
from regard.claims.experiments.decoders import (
    SCORES,
    SIMILARITIES,
    WITHOUT,
    TrainedDecoder,
    changed_state,
    changed_weights,
    cost_figure,
    error_rates,
    trained_decoders,
)
from regard.core.records.claim import CurveFigure, Finding, Verdict
from regard.mechanisms import build_mechanism
from regard.studies.statistics.paired import SeedComparison, SeedPair, compare_over_seeds

# Changes below this are rounding in float64.
TOLERANCE = 1e-12
RESAMPLES = 500


@claim(
    statement="In Bahdanau attention the previous state is the query, and the context enters the state.",
    formula="h(t−1) → α(t) → c(t) → h(t)",
    source="Bahdanau et al. 2015",
    proof="numeric",
    ranges={"steps": (2, 32)},
)
def bahdanau_attends_before_the_update(
    *, attention_style: str = "bahdanau", steps: int = 5
) -> Finding:
    weight_changes = changed_weights(attention_style, steps=steps)
    state_change = changed_state(attention_style, steps=steps)
    # Token t enters state t: it must change the weights of later steps only.
    later = np.triu(np.ones_like(weight_changes, dtype=bool), k=1)
    before = bool(weight_changes[~later].max() <= TOLERANCE < weight_changes[later].min())
    return _order_finding(
        before and state_change > TOLERANCE, weight_changes, state_change, attention_style
    )


@claim(
    statement="In Luong attention the new state is the query, and no state depends on a context.",
    formula="h(t) → α(t) → c(t) → h̃(t)",
    source="Luong et al. 2015",
    proof="numeric",
    ranges={"steps": (2, 32)},
)
def luong_attends_after_the_update(*, attention_style: str = "luong", steps: int = 5) -> Finding:
    weight_changes = changed_weights(attention_style, steps=steps)
    state_change = changed_state(attention_style, steps=steps)
    # Token t enters state t, the query of step t: it must change the weights from step t on.
    current = np.triu(np.ones_like(weight_changes, dtype=bool))
    after = bool(weight_changes[~current].max() <= TOLERANCE < weight_changes[current].min())
    return _order_finding(
        after and state_change <= TOLERANCE, weight_changes, state_change, attention_style
    )


@claim(
    statement="The dot score has no parameters, general one matrix, additive two matrices and a vector.",
    formula="0;  d_q·d_k;  d_a(d_q + d_k) + d_a",
    source="Luong et al. 2015, sec. 3.1; Bahdanau et al. 2015",
    proof="counted",
    ranges=dict.fromkeys(("query_dim", "key_dim", "hidden_dim"), (1, 1024)),
)
def score_function_parameters(
    *, query_dim: int = 24, key_dim: int = 40, hidden_dim: int = 16
) -> Finding:
    sizes = [(8, 8, 8), (query_dim, key_dim, hidden_dim), (64, 64, 64)]
    wrong = [
        f"{score} at {size}: {built} counted, formula {formula}"
        for size in sizes
        for score, built, formula in score_parameters(*size)
        if built != formula
    ]
    values = {score: built for score, built, _ in score_parameters(query_dim, key_dim, hidden_dim)}
    return Finding(
        verdict="fails" if wrong else "holds",
        reason=f"Parameters at d_q = {query_dim}, d_k = {key_dim}, d_a = {hidden_dim}: {values}.",
        values=values,
        figure=_parameters_figure(),
        counter_example="; ".join(wrong),
    )


def score_parameters(query_dim: int, key_dim: int, hidden_dim: int) -> list[tuple[str, int, int]]:
    """Score function, parameters counted, parameters by the formula."""
    sizes = {"query_dim": query_dim, "key_dim": key_dim}
    additive = build_mechanism("additive", **sizes, hidden_dim=hidden_dim)
    formula = hidden_dim * (query_dim + key_dim) + hidden_dim
    return [
        ("dot", build_mechanism("dot", **sizes).num_parameters, 0),
        ("general", build_mechanism("general", **sizes).num_parameters, query_dim * key_dim),
        ("additive", additive.num_parameters, formula),
    ]


@claim(
    statement="Of the three score functions dot is cheapest, then general, then additive.",
    formula="4n²d < 2nd² + 4n²d < 4nd² + n²d·(tanh and products)",
    source="Luong et al. 2015, sec. 3.1",
    proof="counted",
    ranges={"d": (1, 128), "longest": (4, 256)},
)
def dot_score_is_cheapest(*, d: int = 32, longest: int = 128) -> Finding:
    lengths = [n for n in (4, 16, 32, 64, 128, 256) if n <= longest]
    counted = {score: score_flops(score, lengths, d=d) for score in SCORES[:3]}
    ordered = all(
        dot < general < additive for dot, general, additive in zip(*counted.values(), strict=True)
    )
    summary = ", ".join(f"{score} {counts[-1]:,}" for score, counts in counted.items())
    return Finding(
        verdict="holds" if ordered else "fails",
        reason=f"Counted at {len(lengths)} lengths with d = {d}; FLOPs at n = {lengths[-1]}: {summary}.",
        values={score: counts[-1] for score, counts in counted.items()},
        figure=cost_figure(lengths, counted),
        counter_example=summary,
    )


def score_flops(score: str, lengths: Sequence[int], *, d: int) -> list[int]:
    """FLOPs of attention with a score function at each length; as many queries as keys."""
    return [count_ops(mechanism_call(score, n=n, d=d)).flops for n in lengths]


@claim(
    statement="The additive score costs about the same as the general one.",
    formula="flops(additive) ≈ flops(general)",
    source="course notes: attention scores",
    proof="counted",
    known_false=True,
    ranges={"n": (1, 256), "d": (1, 128), "tolerance": (0, 100)},
)
def additive_costs_the_same_as_general(
    *, n: int = 64, d: int = 32, baseline: str = "general", tolerance: float = 0.25
) -> Finding:
    additive, other = (
        count_ops(mechanism_call(score, n=n, d=d)) for score in ("additive", baseline)
    )
    ratio = additive.flops / other.flops
    similar = abs(ratio - 1) <= tolerance
    summary = f"{additive.flops:,} FLOPs against {other.flops:,}: {ratio:.2f} times"
    lengths = [4, 16, 64, 128]
    return Finding(
        verdict="holds" if similar else "fails",
        reason=f"At n = {n}, d = {d}: {summary}. The additive score computes a tanh for every pair and "
        f"hidden unit: {additive.transcendental_ops:,} transcendental operations against "
        f"{other.transcendental_ops:,} of {baseline}.",
        values={
            "ratio": ratio,
            "transcendental_ops": additive.transcendental_ops,
            "baseline_transcendental_ops": other.transcendental_ops,
        },
        figure=cost_figure(
            lengths, {score: score_flops(score, lengths, d=d) for score in ("additive", baseline)}
        ),
        counter_example=f"n = {n}, d = {d}: {summary}.",
    )


@claim(
    statement="tanh maps to [−1, 1]; rescaled to the logistic function it maps to [0, 1].",
    formula="−1 ≤ tanh(x) ≤ 1,  ½ + ½ tanh(x/2) = 1/(1 + e⁻ˣ)",
    source="course notes: activation functions (corrected)",
    proof="numeric",
    ranges={"x_min": (-1e6, 1e6), "x_max": (-1e6, 1e6)},
)
def tanh_maps_to_minus_one_one(*, x_min: float = -20.0, x_max: float = 20.0) -> Finding:
    x = torch.linspace(x_min, x_max, 2001, dtype=torch.float64)
    logistic, halved = torch.sigmoid(x), 0.5 + 0.5 * torch.tanh(x / 2)
    error = float((halved - logistic).abs().max())
    outside = distance_outside(logistic, low=0.0, high=1.0)
    finding = range_finding(x_min, x_max, low=-1.0, high=1.0)
    holds = finding.verdict == "holds" and error <= TOLERANCE and outside == 0
    summary = f"1/(1 + e⁻ˣ) differs from ½ + ½ tanh(x/2) by {error:.1g} and exceeds [0, 1] by {outside:.1g}"
    return replace(
        finding,
        verdict="holds" if holds else "fails",
        reason=f"{finding.reason} {summary} (float64; tolerance {TOLERANCE} and 0).",
        values={**finding.values, "logistic_difference": error, "logistic_outside": outside},
        counter_example=f"{finding.counter_example or summary}.",
    )


@claim(
    statement="tanh maps to [0, 1].",
    formula="0 ≤ tanh(x) ≤ 1",
    source="course notes: activation functions",
    proof="numeric",
    known_false=True,
    ranges={"x_min": (-1e6, 1e6), "x_max": (-1e6, 1e6)},
)
def tanh_maps_to_zero_one(*, x_min: float = -20.0, x_max: float = 20.0) -> Finding:
    return range_finding(x_min, x_max, low=0.0, high=1.0)


def range_finding(x_min: float, x_max: float, *, low: float, high: float) -> Finding:
    """Whether tanh maps [x_min, x_max] into [low, high], on a float64 grid."""
    x = torch.linspace(x_min, x_max, 2001, dtype=torch.float64)
    y = torch.tanh(x)
    worst = int((y - y.clamp(low, high)).abs().argmax())
    within = distance_outside(y, low=low, high=high) == 0
    grid = torch.linspace(-4, 4, 81, dtype=torch.float64)
    curves = {"tanh": torch.tanh(grid), "logistic": torch.sigmoid(grid)}
    return Finding(
        verdict="holds" if within else "fails",
        reason=f"Between {x_min:g} and {x_max:g} tanh takes values from {float(y.min()):.4f} to "
        f"{float(y.max()):.4f}.",
        values={"min": float(y.min()), "max": float(y.max())},
        figure=curve_figure("tanh and the logistic function", ("x", "value"), *lines(grid, curves)),
        counter_example=f"tanh({float(x[worst]):g}) = {float(y[worst]):.4f}.",
    )


def distance_outside(values: torch.Tensor, *, low: float, high: float) -> float:
    """Largest distance of a value from an interval; 0 if all are inside."""
    return float((values - values.clamp(low, high)).abs().max())


@claim(
    statement="A decoder with attention beats an LSTM decoder without attention.",
    formula="phone error rate with attention < without",
    source="Bahdanau et al. 2015",
    proof="measured",
    trained=True,
    ranges={"seeds": (1, 20), "steps": (1, 5000)},
)
def attention_beats_the_lstm_decoder(*, seeds: int = 5, steps: int = 300) -> Finding:
    decoders = trained_decoders(seeds=seeds, steps=steps)
    comparison = compare_over_seeds(error_rates(decoders), lower_is_better=True)
    verdicts = {pair.second: pair.verdict for pair in comparison.pairs if pair.first == WITHOUT}
    better = [score for score, verdict in verdicts.items() if verdict == "worse"]
    return _study_finding(
        verdict_over(better, SCORES),
        f"the score is {' or '.join(better)}",
        comparison,
        decoders,
        baseline=WITHOUT,
    )


@claim(
    statement="The location score gives the most accurate decoder.",
    formula="phone error rate with location < with dot, general, additive",
    source="course notes: attention scores; Luong et al. 2015, table 4, ranks them differently",
    proof="measured",
    trained=True,
    ranges={"seeds": (1, 20), "steps": (1, 5000)},
)
def location_score_is_best(*, seeds: int = 5, steps: int = 300) -> Finding:
    decoders = trained_decoders(seeds=seeds, steps=steps)
    comparison = compare_over_seeds(error_rates(decoders), lower_is_better=True)
    verdicts = {pair.first: pair.verdict for pair in comparison.pairs if pair.second == "location"}
    others = [score for score in SCORES if score != "location"]
    beaten = [score for score in others if verdicts[score] == "worse"]
    # One better score refutes the claim.
    shown = [] if any(verdicts[score] == "better" for score in others) else beaten
    return _study_finding(
        verdict_over(shown, others),
        f"compared with {' or '.join(shown)}",
        comparison,
        decoders,
        baseline="location",
    )


@claim(
    statement="Jaccard, cosine and Damerau–Levenshtein similarity rank decoders in the same order.",
    formula="Spearman's ρ between every two similarities, over decoders, near 1",
    source="course notes: string similarity",
    proof="measured",
    trained=True,
    ranges={"seeds": (1, 20), "steps": (1, 5000), "min_correlation": (-1, 1)},
)
def similarities_rank_decoders_alike(
    *, seeds: int = 5, steps: int = 300, min_correlation: float = 0.8
) -> Finding:
    decoders = trained_decoders(seeds=seeds, steps=steps)
    correlations = {
        f"{a} and {b}": rank_correlation(decoders, a, b) for a, b in combinations(SIMILARITIES, 2)
    }
    similar = all(low >= min_correlation for _, low in correlations.values())
    summary = "; ".join(
        f"{pair}: ρ = {rho:.3f}, above {low:.3f}" for pair, (rho, low) in correlations.items()
    )
    ordered = sorted(decoders, key=lambda each: each.similarities["jaccard"])
    return Finding(
        verdict="holds" if similar else "fails",
        reason=f"Over {len(decoders)} trained decoders, with the lower end of a 95 % bootstrap interval: "
        f"{summary}. Required: {min_correlation} or more.",
        values={pair: rho for pair, (rho, _) in correlations.items()},
        figure=curve_figure(
            "Similarities of decoders, sorted by Jaccard similarity",
            ("decoder", "similarity"),
            *(
                line(name, range(len(ordered)), [each.similarities[name] for each in ordered])
                for name in SIMILARITIES
            ),
        ),
        counter_example=summary,
    )


def rank_correlation(
    decoders: Sequence[TrainedDecoder], first: str, second: str
) -> tuple[float, float]:
    """Spearman's ρ over decoders, and the lower end of its bootstrap interval."""
    pairs = np.array([[each.similarities[name] for each in decoders] for name in (first, second)])
    resamples = np.random.default_rng(0).integers(len(decoders), size=(RESAMPLES, len(decoders)))
    resampled = spearman(pairs[0][resamples], pairs[1][resamples])
    # If all values tie, ρ is undefined and counts as -1.
    low = float(np.quantile(np.nan_to_num(resampled, nan=-1.0), 0.025))
    return float(np.nan_to_num(spearman(*pairs), nan=-1.0)), low


def spearman(
    first: Float[np.ndarray, "*resamples items"], second: Float[np.ndarray, "*resamples items"]
) -> Float[np.ndarray, "*resamples"]:
    """Rank correlation with average ranks for ties; NaN if all items tie."""
    ranks = [rankdata(values, axis=-1) for values in (first, second)]
    one, other = (rank - rank.mean(axis=-1, keepdims=True) for rank in ranks)
    variances = (one**2).sum(axis=-1) * (other**2).sum(axis=-1)
    with np.errstate(invalid="ignore"):
        return np.asarray((one * other).sum(axis=-1) / np.sqrt(variances))


def _order_finding(
    holds: bool, weight_changes: np.ndarray, state_change: float, attention_style: str
) -> Finding:
    own = float(np.diagonal(weight_changes).max())
    summary = (
        f"a changed token changes the weights of its own step by at most {own:.2g}, and changed attention "
        f"parameters change the last state by {state_change:.2g}"
    )
    names = tuple(str(step) for step in range(len(weight_changes)))
    return Finding(
        verdict="holds" if holds else "fails",
        reason=f"With attention_style='{attention_style}', {summary} (float64; tolerance {TOLERANCE}).",
        values={
            "own_step": own,
            "state": state_change,
            "later_max": float(np.triu(weight_changes, 1).max()),
        },
        figure=matrix_figure(
            f"Change of attention weights (columns) when one token (rows) changes: {attention_style}",
            weight_changes.tolist(),
            rows=(f"token {name}" for name in names),
            columns=(f"α {name}" for name in names),
        ),
        counter_example=f"{attention_style}: {summary}.",
    )


def _study_finding(
    verdict: Verdict,
    condition: str,
    comparison: SeedComparison,
    decoders: Sequence[TrainedDecoder],
    *,
    baseline: str,
) -> Finding:
    means = {variant.variant: variant.mean for variant in comparison.variants}
    ranked = ", ".join(
        f"{variant} {mean:.1f}" for variant, mean in sorted(means.items(), key=lambda item: item[1])
    )
    pairs = "; ".join(
        f"{pair.sentence()} ({difference(pair)})"
        for pair in comparison.pairs
        if baseline in (pair.first, pair.second)
    )
    rates = error_rates(decoders)
    return Finding(
        verdict=verdict,
        reason=(
            f"Mean phone error rate (%) of small decoders with equal budgets over {len(comparison.seeds)} "
            f"seeds: {ranked}. {pairs}. Intervals are simultaneous over all pairs; verdicts use Holm's "
            "step-down tests, which are less conservative."
        ),
        values=means,
        figure=curve_figure(
            "Phone error rate of every run (%)",
            ("seed", "phone error rate"),
            *(
                line(
                    f"{variant.variant} (mean {variant.mean:.1f})",
                    rates[variant.variant],
                    rates[variant.variant].values(),
                    points_only=True,
                )
                for variant in comparison.variants
            ),
        ),
        condition=condition,
        counter_example=f"Not shown: {pairs}.",
    )


def difference(pair: SeedPair) -> str:
    """Difference of the error rates with its simultaneous interval."""
    interval = pair.simultaneous_interval
    bounds = "" if interval is None else f" [{interval.low:+.1f}, {interval.high:+.1f}]"
    return f"{pair.difference:+.1f}{bounds}"


def _parameters_figure() -> CurveFigure:
    widths = (8, 16, 32, 64, 128)
    by_score: dict[str, list[float]] = {score: [] for score in SCORES[:3]}
    for width in widths:
        for score, built, _ in score_parameters(width, width, width):
            by_score[score].append(float(built))
    return curve_figure(
        "Parameters of score functions, all sizes equal",
        ("width", "parameters"),
        *lines(widths, by_score),
    )
