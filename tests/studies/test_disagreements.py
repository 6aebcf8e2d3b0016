"""Which items are shown: every kind of disagreement in turn, and none that is chosen by hand."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from regard.core.errors import RegardError
from regard.runs.folder import Predictions
from regard.studies.summary import disagreements
from regard.tasks.seq2seq.pronounce import Pronounce
from regard.tasks.seq2seq.translate import Translate

ARMS = ("dot", "additive", "general")


def outputs(right: dict[str, list[bool]]) -> dict[str, Predictions]:
    """Variants that get just these items right; every item has two answers, and either will do."""
    items = len(next(iter(right.values())))
    return {
        variant: Predictions(
            sources=tuple(f"word {item}" for item in range(items)),
            predicted=tuple(
                f"A  {item}" if is_right else f"WRONG {item}"
                for item, is_right in enumerate(of_variant)
            ),
            answers=tuple((f"B {item}", f"A {item}") for item in range(items)),
        )
        for variant, of_variant in right.items()
    }


def made_up(items: int = 400) -> dict[str, Predictions]:
    """Mostly all right; "general" is rarely alone wrong, and much oftener alone right."""
    chance = random.Random(0)
    rows = []
    for item in range(items):
        row = [True] * 3
        if item < 60:
            row = [False, False, True]
        elif item < 64:
            row = [True, True, False]
        elif item < 200:
            row = [chance.random() < 0.5 for _ in ARMS]
        rows.append(row)
    chance.shuffle(rows)
    return outputs({variant: [row[number] for row in rows] for number, variant in enumerate(ARMS)})


def test_each_variant_is_alone_right_and_alone_wrong() -> None:
    found = disagreements(made_up(), task=Pronounce, metric="wer")
    assert len(found) == 12
    assert len({item.source for item in found}) == 12
    alone_right = [(variant,) for variant in ARMS]
    alone_wrong = [tuple(other for other in ARMS if other != variant) for variant in ARMS]
    assert Counter(item.right for item in found) == Counter(2 * [*alone_right, *alone_wrong])
    for item in found:
        assert item.right == tuple(
            variant for variant in ARMS if item.predicted[variant].split()[0] == "A"
        )
        assert item.answers == (f"B {item.source[5:]}", f"A {item.source[5:]}")


def test_the_seed_chooses_and_nothing_else() -> None:
    predictions = made_up()
    first, again, other = (
        disagreements(predictions, task=Pronounce, metric="per", seed=seed) for seed in (1, 1, 2)
    )
    assert first == again
    assert {item.source for item in first} != {item.source for item in other}
    places = [int(item.source.split()[1]) for item in first]
    assert places == sorted(places)


def test_four_variants_can_disagree_two_and_two() -> None:
    right = {"a": [True] * 9, "b": [True] * 9, "c": [False] * 9, "d": [False] * 9}
    found = disagreements(outputs(right), task=Pronounce, metric="wer", count=5)
    assert [item.right for item in found] == [("a", "b")] * 5


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
def test_variants_that_agree_have_nothing_to_show(right: dict[str, list[bool]]) -> None:
    assert disagreements(outputs(right) if right else {}, task=Pronounce, metric="wer") == ()


@pytest.mark.parametrize("metric", ["bleu", "chrf", "cer", "loss"])
def test_where_nothing_is_right_the_widest_spread_is_shown(metric: str) -> None:
    reference = "the small cat sat on the mat today"
    near, far = "the small cat sat on the mat again", "xx yy"
    first = [near] * 30
    second = [near] * 30
    second[7], first[20] = far, far
    # An empty reference has no error rate of its own.
    answers = [(reference,)] * 29 + [("",)]
    variants = {
        variant: Predictions(
            sources=tuple(map(str, range(30))), predicted=tuple(written), answers=tuple(answers)
        )
        for variant, written in (("dot", first), ("additive", second))
    }
    found = disagreements(variants, task=Translate, metric=metric)
    assert [item.source for item in found] == ["7", "20"]
    assert all(item.right == () for item in found)


def test_variants_on_other_items_are_refused() -> None:
    one = outputs({"dot": [True, False], "additive": [True, True]})
    other = outputs({"gated": [True, False, True]})
    with pytest.raises(RegardError, match="'dot' and 'gated' were not scored on the same items"):
        disagreements({**one, **other}, task=Pronounce, metric="wer")
