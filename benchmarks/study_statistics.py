"""The bars of a study's statistics, on simulated studies: false alarms, power, coverage.

Scores over seeds are made of a common effect of the seed and what each variant adds, normal, with equal or
unequal spreads, or unequal and with heavy tails. Only ratios matter to a t test, so the unit is the
spread of the quietest variant. The spreads called real are those of eight variants of a study that was run
(docs/results/scores.csv), and so is the effect of their seeds.

Power is read at two differences. One follows from the true spread, which no study knows. The other is
what each study reports, from its own estimate: the power is then that of a fresh study of the same kind,
if the true difference were the one reported. All simulated studies are drawn from fixed seeds.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np

from benchmarks.measuring import Finding
from regard.studies.statistics.bootstrap import compare_on_items
from regard.studies.statistics.paired import (
    LEVEL,
    detectable_difference,
    detectable_in_errors,
    pair_tests,
    spread_factor,
)
from regard.tasks.metrics.metric import percentage

STUDIES = 10_000
COVERAGE_STUDIES = 1_000
SMALL_BOOTSTRAPS = 2_500  # of all 5⁵ resamples each
RESAMPLES = 1_000
SEED_EFFECT = 2.0
LOUDEST = 4.0  # the spread of the noisiest variant, where spreads are unequal
TAIL = 5  # degrees of freedom of the heavy-tailed residuals

REAL = Path(__file__).parents[1] / "docs" / "results" / "scores.csv"

FALSE_ALARMS = 5.5
# With the true spread the power of two variants is 80 % by definition; 10,000 studies show it to 1.2 % (3 σ).
POWER_OF_TRUE, POWER_OF_REPORTED = 78.8, 80.0
SKEWED_ALARMS = 12.0  # twice the level: the test is not made for this, and the documents say so
FEWEST_COVERED, MOST_COVERED = 93.0, 97.0


def study_statistics() -> Iterator[Finding]:
    """Question B over grids of variants and seeds, then question A over test items."""
    for seeds, variants, kind in product((5, 8), (2, 4, 8), ("equal", "unequal", "heavy")):
        yield from _seed_findings(seeds=seeds, variants=variants, kind=kind)
    for seeds in (5, 8):
        yield from _seed_findings(seeds=seeds, variants=len(_real_scores()), kind="real")
    yield _one_variant_skewed()
    yield from _bootstrap_over_seeds()
    for items in (5_000, 300):
        for kind in ("words", "phones"):
            yield from _coverage(items=items, kind=kind)


def _seed_findings(*, seeds: int, variants: int, kind: str) -> Iterator[Finding]:
    generator = np.random.default_rng([seeds, variants, len(kind)])
    spreads = _spreads(variants, kind)
    where = f"{variants} variants × {seeds} seeds, {kind}"
    equal = _scores(generator, spreads=spreads, seeds=seeds, kind=kind)
    tests = pair_tests(equal)
    alarms = (tests.holm_p <= LEVEL).any(axis=-1)
    yield _at_most(f"false alarms, {where}, %", 100 * alarms.mean(), FALSE_ALARMS)

    # The first variant is moved away from all the others, and its pairs with the second and the last,
    # the quietest and the noisiest, are to be found. They stand first in the order of pairs.
    pairs = len(tests.first)
    moved = np.unique([0, variants - 2])
    true_error = np.hypot(spreads[tests.first], spreads[tests.second]) / np.sqrt(seeds)
    known = (detectable_in_errors(seeds=seeds, pairs=pairs) * true_error)[moved]
    per_error = detectable_difference(1.0, seeds=seeds, pairs=pairs)
    reported = per_error * tests.standard_error[:, moved]
    # Were estimates taken at their word:
    plain = reported / spread_factor(seeds=seeds)

    fresh = _scores(generator, spreads=spreads, seeds=seeds, kind=kind)
    at_known, at_reported, at_plain = (
        _found(fresh, pairs=moved, moved_by=by)
        for by in (np.broadcast_to(known, plain.shape), reported, plain)
    )
    yield _at_least(f"power, true spread, {where}, %", at_known, POWER_OF_TRUE)
    yield _at_least(
        f"power, reported difference, {where}, %",
        at_reported,
        POWER_OF_REPORTED,
        detail=(
            f"{100 * (reported >= known).mean():.0f} % of reports ≥ true; "
            f"without the bound on the spread {at_plain:.0f} %"
        ),
    )


def _spreads(variants: int, kind: str) -> np.ndarray:
    """What each variant adds to the effect of the seed, quietest first."""
    if kind == "real":
        scores = _real_scores()
        return np.sort((scores - scores.mean(axis=0)).std(axis=1, ddof=1))
    return np.linspace(1.0, 1.0 if kind == "equal" else LOUDEST, variants)


def _real_scores() -> np.ndarray:
    """Variants × seeds of a real study, each variant about its own mean."""
    with REAL.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["state"] == "finished"]
    variants: dict[str, list[float]] = {}
    for row in sorted(rows, key=lambda row: int(row["seed"])):
        variants.setdefault(row["variant"], []).append(float(row["test wer"]))
    scores = np.array(list(variants.values()))
    return scores - scores.mean(axis=1, keepdims=True)


def _one_variant_skewed() -> Finding:
    """A limit of the t test: equal means, but one variant's are made of good runs and a few bad ones."""
    generator = np.random.default_rng(3)
    steady = generator.normal(size=(STUDIES, 5))
    skewed = LOUDEST * (generator.exponential(size=(STUDIES, 5)) - 1)
    alarms = pair_tests(np.stack([steady, skewed], axis=1)).p[:, 0] <= LEVEL
    figure = 100 * float(alarms.mean())
    return _at_most("false alarms, 2 variants × 5 seeds, one very skewed, %", figure, SKEWED_ALARMS)


