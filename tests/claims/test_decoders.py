"""Claims about decoders: attention styles, costs of score functions, and verdicts of synthetic studies."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from regard.claims import decoders as topic
from regard.claims.engine import Claim
from regard.claims.experiments.decoders import SIMILARITIES, VARIANTS, TrainedDecoder
from regard.core.errors import RegardError
from regard.core.records.claim import Finding

BAHDANAU = topic.bahdanau_attends_before_the_update
LUONG = topic.luong_attends_after_the_update


def found(claim: Claim, **changes: object) -> Finding:
    finding = claim.run(**changes).finding
    assert finding is not None
    return finding


@pytest.mark.parametrize(
    ("claim", "attention_style", "verdict"),
    [
        (BAHDANAU, "bahdanau", "holds"),
        (BAHDANAU, "luong", "fails"),
        (LUONG, "luong", "holds"),
        (LUONG, "bahdanau", "fails"),
    ],
)
def test_each_attention_style_has_its_order(
    claim: Claim, attention_style: str, verdict: str
) -> None:
    assert found(claim, attention_style=attention_style).verdict == verdict


def test_error_for_a_single_step() -> None:
    with pytest.raises(RegardError, match=r"steps=1: .* from 2 to 32"):
        found(BAHDANAU, steps=1)


def test_parameters_of_scores() -> None:
    finding = found(topic.score_function_parameters)
    assert finding.verdict == "holds"
    assert finding.values == {"dot": 0, "general": 24 * 40, "additive": 16 * (24 + 40) + 16}


def test_a_wrong_formula_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic, "score_parameters", lambda *_: [("general", 12, 13)])
    monkeypatch.setattr(topic, "_parameters_figure", lambda: found(LUONG).figure)
    finding = found(topic.score_function_parameters)
    assert finding.verdict == "fails"
    assert "12 counted, formula 13" in finding.counter_example


def test_dot_costs_least() -> None:
    """Dot: 4n²d products and 6 operations a pair; general has 2nd² more."""
    finding = found(topic.dot_score_is_cheapest)
    assert finding.verdict == "holds"
    dot = 4 * 128**2 * 32 + 6 * 128**2
    assert finding.values["dot"] == dot
    assert finding.values["general"] == dot + 2 * 128 * 32**2


def test_another_order_of_costs_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = {"dot": [3] * 5, "general": [2] * 5, "additive": [4] * 5}
    monkeypatch.setattr(topic, "score_flops", lambda score, *_sizes, **_options: costs[score])
    assert found(topic.dot_score_is_cheapest).verdict == "fails"


def test_additive_costs_twice_as_much() -> None:
    """A tanh for every pair and hidden unit, n²d, and an exp for every pair in the softmax."""
    finding = found(topic.additive_costs_the_same_as_general)
    assert finding.verdict == "fails"
    assert finding.values["baseline_transcendental_ops"] == 64**2
    transcendental_ops = finding.values["transcendental_ops"]
    assert isinstance(transcendental_ops, int)
    assert transcendental_ops >= 64**2 * 32 + 64**2
    assert "1.99 times" in finding.counter_example


def test_additive_costs_the_same_as_itself() -> None:
    assert found(topic.additive_costs_the_same_as_general, baseline="additive").verdict == "holds"


def test_range_of_tanh() -> None:
    wrong, right = found(topic.tanh_maps_to_zero_one), found(topic.tanh_maps_to_minus_one_one)
    assert (wrong.verdict, right.verdict) == ("fails", "holds")
    assert "tanh(-20) = -1.0000" in wrong.counter_example
    assert found(topic.tanh_maps_to_zero_one, x_min=0.0).verdict == "holds"
    assert topic.range_finding(-1.0, 1.0, low=-0.5, high=0.5).verdict == "fails"


def test_a_broken_logistic_function_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    right = torch.sigmoid
    for broken in (lambda x: right(2 * x), lambda x: right(x) + 1e-3):
        monkeypatch.setattr(torch, "sigmoid", broken)
        finding = found(topic.tanh_maps_to_minus_one_one)
        assert finding.verdict == "fails"
        assert "1/(1 + e⁻ˣ) differs from" in finding.counter_example


def test_tied_decoders_have_no_ranking(monkeypatch: pytest.MonkeyPatch) -> None:
    tied = tuple(
        TrainedDecoder(
            variant="dot",
            seed=seed,
            phone_error_rate=1.0,
            similarities=dict.fromkeys(SIMILARITIES, 0.5),
        )
        for seed in range(3)
    )
    monkeypatch.setattr(topic, "trained_decoders", lambda **_: tied)
    assert found(topic.similarities_rank_decoders_alike).verdict == "fails"


def synthetic_decoders(rates: dict[str, float], *, seeds: int = 5) -> tuple[TrainedDecoder, ...]:
    """Error rates that vary with seed and variant; similarities decrease with them."""
    return tuple(
        TrainedDecoder(
            variant=variant,
            seed=seed,
            phone_error_rate=rate + 0.3 * seed + 0.05 * ((seed * (index + 2)) % 7),
            similarities={
                name: 1 - (rate + seed) / (100 + 50 * number)
                for number, name in enumerate(SIMILARITIES)
            },
        )
        for seed in range(seeds)
        for index, (variant, rate) in enumerate(rates.items())
    )


@pytest.mark.parametrize(
    ("rates", "attention", "location"),
    [
        ((60.0, 50.0, 49.0, 48.0, 40.0), "holds", "holds"),
        ((60.0, 50.0, 40.0, 48.0, 45.0), "holds", "fails"),
        ((48.5, 50.0, 40.0, 48.5, 60.0), "holds if", "fails"),
        ((20.0, 50.0, 40.0, 48.0, 45.0), "fails", "fails"),
        ((60.0, 50.0, 50.0, 50.0, 50.0), "holds", "fails"),
        ((60.0, 50.0, 50.0, 40.0, 40.0), "holds", "holds if"),
    ],
)
def test_verdicts_follow_the_study(
    rates: tuple[float, ...], attention: str, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    variants = dict(zip(VARIANTS, rates, strict=True))
    monkeypatch.setattr(topic, "trained_decoders", lambda **_: synthetic_decoders(variants))
    assert found(topic.attention_beats_the_lstm_decoder).verdict == attention
    best = found(topic.location_score_is_best)
    assert best.verdict == location
    assert "dot is" in best.reason or "dot vs location" in best.reason
    assert " [" in best.reason


def test_too_few_seeds_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    variants = dict(zip(VARIANTS, (60.0, 50.0, 40.0, 30.0, 20.0), strict=True))
    monkeypatch.setattr(
        topic, "trained_decoders", lambda **_: synthetic_decoders(variants, seeds=3)
    )
    for claim in (topic.location_score_is_best, topic.attention_beats_the_lstm_decoder):
        finding = found(claim, seeds=3)
        assert finding.verdict == "fails"
        assert finding.counter_example.startswith("Not shown: ")


def test_rank_correlation_equals_scipy() -> None:
    first, second = [3.0, 1.0, 2.0, 2.0, 5.0], [2.0, 1.0, 4.0, 3.0, 3.0]
    right = spearmanr(first, second).statistic
    assert float(topic.spearman(np.array(first), np.array(second))) == pytest.approx(right)
    both = topic.spearman(np.array([first, first]), np.array([second, first]))
    assert both == pytest.approx([right, 1.0])


def test_similarities_that_agree_and_disagree(monkeypatch: pytest.MonkeyPatch) -> None:
    variants = {"none": 60.0, "dot": 50.0, "general": 40.0}
    decoders = synthetic_decoders(variants)
    monkeypatch.setattr(topic, "trained_decoders", lambda **_: decoders)
    agreed = found(topic.similarities_rank_decoders_alike)
    assert agreed.verdict == "holds"
    assert agreed.values["jaccard and cosine"] == pytest.approx(1.0)
    for decoder in decoders:
        decoder.similarities["cosine"] *= -1
    assert found(topic.similarities_rank_decoders_alike).verdict == "fails"
