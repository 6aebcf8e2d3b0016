"""Limits of Transformers of fixed size: PARITY, nested brackets (Dyck languages) and associative recall.

Trained claims train small models on short strings and test length generalization
(`experiments/limits.py`); the others use hand-set or random parameters.
"""

from __future__ import annotations

import math
from functools import partial

import torch

from regard.claims.engine import claim, curve_figure, line, lines
from regard.claims.experiments.limits import (
    DEPTH,
    KERNELS,
    LSTM,
    MIN_BRACKET_LENGTH,
    MIN_PARITY_LENGTH,
    MODEL_KINDS,
    SOFTMAX,
    SOFTMAX_MEMORY,
    bracket_model,
    curve_with_band,
    largest_change,
    margin_figure,
    nested,
    parity_model,
    recall_accuracy,
    scores_figure,
    slope,
    untrained,
    validate_max_pairs,
)
from regard.claims.experiments.parity_transformer import evaluate_lengths
from regard.core.records.claim import Finding
from regard.mechanisms.scores.dot_product import DotAttention

HAHN = "Hahn 2020"
CHIANG = "Chiang and Cholak 2022"
LEARNED = 0.99  # accuracy at the training length above which a task counts as learned
GUESSING = 0.75  # accuracy on longer strings below which a model counts as guessing
KNOWN = 0.9  # accuracy on bracket strings of the training length
MAX_EXPONENT = -0.8  # exponents of n up to this count as 1/n
INVERSE_SQUARE = -2.0

TRAINING_RANGES = {"seeds": (1, 100), "steps": (1, 100_000)}

UNTRAINED_OPTIONS = {"model_dim": 32, "num_heads": 4, "num_layers": 2, "position": "rotary"}


@claim(
    statement="Changing one of n symbols changes the output of a softmax Transformer by O(1/n).",
    formula="max |logits(x) − logits(x′)| = O(1/n), x and x′ differ in one position",
    source=f"{HAHN}, lemma 5",
    proof="numeric",
    ranges={"longest": (32, 4096), "attention_gain": (0.0, 1000.0), "seeds": (1, 100)},
)
def one_symbol_changes_output_by_one_over_n(
    *, longest: int = 256, attention_gain: float = 1.0, seeds: int = 3
) -> Finding:
    lengths = _powers(16, longest)
    models = [
        untrained("text_encoder", seed=seed, attention_gain=attention_gain, **UNTRAINED_OPTIONS)
        for seed in range(seeds)
    ]
    changes = [[largest_change(model, length=n) for n in lengths] for model in models]
    means = [math.fsum(column) / seeds for column in zip(*changes, strict=True)]
    exponent = slope(lengths, means)
    first = max(row[0] for row in changes)
    guide = tuple(first * lengths[0] / n for n in lengths)
    return Finding(
        verdict="holds" if exponent <= MAX_EXPONENT else "fails",
        reason=f"In {seeds} untrained Transformers the largest change over 16 positions scales as "
        f"n^{exponent:.2f} (required: exponent {MAX_EXPONENT} or less).",
        values={"exponent": exponent, "at min length": means[0], "at max length": means[-1]},
        figure=curve_figure(
            "Change of a logit when one of n symbols changes",
            ("length n", "largest change"),
            curve_with_band("untrained Transformers", lengths, changes),
            line("1/n", lengths, guide, dashed=True),
            log="xy",
        ),
        counter_example=f"{means[0]:.1e} at n = 16, {means[-1]:.1e} at {longest}.",
    )


@claim(
    statement="A Transformer with two layers and two heads can recognise PARITY at every length.",
    formula="sign(logit) = (−1)^(number of ones), n = 1 … 1,000",
    source=CHIANG,
    proof="numeric",
    ranges={"longest": (1, 4000), "preference": (-20.0, 20.0)},
)
def constructed_transformer_solves_parity(
    *, longest: int = 1000, preference: float = 2.0
) -> Finding:
    runs = evaluate_lengths(range(1, longest + 1), preference=preference)
    first = next((run for run in runs if run.wrong), None)
    return Finding(
        verdict="holds" if first is None else "fails",
        reason=f"{sum(run.wrong for run in runs)} of {sum(run.strings for run in runs):,} strings of all "
        f"lengths up to {longest:,}, including edge cases, are misclassified (float64).",
        values={"wrong": sum(run.wrong for run in runs), "lengths": len(runs)},
        figure=margin_figure({"difference of the two scores": runs}),
        counter_example=f"A string of length {first.length} is misclassified." if first else "",
    )


