"""Recurrent decoders: the order of computation in their two wirings, and the scores they read with.

    before the update   h(t−1) → α(t) → c(t) → h(t)       Bahdanau et al. 2015
    after the update    h(t) → α(t) → c(t) → h̃(t)         Luong et al. 2015

The order is found by changing a token, or the attention, and looking at what else changes. The claims about
quality are decided by one small study of trained decoders (`trained_decoders.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import torch
from jaxtyping import Float
from scipy.stats import rankdata

from regard.claims.engine import claim, counter_of, line, mechanism_run, of_all
from regard.claims.experiments.decoders import (
    SCORES,
    SIMILARITIES,
    WITHOUT,
    TrainedDecoder,
    changed_state,
    changed_weights,
    cost_picture,
    error_rates,
    rates_picture,
    similarity_picture,
    tanh_picture,
    trained_decoders,
)
from regard.core.records.claim import CurvePicture, Finding, MatrixPicture, Verdict
from regard.mechanisms import build_mechanism
from regard.studies.statistics.compare_seeds import SeedComparison, SeedPair, compare_over_seeds

# Changes below this are rounding in float64.
TOLERANCE = 1e-12
RESAMPLES = 500


@claim(
    statement="Before the update the last state reads the source, and what it read makes the new state.",
    formula="h(t−1) → α(t) → c(t) → h(t)",
    source="seed 004; Bahdanau et al. 2015",
    proof="numeric",
    ranges={"steps": (2, 32)},
)
def before_the_update_the_last_state_reads(*, wiring: str = "before", steps: int = 5) -> Finding:
    by_token, of_state = changed_weights(wiring, steps=steps), changed_state(wiring, steps=steps)
    # Token t makes state t: weights of step t must not know it, those of later steps must.
    later = np.triu(np.ones_like(by_token, dtype=bool), k=1)
    waits = bool(by_token[~later].max() <= TOLERANCE < by_token[later].min())
    return _order(waits and of_state > TOLERANCE, by_token, of_state, wiring)


@claim(
    statement="After the update the new state reads the source, and no state depends on what was read.",
    formula="h(t) → α(t) → c(t) → h̃(t)",
    source="seed 004; Luong et al. 2015",
    proof="numeric",
    ranges={"steps": (2, 32)},
)
def after_the_update_the_new_state_reads(*, wiring: str = "after", steps: int = 5) -> Finding:
    by_token, of_state = changed_weights(wiring, steps=steps), changed_state(wiring, steps=steps)
    # Token t makes state t, which reads: weights of step t know it already.
    known = np.triu(np.ones_like(by_token, dtype=bool))
    at_once = bool(by_token[~known].max() <= TOLERANCE < by_token[known].min())
    return _order(at_once and of_state <= TOLERANCE, by_token, of_state, wiring)


@claim(
    statement="Dot has no parameters, general one matrix, additive two matrices and a vector.",
    formula="0;  d_q·d_k;  d_a(d_q + d_k) + d_a",
    source="seed 004; Luong et al. 2015, sec. 3.1; Bahdanau et al. 2015",
    proof="counted",
    ranges=dict.fromkeys(("query_dim", "key_dim", "hidden_dim"), (1, 1024)),
)
def parameters_of_scores(
    *, query_dim: int = 24, key_dim: int = 40, hidden_dim: int = 16
) -> Finding:
    sizes = [(8, 8, 8), (query_dim, key_dim, hidden_dim), (64, 64, 64)]
    wrong = [
        f"{score} at {size}: {built} against {formula}"
        for size in sizes
        for score, built, formula in score_parameters(*size)
        if built != formula
    ]
    figures = {score: built for score, built, _ in score_parameters(query_dim, key_dim, hidden_dim)}
    return Finding(
        verdict="fails" if wrong else "holds",
        because=f"At d_q = {query_dim}, d_k = {key_dim}, d_a = {hidden_dim} the built ones have {figures}.",
        figures=figures,
        picture=_parameters_picture(),
        counter_example="; ".join(wrong),
    )


def score_parameters(query_dim: int, key_dim: int, hidden_dim: int) -> list[tuple[str, int, int]]:
    """Score, its parameters as built, and by the formula."""
    sizes = {"query_dim": query_dim, "key_dim": key_dim}
    additive = build_mechanism("additive", **sizes, hidden_dim=hidden_dim)
    by_formula = hidden_dim * (query_dim + key_dim) + hidden_dim
    return [
        ("dot", build_mechanism("dot", **sizes).num_parameters, 0),
        ("general", build_mechanism("general", **sizes).num_parameters, query_dim * key_dim),
        ("additive", additive.num_parameters, by_formula),
    ]


@claim(
    statement="Of the three scores dot costs least, then general, then additive.",
    formula="4n²d < 2nd² + 4n²d < 4nd² + n²d·(tanh and products)",
    source="seed 004; Luong et al. 2015, sec. 3.1",
    proof="counted",
    ranges={"d": (1, 128), "longest": (4, 256)},
)
def dot_costs_least(*, d: int = 32, longest: int = 128) -> Finding:
    lengths = [n for n in (4, 16, 32, 64, 128, 256) if n <= longest]
    counted = {score: score_operations(score, lengths, d=d) for score in SCORES[:3]}
    ordered = all(
        dot < general < additive for dot, general, additive in zip(*counted.values(), strict=True)
    )
    told = ", ".join(f"{score} {counts[-1]:,}" for score, counts in counted.items())
    return Finding(
        verdict="holds" if ordered else "fails",
        because=f"Counted at {len(lengths)} lengths, width {d}; at n = {lengths[-1]}: {told} operations.",
        figures={score: counts[-1] for score, counts in counted.items()},
        picture=cost_picture(lengths, counted),
        counter_example="" if ordered else told,
    )


def score_operations(score: str, lengths: Sequence[int], *, d: int) -> list[int]:
    """All operations of attention with a score, as many queries as keys."""
    return [counter_of(mechanism_run(score, n=n, d=d)).operations for n in lengths]


@claim(
    statement="The additive score costs about the same as the general one.",
    formula="operations(additive) ≈ operations(general)",
    source="seed 004",
    proof="counted",
    marked_wrong=True,
    ranges={"n": (1, 256), "d": (1, 128), "tolerance": (0, 100)},
)
def additive_costs_what_general_costs(
    *, n: int = 64, d: int = 32, rival: str = "general", tolerance: float = 0.25
) -> Finding:
    additive, other = (counter_of(mechanism_run(score, n=n, d=d)) for score in ("additive", rival))
    ratio = additive.operations / other.operations
    alike = abs(ratio - 1) <= tolerance
    told = f"{additive.operations:,} operations against {other.operations:,}: {ratio:.2f} times"
    lengths = [4, 16, 64, 128]
    return Finding(
        verdict="holds" if alike else "fails",
        because=(
            f"At n = {n}, d = {d}: {told}. The additive score takes a tanh for every pair and hidden unit: "
            f"{additive.functions:,} functions against {other.functions:,} of {rival}."
        ),
        figures={
            "ratio": ratio,
            "functions": additive.functions,
            "functions_of_rival": other.functions,
        },
        picture=cost_picture(
            lengths, {score: score_operations(score, lengths, d=d) for score in ("additive", rival)}
        ),
        counter_example="" if alike else f"n = {n}, d = {d}: {told}.",
    )


@claim(
    statement="tanh maps to [−1, 1]; half of it and a half more, the logistic function, maps to [0, 1].",
    formula="−1 ≤ tanh(x) ≤ 1,  ½ + ½ tanh(x/2) = 1/(1 + e⁻ˣ)",
    source="corrects seed 004",
    proof="numeric",
    ranges={"least": (-1e6, 1e6), "most": (-1e6, 1e6)},
)
def tanh_maps_to_minus_one_one(*, least: float = -20.0, most: float = 20.0) -> Finding:
    x = torch.linspace(least, most, 2001, dtype=torch.float64)
    logistic, halved = torch.sigmoid(x), 0.5 + 0.5 * torch.tanh(x / 2)
    apart, beyond = float((halved - logistic).abs().max()), left_by(logistic, low=0.0, high=1.0)
    found = range_finding(least, most, low=-1.0, high=1.0)
    sound = found.verdict == "holds" and apart <= TOLERANCE and beyond == 0
    told = (
        f"1/(1 + e⁻ˣ) differs from ½ + ½ tanh(x/2) by {apart:.1g} and leaves [0, 1] by {beyond:.1g}"
    )
    return replace(
        found,
        verdict="holds" if sound else "fails",
        because=f"{found.because} {told} (float64; allowed: {TOLERANCE} and 0).",
        figures={**found.figures, "logistic_difference": apart, "logistic_beyond": beyond},
        counter_example="" if sound else f"{found.counter_example or told}.",
    )


@claim(
    statement="tanh maps to [0, 1].",
    formula="0 ≤ tanh(x) ≤ 1",
    source="seed 004",
    proof="numeric",
    marked_wrong=True,
    ranges={"least": (-1e6, 1e6), "most": (-1e6, 1e6)},
)
def tanh_maps_to_zero_one(*, least: float = -20.0, most: float = 20.0) -> Finding:
    return range_finding(least, most, low=0.0, high=1.0)


def range_finding(least: float, most: float, *, low: float, high: float) -> Finding:
    """Whether tanh of all numbers between two lies between two others; float64, ends included."""
    x = torch.linspace(least, most, 2001, dtype=torch.float64)
    y = torch.tanh(x)
    worst = int((y - y.clamp(low, high)).abs().argmax())
    within = left_by(y, low=low, high=high) == 0
    return Finding(
        verdict="holds" if within else "fails",
        because=(
            f"Between {least:g} and {most:g} tanh takes values from {float(y.min()):.4f} to "
            f"{float(y.max()):.4f}."
        ),
        figures={"least": float(y.min()), "most": float(y.max())},
        picture=tanh_picture(),
        counter_example="" if within else f"tanh({float(x[worst]):g}) = {float(y[worst]):.4f}.",
    )


def left_by(values: torch.Tensor, *, low: float, high: float) -> float:
    """How far outside of an interval the farthest of these lies; 0 if all are in it."""
    return float((values - values.clamp(low, high)).abs().max())


@claim(
    statement="A decoder with attention beats the LSTM decoder without.",
    formula="phone error rate with attention < without",
    source="seed 002, Q3; Bahdanau et al. 2015",
    proof="measured",
    trained=True,
    ranges={"seeds": (1, 20), "steps": (1, 5000)},
)
def attention_beats_the_lstm_decoder(*, seeds: int = 5, steps: int = 300) -> Finding:
    decoders = trained_decoders(seeds=seeds, steps=steps)
    found = compare_over_seeds(error_rates(decoders), lower_is_better=True)
    verdicts = {pair.second: pair.verdict for pair in found.pairs if pair.first == WITHOUT}
    beat = [score for score, verdict in verdicts.items() if verdict == "worse"]
    return _study_finding(
        of_all(beat, SCORES), f"the score is {' or '.join(beat)}", found, decoders, against=WITHOUT
    )


@claim(
    statement="Of the scores of a decoder the location score is best.",
    formula="phone error rate with location < with dot, general, additive",
    source="seed 004; Luong et al. 2015, table 4 has another order",
    proof="measured",
    trained=True,
    ranges={"seeds": (1, 20), "steps": (1, 5000)},
)
def location_scores_are_best(*, seeds: int = 5, steps: int = 300) -> Finding:
    decoders = trained_decoders(seeds=seeds, steps=steps)
    found = compare_over_seeds(error_rates(decoders), lower_is_better=True)
    verdicts = {pair.first: pair.verdict for pair in found.pairs if pair.second == "location"}
    others = [score for score in SCORES if score != "location"]
    beaten = [score for score in others if verdicts[score] == "worse"]
    ahead = [score for score in others if verdicts[score] == "better"]
    # One score that is better is enough to refute it: best is best of all.
    shown = [] if ahead else beaten
    return _study_finding(
        of_all(shown, others),
        f"compared with {' or '.join(shown)}",
        found,
        decoders,
        against="location",
    )


@claim(
    statement="Jaccard, cosine and Damerau–Levenshtein similarity rank decoders alike.",
    formula="Spearman's ρ of every two of them, over decoders, near 1",
    source="seed 002, Q3.4",
    proof="measured",
    trained=True,
    ranges={"seeds": (1, 20), "steps": (1, 5000), "least": (-1, 1)},
)
def similarities_rank_decoders_alike(
    *, seeds: int = 5, steps: int = 300, least: float = 0.8
) -> Finding:
    decoders = trained_decoders(seeds=seeds, steps=steps)
    found = {
        f"{a} and {b}": rank_correlation(decoders, a, b) for a, b in combinations(SIMILARITIES, 2)
    }
    alike = all(low >= least for _, low in found.values())
    told = "; ".join(
        f"{pair}: ρ = {rho:.3f}, above {low:.3f}" for pair, (rho, low) in found.items()
    )
    return Finding(
        verdict="holds" if alike else "fails",
        because=(
            f"Over {len(decoders)} trained decoders, with the lower end of a 95 % bootstrap interval: "
            f"{told}. Asked for: {least} or more."
        ),
        figures={pair: rho for pair, (rho, _) in found.items()},
        picture=similarity_picture(decoders),
        counter_example="" if alike else told,
    )


def rank_correlation(
    decoders: Sequence[TrainedDecoder], first: str, second: str
) -> tuple[float, float]:
    """Spearman's ρ over decoders, and the lower end of its interval by resampling them."""
    pairs = np.array([[each.similarities[name] for each in decoders] for name in (first, second)])
    drawn = np.random.default_rng(0).integers(len(decoders), size=(RESAMPLES, len(decoders)))
    of_draws = spearman(pairs[0][drawn], pairs[1][drawn])
    # Where all tie there is no order, and so none that agrees.
    low = float(np.quantile(np.nan_to_num(of_draws, nan=-1.0), 0.025))
    return float(np.nan_to_num(spearman(*pairs), nan=-1.0)), low


