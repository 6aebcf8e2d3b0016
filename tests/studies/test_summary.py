"""The headline of a study, and items on which variants disagree."""

from __future__ import annotations

import math
import random
from collections import Counter

import numpy as np
import pytest

from regard.core.errors import RegardError
from regard.runs.folder import Predictions
from regard.studies.spec import StudySpec
from regard.studies.statistics.bootstrap import ItemComparison, compare_on_items
from regard.studies.statistics.paired import compare_over_seeds
from regard.studies.summary import (
    describe_budget,
    disagreements,
    headline,
    unfinished_headline,
)
from regard.tasks.metrics import (
    BLEU,
    CharacterErrorRate,
    ChrF,
    ExactMatchError,
    Metric,
    PhoneErrorRate,
)


def headline_text(
    scores: dict[str, list[float]],
    on_items: ItemComparison | None = None,
    **flops: float,
) -> str:
    over_seeds = compare_over_seeds(
        {variant: dict(enumerate(of_variant)) for variant, of_variant in scores.items()},
        lower_is_better=True,
    )
    sentences = headline(over_seeds, on_items, metric=ExactMatchError(), split="test", flops=flops)
    return " ".join(sentences)


CLEAR = {
    "a": [9.0, 9.2, 9.1, 9.3, 9.0],
    "b": [11.0, 11.1, 11.2, 11.4, 11.1],
    "c": [9.1, 9.1, 9.2, 9.2, 9.2],
}


def test_five_seeds() -> None:
    text = headline_text(CLEAR)
    assert "a has the lowest mean exact_match_error on test, 9.12 %, over 5 seeds." in text
    assert "Methods, over seeds: a is better than b; inconclusive against c." in text


def test_too_few_seeds() -> None:
    text = headline_text({variant: scores[:4] for variant, scores in CLEAR.items()})
    assert "Too few seeds: a comparison of methods needs 5." in text
    assert "better" not in text


def test_excluded_variants_are_named() -> None:
    text = headline_text({**CLEAR, "d": [8.0, 8.0, 8.0, 8.0, math.nan]})
    assert "Excluded from all comparisons: d (no finite score for 1 of 5 seeds)." in text


def test_single_variant() -> None:
    text = headline_text({"a": [9.0, 9.5]})
    assert text == (
        "a has a mean exact_match_error on test, 9.25 %, over 2 seeds; there is no other variant to "
        "compare with."
    )


def test_no_variant_with_a_score() -> None:
    assert headline_text({"a": [math.nan]}).startswith("No variant has a score")


def test_equal_means_have_no_winner() -> None:
    # Shifted by one seed: the same mean, but the differences vary.
    text = headline_text({"a": CLEAR["a"], "b": [*CLEAR["a"][1:], CLEAR["a"][0]]})
    assert text == (
        "a and b have the same mean exact_match_error on test, 9.12 %, over 5 seeds. Methods, over "
        "seeds: a and b against each other is inconclusive, no difference detected."
    )


def test_same_scores_have_no_winner() -> None:
    text = headline_text({"a": CLEAR["a"], "same": CLEAR["a"], "b": CLEAR["b"]})
    assert text == (
        "a and same have the same mean exact_match_error on test, 9.12 %, over 5 seeds, the lowest of "
        "all variants. Methods, over seeds: a and same have the same score with every seed; a and same are "
        "better than b."
    )


def test_equal_means_with_too_few_seeds() -> None:
    text = headline_text({"b": [9.0], "a": [9.0]})
    assert text.startswith("b and a have the same mean exact_match_error on test, 9.00 %, over 1 ")
    assert "lowest" not in text


def test_equal_rounding_has_no_winner() -> None:
    near = [
        score + shift for score, shift in zip(CLEAR["a"], [0.01, -0.01, 0, 0.004, 0], strict=True)
    ]
    text = headline_text({"a": CLEAR["a"], "near": near})
    assert "a and near have the same mean exact_match_error to 2 decimals on test, 9.12 %" in text
    assert "lowest" not in text


def item_comparison(**wrong: list[int]) -> ItemComparison:
    statistics = {
        name: np.stack([of_variant, np.ones(len(of_variant))], axis=1)
        for name, of_variant in wrong.items()
    }
    return compare_on_items(statistics, score=ExactMatchError().score, lower_is_better=True)


def test_same_predictions_have_no_winner() -> None:
    on_items = item_comparison(a=[0, 1] * 100, b=[0, 1] * 100, c=[1, 1] * 100)
    text = headline_text({"a": [9.0], "b": [9.0], "c": [9.5]}, on_items)
    assert text.endswith(
        "Trained models, on items like these 200: a and b have the same score on every item; a and b are "
        "better than c."
    )


def test_more_flops_of_the_winner_are_named() -> None:
    text = headline_text(CLEAR, a=8e9, b=1e9, c=8e9)
    assert "a is better than b, with 8.0 times the training FLOPs; inconclusive against c." in text
    assert "a is better than b, with 0.12 times the training FLOPs;" in headline_text(
        CLEAR, a=1e9, b=8e9, c=1e9
    )
    worse = {**CLEAR, "c": CLEAR["b"]}
    text = headline_text(worse, a=8e9, b=1e9, c=4e9)
    assert "a is better than b and c, with 2.0 to 8.0 times the training FLOPs." in text


def test_similar_or_unknown_flops_are_not_named() -> None:
    assert "FLOPs" not in headline_text(CLEAR, a=1.09e9, b=1e9, c=1e9)
    assert "FLOPs" not in headline_text(CLEAR)