@claim(
    statement="A Transformer cannot recognise PARITY unless layers or heads grow with the length.",
    formula="no fixed (layers, heads) for all n",
    source=f"{HAHN}, which proves it for hard attention; for softmax it bounds the margin",
    proof="numeric",
    known_false=True,
    ranges={"longest": (1, 4000), "preference": (-20.0, 20.0)},
)
def parity_needs_growing_depth(*, longest: int = 1000, preference: float = 2.0) -> Finding:
    runs = evaluate_lengths(range(1, longest + 1), preference=preference)
    refuted = all(run.wrong == 0 for run in runs)
    return Finding(
        verdict="fails" if refuted else "holds",
        reason=f"Two layers with two heads misclassify {sum(run.wrong for run in runs)} of "
        f"{sum(run.strings for run in runs):,} strings up to length {longest:,}. The margin falls with the "
        "length, the accuracy does not.",
        values={"wrong": sum(run.wrong for run in runs), "layers": 2, "heads": 2},
        figure=margin_figure({"difference of the two scores": runs}),
        counter_example=f"Two layers and two heads are correct at every length up to {longest:,}.",
    )


@claim(
    statement="The margin of the PARITY Transformer shrinks with the length, and a layer norm restores it.",
    formula="|logit(even) − logit(odd)| ≈ 4/n²; after layer norm with ε = 0 it is 2",
    source=CHIANG,
    proof="numeric",
    ranges={"longest": (20, 4000), "norm_epsilon": (0.0, 1.0)},
)
def parity_margin_shrinks_with_length(*, longest: int = 1000, norm_epsilon: float = 0.0) -> Finding:
    lengths = tuple(sorted({round(longest ** (step / 20)) for step in range(21)}))
    plain = evaluate_lengths(lengths)
    normed, default = (
        evaluate_lengths(lengths, norm_epsilon=size) for size in (norm_epsilon, 1e-5)
    )
    exponent = slope(lengths[-10:], [run.margin for run in plain[-10:]])
    normed_margin = min(run.margin for run in normed)
    holds = abs(exponent - INVERSE_SQUARE) < 0.1 and normed_margin > 1.0
    return Finding(
        verdict="holds" if holds else "fails",
        reason=f"The margin scales as n^{exponent:.2f}, to {plain[-1].margin:.1e} at n = {longest:,}. "
        f"After a layer norm with ε = {norm_epsilon:g} it is at least {normed_margin:.2g}; with the "
        f"default 1e-5 it still falls to {default[-1].margin:.1e}.",
        values={
            "exponent": exponent,
            "at max length": plain[-1].margin,
            "normed": normed_margin,
            "default epsilon": default[-1].margin,
        },
        figure=margin_figure(
            {
                "no norm": plain,
                f"layer norm, ε = {norm_epsilon:g}": normed,
                "layer norm, ε = 1e-5": default,
            }
        ),
        counter_example=f"The smallest margin after the norm is {normed_margin:.1e}.",
    )


@claim(
    statement="Attention to one of n positions keeps its weight if scores are multiplied by log n.",
    formula="weight = eᶜ/(eᶜ + n − 1) → 0, but n^c/(n^c + n − 1) ≥ ½ for c ≥ 1",
    source=f"{CHIANG}, section 5",
    proof="numeric",
    ranges={"longest": (32, 1_000_000), "advantage": (0.0, 50.0)},
)
def log_length_scaling_keeps_weight(*, advantage: float = 2.0, longest: int = 4096) -> Finding:
    lengths = _powers(4, longest)
    plain = [_weight_of_first(n, advantage) for n in lengths]
    scaled = [_weight_of_first(n, advantage * math.log(n)) for n in lengths]
    exponent, min_weight = slope(lengths[-4:], plain[-4:]), min(scaled)
    holds = exponent <= MAX_EXPONENT and min_weight >= 0.5
    return Finding(
        verdict="holds" if holds else "fails",
        reason=f"A position with a score gap of {advantage:g} has a weight of {plain[-1]:.1e} at "
        f"n = {longest:,} (scaling as n^{exponent:.2f}); with scores times log n, at least "
        f"{min_weight:.2f}.",
        values={"plain": plain[-1], "min with log n": min_weight, "exponent": exponent},
        figure=curve_figure(
            "Weight of the target position",
            ("length n", "weight"),
            line("unscaled scores", lengths, plain),
            line("scores times log n", lengths, scaled),
            log="xy",
        ),
        counter_example=f"With log n the smallest weight up to {longest:,} is {min_weight:.3f}.",
    )


