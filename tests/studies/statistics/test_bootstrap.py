"""Item bootstrap: agreement with SciPy, BLEU against sacrebleu, degenerate inputs."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from scipy import stats

from regard.core.errors import RegardError
from regard.studies.statistics.bootstrap import (
    ItemPair,
    compare_on_items,
    resampled_sums,
    unique_items,
)
from regard.tasks import metrics

PERCENTAGE = metrics.ExactMatchError().score


def edits(*, items: int, seed: int, better: float = 0.0) -> dict[str, np.ndarray]:
    """Edits and lengths of two variants, with some items hard for both."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(3, 10, size=items)
    chance = np.where(generator.random(items) < 0.3, 0.3, 0.05)
    return {
        variant: np.stack([generator.binomial(lengths, chance * factor), lengths], axis=1)
        for variant, factor in (("dot", 1.0), ("additive", 1.0 - better))
    }


def compared(variants: dict[str, np.ndarray], *, lower_is_better: bool = True) -> ItemPair:
    result = compare_on_items(variants, score=PERCENTAGE, lower_is_better=lower_is_better)
    (pair,) = result.pairs
    return pair


def right_or_wrong(wrong: list[int]) -> np.ndarray:
    return np.stack([wrong, np.ones(len(wrong), int)], axis=1)


@pytest.mark.parametrize("better", [0.0, 0.3])
def test_interval_agrees_with_scipy(better: float) -> None:
    variants = edits(items=150, seed=1, better=better)
    pair = compared(variants)
    dot, additive = variants["dot"], variants["additive"]

    def difference(chosen: np.ndarray) -> float:
        first, second = (100 * a[chosen, 0].sum() / a[chosen, 1].sum() for a in (dot, additive))
        return float(first - second)

    expected = stats.bootstrap(
        (np.arange(150),),
        difference,
        vectorized=False,
        method="BCa",
        n_resamples=10_000,
        rng=np.random.default_rng(5),
    ).confidence_interval
    assert pair.difference == pytest.approx(difference(np.arange(150)))
    assert pair.interval is not None
    width = expected.high - expected.low
    # Two bootstraps of 10,000 resamples agree to about a fiftieth of the width.
    assert pair.interval == pytest.approx((expected.low, expected.high), abs=0.05 * width)


def test_resampling_unique_items_equals_resampling_items() -> None:
    table = np.array([[3.0], [3.0], [3.0], [7.0], [0.0]])[:, None, :]
    unique = unique_items(table)
    assert (unique.statistics.ravel().tolist(), unique.counts.tolist()) == ([0, 3, 7], [1, 3, 1])
    sums = resampled_sums(unique, resamples=40_000, generator=np.random.default_rng(0))
    # A sum of 5 items drawn one by one has 5 times their mean, 3.2, and their variance, 4.96.
    assert sums.mean() == pytest.approx(5 * 3.2, abs=0.15)
    assert sums.var() == pytest.approx(5 * 4.96, rel=0.05)


def test_blocks_of_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.studies.statistics.bootstrap.MAX_BLOCK", 10)
    unique = unique_items(np.arange(4.0).reshape(4, 1, 1))
    sums = resampled_sums(unique, resamples=101, generator=np.random.default_rng(0))
    assert sums.shape == (101, 1, 1)


def test_clear_difference_and_no_difference() -> None:
    assert compared(edits(items=3_000, seed=2, better=0.3)).verdict == "worse"
    assert compared(edits(items=3_000, seed=2)).verdict == "inconclusive"


@pytest.mark.parametrize("better", [0.0, 0.1, 0.3])
def test_p_and_interval_agree(better: float) -> None:
    for seed in range(5):
        pair = compared(edits(items=400, seed=seed, better=better))
        assert pair.interval is not None
        if not 0.04 < pair.p < 0.06:
            assert (pair.p < 0.05) == (not pair.interval.low <= 0 <= pair.interval.high)


def test_lower_is_better_flips_the_verdict() -> None:
    variants = edits(items=3_000, seed=2, better=0.3)
    assert compared(variants, lower_is_better=False).verdict == "better"


def test_swapping_variants_inverts_the_verdict() -> None:
    variants = edits(items=1_000, seed=3, better=0.3)
    there, back = compared(variants), compared(dict(reversed(variants.items())))
    assert there.interval is not None
    assert back.interval is not None
    assert back.difference == pytest.approx(-there.difference)
    # Items are sorted otherwise, so the draw is another; the ends agree as two draws do.
    assert back.interval == pytest.approx((-there.interval.high, -there.interval.low), abs=0.1)
    assert (there.verdict, back.verdict) == ("worse", "better")


def test_same_seed_same_result() -> None:
    variants = edits(items=300, seed=4)
    assert compared(variants) == compared(variants)


def test_pairs_are_corrected_together() -> None:
    variants = edits(items=400, seed=5, better=0.1)
    variants["third"] = variants["dot"][::-1].copy()
    result = compare_on_items(variants, score=PERCENTAGE, lower_is_better=True)
    smallest = min(result.pairs, key=lambda pair: pair.p)
    assert smallest.holm_p == pytest.approx(min(1.0, 3 * smallest.p))


