"""What a Transformer of fixed size cannot be sure of: PARITY, nested brackets, and the ways round it.

The trained claims teach small models short strings and ask them longer ones (`string_lessons.py`); the
others set weights by hand, or take them as drawn.
"""

from __future__ import annotations

import math
from functools import partial

import torch

from regard.claims.engine import claim
from regard.claims.experiments.limits import (
    DEPTH,
    EVERYTHING,
    KERNELS,
    LEAST_BRACKETS,
    LEAST_PARITY,
    LSTM,
    PUPILS,
    SOFTMAX,
    bracket_pupil,
    influence_picture,
    largest_change,
    margin_picture,
    nested,
    parity_pupil,
    recall_picture,
    recalled_share,
    require_room,
    scores_picture,
    slope,
    untrained,
    weight_picture,
)
from regard.claims.experiments.parity_transformer import at_lengths
from regard.core.records.claim import Finding
from regard.mechanisms.scores.dot_product import DotAttention

HAHN = "seed 000; Hahn 2020"
BY_HAND = "seed 000; Chiang and Cholak 2022"
LEARNED = (
    0.99  # of the strings of its greatest training length, before a model is said to know them
)
LOST = 0.75  # half way from knowing to guessing, on longer ones
KNOWN = (
    0.9  # of bracket strings of the training length, right by a model that has learned something
)
FALLS = -0.8  # a power of n that counts as falling; 1/n is -1
SQUARED = -2.0  # the power of 1/n²

TAUGHT = {"seeds": (1, 100), "steps": (1, 100_000)}

AS_DRAWN = {"model_dim": 32, "num_heads": 4, "num_layers": 2, "position": "rotary"}


@claim(
    statement="Changing one symbol of a string of n changes what a softmax Transformer says by O(1/n).",
    formula="max |logits(x) − logits(x′)| = O(1/n), x and x′ different in one place",
    source=f"{HAHN}, lemma 5",
    proof="numeric",
    ranges={"longest": (32, 4096), "attention_gain": (0.0, 1000.0), "seeds": (1, 100)},
)
def one_symbol_moves_the_answer_by_one_nth(
    *, longest: int = 256, attention_gain: float = 1.0, seeds: int = 3
) -> Finding:
    lengths = _powers(16, longest)
    models = [
        untrained("text_encoder", seed=seed, attention_gain=attention_gain, **AS_DRAWN)
        for seed in range(seeds)
    ]
    changes = [[largest_change(model, length=n) for n in lengths] for model in models]
    means = [math.fsum(column) / seeds for column in zip(*changes, strict=True)]
    power = slope(lengths, means)
    return Finding(
        verdict="holds" if power <= FALLS else "fails",
        because=f"The greatest change over 16 places goes as n^{power:.2f} in {seeds} Transformers with "
        f"weights as drawn; up to n^{FALLS} it counts as 1/n.",
        figures={"power": power, "at the shortest": means[0], "at the longest": means[-1]},
        picture=influence_picture(lengths, changes),
        counter_example=""
        if power <= FALLS
        else f"{means[0]:.1e} at n = 16, {means[-1]:.1e} at {longest}.",
    )


@claim(
    statement="Two layers with two heads, their weights set by hand, recognise PARITY at every length.",
    formula="sign(logit) = (−1)^(number of ones), n = 1 … 1,000",
    source=BY_HAND,
    proof="numeric",
    ranges={"longest": (1, 4000), "preference": (-20.0, 20.0)},
)
def parity_by_hand_at_every_length(*, longest: int = 1000, preference: float = 2.0) -> Finding:
    runs = at_lengths(range(1, longest + 1), preference=preference)
    first = next((run for run in runs if run.wrong), None)
    return Finding(
        verdict="holds" if first is None else "fails",
        because=f"{sum(run.strings for run in runs):,} strings of every length to {longest:,}, the hard "
        f"ones of each among them: {sum(run.wrong for run in runs)} wrong, in float64.",
        figures={"wrong": sum(run.wrong for run in runs), "lengths": len(runs)},
        picture=margin_picture({"difference of the two scores": runs}),
        counter_example="" if first is None else f"A string of length {first.length} is wrong.",
    )