def test_budget_names_unequal_flops_and_evaluations() -> None:
    spec = StudySpec.from_sections({"recipe": "pronounce-quick", "training": {"steps": 40}})
    specs = [spec.run_spec(spec.variants[0], seed=seed) for seed in (0, 1)]
    assert describe_budget(specs, {"a": 1e9, "b": 8e9, "c": None}, [4, 2, 4]) == (
        "Every run has 40 steps. Equal steps, not equal FLOPs: 1.0–8.0 times. The best checkpoint is of 2 "
        "to 4 evaluations."
    )
    assert describe_budget(specs, {"a": 1e9, "b": 1.05e9}, [1]) == (
        "Every run has 40 steps. The best checkpoint is of 1 evaluation."
    )


def test_unfinished_study_says_what_is_missing() -> None:
    sentences = unfinished_headline(
        {"a": (3, 4), "b": (3, 4), "c": (4,)},
        ended=10,
        runs=15,
        seeds=(0, 1, 2),
        command="regard study x",
    )
    assert sentences == (
        "The study is not finished: 10 of 15 runs have ended, so there is no verdict.",
        "Missing: a, b (seeds 3, 4); c (seed 4).",
        "Scores are descriptive, of seeds 0, 1, 2 only.",
        "Resume with: regard study x",
    )


VARIANTS = ("dot", "additive", "general")


def outputs(right: dict[str, list[bool]]) -> dict[str, Predictions]:
    """Predictions that are correct on just these items; every item has two references."""
    items = len(next(iter(right.values())))
    return {
        variant: Predictions(
            inputs=tuple(f"word {item}" for item in range(items)),
            predictions=tuple(
                f"A  {item}" if is_right else f"WRONG {item}"
                for item, is_right in enumerate(of_variant)
            ),
            references=tuple((f"B {item}", f"A {item}") for item in range(items)),
        )
        for variant, of_variant in right.items()
    }


def dummy_predictions(items: int = 400) -> dict[str, Predictions]:
    """Mostly correct; "general" is rarely alone wrong, and more often alone right."""
    chance = random.Random(0)
    rows = []
    for item in range(items):
        row = [True] * 3
        if item < 60:
            row = [False, False, True]
        elif item < 64:
            row = [True, True, False]
        elif item < 200:
            row = [chance.random() < 0.5 for _ in VARIANTS]
        rows.append(row)
    chance.shuffle(rows)
    return outputs(
        {variant: [row[number] for row in rows] for number, variant in enumerate(VARIANTS)}
    )


def test_each_variant_is_alone_right_and_alone_wrong() -> None:
    found = disagreements(dummy_predictions(), metric=ExactMatchError())
    assert len(found) == 12
    assert len({item.input for item in found}) == 12
    alone_right = [(variant,) for variant in VARIANTS]
    alone_wrong = [tuple(other for other in VARIANTS if other != variant) for variant in VARIANTS]
    assert Counter(item.correct for item in found) == Counter(2 * [*alone_right, *alone_wrong])
    for item in found:
        assert item.correct == tuple(
            variant for variant in VARIANTS if item.predictions[variant].split()[0] == "A"
        )
        assert item.references == (f"B {item.input[5:]}", f"A {item.input[5:]}")


def test_selection_depends_on_the_seed_only() -> None:
    predictions = dummy_predictions()
    first, again, other = (
        disagreements(predictions, metric=PhoneErrorRate(), seed=seed) for seed in (1, 1, 2)
    )
    assert first == again
    assert {item.input for item in first} != {item.input for item in other}
    numbers = [int(item.input.split()[1]) for item in first]
    assert numbers == sorted(numbers)


def test_four_variants_can_disagree_two_and_two() -> None:
    right = {"a": [True] * 9, "b": [True] * 9, "c": [False] * 9, "d": [False] * 9}
    found = disagreements(outputs(right), metric=ExactMatchError(), count=5)
    assert [item.correct for item in found] == [("a", "b")] * 5


@pytest.mark.parametrize(
    "right",
    [
        {"dot": [True, True], "additive": [True, True]},
        {"dot": [False] * 20, "additive": [False] * 20},
        {"dot": [], "additive": []},
        {"dot": [True, False]},
        {},
    ],
)
def test_no_disagreements(right: dict[str, list[bool]]) -> None:
    assert disagreements(outputs(right) if right else {}, metric=ExactMatchError()) == ()


@pytest.mark.parametrize("metric", [BLEU(), ChrF(), CharacterErrorRate()])
def test_largest_spread_when_rarely_correct(metric: Metric) -> None:
    reference = "the small cat sat on the mat today"
    near, far = "the small cat sat on the mat again", "xx yy"
    first = [near] * 30
    second = [near] * 30
    second[7], first[20] = far, far
    # An empty reference has no error rate of its own.
    answers = [(reference,)] * 29 + [("",)]
    variants = {
        variant: Predictions(
            inputs=tuple(map(str, range(30))), predictions=tuple(written), references=tuple(answers)
        )
        for variant, written in (("dot", first), ("additive", second))
    }
    found = disagreements(variants, metric=metric)
    assert [item.input for item in found] == ["7", "20"]
    assert all(item.correct == () for item in found)


def test_different_items_are_refused() -> None:
    one = outputs({"dot": [True, False], "additive": [True, True]})
    other = outputs({"gated": [True, False, True]})
    with pytest.raises(RegardError, match="'dot' and 'gated'"):
        disagreements({**one, **other}, metric=ExactMatchError())
