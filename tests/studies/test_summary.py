"""The headline of a study, and items on which variants disagree."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest

from regard.core.errors import RegardError
from regard.runs.folder import Predictions
from regard.studies.statistics.paired import compare_over_seeds
from regard.studies.summary import disagreements, headline
from regard.tasks.metrics import (
    BLEU,
    CharacterErrorRate,
    ChrF,
    ExactMatchError,
    Metric,
    PhoneErrorRate,
)


def headline_text(scores: dict[str, list[float]]) -> str:
    over_seeds = compare_over_seeds(
        {variant: dict(enumerate(of_variant)) for variant, of_variant in scores.items()},
        lower_is_better=True,
    )
    return " ".join(headline(over_seeds, None, metric=ExactMatchError(), split="test"))


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


def test_no_finished_variant() -> None:
    assert headline_text({"a": [math.nan]}).startswith("No variant is finished")


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