def spearman(
    first: Float[np.ndarray, "*draws items"], second: Float[np.ndarray, "*draws items"]
) -> Float[np.ndarray, "*draws"]:
    """The correlation of ranks, ties sharing theirs; not a number where all items tie."""
    ranks = [rankdata(values, axis=-1) for values in (first, second)]
    one, other = (rank - rank.mean(axis=-1, keepdims=True) for rank in ranks)
    spreads = (one**2).sum(axis=-1) * (other**2).sum(axis=-1)
    with np.errstate(invalid="ignore"):
        return np.asarray((one * other).sum(axis=-1) / np.sqrt(spreads))


def _order(holds: bool, by_token: np.ndarray, of_state: float, wiring: str) -> Finding:
    own = float(np.diagonal(by_token).max())
    told = (
        f"a changed token changes the weights of its own step by {own:.2g} at most, and another way of "
        f"reading changes the last state by {of_state:.2g}"
    )
    names = tuple(str(step) for step in range(len(by_token)))
    return Finding(
        verdict="holds" if holds else "fails",
        because=f"With wiring '{wiring}', {told} (float64; tolerance {TOLERANCE}).",
        figures={
            "own_step": own,
            "state": of_state,
            "later_most": float(np.triu(by_token, 1).max()),
        },
        picture=MatrixPicture(
            title=f"Change of the weights of each step (columns) by the token of one (rows): {wiring}",
            values=tuple(tuple(row) for row in by_token.tolist()),
            row_labels=tuple(f"token {name}" for name in names),
            column_labels=tuple(f"α {name}" for name in names),
        ),
        counter_example="" if holds else f"{wiring}: {told}.",
    )


