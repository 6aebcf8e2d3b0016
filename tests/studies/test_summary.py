"""The first sentences of a page claim what the comparison found, and nothing more."""

from __future__ import annotations

import math

from regard.studies.statistics.compare_seeds import compare_over_seeds
from regard.studies.summary import headline


def told(scores: dict[str, list[float]]) -> str:
    over_seeds = compare_over_seeds(
        {variant: dict(enumerate(of_variant)) for variant, of_variant in scores.items()},
        lower_is_better=True,
    )
    return " ".join(headline(over_seeds, None, metric="wer", part="test"))


CLEAR = {
    "a": [9.0, 9.2, 9.1, 9.3, 9.0],
    "b": [11.0, 11.1, 11.2, 11.4, 11.1],
    "c": [9.1, 9.1, 9.2, 9.2, 9.2],
}


def test_with_five_seeds_methods_are_compared() -> None:
    words = told(CLEAR)
    assert "a has the lowest mean wer on test, 9.12, over 5 seeds." in words
    assert "The method a is better than b and cannot be told apart from c over seeds." in words


def test_with_fewer_nothing_is_claimed() -> None:
    words = told({variant: scores[:4] for variant, scores in CLEAR.items()})
    assert "a claim about the methods takes 5 seeds" in words
    assert "better" not in words


def test_variants_that_were_left_out_are_named() -> None:
    words = told({**CLEAR, "d": [8.0, 8.0, 8.0, 8.0, math.nan]})
    assert "Left out of every comparison: d (no finite score with 1 of 5 seeds)." in words


def test_one_variant_is_best_of_nothing() -> None:
    words = told({"a": [9.0, 9.5]})
    assert (
        words
        == "a has a mean wer on test, 9.25, over 2 seeds; there is nothing to compare it with."
    )


def test_without_scores_there_is_nothing_to_say() -> None:
    assert told({"a": [math.nan]}).startswith("No variant has been run to its end")
