"""Claims about autoencoders: comparison with PCA, and verdicts that change with the settings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from regard.claims import autoencoders as topic, list_claims
from regard.core.records.claim import Finding
from regard.models.autoencoders.linear import closed_form

VERDICTS = {
    "encoder-is-the-decoder-transposed": "holds",
    "codes-span-the-principal-subspace": "holds",
    "singular-values-are-shrunk": "holds",
    "singular-values-are-one": "fails",
    "encoder-has-full-rank": "holds if",
    "recursive-autoencoder-parameter-count": "holds",
}


def found(claim: Any, **changes: Any) -> Finding:
    finding: Finding | None = claim.run(**changes).finding
    assert finding is not None
    return finding


def test_every_verdict() -> None:
    claims = list_claims("autoencoders")
    assert {claim.name: found(claim).verdict for claim in claims} == VERDICTS
    assert [claim.name for claim in claims if claim.known_false] == ["singular-values-are-one"]


@pytest.mark.parametrize(
    ("claim", "changes", "verdict"),
    [
        (topic.encoder_is_the_decoder_transposed, {"max_iter": 1}, "fails"),
        (topic.codes_span_the_principal_subspace, {"max_iter": 1}, "fails"),
        (topic.codes_span_the_principal_subspace, {"penalty": 2.0}, "holds if"),
        (topic.singular_values_are_one, {"penalty": 0.0}, "holds"),
        (topic.encoder_has_full_rank, {"components": 2, "largest_penalty": 0.5}, "holds"),
    ],
)
def test_settings_change_the_verdict(claim: Any, changes: Any, verdict: str) -> None:
    assert found(claim, **changes).verdict == verdict


def test_wrong_formulas_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic, "shrunk", lambda s, penalty: np.maximum(0, 1 - penalty / s))
    assert found(topic.singular_values_are_shrunk).verdict == "fails"
    monkeypatch.setattr(topic, "rank_at", lambda components, **_: components)
    full_rank = found(topic.encoder_has_full_rank)
    assert full_rank.verdict == "fails"
    assert full_rank.reason.startswith("At 3 of 11 penalties")  # 0, 0.25 and 0.5 are below s₅
    monkeypatch.setattr(topic, "formula_count", lambda **_: 7)
    assert found(topic.recursive_autoencoder_parameter_count).verdict == "fails"


@pytest.mark.parametrize("seed", [7, 21])
def test_penalties_near_an_eigenvalue_are_skipped(seed: int) -> None:
    """With seed 7, s₅ is 0.500, one of the penalties: descent would not converge there."""
    finding = found(topic.encoder_has_full_rank, seed=seed)
    assert finding.verdict == "holds if"
    assert topic.away_from(np.array([0.5]), [0.49, 0.5, 0.51, 0.6]) == [0.6]


def test_the_descent_agrees_with_the_closed_form() -> None:
    result = topic.run_descent(4, penalty=0.3, seed=3)
    eigenvalues, axes = result.eigenvalues, result.axes
    formula = closed_form(np.sqrt(eigenvalues)[:, None] * axes.T, n_components=4, penalty=0.3)
    np.testing.assert_allclose(
        result.factors.decoder @ result.factors.encoder,
        formula.decoder @ formula.encoder,
        atol=1e-7,
    )


def test_principal_angles() -> None:
    axes = np.eye(3)[:, :2]
    assert topic.largest_angle_sine(np.array([[2.0, 1.0, 0.0], [0.0, 1.0, 0.0]]), axes) < 1e-12
    tilted = np.array([[1.0, 0.0, 0.0], [0.0, 0.6, 0.8]])
    assert topic.largest_angle_sine(tilted, axes) == pytest.approx(0.8)
    assert topic.largest_angle_sine(np.array([[1.0, 0.0, 0.0], [2.0, 0.0, 0.0]]), axes) == 1.0


def test_parameter_counts() -> None:
    # D_x = 2, D_p = 3, C = 1: 4·3 + 3 to encode, 3·4 + 4 to decode, 3 + 1 to classify.
    assert topic.layers_count(word_dim=2, phrase_dim=3, classes=1) == 15 + 16 + 4
    assert topic.model_count(word_dim=2, classes=1) == 4 * 4 + 2 + 4 + 2 + 1