@claim(
    statement="Softmax recalls all key–value pairs; linear attention fails with twice as many as features.",
    formula="pairs ≥ 2 · features of φ (the rows of the state) ⇒ recall < 0.99",
    source="Arora et al. 2024; Schlag et al. 2021",
    proof="numeric",
    ranges={"key_dim": (2, 64), "max_pairs": (4, 2048), "times": (0.1, 100.0)},
)
def linear_attention_recall_is_bounded(
    *, key_dim: int = 8, max_pairs: int = 256, times: float = 2.0, seed: int = 0
) -> Finding:
    capacity = {k.label: math.ceil(times * k.features(key_dim)) for k in KERNELS}
    validate_max_pairs(capacity, max_pairs=max_pairs)
    numbers = sorted({*_powers(4, max_pairs), *capacity.values()})
    accuracy = partial(recall_accuracy, key_dim=key_dim, value_dim=64, seed=seed)
    softmax = [accuracy(SOFTMAX_MEMORY, pairs=n) for n in numbers]
    kernels = {k.label: [accuracy(k, pairs=n) for n in numbers] for k in KERNELS}
    best = {
        label: max(recall for n, recall in zip(numbers, row, strict=True) if n >= capacity[label])
        for label, row in kernels.items()
    }
    holds = min(softmax) == 1.0 and max(best.values()) < LEARNED
    return Finding(
        verdict="holds" if holds else "fails",
        reason=f"Recall with up to {numbers[-1]} pairs: softmax {min(softmax):.0%}; "
        + "; ".join(f"{label} from {capacity[label]} pairs on {best[label]:.0%}" for label in best),
        values={"softmax": min(softmax), **best},
        figure=curve_figure(
            f"Associative recall with keys of size {key_dim}",
            ("pairs", "fraction recalled"),
            *lines(numbers, {SOFTMAX_MEMORY.label: softmax} | kernels),
            log="x",
            marks=((kernel.features(key_dim), f"features of {kernel.label}") for kernel in KERNELS),
        ),
        counter_example=f"softmax {min(softmax):.3f}; above {times:g} times the features {best}",
    )


@claim(
    statement="An LSTM trained on PARITY of short strings generalizes to strings four times as long.",
    formula="accuracy(4 · n_train) = 1",
    source="Bhattamishra et al. 2020",
    proof="measured",
    trained=True,
    ranges={"longest": (MIN_PARITY_LENGTH, 256), **TRAINING_RANGES},
)
def lstm_generalizes_parity(*, longest: int = 16, seeds: int = 3, steps: int = 400) -> Finding:
    scores = _parity_scores(LSTM, longest=longest, seeds=seeds, steps=steps)
    far = [row[-1] for row in scores]
    perfect = sum(accuracy == 1.0 for accuracy in far)
    return Finding(
        verdict="holds" if perfect == seeds else "fails",
        reason=f"Trained up to length {longest}, {perfect} of {seeds} seeds classify all 1,000 strings "
        f"of length {4 * longest} correctly (lowest accuracy {min(far):.3f}).",
        values={"perfect seeds": perfect, "min accuracy": min(far)},
        figure=scores_figure("PARITY", "length", _lengths(longest), {LSTM: scores}, longest),
        counter_example=f"One seed has an accuracy of {min(far):.3f} at {4 * longest}.",
    )


@claim(
    statement="A softmax Transformer trained on PARITY of short strings guesses on longer ones.",
    formula="accuracy(n_train) ≥ 0.99, accuracy(4 · n_train) → ½",
    source=f"{HAHN}; Bhattamishra et al. 2020",
    proof="measured",
    trained=True,
    ranges={"longest": (MIN_PARITY_LENGTH, 256), **TRAINING_RANGES},
)
def transformer_does_not_generalize_parity(
    *, longest: int = 8, seeds: int = 3, steps: int = 2000
) -> Finding:
    all_scores = {
        kind: _parity_scores(kind, longest=longest, seeds=seeds, steps=steps)
        for kind in MODEL_KINDS
    }
    lengths = _lengths(longest)
    near = _mean(all_scores[SOFTMAX], lengths.index(longest))
    far = _mean(all_scores[SOFTMAX], -1)
    holds = near >= LEARNED and far <= GUESSING
    return Finding(
        verdict="holds" if holds else "fails",
        reason=f"Mean accuracy over {seeds} seeds: {near:.3f} at the training length {longest}, "
        f"{far:.3f} at {4 * longest}.",
        values={"at training length": near, "at four times": far},
        figure=scores_figure("PARITY", "length", lengths, all_scores, longest),
        counter_example=f"{near:.3f} at {longest} and {far:.3f} at {4 * longest}.",
    )


