"""A dummy study record with realistic figures, for charts and pages."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from regard.core.records.attention import AlignmentRecord
from regard.core.records.study import (
    AttentionExample,
    CurvePoint,
    Disagreement,
    MetricRecord,
    PairVerdict,
    ScoreRecord,
    StudyRecord,
    StudyRunRecord,
    VariantRecord,
)
from regard.studies.statistics.paired import (
    SeedComparison,
    compare_over_seeds,
    holm_adjusted,
    pairing,
    significance_verdict,
)

SCORES = {"dot": 9.1, "general": 8.8, "additive": 8.2, "location": 14.6}
ATTENTION_STYLES = {"bahdanau": 0.0, "luong": -0.25}
METRICS = (
    MetricRecord(name="PER", unit="%", lower_is_better=True, digits=2, note="", is_itemwise=True),
    MetricRecord(
        name="exact_match",
        unit="%",
        lower_is_better=False,
        digits=2,
        note="100 minus what G2P papers call WER",
        is_itemwise=True,
    ),
    MetricRecord(
        name="loss", unit="nats", lower_is_better=True, digits=4, note="", is_itemwise=False
    ),
)
STEPS, EVERY, ITEMS = 2000, 100, 6374
PRONUNCIATIONS = (
    ("colonel", "K ER1 N AH0 L", "K AA1 L AH0 N AH0 L"),
    ("thoroughly", "TH ER1 OW0 L IY0", "TH AO1 R AH0 F L IY0"),
    ("<b>&quot;", "B IY1", "B EH1"),
)
WORDS = ("knight", "phoenix")


def dummy_study(
    *,
    names: Sequence[str] = (),
    means: Mapping[str, float] | None = None,
    seeds: int = 5,
    rates: Sequence[float] = (),
    attention_of: int = 8,
) -> StudyRecord:
    """Eight variants of scores and attention styles, or variants of these names, or with these means.

    The examples have the attention of the first `attention_of` variants.
    """
    means = means or _means(names)
    runs = [
        run
        for index, (name, mean) in enumerate(means.items())
        for run in _runs(name, mean, index=index, seeds=seeds, rates=rates)
    ]
    tables = {
        metric.name: {
            name: {
                run.seed: run.scores[metric.name]
                for run in runs
                if run.variant == name and run.selected
            }
            for name in means
        }
        for metric in METRICS
    }
    by_variant = tables["PER"]
    compared = {
        metric.name: compare_over_seeds(tables[metric.name], lower_is_better=metric.lower_is_better)
        for metric in METRICS
    }
    shown = list(means)[:attention_of]
    return StudyRecord(
        name="scores",
        question="Which score pronounces best, and does the attention style matter?",
        headline=(
            f"{min(by_variant, key=lambda variant: sum(by_variant[variant].values()))} has the lowest PER.",
            "It takes 1.4 times the FLOPs of the baseline.",
        ),
        task="pronounce",
        split="test",
        items=ITEMS,
        metrics=METRICS,
        seeds=tuple(range(seeds)),
        budget=f"{STEPS:,} steps each.",
        tuning=f"Every variant tried {len(rates)} learning rates; the best on validation counts."
        if rates
        else "",
        matched="",
        variants=_variants(compared, by_variant, rates=rates),
        runs=tuple(runs),
        verdicts=tuple(
            verdict
            for metric in METRICS
            for verdict in (
                *_method_verdicts(compared[metric.name], metric),
                *(_model_verdicts(compared[metric.name], metric) if metric.is_itemwise else ()),
            )
        ),
        disagreements=_disagreements(list(means)),
        attention_examples=tuple(_attention_example(word, shown) for word in WORDS),
        agreement_source="gruut-lang-en 2.0.1, 1,204 of the test words",
        reproducibility={
            "command": "regard study scores --out studies/scores",
            "regard": "0.5.0",
            "torch": "2.13.0",
            "seeds": ", ".join(map(str, range(seeds))),
            "data": "sha256 3f1c0e6a",
            "machine": "x86_64, 2 cores",
        },
        pairing=pairing(by_variant) if len(means) > 1 and seeds > 2 else None,
    )


def _means(names: Sequence[str]) -> dict[str, float]:
    if names:
        return {name: 8.0 + 0.6 * index for index, name in enumerate(names)}
    return {
        f"{score} · {attention_style}": mean + change
        for score, mean in SCORES.items()
        for attention_style, change in ATTENTION_STYLES.items()
    }


def _runs(
    name: str, mean: float, *, index: int, seeds: int, rates: Sequence[float]
) -> list[StudyRunRecord]:
    found = []
    for seed in range(seeds):
        for rate_index, rate in enumerate(rates or (None,)):
            rng = random.Random(f"{name} {seed} {rate}")
            score = round(mean + 1.5 * rate_index + rng.gauss(0, 0.14) + 0.1 * seed, 4)
            found.append(
                StudyRunRecord(
                    variant=name,
                    seed=seed,
                    learning_rate=rate,
                    key=f"{index:04x}{seed:04x}{rate_index:08x}",
                    state="finished",
                    selected=rate_index == 0,
                    reason="",
                    scores={
                        "PER": score,
                        "exact_match": round(100 - 3.9 * score, 4),
                        "loss": round(score / 20, 6),
                    },
                    validation_scores={"PER": round(score + 0.2, 4)},
                    steps=STEPS,
                    seconds=180.0 + 11 * index + rng.random(),
                    curve=_curve(score, index=index, rng=rng),
                    evaluations=STEPS // EVERY,
                    evaluation_seconds=12.5,
                )
            )
    return found


def _curve(score: float, *, index: int, rng: random.Random) -> tuple[CurvePoint, ...]:
    points = []
    for step in range(EVERY, STEPS + 1, EVERY):
        left = math.exp(-3.2 * step / STEPS)
        points.append(
            CurvePoint(
                step=step,
                tokens=step * 2100,
                flops=step * (2.6e9 + 2e8 * index),
                seconds=step * (0.09 + 0.0055 * index),
                score=round(score + 62 * left**2 + rng.gauss(0, 0.3) * left, 3),
            )
        )
    return tuple(points)


def _variants(
    compared: dict[str, SeedComparison],
    by_variant: dict[str, dict[int, float]],
    *,
    rates: Sequence[float],
) -> tuple[VariantRecord, ...]:
    found = []
    for index, of_variant in enumerate(compared["PER"].variants):
        agreement = 0.93 - 0.04 * index
        found.append(
            VariantRecord(
                name=of_variant.variant,
                settings={
                    "model": {"mechanism": of_variant.variant.split(" ")[0], "hidden_dim": 256}
                },
                is_baseline=index == 0,
                scores={
                    metric.name: _score(compared[metric.name], index, metric) for metric in METRICS
                },
                parameters=955_000 + 33_000 * index,
                flops=STEPS * (2.6e9 + 2e8 * index),
                seconds=180.0 + 11 * index,
                peak_bytes=(61 << 20) + (5 << 20) * (index % 4),
                learning_rate=rates[0] if rates else None,
                agreement=agreement,
                agreement_low=agreement - 0.03 if len(by_variant[of_variant.variant]) > 1 else None,
                agreement_high=agreement + 0.03
                if len(by_variant[of_variant.variant]) > 1
                else None,
                problems="",
                shared_initialisation=1.0 if index == 0 else 0.75,
            )
        )
    return tuple(found)


def _score(compared: SeedComparison, index: int, metric: MetricRecord) -> ScoreRecord:
    of_variant = compared.variants[index]
    low, high = of_variant.interval or (None, None)
    found = ScoreRecord(mean=of_variant.mean, low=low, high=high)
    if not metric.is_itemwise:
        return found
    return dataclasses.replace(
        found, item_low=of_variant.mean - 0.6, item_high=of_variant.mean + 0.7
    )


def without_scores(variant: VariantRecord) -> VariantRecord:
    """A variant whose runs failed."""
    return dataclasses.replace(variant, scores=dict.fromkeys(variant.scores, ScoreRecord()))


def _method_verdicts(compared: SeedComparison, metric: MetricRecord) -> list[PairVerdict]:
    return [
        PairVerdict(
            metric=metric.name,
            holds_for="method",
            first=pair.first,
            second=pair.second,
            difference=pair.difference,
            low=pair.interval.low if pair.interval else None,
            high=pair.interval.high if pair.interval else None,
            adjusted_p=pair.holm_p,
            detectable_difference=pair.detectable_difference,
            verdict=pair.verdict,
            sentence=pair.sentence(),
        )
        for pair in compared.pairs
    ]


def _model_verdicts(compared: SeedComparison, metric: MetricRecord) -> list[PairVerdict]:
    """As if every difference had a standard error of 0.11 over items."""
    error, means = 0.11, {variant.variant: variant.mean for variant in compared.variants}
    pairs = list(combinations(means, 2))
    differences = [means[first] - means[second] for first, second in pairs]
    if not pairs:
        return []
    adjusted = holm_adjusted(
        np.array([math.erfc(abs(difference) / error / math.sqrt(2)) for difference in differences])
    )
    found = []
    for (first, second), difference, p in zip(pairs, differences, adjusted, strict=True):
        verdict = significance_verdict(
            difference, adjusted_p=float(p), lower_is_better=metric.lower_is_better
        )
        found.append(
            PairVerdict(
                metric=metric.name,
                holds_for="models",
                first=first,
                second=second,
                difference=difference,
                low=difference - 1.96 * error,
                high=difference + 1.96 * error,
                adjusted_p=float(p),
                detectable_difference=None,
                verdict=verdict,
                sentence=f"the models of {first} and {second} do not differ detectably on these items"
                if verdict == "inconclusive"
                else f"the models of {first} score {verdict} here than those of {second}",
            )
        )
    return found


def _disagreements(names: list[str]) -> tuple[Disagreement, ...]:
    found = []
    for index, (source, reference, error) in enumerate(PRONUNCIATIONS):
        correct = tuple(name for number, name in enumerate(names) if (number + index) % 3)
        found.append(
            Disagreement(
                input=source,
                references=(reference,),
                predictions={name: reference if name in correct else error for name in names},
                correct=correct,
            )
        )
    return tuple(found)


def _attention_example(word: str, names: list[str]) -> AttentionExample:
    tokens = (*word, "</s>")
    return AttentionExample(
        input=word,
        alignments={name: _alignment(tokens, index) for index, name in enumerate(names)},
    )


def _alignment(tokens: tuple[str, ...], index: int) -> AlignmentRecord:
    """A diagonal, more blurred for later variants."""
    output = ("N", "AY1", "T", "AH0", "S", "</s>")
    heads = []
    for head in range(1 + index % 2):
        rows = []
        for row in range(len(output)):
            middle = (row + 0.4 * head) * (len(tokens) - 1) / (len(output) - 1)
            near = [
                math.exp(-((column - middle) ** 2) / (0.4 + 0.5 * index))
                for column in range(len(tokens))
            ]
            rows.append(tuple(round(weight / sum(near), 4) for weight in near))
        heads.append(tuple(rows))
    return AlignmentRecord(
        source_tokens=tokens, output_tokens=output, maps={"decoder": tuple(heads)}, title=""
    )
