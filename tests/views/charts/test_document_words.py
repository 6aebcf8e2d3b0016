"""Shades of a document: relative to the even weight, monotone, and the same rule everywhere."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, strategies as st
from tests.factories.documents import made_up_document

from regard.core.records.document import DocumentRecord
from regard.views.charts.document_words import (
    pieces,
    sentence_starts,
    sentence_times,
    shadings,
    strength,
)

RECORD = DocumentRecord(
    tokens=("a", "b", "c", "d", "e"),
    segments=(0, 0, 0, 1, 1),
    hops=((0.2, 0.2, 0.6, 0.5, 0.5),),
    sentences=(0.25, 0.75),
    label="x",
    probabilities={"x": 1.0},
    title="t",
)


@given(st.floats(0, 1e6), st.floats(0, 1e6))
def test_more_weight_is_never_shaded_less(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert 0 <= strength(low) <= strength(high) < 1
    if high > low * 1.001 and high < 1e5 and high > 1e-3:
        assert strength(low) < strength(high)


def test_weights_count_against_the_even_weight() -> None:
    whole, within = shadings(RECORD)
    assert (whole.name, within.name) == ("in the whole text", "within its sentence")
    # a: 0.2 of a sentence that has 0.25, against 1/5 for all alike; within its sentence, against 1/3.
    assert whole.weights[0] == pytest.approx(0.05)
    assert whole.times[0] == pytest.approx(0.25)
    assert within.times == pytest.approx((0.6, 0.6, 1.8, 1.0, 1.0))
    assert sentence_times(RECORD) == pytest.approx((0.5, 1.5))


def test_even_weights_are_one_time_even() -> None:
    flat = dataclasses.replace(RECORD, hops=((0.2,) * 5,), sentences=None)
    assert [way.name for way in shadings(flat)] == ["weight"]
    assert shadings(flat)[0].times == pytest.approx((1.0,) * 5)
    assert sentence_times(flat) is None


def test_every_hop_has_its_shading() -> None:
    assert [way.name for way in shadings(made_up_document(hops=2, weighed=False))] == [
        "mean of the hops",
        "hop 1",
        "hop 2",
    ]
    assert [way.name for way in shadings(made_up_document(hops=2))] == [
        "in the whole text",
        "within its sentence, hop 1",
        "within its sentence, hop 2",
    ]


def test_sentences_begin_where_the_number_changes() -> None:
    assert sentence_starts(RECORD) == [0, 3]
    gone = dataclasses.replace(RECORD, segments=(0, 0, 3, 3, 3), sentences=(0.5, 0.0, 0.0, 0.5))
    assert sentence_starts(gone) == [0, 2]
    assert sentence_times(gone) == (1.0, 0.0, 0.0, 1.0)  # of two sentences


def test_pieces_can_be_printed_and_subwords_are_joined() -> None:
    found = pieces(["<start>", "▁un", "kind", "\x00", "<end>"])
    assert [piece.text for piece in found] == ["<start>", "un", "kind", "\\x00", "<end>"]
    assert [piece.joins for piece in found] == [False, False, True, True, False]
    assert [piece.text for piece in pieces(["▁", "", "a b"])] == ["␣", "␣", "a␣b"]
