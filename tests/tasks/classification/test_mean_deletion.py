"""Averaged deletion tests: means by hand, intervals against scipy, skipped texts."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from scipy.stats import bootstrap
from tests.factories.lexicon_classifier import LexiconClassifier

from regard.core.batches import TokenInput
from regard.core.errors import RegardError
from regard.core.records.document import DeletionRecord
from regard.tasks.classification.deletion import (
    DeletionResult,
    OrderEffect,
    area,
    deletion_curve,
    mean_deletion,
)

FRACTIONS = (0.1, 0.5)


def effect(drops: list[list[list[float]]]) -> OrderEffect:
    """Texts × draws × fractions; a drop of more than a half flips the label."""
    return OrderEffect(drops=np.array(drops), flips=np.array(drops) > 0.5)


def result(
    top: list[list[list[float]]], random: list[list[list[float]]], *, words: list[int]
) -> DeletionResult:
    return DeletionResult(
        fractions=FRACTIONS,
        words=np.array(words),
        removed=np.array([[1, count // 2] for count in words]),
        labels=np.zeros(len(words), dtype=np.int64),
        probability=np.linspace(0.8, 1.0, len(words)),
        top=effect(top),
        random=effect(random),
        least=effect([[[0.0, 0.0]] for _ in words]),
    )


TWO = result(
    [[[0.2, 0.6]], [[0.4, 0.8]]],
    [[[0.0, 0.2], [0.2, 0.6]], [[0.1, 0.0], [0.1, 0.0]]],
    words=[10, 20],
)


def test_example_by_hand() -> None:
    found = mean_deletion([TWO])
    assert (found.texts, found.skipped_texts, found.draws) == (2, 0, 2)
    assert found.removed == (1.0, 7.5)
    assert found.probability == pytest.approx(0.9)
    assert [each.mean for each in found.top.drops] == pytest.approx([0.3, 0.7])
    assert [each.mean for each in found.top.flips] == [0.0, 1.0]
    # Draws first, then texts: (0.1 + 0.1) / 2 and (0.4 + 0.0) / 2; one draw of four flips.
    assert [each.mean for each in found.random.drops] == pytest.approx([0.1, 0.2])
    assert [each.mean for each in found.random.flips] == [0.0, 0.25]
    assert [each.mean for each in found.differences] == pytest.approx([0.2, 0.5])
    assert [each.mean for each in found.least.drops] == [0.0, 0.0]
    assert found.least.drops[0].low is None  # nothing varies


def test_area() -> None:
    # From 0 to 0.1 the line rises to 0.2: 0.01; from 0.1 to 0.5 it is at 0.4 in the mean: 0.16.
    under = area(np.array([[[0.2, 0.6]]]), FRACTIONS)
    assert under.tolist() == [[pytest.approx([0.17 / 0.5])]]
    found = mean_deletion([TWO])
    assert found.top.area.mean == pytest.approx((0.34 + (0.02 + 0.24) / 0.5) / 2)
    difference = found.top.area.mean - found.random.area.mean
    assert found.area_difference.mean == pytest.approx(difference)


def test_batches_are_averaged_together() -> None:
    def subset(texts: slice) -> DeletionResult:
        def cut(each: OrderEffect) -> OrderEffect:
            return OrderEffect(drops=each.drops[texts], flips=each.flips[texts])

        return DeletionResult(
            fractions=FRACTIONS,
            words=TWO.words[texts],
            removed=TWO.removed[texts],
            labels=TWO.labels[texts],
            probability=TWO.probability[texts],
            top=cut(TWO.top),
            random=cut(TWO.random),
            least=cut(TWO.least),
        )

    assert mean_deletion([subset(slice(1)), subset(slice(1, 2))]) == mean_deletion([TWO])


def test_short_texts_are_skipped_and_counted() -> None:
    short = result([[[0.0, 0.0]]], [[[0.0, 0.0], [0.0, 0.0]]], words=[1])
    found = mean_deletion([short, TWO])
    assert (found.texts, found.skipped_texts) == (2, 1)
    assert dataclasses.replace(found, skipped_texts=0) == mean_deletion([TWO])
    with pytest.raises(RegardError, match="two words or more"):
        mean_deletion([short])


def test_range_of_a_single_text() -> None:
    one = result([[[0.2, 0.6]]], [[[0.0, 0.2], [0.2, 0.6]]], words=[10])
    found = mean_deletion([one])
    assert (found.random.drops[1].low, found.random.drops[1].high) == (0.2, 0.6)
    assert (found.top.drops[1].low, found.top.drops[1].high) == (None, None)
    assert (found.differences[0].low, found.differences[0].high) == (0.0, 0.2)


def test_intervals_agree_with_scipy() -> None:
    generator = np.random.default_rng(3)
    top, random = generator.beta(2, 3, (80, 1, 2)), generator.beta(2, 9, (80, 3, 2))
    found = mean_deletion([result(top.tolist(), random.tolist(), words=[9] * 80)], resamples=20_000)
    for index in range(2):
        sample = top[:, 0, index] - random[:, :, index].mean(axis=1)
        theirs = bootstrap(
            (sample,), np.mean, method="percentile", n_resamples=20_000, rng=generator
        ).confidence_interval
        ours = found.differences[index]
        assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.002)


def test_bootstrap_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = mean_deletion([TWO], resamples=50)
    monkeypatch.setattr("regard.tasks.classification.deletion.BOOTSTRAP_CHUNK", 14)
    assert mean_deletion([TWO], resamples=50) == whole


def test_json_round_trip() -> None:
    votes = [0.0, 0.0, 0.0, 0.0, 3.0, -1.0, 0.0]
    model = LexiconClassifier(votes, [0.0, 1.0, 1.0, 1.0, 9.0, 2.0, 1.0])
    tokens = torch.tensor([[4, 5, 6, 6, 6], [6, 4, 6, 5, 6]])
    found = mean_deletion([deletion_curve(model, TokenInput(tokens, torch.tensor([5, 5])))])
    assert DeletionRecord.from_dict(found.to_dict()) == found
    assert found.differences[3].mean > 0


def test_incompatible_results_raise() -> None:
    other = dataclasses.replace(TWO, fractions=(0.1, 0.4))
    with pytest.raises(RegardError, match="different settings"):
        mean_deletion([TWO, other])
    with pytest.raises(RegardError, match="no deletion results"):
        mean_deletion([])