@claim(
    statement="A Transformer cannot recognise PARITY unless layers or heads grow with the length.",
    formula="no fixed (layers, heads) for all n",
    source=f"{HAHN} (who shows it of hard attention; of softmax he bounds the certainty)",
    proof="numeric",
    marked_wrong=True,
    ranges={"longest": (1, 4000), "preference": (-20.0, 20.0)},
)
def parity_needs_more_layers_as_strings_grow(
    *, longest: int = 1000, preference: float = 2.0
) -> Finding:
    runs = at_lengths(range(1, longest + 1), preference=preference)
    refuted = all(run.wrong == 0 for run in runs)
    return Finding(
        verdict="fails" if refuted else "holds",
        because=f"Two layers of two heads get {sum(run.wrong for run in runs)} of "
        f"{sum(run.strings for run in runs):,} strings up to length {longest:,} wrong. What falls is how "
        "sure they are, not whether they are right.",
        figures={"wrong": sum(run.wrong for run in runs), "layers": 2, "heads": 2},
        picture=margin_picture({"difference of the two scores": runs}),
        counter_example=f"Two layers and two heads are right at every length to {longest:,}."
        if refuted
        else "",
    )


@claim(
    statement="The machine for PARITY is less sure of longer strings, and a layer norm makes up for it.",
    formula="|logit(even) − logit(odd)| ≈ 4/n²; after layer norm with ε = 0 it is 2",
    source=BY_HAND,
    proof="numeric",
    ranges={"longest": (20, 4000), "norm_epsilon": (0.0, 1.0)},
)
def parity_by_hand_loses_certainty(*, longest: int = 1000, norm_epsilon: float = 0.0) -> Finding:
    lengths = tuple(sorted({round(longest ** (part / 20)) for part in range(21)}))
    plain = at_lengths(lengths)
    normed, usual = (at_lengths(lengths, norm_epsilon=size) for size in (norm_epsilon, 1e-5))
    falls = slope(lengths[-10:], [run.margin for run in plain[-10:]])
    kept = min(run.margin for run in normed)
    holds = abs(falls - SQUARED) < 0.1 and kept > 1.0
    return Finding(
        verdict="holds" if holds else "fails",
        because=f"The difference of the scores goes as n^{falls:.2f}, to {plain[-1].margin:.1e} at "
        f"{longest:,}. After a layer norm with ε = {norm_epsilon:g} it is never below {kept:.2g}; with the "
        f"usual 1e-5 it still falls, to {usual[-1].margin:.1e}.",
        figures={
            "slope": falls,
            "at the longest": plain[-1].margin,
            "normed": kept,
            "usual epsilon": usual[-1].margin,
        },
        picture=margin_picture(
            {
                "as it is": plain,
                f"layer norm, ε = {norm_epsilon:g}": normed,
                "layer norm, ε = 1e-5": usual,
            }
        ),
        counter_example="" if holds else f"At some length it is {kept:.1e} after the norm.",
    )


@claim(
    statement="Attention that picks one of n places stays sure of it if scores are multiplied by log n.",
    formula="weight = eᶜ/(eᶜ + n − 1) → 0, but n^c/(n^c + n − 1) ≥ ½ for c ≥ 1",
    source=f"{BY_HAND}, section 5",
    proof="numeric",
    ranges={"longest": (32, 1_000_000), "advantage": (0.0, 50.0)},
)
def log_length_scaling_keeps_certainty(*, advantage: float = 2.0, longest: int = 4096) -> Finding:
    lengths = _powers(4, longest)
    plain = [_weight_of_first(n, advantage) for n in lengths]
    scaled = [_weight_of_first(n, advantage * math.log(n)) for n in lengths]
    falls, kept = slope(lengths[-4:], plain[-4:]), min(scaled)
    holds = falls <= FALLS and kept >= 0.5
    return Finding(
        verdict="holds" if holds else "fails",
        because=f"A place that is {advantage:g} ahead has {plain[-1]:.1e} of the weight at n = {longest:,} "
        f"(as n^{falls:.2f}); with scores times log n it never has less than {kept:.2f}.",
        figures={"plain": plain[-1], "least with log n": kept, "slope": falls},
        picture=weight_picture(lengths, plain, scaled),
        counter_example=""
        if holds
        else f"With log n it has {kept:.3f} at some length to {longest:,}.",
    )


