"""Claims about limits of Transformers: verdicts, hand-checked numbers, and deliberately wrong variants."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from regard.claims import limits, list_claims
from regard.claims.engine import Claim
from regard.claims.experiments import limits as experiments
from regard.claims.experiments.limits import largest_change, slope, untrained
from regard.claims.limits import (
    bracket_accuracy_falls_with_depth,
    bracket_accuracy_falls_with_length,
    constructed_transformer_solves_parity,
    linear_attention_recall_is_bounded,
    log_length_scaling_keeps_weight,
    lstm_generalizes_parity,
    one_symbol_changes_output_by_one_over_n,
    parity_margin_shrinks_with_length,
    parity_needs_growing_depth,
    transformer_does_not_generalize_parity,
)
from regard.core.errors import RegardError
from regard.core.records.claim import CurveFigure, Finding
from regard.data.splits import EvalSplit


def found(claim: Claim, **changes: object) -> Finding:
    finding = claim.run(**changes).finding
    assert finding is not None
    assert isinstance(finding.figure, CurveFigure)
    assert all(len(curve.x) == len(curve.y) > 0 for curve in finding.figure.curves)
    return finding


def value_of(finding: Finding, name: str) -> float:
    value = finding.values[name]
    assert isinstance(value, int | float)
    return value


def test_known_false_and_trained_claims() -> None:
    known = list_claims("limits")
    assert [claim.name for claim in known if claim.known_false] == ["parity-needs-growing-depth"]
    assert [claim.name for claim in known if claim.trained] == [
        "lstm-generalizes-parity",
        "transformer-does-not-generalize-parity",
        "bracket-accuracy-falls-with-length",
        "bracket-accuracy-falls-with-depth",
    ]


def test_sensitivity_of_attention_and_recurrence() -> None:
    assert found(one_symbol_changes_output_by_one_over_n, longest=128).verdict == "holds"
    lstm = untrained("bilstm", seed=0, model_dim=16, hidden_dim=16, pooling="last", dropout=0.0)
    lengths = [16, 32, 64, 128]
    assert slope(lengths, [largest_change(lstm, length=n) for n in lengths]) > -0.3


def test_parity_at_every_length() -> None:
    finding = found(constructed_transformer_solves_parity, longest=120)
    assert finding.verdict == "holds"
    assert finding.values == {"wrong": 0, "lengths": 120}
    wrong = found(parity_needs_growing_depth, longest=120)
    assert wrong.verdict == "fails"
    assert "correct at every length up to 120" in wrong.counter_example


def test_wrong_head_preferences_fail() -> None:
    for preference in (-2.0, 0.0):
        finding = found(constructed_transformer_solves_parity, longest=6, preference=preference)
        assert finding.verdict == "fails"
        assert "A string of length 1 is misclassified" in finding.counter_example
        not_refuted = found(parity_needs_growing_depth, longest=6, preference=preference)
        assert not_refuted.verdict == "holds"


def test_margin_shrinks_without_layer_norm() -> None:
    finding = found(parity_margin_shrinks_with_length, longest=400)
    assert finding.verdict == "holds"
    assert value_of(finding, "exponent") == pytest.approx(-2.0, abs=0.1)
    assert value_of(finding, "normed") == pytest.approx(2.0)
    assert (
        found(parity_margin_shrinks_with_length, longest=400, norm_epsilon=1e-5).verdict == "fails"
    )


def test_log_length_scaling() -> None:
    finding = found(log_length_scaling_keeps_weight, advantage=2.0, longest=1024)
    assert finding.verdict == "holds"
    assert value_of(finding, "plain") == pytest.approx(math.exp(2) / (math.exp(2) + 1023))
    assert value_of(finding, "min with log n") == pytest.approx(16 / (16 + 3))  # at n = 4
    assert found(log_length_scaling_keeps_weight, advantage=0.5).verdict == "fails"


def test_associative_recall() -> None:
    finding = found(linear_attention_recall_is_bounded, key_dim=8, max_pairs=128)
    assert finding.verdict == "holds"
    assert value_of(finding, "softmax") == 1.0
    # 8, 1 + 8 and 1 + 8 + 8 · 9 / 2 features, tested with twice as many pairs.
    for tested in ("from 16 pairs", "from 18 pairs", "from 90 pairs"):
        assert tested in finding.reason
    assert value_of(finding, "Taylor, 3 terms") < 0.99
    # With as many pairs as features, some kernels recall all.
    assert (
        found(linear_attention_recall_is_bounded, key_dim=16, max_pairs=256, times=1.0).verdict
        == "fails"
    )
    # In two dimensions some of 64 keys are too close together even for softmax.
    crowded = found(linear_attention_recall_is_bounded, key_dim=2, max_pairs=64)
    assert crowded.verdict == "fails"
    assert value_of(crowded, "softmax") < 1.0
    with pytest.raises(RegardError, match=r"max_pairs=64: .* 90 pairs"):
        linear_attention_recall_is_bounded.run(key_dim=8, max_pairs=64)


class Perfect:
    """A model that is always correct."""

    def accuracy_at(self, length: int) -> float:
        return 1.0


def test_perfect_and_untrained_lstm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    not_trained = found(lstm_generalizes_parity, longest=4, seeds=1, steps=1)
    assert not_trained.verdict == "fails"
    assert "at 16" in not_trained.counter_example
    monkeypatch.setattr(limits, "parity_model", lambda *_, **__: Perfect())
    finding = found(lstm_generalizes_parity, longest=4, seeds=2, steps=1)
    assert finding.verdict == "holds"
    assert finding.values == {"perfect seeds": 2, "min accuracy": 1.0}


def test_untrained_transformer_fails() -> None:
    finding = found(transformer_does_not_generalize_parity, longest=4, seeds=1, steps=1)
    assert finding.verdict == "fails"
    assert value_of(finding, "at training length") < 0.99
    assert isinstance(finding.figure, CurveFigure)
    assert [curve.label for curve in finding.figure.curves] == [
        "softmax Transformer",
        "linear Transformer (elu + 1)",
        "LSTM",
    ]
    assert finding.figure.marks == ((4.0, "training limit"),)


def test_untrained_models_on_brackets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiments, "BRACKET_STRINGS", 500)
    monkeypatch.setattr(experiments, "OVERSAMPLING", 4)
    monkeypatch.setattr(limits, "MODEL_KINDS", (experiments.SOFTMAX, experiments.LSTM))
    by_length = found(bracket_accuracy_falls_with_length, longest=10, seeds=1, steps=1)
    assert by_length.verdict == "fails"  # the task was not learned
    assert isinstance(by_length.figure, CurveFigure)
    assert by_length.figure.curves[0].x == (2.0, 4.0, 8.0, 10.0, 12.0, 16.0, 20.0, 30.0, 40.0)
    by_depth = found(bracket_accuracy_falls_with_depth, longest=12, seeds=1, steps=1)
    assert by_depth.verdict == "fails"
    assert isinstance(by_depth.figure, CurveFigure)
    assert by_depth.figure.curves[0].x == (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)


class SaysYes:
    """A model that classifies every string as balanced."""

    def accuracy(self, split: EvalSplit) -> float:
        return sum(reference == "yes" for reference in split.references) / len(split)


def test_constant_classifier_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "bracket_model", lambda *_, **__: SaysYes())
    finding = found(bracket_accuracy_falls_with_depth, longest=12, seeds=1, steps=1)
    assert finding.verdict == "fails"
    assert value_of(finding, "at training depth") == pytest.approx(0.5, abs=0.01)
    assert value_of(finding, "min beyond") == pytest.approx(0.5, abs=0.01)


def test_errors_for_short_training_lengths() -> None:
    with pytest.raises(RegardError, match=r"longest=3: .* from 4 to 256"):
        lstm_generalizes_parity.run(longest=3)
    with pytest.raises(RegardError, match=r"longest=8: .* from 10 to 256"):
        bracket_accuracy_falls_with_depth.run(longest=8)


def test_global_random_state_is_unchanged() -> None:
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    untrained("text_encoder", seed=0, model_dim=8, num_heads=2, num_layers=1)
    assert torch.equal(torch.rand(1), expected)
    assert nn.Linear(2, 2).weight.dtype == torch.float32
