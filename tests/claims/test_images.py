"""Claims about the ConvNet: its parameters, and verdicts of synthetic studies."""

from __future__ import annotations

import pytest

from regard.claims import images as topic
from regard.claims.engine import Claim
from regard.claims.experiments.images import OPTIMIZERS
from regard.core.errors import RegardError
from regard.core.records.claim import CurveFigure, Finding

Study = dict[str, dict[int, float]]


def found(claim: Claim, **changes: object) -> Finding:
    finding = claim.run(**changes).finding
    assert finding is not None
    return finding


def test_removing_pooling_keeps_the_count() -> None:
    """80 + 1,168 of convolutions, 576 · 320 + 320, 320 · 120 + 120, 120 · 4 + 4."""
    finding = found(topic.removing_pooling_adds_parameters)
    assert finding.verdict == "fails"
    count = 80 + 1_168 + 184_640 + 38_520 + 484
    assert finding.values == {"pooled": count, "strided": count}


def test_removing_pooling_adds_parameters_for_odd_images() -> None:
    """29 → 14 → 12 → 6 pooled, 29 → 15 → 7 strided: 16 · (49 − 36) · 320 more."""
    finding = found(topic.removing_pooling_adds_parameters, side=29)
    assert finding.verdict == "holds"
    assert finding.values["strided"] == 224_892 + 16 * 13 * 320


def test_missing_padding_explains_the_smaller_count() -> None:
    finding = found(topic.missing_padding_removes_parameters)
    assert finding.verdict == "holds"
    assert list(finding.values.values()) == [224_892, 168_572, 224_892]
    assert "are those of" in finding.reason
    other = found(topic.missing_padding_removes_parameters, with_pooling=1)
    assert other.verdict == "fails"
    assert "The counts 1 and 224,892 are not those of" in other.reason


def test_error_for_tiny_images() -> None:
    with pytest.raises(RegardError, match=r"side=9: .* from 10 to 128"):
        topic.removing_pooling_adds_parameters.run(side=9)


def study(*means: float, names: tuple[str, ...], seeds: int = 5, factor: int = 2) -> Study:
    """Scores that vary with seed and variant by less than a point."""
    return {
        name: {seed: mean + 0.1 * ((seed * (index + factor)) % 7) for seed in range(seeds)}
        for index, (name, mean) in enumerate(zip(names, means, strict=True))
    }


def rates(*means: float, seeds: int = 5) -> Study:
    return study(*means, names=("0.1", "0.01", "0.001"), seeds=seeds)


BEST, TIED, WORSE = rates(10, 90, 50), rates(10, 90, 90), rates(95, 90, 50)


@pytest.mark.parametrize(
    ("studies", "verdict"),
    [
        ((BEST, BEST, BEST), "holds"),
        ((WORSE, BEST, TIED), "holds if"),
        ((WORSE, TIED, TIED), "fails"),
        ((rates(10, 90, 50, seeds=3),) * 3, "fails"),
    ],
)
def test_the_best_learning_rate(
    studies: tuple[Study, ...], verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_optimizer = dict(zip(OPTIMIZERS, studies, strict=True))
    monkeypatch.setattr(topic, "accuracies_by_rate", lambda **_: by_optimizer)
    finding = found(topic.learning_rate_of_one_hundredth_is_best)
    assert finding.verdict == verdict
    if verdict == "holds if":
        assert finding.condition == "the optimizer is SGD with momentum 0.9"
        assert "0.1 is better than 0.01 (-4." in finding.reason
    assert isinstance(finding.figure, CurveFigure)
    assert finding.figure.curves[0].x == (0.1, 0.01, 0.001)
    assert finding.figure.curves[0].low[0] < finding.figure.curves[0].y[0]


def gaps(few: tuple[float, ...], many: tuple[float, ...]) -> dict[int, Study]:
    names = ("500", "5,000", "50,000")
    return {60: study(*few, names=names), 960: study(*many, names=names, factor=3)}


@pytest.mark.parametrize(
    ("few", "many", "more_parameters", "little_data"),
    [
        ((20, 30, 40), (5, 10, 15), "holds", "holds"),
        ((20, 30, 25), (5, 5, 5), "holds if", "holds"),
        ((30, 20, 10), (30, 10, 5), "fails", "holds if"),
        ((5, 5, 5), (20, 20, 20), "fails", "fails"),
    ],
)
def test_overfitting(
    few: tuple[float, ...],
    many: tuple[float, ...],
    more_parameters: str,
    little_data: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(topic, "gaps_by_size", lambda **_: gaps(few, many))
    size = found(topic.more_parameters_overfit)
    assert size.verdict == more_parameters
    if more_parameters == "holds if":
        assert size.condition.startswith(
            "there are 60 examples, from 500 to 5,000 parameters (+10."
        )
        assert "grows in 1 and falls in 1 of 4 cases" in size.reason
    data = found(topic.little_data_overfit)
    assert data.verdict == little_data
    if little_data == "holds if":
        assert data.condition == "the model has 5,000 or 50,000 parameters"
    assert isinstance(data.figure, CurveFigure)
    assert data.figure.curves[0].x == (500.0, 5_000.0, 50_000.0)
