"""Speech recognition: attention and LSTM decoders, and what string similarities measure.

Decoders are compared by the record of `regard study speech_decoders`: strings of spoken digits, four
decoders over the same Transformer encoder. The setting `study` is the folder of another one.
"""

from __future__ import annotations

import random
from itertools import combinations

import numpy as np
from scipy.stats import spearmanr

from regard.claims.engine import claim, curve_figure, line
from regard.claims.experiments.studies import compare_variants, read_record
from regard.core.records.claim import CurveFigure, Finding
from regard.core.records.study import StudyRecord
from regard.tasks.metrics.similarity import (
    CharacterSimilarity,
    CosineSimilarity,
    DamerauLevenshteinSimilarity,
    JaccardSimilarity,
)

STUDY = "speech_decoders"
ATTENTION, LSTM, WITHOUT = "attention decoder", "LSTM with attention", "LSTM without attention"
SIMILARITIES: tuple[CharacterSimilarity, ...] = (
    JaccardSimilarity(),
    CosineSimilarity(),
    DamerauLevenshteinSimilarity(),
)
LETTERS = "etaoinshrdlu "


@claim(
    statement="An attention decoder transcribes strings of spoken digits better than an LSTM decoder "
    "with cross-attention to the same encoder.",
    formula="CER(attention decoder) < CER(LSTM with attention)",
    source="course notes: speech recognition",
    proof="measured",
    known_false=True,
)
def attention_decoder_beats_the_lstm_on_speech(*, study: str = "") -> Finding:
    record = read_record(study, shipped=STUDY)
    return compare_variants(record, ATTENTION, LSTM, inputs="strings")


@claim(
    statement="An attention decoder transcribes strings of spoken digits better than an LSTM decoder "
    "without attention.",
    formula="CER(attention decoder) < CER(LSTM without attention)",
    source="course notes: speech recognition",
    proof="measured",
)
def attention_decoder_beats_the_plain_lstm_on_speech(*, study: str = "") -> Finding:
    record = read_record(study, shipped=STUDY)
    return compare_variants(record, ATTENTION, WITHOUT, inputs="strings")


@claim(
    statement="Cross-attention improves the LSTM decoder on strings of spoken digits.",
    formula="CER(LSTM with attention) < CER(LSTM without attention)",
    source="Chan et al. 2016",
    proof="measured",
)
def attention_helps_the_lstm_on_speech(*, study: str = "") -> Finding:
    record = read_record(study, shipped=STUDY)
    return compare_variants(record, LSTM, WITHOUT, inputs="strings")


@claim(
    statement="Over trained speech recognisers, Jaccard, cosine and Damerau–Levenshtein similarity give "
    "the same ranking.",
    formula="Spearman's ρ between every two similarities, over runs, near 1",
    source="course notes: string similarity",
    proof="measured",
    ranges={"min_correlation": (-1, 1)},
)
def similarities_rank_speech_recognisers_alike(
    *, study: str = "", min_correlation: float = 0.8
) -> Finding:
    record = read_record(study, shipped=STUDY)
    scores = run_scores(record)
    correlations = {
        f"{a} and {b}": float(spearmanr(scores[a], scores[b]).statistic)
        for a, b in combinations(scores, 2)
    }
    summary = "; ".join(f"{pair}: ρ = {rho:.3f}" for pair, rho in correlations.items())
    runs = np.argsort(scores["damerau_levenshtein_similarity"])
    return Finding(
        # NaN, if all runs have one score, is below every bound.
        verdict="holds"
        if all(rho >= min_correlation for rho in correlations.values())
        else "fails",
        reason=f"Over {len(runs)} runs of {len(record.variants)} decoders: {summary}. Required: "
        f"{min_correlation} or more.",
        values=correlations,
        figure=curve_figure(
            "Similarities of runs, sorted by Damerau–Levenshtein similarity",
            ("run", "similarity"),
            *(line(name, range(len(runs)), values[runs]) for name, values in scores.items()),
        ),
        counter_example=summary,
    )