def _study_finding(
    verdict: Verdict,
    boundary: str,
    found: SeedComparison,
    decoders: Sequence[TrainedDecoder],
    *,
    against: str,
) -> Finding:
    means = {variant.variant: variant.mean for variant in found.variants}
    ranked = ", ".join(
        f"{variant} {mean:.1f}" for variant, mean in sorted(means.items(), key=lambda item: item[1])
    )
    pairs = "; ".join(
        f"{pair.in_words()} ({difference(pair)})"
        for pair in found.pairs
        if against in (pair.first, pair.second)
    )
    return Finding(
        verdict=verdict,
        because=(
            f"Mean phone error rates (%) over {len(found.seeds)} seeds of small decoders with one budget: "
            f"{ranked}. {pairs}. Intervals hold for all pairs together, and are wider than Holm's order "
            "of tests, which the verdicts go by."
        ),
        figures=means,
        picture=rates_picture(found, decoders),
        boundary=boundary if verdict == "holds if" else "",
        counter_example=f"It is not shown: {pairs}." if verdict == "fails" else "",
    )


def difference(pair: SeedPair) -> str:
    """The first's rate less the second's, with the interval that holds for all pairs together."""
    interval = pair.simultaneous_interval
    around = "" if interval is None else f" [{interval.low:+.1f}, {interval.high:+.1f}]"
    return f"{pair.difference:+.1f}{around}"


def _parameters_picture() -> CurvePicture:
    widths = (8, 16, 32, 64, 128)
    by_score: dict[str, list[float]] = {score: [] for score in SCORES[:3]}
    for width in widths:
        for score, built, _ in score_parameters(width, width, width):
            by_score[score].append(float(built))
    return CurvePicture(
        title="Parameters of scores, all widths equal",
        x_label="width",
        y_label="parameters",
        curves=tuple(line(label=name, x=widths, y=y) for name, y in by_score.items()),
    )