@claim(
    statement="The accuracy of a softmax Transformer on nested brackets falls beyond the training length.",
    formula="accuracy(n) falls for n > n_train at a fixed depth",
    source=f"{HAHN}; Yao et al. 2021",
    proof="measured",
    trained=True,
    ranges={"longest": (MIN_BRACKET_LENGTH, 256), **TRAINING_RANGES},
)
def bracket_accuracy_falls_with_length(
    *, longest: int = 12, seeds: int = 3, steps: int = 1000
) -> Finding:
    lengths = _lengths(longest, step=2)
    scores = {
        kind: [
            [
                bracket_model(kind, longest=longest, steps=steps, seed=seed).accuracy_at(n)
                for n in lengths
            ]
            for seed in range(seeds)
        ]
        for kind in MODEL_KINDS
    }
    near, far = _mean(scores[SOFTMAX], lengths.index(longest)), _mean(scores[SOFTMAX], -1)
    # Accuracy can only fall if the task was learned.
    falls = near >= KNOWN and far < near - 0.05
    return Finding(
        verdict="holds" if falls else "fails",
        reason=f"Mean accuracy over {seeds} seeds, two kinds of brackets, depth 4: {near:.3f} at the "
        f"training length {longest}, {far:.3f} at {4 * longest}; LSTM {_mean(scores[LSTM], -1):.3f} "
        "there.",
        values={
            "at training length": near,
            "at four times": far,
            "LSTM at four times": _mean(scores[LSTM], -1),
        },
        figure=scores_figure("Nested brackets by length", "length", lengths, scores, longest),
        counter_example=f"{near:.3f} at {longest} and {far:.3f} at {4 * longest}.",
    )


@claim(
    statement="The accuracy on nested brackets falls beyond the training depth.",
    formula="accuracy(depth) falls for depth > depth_train at a fixed length",
    source=f"{HAHN}; Yao et al. 2021",
    proof="measured",
    trained=True,
    ranges={"longest": (MIN_BRACKET_LENGTH, 256), **TRAINING_RANGES},
)
def bracket_accuracy_falls_with_depth(
    *, longest: int = 12, seeds: int = 3, steps: int = 1000
) -> Finding:
    depths = list(range(1, longest // 2 + 1))
    splits = [nested(longest, depth) for depth in depths]
    scores = {
        kind: [
            [
                bracket_model(kind, longest=longest, steps=steps, seed=seed).accuracy(split)
                for split in splits
            ]
            for seed in range(seeds)
        ]
        for kind in MODEL_KINDS
    }
    soft = scores[SOFTMAX]
    near, far = (
        _mean(soft, DEPTH - 1),
        min(_mean(soft, index) for index in range(DEPTH, len(depths))),
    )
    # Accuracy can only fall if the task was learned.
    falls = near >= KNOWN and far < near - 0.05
    return Finding(
        verdict="holds" if falls else "fails",
        reason=f"Mean accuracy over {seeds} seeds on strings of length {longest}, trained up to depth "
        f"{DEPTH}: {near:.3f} at depth {DEPTH}, down to {far:.3f} beyond.",
        values={"at training depth": near, "min beyond": far},
        figure=scores_figure("Nested brackets by depth", "depth", depths, scores, DEPTH),
        counter_example=f"{near:.3f} at depth {DEPTH}, {far:.3f} at the worst depth beyond.",
    )


def _weight_of_first(length: int, score: float) -> float:
    """Weight of a position with this score among others with score 0."""
    key = torch.zeros(1, 1, length, 1, dtype=torch.float64)
    key[0, 0, 0] = 1.0
    query = torch.full((1, 1, 1, 1), score, dtype=torch.float64)
    return float(DotAttention().weights(query, key)[0, 0, 0, 0])


def _powers(least: int, most: int) -> list[int]:
    """Powers of two between two numbers.

    >>> _powers(4, 20)
    [4, 8, 16]
    """
    return [2**power for power in range(int(math.log2(least)), int(math.log2(most)) + 1)]


def _lengths(longest: int, *, step: int = 1) -> list[int]:
    """From a quarter of the training length to four times it."""
    ratios = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0)
    return sorted({max(step, step * round(ratio * longest / step)) for ratio in ratios})


def _parity_scores(kind: str, *, longest: int, seeds: int, steps: int) -> list[list[float]]:
    """Accuracy at each length, one row per seed."""
    models = [parity_model(kind, longest=longest, steps=steps, seed=seed) for seed in range(seeds)]
    return [[model.accuracy_at(n) for n in _lengths(longest)] for model in models]


def _mean(rows: list[list[float]], index: int) -> float:
    return sum(row[index] for row in rows) / len(rows)
