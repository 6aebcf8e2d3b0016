"""Deletion test: chart and summary sentences."""

from __future__ import annotations

import dataclasses
import re
from xml.etree import ElementTree

import pytest
from tests.factories.documents import make_deletion_record

from regard.core.records.document import DeletionRecord, Estimate, OrderRecord
from regard.views.charts.deletion import (
    NAMES,
    deletion_chart,
    deletion_sentence,
    deletion_verdict,
    drop_scale,
)

MANY, ONE = make_deletion_record(), make_deletion_record(texts=1)


def points(text: str | None) -> list[tuple[float, float]]:
    assert text is not None
    return [(float(x), float(y)) for x, y in (pair.split(",") for pair in text.split())]


def order_of(record: DeletionRecord, name: str) -> ElementTree.Element:
    chart = ElementTree.fromstring(deletion_chart(record))
    return next(group for group in chart.iter("g") if group.findtext("text") == NAMES[name])


def test_drops_and_fractions_ascend() -> None:
    top = points(order_of(MANY, "top").find("polyline").get("points"))  # type: ignore[union-attr]
    assert [x for x, _ in top] == sorted(x for x, _ in top)
    assert [y for _, y in top] == sorted((y for _, y in top), reverse=True)
    random = points(order_of(MANY, "random").find("polyline").get("points"))  # type: ignore[union-attr]
    assert all(first[1] < second[1] for first, second in zip(top, random, strict=True))


def test_bands_span_the_intervals() -> None:
    group = order_of(MANY, "top")
    line = points(group.find("polyline").get("points"))  # type: ignore[union-attr]
    band = points(group.find("polygon").get("points"))  # type: ignore[union-attr]
    upper, lower = band[:6], band[6:][::-1]
    for (_, middle), (_, above), (_, below) in zip(line, upper, lower, strict=True):
        assert above < middle < below
    # The top order of a single text has no interval.
    single = order_of(ONE, "top").find("polygon")
    assert len(set(points(single.get("points")))) == 6  # type: ignore[union-attr]


def test_points_have_titles_and_lines_names() -> None:
    titles = [node.text for node in order_of(MANY, "least").iter("title")]
    assert titles[4] == "10 % removed, lowest weight: −0.03 (−0.04 to −0.02)"
    assert order_of(MANY, "random").find("text").text == "random"  # type: ignore[union-attr]


def test_tiny_drops_do_not_fill_the_chart() -> None:
    tiny = make_deletion_record()
    small = [
        dataclasses.replace(
            order,
            drops=tuple(
                dataclasses.replace(drop, mean=0.001, low=None, high=None) for drop in order.drops
            ),
        )
        for order in tiny.orders().values()
    ]
    tiny = dataclasses.replace(tiny, top=small[0], random=small[1], least=small[2])
    scale = drop_scale(tiny)
    assert scale.low == 0.0
    assert scale.position(0.001) < 0.02


def test_single_fraction() -> None:
    def first(order: OrderRecord) -> OrderRecord:
        return dataclasses.replace(order, drops=order.drops[:1], flips=order.flips[:1])

    record = dataclasses.replace(
        MANY,
        fractions=(0.1,),
        removed=(1.0,),
        differences=MANY.differences[:1],
        top=first(MANY.top),
        random=first(MANY.random),
        least=first(MANY.least),
    )
    ElementTree.fromstring(deletion_chart(record))


def with_drops(record: DeletionRecord, *drops: float) -> DeletionRecord:
    """The same drops at every fraction, without intervals."""
    top, random, least = (
        dataclasses.replace(order, drops=(Estimate(mean=drop),) * 6)
        for order, drop in zip(record.orders().values(), drops, strict=True)
    )
    return dataclasses.replace(record, top=top, random=random, least=least)


def with_difference(record: DeletionRecord, mean: float, low: float, high: float) -> DeletionRecord:
    difference = Estimate(mean=mean, low=low, high=high)
    return dataclasses.replace(record, differences=(difference,) * 6)


def test_sentence_reports_each_order() -> None:
    assert deletion_sentence(MANY) == (
        "Over 200 texts, removing the 10 % of words with the highest weight lowers the probability of "
        "the label by 0.38, removing random words by 0.04, and removing those with the lowest weight "
        "raises it by 0.03."
    )
    assert deletion_sentence(ONE) == (
        "Removing the 10 % of words with the highest weight (5 words) lowers the probability of the label "
        "by 0.38, removing random words by 0.04 (mean of 5 draws), and removing those with the lowest "
        "weight raises it by 0.03."
    )
    assert "the 50 % of words" in deletion_sentence(MANY, fraction=0.6)


def test_sentence_for_a_single_word() -> None:
    assert deletion_sentence(ONE, fraction=0.01).startswith(
        "Removing the word with the highest weight lowers the probability of the label by 0.10, removing a "
        "random one by 0.01 (mean of 5 draws), and removing the one with the lowest raises it by 0.01"
    )


@pytest.mark.parametrize(
    ("drops", "words"),
    [
        (
            (0.2, 0.001, -0.2),
            "by 0.20, removing random words leaves it unchanged, and .* raises it",
        ),
        (
            (-0.2, -0.1, 0.1),
            "raises .* by 0.20, removing random words by 0.10, .* lowers it by 0.10",
        ),
        (
            (0.0, 0.0, 0.1),
            "leaves .* label unchanged, removing random words does too, .* lowers it",
        ),
    ],
)
def test_sentence_follows_the_signs(drops: tuple[float, ...], words: str) -> None:
    assert re.search(words, deletion_sentence(with_drops(MANY, *drops)))


@pytest.mark.parametrize(
    ("record", "difference", "words"),
    [
        (MANY, (0.3, 0.2, 0.4), r"more than on random ones \(difference 0.30 \(0.20 to 0.40\)\)"),
        (MANY, (-0.3, -0.4, -0.2), r"less than on random ones \(difference −0.30"),
        (MANY, (0.1, -0.1, 0.3), "Inconclusive"),
        (MANY, (0.001, 0.0005, 0.002), "Inconclusive"),
        (ONE, (0.3, 0.2, 0.4), "exceeds every random draw: the label depends on these"),
        (ONE, (-0.3, -0.4, -0.2), "below every random draw"),
        (ONE, (0.1, -0.1, 0.3), "Random words have the same effect"),
    ],
)
def test_verdict_follows_the_interval(
    record: DeletionRecord, difference: tuple[float, float, float], words: str
) -> None:
    assert re.search(words, deletion_verdict(with_difference(record, *difference)))


@pytest.mark.parametrize("record", [MANY, ONE])
def test_effects_of_low_weight_words_are_reported(record: DeletionRecord) -> None:
    assert "lowest weight" not in deletion_verdict(record)
    drops = list(record.least.drops)
    drops[5] = Estimate(mean=0.46, low=0.4, high=0.5)
    least = dataclasses.replace(record.least, drops=tuple(drops))
    verdict = deletion_verdict(dataclasses.replace(record, least=least))
    assert verdict.startswith(deletion_verdict(record))
    assert verdict.endswith(
        "But removing the 50 % with the lowest weight lowers it by 0.46, more than random words (0.21): "
        "low-weight words matter too."
    )
    # Not reported where the bands overlap.
    drops[5] = Estimate(mean=0.3, low=0.2, high=0.4)
    least = dataclasses.replace(record.least, drops=tuple(drops))
    assert deletion_verdict(dataclasses.replace(record, least=least)) == deletion_verdict(record)
