"""Deletion results put together: means by hand, intervals against scipy's, and what is left out."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from scipy.stats import bootstrap
from tests.factories.lexicon_classifier import LexiconClassifier

from regard.core.errors import RegardError
from regard.core.records.document import DeletionRecord
from regard.tasks.classification.deletion import (
    Changes,
    DeletionResult,
    area,
    deletion_curve,
    mean_deletion,
)

SHARES = (0.1, 0.5)


def changes(falls: list[list[list[float]]]) -> Changes:
    """Texts × draws × shares; a fall of more than a half changes the label."""
    return Changes(falls=np.array(falls), flips=np.array(falls) > 0.5)


def result(
    top: list[list[list[float]]], random: list[list[list[float]]], *, words: list[int]
) -> DeletionResult:
    return DeletionResult(
        shares=SHARES,
        words=np.array(words),
        removed=np.array([[1, count // 2] for count in words]),
        labels=np.zeros(len(words), dtype=np.int64),
        probability=np.linspace(0.8, 1.0, len(words)),
        top=changes(top),
        random=changes(random),
        least=changes([[[0.0, 0.0]] for _ in words]),
    )


TWO = result(
    [[[0.2, 0.6]], [[0.4, 0.8]]],
    [[[0.0, 0.2], [0.2, 0.6]], [[0.1, 0.0], [0.1, 0.0]]],
    words=[10, 20],
)


def test_an_example_for_the_pencil() -> None:
    found = mean_deletion([TWO])
    assert (found.texts, found.left_out, found.draws) == (2, 0, 2)
    assert found.removed == (1.0, 7.5)
    assert found.probability == pytest.approx(0.9)
    assert [each.mean for each in found.top.falls] == pytest.approx([0.3, 0.7])
    assert [each.mean for each in found.top.flips] == [0.0, 1.0]
    # Draws first, then texts: (0.1 + 0.1) / 2 and (0.4 + 0.0) / 2; one draw of four flips.
    assert [each.mean for each in found.random.falls] == pytest.approx([0.1, 0.2])
    assert [each.mean for each in found.random.flips] == [0.0, 0.25]
    assert [each.mean for each in found.differences] == pytest.approx([0.2, 0.5])
    assert [each.mean for each in found.least.falls] == [0.0, 0.0]
    assert found.least.falls[0].low is None  # nothing varies


def test_the_area_is_the_mean_height_of_the_lines() -> None:
    # From 0 to 0.1 the line rises to 0.2: 0.01; from 0.1 to 0.5 it is at 0.4 in the mean: 0.16.
    under = area(np.array([[[0.2, 0.6]]]), SHARES)
    assert under.tolist() == [[pytest.approx([0.17 / 0.5])]]
    found = mean_deletion([TWO])
    assert found.top.area.mean == pytest.approx((0.34 + (0.02 + 0.24) / 0.5) / 2)
    difference = found.top.area.mean - found.random.area.mean
    assert found.area_difference.mean == pytest.approx(difference)


def test_batches_are_put_together_as_if_they_were_one() -> None:
    def part(texts: slice) -> DeletionResult:
        def cut(each: Changes) -> Changes:
            return Changes(falls=each.falls[texts], flips=each.flips[texts])

        return DeletionResult(
            shares=SHARES,
            words=TWO.words[texts],
            removed=TWO.removed[texts],
            labels=TWO.labels[texts],
            probability=TWO.probability[texts],
            top=cut(TWO.top),
            random=cut(TWO.random),
            least=cut(TWO.least),
        )

    assert mean_deletion([part(slice(1)), part(slice(1, 2))]) == mean_deletion([TWO])


def test_texts_without_a_word_to_spare_are_left_out_and_counted() -> None:
    short = result([[[0.0, 0.0]]], [[[0.0, 0.0], [0.0, 0.0]]], words=[1])
    found = mean_deletion([short, TWO])
    assert (found.texts, found.left_out) == (2, 1)
    assert dataclasses.replace(found, left_out=0) == mean_deletion([TWO])
    with pytest.raises(RegardError, match="None of the texts has two words or more"):
        mean_deletion([short])


def test_the_ends_of_a_single_text_are_those_of_its_draws() -> None:
    one = result([[[0.2, 0.6]]], [[[0.0, 0.2], [0.2, 0.6]]], words=[10])
    found = mean_deletion([one])
    assert (found.random.falls[1].low, found.random.falls[1].high) == (0.2, 0.6)
    assert (found.top.falls[1].low, found.top.falls[1].high) == (None, None)
    assert (found.differences[0].low, found.differences[0].high) == (0.0, 0.2)


def test_intervals_are_those_of_scipys_bootstrap() -> None:
    generator = np.random.default_rng(3)
    top, random = generator.beta(2, 3, (80, 1, 2)), generator.beta(2, 9, (80, 3, 2))
    found = mean_deletion([result(top.tolist(), random.tolist(), words=[9] * 80)], resamples=20_000)
    for place in range(2):
        sample = top[:, 0, place] - random[:, :, place].mean(axis=1)
        theirs = bootstrap(
            (sample,), np.mean, method="percentile", n_resamples=20_000, rng=generator
        ).confidence_interval
        ours = found.differences[place]
        assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.002)


def test_many_texts_are_drawn_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = mean_deletion([TWO], resamples=50)
    monkeypatch.setattr("regard.tasks.classification.deletion.NUMBERS_AT_ONCE", 14)
    assert mean_deletion([TWO], resamples=50) == whole


def test_a_measured_result_goes_through_json_values() -> None:
    votes = [0.0, 0.0, 0.0, 0.0, 3.0, -1.0, 0.0]
    model = LexiconClassifier(votes, [0.0, 1.0, 1.0, 1.0, 9.0, 2.0, 1.0])
    tokens = torch.tensor([[4, 5, 6, 6, 6], [6, 4, 6, 5, 6]])
    found = mean_deletion([deletion_curve(model, tokens, torch.tensor([5, 5]), None)])
    assert DeletionRecord.from_plain(found.as_plain()) == found
    assert found.differences[3].mean > 0


def test_results_measured_differently_are_refused() -> None:
    other = dataclasses.replace(TWO, shares=(0.1, 0.4))
    with pytest.raises(
        RegardError, match=r"measured differently: .*Measure all batches with the same"
    ):
        mean_deletion([TWO, other])
    with pytest.raises(RegardError, match="no deletion results to put together"):
        mean_deletion([])