def _scores(
    generator: np.random.Generator, *, spreads: np.ndarray, seeds: int, kind: str
) -> np.ndarray:
    """Studies × variants × seeds, all variants equal in the mean."""
    effect = _real_scores().mean(axis=0).std(ddof=1) if kind == "real" else SEED_EFFECT
    common = effect * generator.normal(size=(STUDIES, 1, seeds))
    shape = (STUDIES, len(spreads), seeds)
    if kind == "heavy":
        residual = generator.standard_t(TAIL, size=shape) * np.sqrt((TAIL - 2) / TAIL)
    else:
        residual = generator.normal(size=shape)
    return common + spreads[:, None] * residual


def _found(scores: np.ndarray, *, pairs: np.ndarray, moved_by: np.ndarray) -> float:
    """In percent of studies, how often a pair with the first variant is claimed, the right way round.

    Each pair has its own detectable difference, so each is given a study of its own, in which the first
    variant is better than all others by it. The least of the pairs is returned.
    """
    found = []
    for pair, by in zip(pairs, moved_by.T, strict=True):
        shifted = scores.copy()
        shifted[:, 0] += by[:, None]
        tests = pair_tests(shifted)
        claims = (tests.holm_p[:, pair] <= LEVEL) & (tests.difference[:, pair] > 0)
        found.append(100 * float(claims.mean()))
    return min(found)


def _bootstrap_over_seeds() -> Iterator[Finding]:
    """What is not offered: a percentile bootstrap over two to five seeds, all resamples enumerated."""
    generator = np.random.default_rng(7)
    for seeds, bar in ((2, 45.0), (3, 22.0), (5, 10.0)):
        differences = generator.normal(size=(SMALL_BOOTSTRAPS, seeds))
        draws = np.array(list(product(range(seeds), repeat=seeds)))
        counts = np.stack([(draws == seed).sum(axis=1) for seed in range(seeds)], axis=1)
        means = differences @ counts.T / seeds
        ends = [LEVEL / 2, 1 - LEVEL / 2]
        low, high = np.quantile(means, ends, axis=1, method="inverted_cdf")
        alarms = 100 * float(((low > 0) | (high < 0)).mean())
        yield _at_least(
            f"false alarms of a bootstrap over {seeds} seeds, %", alarms, bar, detail="not offered"
        )


def _coverage(*, items: int, kind: str) -> Iterator[Finding]:
    """Two correlated variants whose true difference is known: some items are hard, for both.

    Words are right or wrong; phones are edits over lengths.
    """
    generator = np.random.default_rng([items, len(kind)])
    chances = np.array([[0.04, 0.30], [0.05, 0.36]])  # variants × (easy, hard)
    share_hard = 0.25
    truth = 100 * float((chances[0] - chances[1]) @ np.array([1 - share_hard, share_hard]))
    covered = 0
    for study in range(COVERAGE_STUDIES):
        hard = (generator.random(items) < share_hard).astype(int)
        lengths = np.ones(items, int) if kind == "words" else generator.integers(4, 7, size=items)
        variants = {
            name: np.stack([generator.binomial(lengths, chance[hard]), lengths], axis=1)
            for name, chance in zip("ab", chances, strict=True)
        }
        result = compare_on_items(
            variants, score=percentage, lower_is_better=True, resamples=RESAMPLES, seed=study
        )
        interval = result.pairs[0].interval
        covered += interval is not None and interval.low <= truth <= interval.high
    figure = 100 * covered / COVERAGE_STUDIES
    what = f"coverage of the bootstrap, {items} items, {kind}, %"
    yield _at_least(what, figure, FEWEST_COVERED)
    yield _at_most(what, figure, MOST_COVERED)


def _at_least(what: str, figure: float, bar: float, *, detail: str = "") -> Finding:
    return Finding(what=what, figure=figure, bar=bar, larger_is_better=True, detail=detail)


def _at_most(what: str, figure: float, bar: float) -> Finding:
    return Finding(what=what, figure=float(figure), bar=bar, larger_is_better=False)
