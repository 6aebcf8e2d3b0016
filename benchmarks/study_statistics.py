"""Study statistics on simulated studies: false positive rate, power, interval coverage.

Scores are a common effect of the seed plus normal residuals of each variant, with equal or unequal
standard deviations, or unequal and heavy-tailed ones. Only ratios matter to a t test, so the unit is the
standard deviation of the variant with the least. "real" uses the deviations and seed effect of a real
study of eight variants (docs/results/scores.csv).

Power is measured at two differences: one from the true deviation, which no study knows, and the smallest
detectable difference that each study reports from its own estimate. All studies have fixed seeds.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np

from benchmarks.measurement import Measurement, at_most
from regard.studies.statistics.bootstrap import compare_on_items
from regard.studies.statistics.paired import (
    LEVEL,
    detectable_in_standard_errors,
    deviation_upper_factor,
    pair_tests,
    smallest_detectable_difference,
)
from regard.tasks.metrics import ExactMatchError

STUDIES = 10_000
COVERAGE_STUDIES = 1_000
SMALL_BOOTSTRAPS = 2_500  # of all 5⁵ resamples each
RESAMPLES = 1_000
SEED_EFFECT = 2.0
MAX_DEVIATION = 4.0  # of the noisiest variant, where deviations are unequal
DEGREES_OF_FREEDOM = 5  # of the heavy-tailed residuals

REAL = Path(__file__).parents[1] / "docs" / "results" / "scores.csv"

MAX_FALSE_POSITIVES = 5.5
# At the true deviation the power of two variants is 80 %; 10,000 studies measure it to 1.2 % (3 σ).
POWER_OF_TRUE, POWER_OF_REPORTED = 78.8, 80.0
MAX_SKEWED_FALSE_POSITIVES = (
    12.0  # twice the level: outside the assumptions of the test, as documented
)
MIN_COVERAGE, MAX_COVERAGE = 93.0, 97.0


def study_statistics() -> Iterator[Measurement]:
    """Tests over seeds for grids of variants and seeds, then bootstrap over test items."""
    for seeds, variants, kind in product((5, 8), (2, 4, 8), ("equal", "unequal", "heavy")):
        yield from _seed_measurements(seeds=seeds, variants=variants, kind=kind)
    for seeds in (5, 8):
        yield from _seed_measurements(seeds=seeds, variants=len(_real_scores()), kind="real")
    yield _one_variant_skewed()
    yield from _bootstrap_over_seeds()
    for items in (5_000, 300):
        for kind in ("words", "phones"):
            yield from _coverage(items=items, kind=kind)


def _seed_measurements(*, seeds: int, variants: int, kind: str) -> Iterator[Measurement]:
    generator = np.random.default_rng([seeds, variants, len(kind)])
    deviations = _deviations(variants, kind)
    where = f"{variants} variants × {seeds} seeds, {kind}"
    equal = _scores(generator, deviations=deviations, seeds=seeds, kind=kind)
    tests = pair_tests(equal)
    false_positives = (tests.holm_p <= LEVEL).any(axis=-1)
    yield at_most(f"false positives, {where}, %", 100 * false_positives.mean(), MAX_FALSE_POSITIVES)

    # The first variant is shifted; its pairs with the second and the last, which have the least and the
    # largest deviation, are tested. They are first in the order of pairs.
    pairs = len(tests.first)
    moved = np.unique([0, variants - 2])
    true_error = np.hypot(deviations[tests.first], deviations[tests.second]) / np.sqrt(seeds)
    known = (detectable_in_standard_errors(seeds=seeds, pairs=pairs) * true_error)[moved]
    per_error = smallest_detectable_difference(1.0, seeds=seeds, pairs=pairs)
    reported = per_error * tests.standard_error[:, moved]
    # Without the upper bound on the estimated deviation:
    plain = reported / deviation_upper_factor(seeds=seeds)

    fresh = _scores(generator, deviations=deviations, seeds=seeds, kind=kind)
    at_known, at_reported, at_plain = (
        _power(fresh, pairs=moved, shifts=by)
        for by in (np.broadcast_to(known, plain.shape), reported, plain)
    )
    yield _at_least(f"power, true deviation, {where}, %", at_known, POWER_OF_TRUE)
    yield _at_least(
        f"power, reported difference, {where}, %",
        at_reported,
        POWER_OF_REPORTED,
        detail=(
            f"{100 * (reported >= known).mean():.0f} % of reports ≥ true; "
            f"without the bound on the deviation {at_plain:.0f} %"
        ),
    )


def _deviations(variants: int, kind: str) -> np.ndarray:
    """Residual standard deviation of each variant, in ascending order."""
    if kind == "real":
        scores = _real_scores()
        return np.sort((scores - scores.mean(axis=0)).std(axis=1, ddof=1))
    return np.linspace(1.0, 1.0 if kind == "equal" else MAX_DEVIATION, variants)


def _real_scores() -> np.ndarray:
    """Variants × seeds of a real study, each variant about its own mean."""
    with REAL.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["state"] == "finished"]
    variants: dict[str, list[float]] = {}
    for row in sorted(rows, key=lambda row: int(row["seed"])):
        variants.setdefault(row["variant"], []).append(float(row["test exact_match_error"]))
    scores = np.array(list(variants.values()))
    return scores - scores.mean(axis=1, keepdims=True)


def _one_variant_skewed() -> Measurement:
    """A limit of the t test: equal means, but the scores of one variant are very skewed."""
    generator = np.random.default_rng(3)
    steady = generator.normal(size=(STUDIES, 5))
    skewed = MAX_DEVIATION * (generator.exponential(size=(STUDIES, 5)) - 1)
    false_positives = pair_tests(np.stack([steady, skewed], axis=1)).p[:, 0] <= LEVEL
    label = "false positives, 2 variants × 5 seeds, one very skewed, %"
    return at_most(label, 100 * float(false_positives.mean()), MAX_SKEWED_FALSE_POSITIVES)


def _scores(
    generator: np.random.Generator, *, deviations: np.ndarray, seeds: int, kind: str
) -> np.ndarray:
    """Scores (studies, variants, seeds) with equal means."""
    effect = _real_scores().mean(axis=0).std(ddof=1) if kind == "real" else SEED_EFFECT
    common = effect * generator.normal(size=(STUDIES, 1, seeds))
    shape = (STUDIES, len(deviations), seeds)
    if kind == "heavy":
        residual = generator.standard_t(DEGREES_OF_FREEDOM, size=shape) * np.sqrt(
            (DEGREES_OF_FREEDOM - 2) / DEGREES_OF_FREEDOM
        )
    else:
        residual = generator.normal(size=shape)
    return common + deviations[:, None] * residual


def _power(scores: np.ndarray, *, pairs: np.ndarray, shifts: np.ndarray) -> float:
    """Power in percent: how often a pair with the first variant is significant, with the correct sign.

    Each pair has its own detectable difference, so each is tested in its own shifted studies. The minimum
    over the pairs is returned.
    """
    found = []
    for pair, by in zip(pairs, shifts.T, strict=True):
        shifted = scores.copy()
        shifted[:, 0] += by[:, None]
        tests = pair_tests(shifted)
        detected = (tests.holm_p[:, pair] <= LEVEL) & (tests.difference[:, pair] > 0)
        found.append(100 * float(detected.mean()))
    return min(found)


def _bootstrap_over_seeds() -> Iterator[Measurement]:
    """Not offered by the library: a percentile bootstrap over two to five seeds, enumerated."""
    generator = np.random.default_rng(7)
    for seeds, threshold in ((2, 45.0), (3, 22.0), (5, 10.0)):
        differences = generator.normal(size=(SMALL_BOOTSTRAPS, seeds))
        draws = np.array(list(product(range(seeds), repeat=seeds)))
        counts = np.stack([(draws == seed).sum(axis=1) for seed in range(seeds)], axis=1)
        means = differences @ counts.T / seeds
        ends = [LEVEL / 2, 1 - LEVEL / 2]
        low, high = np.quantile(means, ends, axis=1, method="inverted_cdf")
        false_positives = 100 * float(((low > 0) | (high < 0)).mean())
        label = f"false positives of a bootstrap over {seeds} seeds, %"
        yield _at_least(label, false_positives, threshold, detail="not offered")


def _coverage(*, items: int, kind: str) -> Iterator[Measurement]:
    """Two correlated variants with a known difference: some items are hard for both.

    Words are correct or not; phones are edit counts over lengths.
    """
    generator = np.random.default_rng([items, len(kind)])
    error_rates = np.array([[0.04, 0.30], [0.05, 0.36]])  # variants × (easy, hard)
    hard_fraction = 0.25
    truth = 100 * float(
        (error_rates[0] - error_rates[1]) @ np.array([1 - hard_fraction, hard_fraction])
    )
    covered = 0
    for study in range(COVERAGE_STUDIES):
        hard = (generator.random(items) < hard_fraction).astype(int)
        lengths = np.ones(items, int) if kind == "words" else generator.integers(4, 7, size=items)
        variants = {
            name: np.stack([generator.binomial(lengths, rate[hard]), lengths], axis=1)
            for name, rate in zip("ab", error_rates, strict=True)
        }
        result = compare_on_items(
            variants,
            score=ExactMatchError().score,
            lower_is_better=True,
            resamples=RESAMPLES,
            seed=study,
        )
        interval = result.pairs[0].interval
        covered += interval is not None and interval.low <= truth <= interval.high
    value = 100 * covered / COVERAGE_STUDIES
    label = f"coverage of the bootstrap, {items} items, {kind}, %"
    yield _at_least(label, value, MIN_COVERAGE)
    yield at_most(label, value, MAX_COVERAGE)


def _at_least(label: str, value: float, threshold: float, *, detail: str = "") -> Measurement:
    return Measurement(
        label=label, value=value, threshold=threshold, larger_is_better=True, detail=detail
    )