@claim(
    statement="Softmax gives every pair back; linear kernels lose some of twice as many as their features.",
    formula="pairs ≥ 2 · features of φ (the rows of the state) ⇒ recalled < 0.99",
    source="seed 002; Arora et al. 2024; Schlag et al. 2021",
    proof="numeric",
    ranges={"width": (2, 64), "most": (4, 2048), "times": (0.1, 100.0)},
)
def linear_kernels_forget_pairs(
    *, width: int = 8, most: int = 256, times: float = 2.0, seed: int = 0
) -> Finding:
    full = {k.label: math.ceil(times * k.features(width)) for k in KERNELS}
    require_room(full, most=most)
    numbers = sorted({*_powers(4, most), *full.values()})
    share = partial(recalled_share, width=width, value_width=64, seed=seed)
    softmax = [share(EVERYTHING, pairs=n) for n in numbers]
    kernels = {k.label: [share(k, pairs=n) for n in numbers] for k in KERNELS}
    best = {
        label: max(part for n, part in zip(numbers, row, strict=True) if n >= full[label])
        for label, row in kernels.items()
    }
    holds = min(softmax) == 1.0 and max(best.values()) < LEARNED
    return Finding(
        verdict="holds" if holds else "fails",
        because=f"To {numbers[-1]} pairs softmax recalls {min(softmax):.0%}. "
        + "; ".join(f"{label}, from {full[label]} pairs on: {best[label]:.0%}" for label in best),
        figures={"softmax": min(softmax), **best},
        picture=recall_picture(numbers, {EVERYTHING.label: softmax} | kernels, width),
        counter_example=""
        if holds
        else f"softmax {min(softmax):.3f}; beyond {times:g} times the features {best}",
    )


@claim(
    statement="An LSTM that learned PARITY on short strings is right on strings four times as long.",
    formula="accuracy(4 · n_train) = 1",
    source="seed 000; Bhattamishra et al. 2020",
    proof="measured",
    trained=True,
    ranges={"longest": (LEAST_PARITY, 256), **TAUGHT},
)
def recurrent_layer_keeps_parity(*, longest: int = 16, seeds: int = 3, steps: int = 400) -> Finding:
    scores = _parity_scores(LSTM, longest=longest, seeds=seeds, steps=steps)
    far = [row[-1] for row in scores]
    there = sum(share == 1.0 for share in far)
    return Finding(
        verdict="holds" if there == seeds else "fails",
        because=f"Taught to length {longest}, {there} of {seeds} seeds get 1,000 strings of length "
        f"{4 * longest} all right (least {min(far):.3f}).",
        figures={"seeds that got there": there, "least": min(far)},
        picture=scores_picture("PARITY", "length", _lengths(longest), {LSTM: scores}, longest),
        counter_example="" if there == seeds else f"One seed has {min(far):.3f} at {4 * longest}.",
    )


@claim(
    statement="A softmax Transformer that learned PARITY on short strings only guesses on longer ones.",
    formula="accuracy(n_train) ≥ 0.99, accuracy(4 · n_train) → ½",
    source=f"{HAHN}; Bhattamishra et al. 2020",
    proof="measured",
    trained=True,
    ranges={"longest": (LEAST_PARITY, 256), **TAUGHT},
)
def transformer_loses_parity(*, longest: int = 8, seeds: int = 3, steps: int = 2000) -> Finding:
    all_scores = {
        kind: _parity_scores(kind, longest=longest, seeds=seeds, steps=steps) for kind in PUPILS
    }
    lengths = _lengths(longest)
    near = _mean(all_scores[SOFTMAX], lengths.index(longest))
    far = _mean(all_scores[SOFTMAX], -1)
    holds = near >= LEARNED and far <= LOST
    return Finding(
        verdict="holds" if holds else "fails",
        because=f"Mean of {seeds} seeds: {near:.3f} at the training length {longest}, {far:.3f} at "
        f"{4 * longest}, where an LSTM taught the same is right.",
        figures={"at the training length": near, "at four times": far},
        picture=scores_picture("PARITY", "length", lengths, all_scores, longest),
        counter_example="" if holds else f"{near:.3f} at {longest} and {far:.3f} at {4 * longest}.",
    )


