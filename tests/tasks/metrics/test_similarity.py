"""Similarities of texts: examples by hand, properties, and a plain dynamic program."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given, strategies as st
from rapidfuzz.distance import OSA

from regard.core.errors import RegardError
from regard.tasks.metrics import (
    CosineSimilarity,
    DamerauLevenshteinSimilarity,
    JaccardSimilarity,
    metric_class,
)
from regard.tasks.metrics.similarity import CharacterSimilarity
from regard.tasks.sequence import SequenceOptions
from regard.tasks.translate import Translate

jaccard, cosine, edits = JaccardSimilarity(), CosineSimilarity(), DamerauLevenshteinSimilarity()
SIMILARITIES: list[CharacterSimilarity] = [jaccard, cosine, edits]

every = pytest.mark.parametrize("metric", SIMILARITIES, ids=lambda metric: metric.name)
texts = st.text(alphabet="abc é", max_size=7)


def of(metric: CharacterSimilarity, text: str, other: str) -> float:
    return metric([text], [(other,)])


@pytest.mark.parametrize(
    ("text", "other", "expected"),
    [
        ("ab", "ba", (1.0, 1.0, 0.5)),  # one swap of two
        ("aab", "ab", (2 / 3, 2 / math.sqrt(6), 2 / 3)),  # two shared of three
        ("abc", "abd", (2 / 4, 2 / 3, 2 / 3)),
        ("the cat", "the act", (1.0, 1.0, 6 / 7)),
        ("ca", "abc", (2 / 3, 2 / math.sqrt(6), 1 / 3)),
        ("abc", "xyz", (0.0, 0.0, 0.0)),
        ("A", "a", (0.0, 0.0, 0.0)),
        ("", "", (1.0, 1.0, 1.0)),
        ("", "ab", (0.0, 0.0, 0.0)),
        ("ab", "", (0.0, 0.0, 0.0)),
    ],
)
def test_by_hand(text: str, other: str, expected: tuple[float, float, float]) -> None:
    assert tuple(of(metric, text, other) for metric in SIMILARITIES) == pytest.approx(expected)


def distance(text: str, other: str) -> int:
    """Edits by breadth-first search over what one edit or swap of neighbours makes of a text."""
    letters = sorted(set(other))
    reached, edge, steps = {text}, {text}, 0
    while other not in reached:
        steps += 1
        longer = {
            each
            for now in edge
            for at in range(len(now) + 1)
            for head, tail in [(now[:at], now[at:])]
            for each in (
                *(head + letter + tail for letter in letters),
                *(head + letter + tail[1:] for letter in letters if tail),
                *((head + tail[1:],) if tail else ()),
                *((head + tail[1] + tail[0] + tail[2:],) if len(tail) > 1 else ()),
            )
        }
        edge = longer - reached
        reached |= longer
    return steps


@pytest.mark.parametrize(
    ("text", "other", "unrestricted", "restricted"),
    [("ca", "abc", 2, 3), ("ab", "ba", 1, 1), ("abcd", "badc", 2, 2), ("ba", "acb", 2, 3)],
)
def test_swapped_characters_may_be_edited_again(
    text: str, other: str, unrestricted: int, restricted: int
) -> None:
    assert distance(text, other) == unrestricted
    assert OSA.distance(text, other) == restricted
    longest = max(len(text), len(other))
    assert of(edits, text, other) == pytest.approx(1 - unrestricted / longest)


@given(st.text("abc", max_size=3), st.text("abc", min_size=1, max_size=3))
def test_edits_are_the_fewest(text: str, other: str) -> None:
    longest = max(len(text), len(other))
    assert of(edits, text, other) == pytest.approx(1 - distance(text, other) / longest)


@given(texts, texts)
def test_range_symmetry_and_identity(text: str, other: str) -> None:
    for metric in SIMILARITIES:
        value = of(metric, text, other)
        assert 0 <= value <= 1 + 1e-12
        assert value == pytest.approx(of(metric, other, text))
        assert of(metric, text, text) == pytest.approx(1.0)
    assert (of(edits, text, other) == 1) == (text == other)
    # In any order; and Jaccard is never the larger one.
    same = Counter(text) == Counter(other)
    for metric in (jaccard, cosine):
        assert (of(metric, text, other) == pytest.approx(1)) == same
    assert of(jaccard, text, other) <= of(cosine, text, other) + 1e-12


@given(texts)
def test_of_equal_lengths_jaccard_follows_from_cosine(text: str) -> None:
    other = text.replace("a", "c")
    value = of(cosine, text, other)
    assert of(jaccard, text, other) == pytest.approx(value / (2 - value))


@every
def test_mean_over_items_of_the_most_similar_reference(metric: CharacterSimilarity) -> None:
    predictions, references = ["ab", "abcd"], [("xy", "ab", ""), ("xyz",)]
    assert metric(predictions, references) == 0.5
    assert metric.table(predictions, references).tolist() == [[1.0, 1.0], [0.0, 1.0]]
    with pytest.raises(RegardError, match="Item 2"):
        metric(["A", "B"], [("A",), ()])


@every
def test_metrics_by_name(metric: CharacterSimilarity) -> None:
    assert metric_class(metric.name) is type(metric)
    assert (metric.unit, metric.lower_is_better, metric.is_itemwise) == ("", False, True)
    options = SequenceOptions(metrics=(metric.name,), metric=metric.name)
    assert Translate.metric_named(options.metric, options).name == metric.name
    assert Translate.scores(["ab"], [("ab",)], options)[metric.name] == 1.0