def run_scores(record: StudyRecord) -> dict[str, np.ndarray]:
    """The similarities of every compared run, by the name of the metric."""
    runs = [run for variant in record.variants for run in record.runs_of(variant.name)]
    return {
        metric.name: np.array([run.scores[metric.name] for run in runs]) for metric in SIMILARITIES
    }


@claim(
    statement="Jaccard and cosine similarity of characters ignore their order; Damerau–Levenshtein "
    "similarity does not.",
    formula="J(x, πx) = cos(x, πx) = 1 for every permutation π;  DL(x, πx) < 1 for πx ≠ x",
    source="course notes: string similarity (corrected)",
    proof="numeric",
    ranges={"length": (2, 500), "texts": (1, 1000)},
)
def jaccard_ignores_order(*, length: int = 40, texts: int = 100, seed: int = 0) -> Finding:
    found = {
        metric.name: shuffled(metric, length=length, texts=texts, seed=seed)
        for metric in SIMILARITIES
    }
    jaccard, cosine, edits = (np.array(each) for each in found.values())
    holds = bool(np.abs(np.r_[jaccard, cosine] - 1).max() <= 1e-12 and edits.max() < 1)
    summary = ", ".join(
        f"{name} {min(each):.2f} to {max(each):.2f}" for name, each in found.items()
    )
    return Finding(
        verdict="holds" if holds else "fails",
        reason=f"{texts} random texts of {length} characters, each against another order of them: "
        f"{summary}.",
        values={name: max(each) for name, each in found.items()},
        figure=order_figure(length=length, seed=seed),
        counter_example=summary,
    )


@claim(
    statement="Jaccard similarity measures nearly the same as Damerau–Levenshtein similarity.",
    formula="J(x, y) ≈ DL(x, y)",
    source="course notes: string similarity",
    proof="numeric",
    known_false=True,
    ranges={"length": (2, 500), "texts": (1, 1000), "tolerance": (0, 1)},
)
def jaccard_is_like_damerau_levenshtein(
    *, length: int = 40, texts: int = 100, tolerance: float = 0.1, seed: int = 0
) -> Finding:
    jaccard, edits = (
        np.array(shuffled(metric, length=length, texts=texts, seed=seed))
        for metric in (SIMILARITIES[0], SIMILARITIES[2])
    )
    gap = float(np.abs(jaccard - edits).mean())
    pair = ", ".join(f"{metric.name} {metric(['ab'], [('ba',)]):g}" for metric in SIMILARITIES)
    return Finding(
        verdict="holds" if gap <= tolerance else "fails",
        reason=f"Of {texts} texts of {length} characters and a permutation of each, the two differ by "
        f"{gap:.2f} on average (tolerance {tolerance:g}). 'ab' and 'ba': {pair}.",
        values={"mean_difference": gap},
        figure=order_figure(length=length, seed=seed),
        counter_example=f"'ab' and 'ba': {pair}.",
    )


def shuffled(metric: CharacterSimilarity, *, length: int, texts: int, seed: int) -> list[float]:
    """The similarity of random texts to a permutation of each that is another text."""
    generator = random.Random(seed)
    scores: list[float] = []
    while len(scores) < texts:
        text = "".join(generator.choices(LETTERS, k=length))
        other = "".join(generator.sample(text, k=length))
        if other != text:
            scores.append(metric([text], [(other,)]))
    return scores


def order_figure(*, length: int, seed: int) -> CurveFigure:
    """Similarities of a text to itself, after more and more exchanges of two of its characters."""
    generator = random.Random(seed)
    text = "".join(generator.choices(LETTERS, k=length))
    versions = [list(text)]
    for _ in range(length):
        changed = list(versions[-1])
        first, second = generator.sample(range(length), k=2)
        changed[first], changed[second] = changed[second], changed[first]
        versions.append(changed)
    return curve_figure(
        "Similarity of a text to itself after exchanges of characters",
        ("exchanges", "similarity"),
        *(
            line(
                metric.name,
                range(len(versions)),
                [metric(["".join(each)], [(text,)]) for each in versions],
            )
            for metric in SIMILARITIES
        ),
    )