def test_coverage_in_a_simulation() -> None:
    # 200 intervals of two equal variants; 95 % less five standard errors is 87.3 %.
    covered = 0
    for seed in range(200):
        interval = (
            compare_on_items(
                edits(items=200, seed=seed), score=PERCENTAGE, lower_is_better=True, resamples=500
            )
            .pairs[0]
            .interval
        )
        assert interval is not None
        covered += interval.low <= 0 <= interval.high
    assert covered / 200 > 0.873


def test_one_item_is_inconclusive() -> None:
    pair = compared({"dot": right_or_wrong([1]), "additive": right_or_wrong([0])})
    assert (pair.difference, pair.interval, pair.p) == (100.0, None, 1.0)
    assert pair.verdict == "inconclusive"
    assert pair.sentence().endswith("they differ on 1, a claim needs 50")


def test_identical_models_are_named_so() -> None:
    wrong = right_or_wrong([0, 1, 1, 0] * 50)
    pair = compared({"dot": wrong, "additive": wrong})
    assert (pair.difference, pair.interval, pair.p) == (0.0, None, 1.0)
    assert (pair.differing_items, pair.verdict) == (0, "same scores")
    assert pair.sentence() == "the models of dot and additive have the same score on every item"


def test_constant_difference_uses_the_sign_test() -> None:
    pair = compared({"dot": right_or_wrong([0] * 100), "additive": right_or_wrong([1] * 100)})
    assert pair.interval is None
    assert pair.verdict == "better"


def test_few_differing_items_are_inconclusive() -> None:
    # Six items, all for one side: the bootstrap's p is tiny, a sign test's is 2/64.
    pair = compared(
        {"dot": right_or_wrong([1] * 6 + [0] * 1_994), "additive": right_or_wrong([0] * 2_000)}
    )
    assert pair.p < 0.02
    assert (pair.differing_items, pair.verdict) == (6, "inconclusive")


def test_variant_without_finite_statistics_is_excluded() -> None:
    variants = edits(items=100, seed=6)
    broken = variants["dot"].astype(float)
    broken[3, 0] = np.nan
    result = compare_on_items(variants | {"wild": broken}, score=PERCENTAGE, lower_is_better=True)
    assert [(variant.variant, variant.reason) for variant in result.excluded] == [
        ("wild", "statistics of 1 of 100 items not finite")
    ]
    assert result.pairs == (compared(variants),)


def test_a_single_variant_has_a_score_and_no_pairs() -> None:
    result = compare_on_items(
        {"dot": right_or_wrong([1, 0, 0, 0])}, score=PERCENTAGE, lower_is_better=True
    )
    assert (result.variants[0].score, result.pairs) == (25.0, ())


@pytest.mark.parametrize(
    ("variants", "message"),
    [
        ({}, "0 variants"),
        ({"dot": np.ones((0, 2))}, "0 items"),
        ({"dot": np.ones((3, 2)), "gated": np.ones((4, 2))}, r"dot \(3, 2\), gated \(4, 2\)"),
        ({"dot": np.zeros((3, 2))}, "the test set is not finite"),
        ({"dot": np.eye(2), "gated": np.eye(2)}, "a resample of the test set"),
    ],
)
def test_invalid_inputs(variants: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(RegardError, match=message):
        compare_on_items(variants, score=PERCENTAGE, lower_is_better=True)


def test_result_is_json_compatible() -> None:
    result = compare_on_items(edits(items=100, seed=7), score=PERCENTAGE, lower_is_better=True)
    written = json.loads(json.dumps(result.as_json(), allow_nan=False))
    assert written["items"] == 100
    assert written["pairs"][0]["interval"] == list(result.pairs[0].interval or ())


SENTENCES = [
    ("the small cat sat on the mat", "a small cat sat on the mat"),
    ("a dog ran", "a big dog ran through the park today"),
    ("two men talk to one another over there", "two men are talking to each other"),
    ("nothing alike", "quite another thing altogether"),
]


@pytest.mark.parametrize("chosen", [[0, 1, 2, 3], [1, 2], [1], [3], [0, 0, 3], [2, 3, 3]])
def test_bleu_of_sums_agrees_with_sacrebleu(chosen: list[int]) -> None:
    metric = BLEU(force=True)
    predicted = [SENTENCES[item][0] for item in chosen]
    references = [SENTENCES[item][1] for item in chosen]
    rows = np.array(metric._extract_corpus_statistics(predicted, [references]), dtype=float)
    expected = metric.corpus_score(predicted, [references]).score
    assert metrics.BLEU().score(rows.sum(axis=0)) == pytest.approx(expected, abs=1e-9)


def test_bleu_of_many_samples() -> None:
    perfect = np.array([7.0, 7.0, 7.0, 6.0, 5.0, 4.0, 7.0, 6.0, 5.0, 4.0])
    sums = np.stack([perfect, np.zeros(10)])
    assert metrics.BLEU().score(np.stack([sums, sums])) == pytest.approx(
        np.array([[100.0, 0.0]] * 2)
    )
