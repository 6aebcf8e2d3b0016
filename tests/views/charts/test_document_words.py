"""Words of a document: shading relative to uniform weights, display tokens and line layout."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st
from tests.factories.documents import make_document_record

from regard.core.records.document import DocumentRecord
from regard.views.charts.document import (
    display_tokens,
    layout_words,
    sentence_relative_weights,
    sentence_starts,
    shade_opacity,
    weight_views,
)

RECORD = DocumentRecord(
    tokens=("a", "b", "c", "d", "e"),
    segments=(0, 0, 0, 1, 1),
    hops=((0.2, 0.2, 0.6, 0.5, 0.5),),
    sentence_weights=(0.25, 0.75),
    label="x",
    probabilities={"x": 1.0},
    title="t",
)


@given(st.floats(0, 1e6), st.floats(0, 1e6))
def test_opacity_is_monotone(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert 0 <= shade_opacity(low) <= shade_opacity(high) < 1
    if high > low * 1.001 and high < 1e5 and high > 1e-3:
        assert shade_opacity(low) < shade_opacity(high)


def test_relative_weights_are_against_uniform() -> None:
    whole, within = weight_views(RECORD)
    assert (whole.name, within.name) == ("in the whole text", "within its sentence")
    # a: 0.2 of a sentence with weight 0.25, against uniform 1/5; within its sentence, against 1/3.
    assert whole.weights[0] == pytest.approx(0.05)
    assert whole.relative[0] == pytest.approx(0.25)
    assert within.relative == pytest.approx((0.6, 0.6, 1.8, 1.0, 1.0))
    assert sentence_relative_weights(RECORD) == pytest.approx((0.5, 1.5))


def test_uniform_weights_have_relative_weight_one() -> None:
    flat = dataclasses.replace(RECORD, hops=((0.2,) * 5,), sentence_weights=None)
    assert [view.name for view in weight_views(flat)] == ["weight"]
    assert weight_views(flat)[0].relative == pytest.approx((1.0,) * 5)
    assert sentence_relative_weights(flat) is None


def test_one_weight_view_per_hop() -> None:
    assert [view.name for view in weight_views(make_document_record(hops=2, weighed=False))] == [
        "mean of hops",
        "hop 1",
        "hop 2",
    ]
    assert [view.name for view in weight_views(make_document_record(hops=2))] == [
        "in the whole text",
        "within its sentence, hop 1",
        "within its sentence, hop 2",
    ]


def test_sentence_starts() -> None:
    assert sentence_starts(RECORD) == [0, 3]
    gone = dataclasses.replace(
        RECORD, segments=(0, 0, 3, 3, 3), sentence_weights=(0.5, 0.0, 0.0, 0.5)
    )
    assert sentence_starts(gone) == [0, 2]
    assert sentence_relative_weights(gone) == (1.0, 0.0, 0.0, 1.0)  # of two sentences


def test_display_tokens_are_printable_and_join_subwords() -> None:
    found = display_tokens(["<start>", "▁un", "kind", "\x00", "<end>"])
    assert [piece.text for piece in found] == ["<start>", "un", "kind", "\\x00", "<end>"]
    assert [piece.continues_word for piece in found] == [False, False, True, True, False]
    assert [piece.text for piece in display_tokens(["▁", "", "a b"])] == ["␣", "␣", "a␣b"]


WORDS = st.lists(
    st.tuples(st.floats(0.05, 2.0), st.booleans(), st.booleans()), min_size=1, max_size=40
)


@given(WORDS)
def test_words_do_not_overlap_or_exceed_the_width(
    words: list[tuple[float, bool, bool]],
) -> None:
    starts = {place for place, (_, _, begins) in enumerate(words) if begins}
    found = layout_words(
        [width for width, _, _ in words],
        continues_word=[continues_word for _, continues_word, _ in words],
        starts=starts,
        max_width=3.0,
        space=0.1,
    )
    assert len(found) == len(words)
    for place in found:
        assert place.left + place.width <= 3.0 + 1e-9
    for number, (before, after) in enumerate(pairwise(found), start=1):
        if number in starts:
            assert after.line == before.line + 1
        if after.line == before.line:
            gap = after.left - before.left - before.width
            assert gap >= (0.0 if words[number][1] else 0.1) - 1e-9
        else:
            assert (after.line, after.left) == (before.line + 1, 0.0)


def test_too_wide_word_has_its_own_line() -> None:
    found = layout_words(
        [1.0, 9.0, 1.0], continues_word=[False] * 3, starts=(), max_width=3.0, space=0.1
    )
    assert [place.line for place in found] == [0, 1, 2]