@claim(
    statement="A softmax Transformer that learned nested brackets is right less often on longer strings.",
    formula="accuracy(n) falls for n > n_train at a fixed depth",
    source=f"{HAHN}; Yao et al. 2021",
    proof="measured",
    trained=True,
    ranges={"longest": (LEAST_BRACKETS, 256), **TAUGHT},
)
def brackets_by_length(*, longest: int = 12, seeds: int = 3, steps: int = 1000) -> Finding:
    lengths = _lengths(longest, step=2)
    scores = {
        kind: [
            [
                bracket_pupil(kind, longest=longest, steps=steps, seed=seed).accuracy_at(n)
                for n in lengths
            ]
            for seed in range(seeds)
        ]
        for kind in PUPILS
    }
    near, far = _mean(scores[SOFTMAX], lengths.index(longest)), _mean(scores[SOFTMAX], -1)
    # What was never known is not lost.
    falls = near >= KNOWN and far < near - 0.05
    return Finding(
        verdict="holds" if falls else "fails",
        because=f"Mean of {seeds} seeds, two kinds, depth 4: {near:.3f} at the training length {longest}, "
        f"{far:.3f} at {4 * longest}; LSTM {_mean(scores[LSTM], -1):.3f} there.",
        figures={
            "at the training length": near,
            "at four times": far,
            "LSTM at four times": _mean(scores[LSTM], -1),
        },
        picture=scores_picture("Nested brackets by length", "length", lengths, scores, longest),
        counter_example="" if falls else f"{near:.3f} at {longest} and {far:.3f} at {4 * longest}.",
    )


@claim(
    statement="Brackets nested deeper than those learned from are recognised less often.",
    formula="accuracy(depth) falls for depth > depth_train at a fixed length",
    source=f"{HAHN}; Yao et al. 2021",
    proof="measured",
    trained=True,
    ranges={"longest": (LEAST_BRACKETS, 256), **TAUGHT},
)
def brackets_by_depth(*, longest: int = 12, seeds: int = 3, steps: int = 1000) -> Finding:
    depths = list(range(1, longest // 2 + 1))
    parts = [nested(longest, depth) for depth in depths]
    scores = {
        kind: [
            [
                bracket_pupil(kind, longest=longest, steps=steps, seed=seed).accuracy(part)
                for part in parts
            ]
            for seed in range(seeds)
        ]
        for kind in PUPILS
    }
    soft = scores[SOFTMAX]
    near, far = (
        _mean(soft, DEPTH - 1),
        min(_mean(soft, place) for place in range(DEPTH, len(depths))),
    )
    # What was never known is not lost.
    falls = near >= KNOWN and far < near - 0.05
    return Finding(
        verdict="holds" if falls else "fails",
        because=f"Strings of length {longest}, taught to depth {DEPTH}: {near:.3f} at depth {DEPTH}, as "
        f"little as {far:.3f} deeper; mean of {seeds} seeds.",
        figures={"at the training depth": near, "least beyond it": far},
        picture=scores_picture("Nested brackets by depth", "depth", depths, scores, DEPTH),
        counter_example="" if falls else f"{near:.3f} at depth {DEPTH} and {far:.3f} at the worst.",
    )


def _weight_of_first(length: int, score: float) -> float:
    """The weight of a place whose score is this, among others of score 0."""
    key = torch.zeros(1, 1, length, 1, dtype=torch.float64)
    key[0, 0, 0] = 1.0
    query = torch.full((1, 1, 1, 1), score, dtype=torch.float64)
    return float(DotAttention().weights(query, key)[0, 0, 0, 0])


def _powers(least: int, most: int) -> list[int]:
    """The powers of two from one to another.

    >>> _powers(4, 20)
    [4, 8, 16]
    """
    return [2**power for power in range(int(math.log2(least)), int(math.log2(most)) + 1)]


def _lengths(longest: int, *, step: int = 1) -> list[int]:
    """From a quarter of the training length to four times it."""
    shares = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0)
    return sorted({max(step, step * round(share * longest / step)) for share in shares})


def _parity_scores(kind: str, *, longest: int, seeds: int, steps: int) -> list[list[float]]:
    """Seed by seed, the share of right answers at each of the lengths."""
    pupils = [parity_pupil(kind, longest=longest, steps=steps, seed=seed) for seed in range(seeds)]
    return [[pupil.accuracy_at(n) for n in _lengths(longest)] for pupil in pupils]


def _mean(rows: list[list[float]], place: int) -> float:
    return sum(row[place] for row in rows) / len(rows)
