"""Claims about decoders: wirings, costs of scores, and verdicts over made-up studies."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from regard.claims import decoders as topic
from regard.claims.engine import Claim
from regard.claims.experiments.decoders import ARMS, SIMILARITIES, TrainedDecoder
from regard.core.errors import RegardError
from regard.core.records.claim import Finding

BEFORE = topic.before_the_update_the_last_state_reads
AFTER = topic.after_the_update_the_new_state_reads


def found(claim: Claim, **changes: object) -> Finding:
    finding = claim.run(**changes).finding
    assert finding is not None
    return finding


@pytest.mark.parametrize(
    ("claim", "wiring", "verdict"),
    [
        (BEFORE, "before", "holds"),
        (BEFORE, "after", "fails"),
        (AFTER, "after", "holds"),
        (AFTER, "before", "fails"),
    ],
)
def test_every_wiring_has_its_order(claim: Claim, wiring: str, verdict: str) -> None:
    assert found(claim, wiring=wiring).verdict == verdict


def test_a_step_alone_shows_no_order() -> None:
    with pytest.raises(RegardError, match=r"steps=1: .* it must be from 2 to 32"):
        found(BEFORE, steps=1)


def test_parameters_of_scores() -> None:
    finding = found(topic.parameters_of_scores)
    assert finding.verdict == "holds"
    assert finding.figures == {"dot": 0, "general": 24 * 40, "additive": 16 * (24 + 40) + 16}


def test_a_wrong_formula_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic, "score_parameters", lambda *_: [("general", 12, 13)])
    monkeypatch.setattr(topic, "_parameters_picture", lambda: found(AFTER).picture)
    finding = found(topic.parameters_of_scores)
    assert finding.verdict == "fails"
    assert "12 against 13" in finding.counter_example


def test_dot_costs_least() -> None:
    """Dot: 4n²d products and 6 operations a pair; general has 2nd² more."""
    finding = found(topic.dot_costs_least)
    assert finding.verdict == "holds"
    dot = 4 * 128**2 * 32 + 6 * 128**2
    assert finding.figures["dot"] == dot
    assert finding.figures["general"] == dot + 2 * 128 * 32**2


def test_another_order_of_costs_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = {"dot": [3] * 5, "general": [2] * 5, "additive": [4] * 5}
    monkeypatch.setattr(topic, "score_operations", lambda score, *_sizes, **_words: costs[score])
    assert found(topic.dot_costs_least).verdict == "fails"


def test_additive_costs_twice_as_much() -> None:
    """A function for every pair and hidden unit, n²d, and one for every pair in the softmax."""
    finding = found(topic.additive_costs_what_general_costs)
    assert finding.verdict == "fails"
    assert finding.figures["functions_of_rival"] == 64**2
    functions = finding.figures["functions"]
    assert isinstance(functions, int)
    assert functions >= 64**2 * 32 + 64**2
    assert "1.99 times" in finding.counter_example


def test_general_and_dot_do_cost_about_the_same() -> None:
    assert found(topic.additive_costs_what_general_costs, rival="additive").verdict == "holds"


def test_tanh() -> None:
    wrong, right = found(topic.tanh_maps_to_zero_one), found(topic.tanh_maps_to_minus_one_one)
    assert (wrong.verdict, right.verdict) == ("fails", "holds")
    assert "tanh(-20) = -1.0000" in wrong.counter_example
    assert found(topic.tanh_maps_to_zero_one, least=0.0).verdict == "holds"
    assert topic.range_finding(-1.0, 1.0, low=-0.5, high=0.5).verdict == "fails"


def test_the_logistic_half_is_decided_too(monkeypatch: pytest.MonkeyPatch) -> None:
    right = torch.sigmoid
    for broken in (lambda x: right(2 * x), lambda x: right(x) + 1e-3):
        monkeypatch.setattr(torch, "sigmoid", broken)
        finding = found(topic.tanh_maps_to_minus_one_one)
        assert finding.verdict == "fails"
        assert "1/(1 + e⁻ˣ) differs from" in finding.counter_example


def test_decoders_that_all_tie_have_no_order(monkeypatch: pytest.MonkeyPatch) -> None:
    alike = tuple(
        TrainedDecoder(
            variant="dot",
            seed=seed,
            phone_error_rate=1.0,
            similarities=dict.fromkeys(SIMILARITIES, 0.5),
        )
        for seed in range(3)
    )
    monkeypatch.setattr(topic, "trained_decoders", lambda **_: alike)
    assert found(topic.similarities_rank_decoders_alike).verdict == "fails"


def made_up(rates: dict[str, float], *, seeds: int = 5) -> tuple[TrainedDecoder, ...]:
    """Rates that vary a little with the seed, variants not quite alike; similarities fall with them."""
    return tuple(
        TrainedDecoder(
            variant=variant,
            seed=seed,
            phone_error_rate=rate + 0.3 * seed + 0.05 * ((seed * (place + 2)) % 7),
            similarities={
                name: 1 - (rate + seed) / (100 + 50 * number)
                for number, name in enumerate(SIMILARITIES)
            },
        )
        for seed in range(seeds)
        for place, (variant, rate) in enumerate(rates.items())
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
    variants = dict(zip(ARMS, rates, strict=True))
    monkeypatch.setattr(topic, "trained_decoders", lambda **_: made_up(variants))
    assert found(topic.attention_beats_the_lstm_decoder).verdict == attention
    best = found(topic.location_scores_are_best)
    assert best.verdict == location
    assert "dot is" in best.because or "dot and location" in best.because
    assert " [" in best.because


def test_with_few_seeds_nothing_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    variants = dict(zip(ARMS, (60.0, 50.0, 40.0, 30.0, 20.0), strict=True))
    monkeypatch.setattr(topic, "trained_decoders", lambda **_: made_up(variants, seeds=3))
    for claim in (topic.location_scores_are_best, topic.attention_beats_the_lstm_decoder):
        finding = found(claim, seeds=3)
        assert finding.verdict == "fails"
        assert finding.counter_example.startswith("It is not shown: ")


def test_the_correlation_of_ranks_is_scipys() -> None:
    first, second = [3.0, 1.0, 2.0, 2.0, 5.0], [2.0, 1.0, 4.0, 3.0, 3.0]
    right = spearmanr(first, second).statistic
    assert float(topic.spearman(np.array(first), np.array(second))) == pytest.approx(right)
    both = topic.spearman(np.array([first, first]), np.array([second, first]))
    assert both == pytest.approx([right, 1.0])


def test_similarities_that_agree_and_one_that_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    variants = {"none": 60.0, "dot": 50.0, "general": 40.0}
    decoders = made_up(variants)
    monkeypatch.setattr(topic, "trained_decoders", lambda **_: decoders)
    agreed = found(topic.similarities_rank_decoders_alike)
    assert agreed.verdict == "holds"
    assert agreed.figures["jaccard and cosine"] == pytest.approx(1.0)
    for decoder in decoders:
        decoder.similarities["cosine"] *= -1
    assert found(topic.similarities_rank_decoders_alike).verdict == "fails"
