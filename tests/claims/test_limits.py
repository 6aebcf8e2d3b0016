"""What a Transformer of fixed size is sure of: verdicts, broken variants, and figures by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from regard.claims import claims_of, limits
from regard.claims.engine import Claim
from regard.claims.experiments import limits as limit_pupils
from regard.claims.experiments.limits import largest_change, slope, untrained
from regard.claims.limits import (
    brackets_by_depth,
    brackets_by_length,
    linear_kernels_forget_pairs,
    log_length_scaling_keeps_certainty,
    one_symbol_moves_the_answer_by_one_nth,
    parity_by_hand_at_every_length,
    parity_by_hand_loses_certainty,
    parity_needs_more_layers_as_strings_grow,
    recurrent_layer_keeps_parity,
    transformer_loses_parity,
)
from regard.core.errors import RegardError
from regard.core.records.claim import CurvePicture, Finding
from regard.data.splits import HeldOut


def found(claim: Claim, **changes: object) -> Finding:
    finding = claim.run(**changes).finding
    assert finding is not None
    assert isinstance(finding.picture, CurvePicture)
    assert all(len(curve.x) == len(curve.y) > 0 for curve in finding.picture.curves)
    return finding


def figure(finding: Finding, name: str) -> float:
    value = finding.figures[name]
    assert isinstance(value, int | float)
    return value


def test_the_wrong_one_is_marked_and_the_trained_ones_are() -> None:
    known = claims_of("limits")
    assert [claim.name for claim in known if claim.marked_wrong] == [
        "parity-needs-more-layers-as-strings-grow"
    ]
    assert [claim.name for claim in known if claim.trained] == [
        "recurrent-layer-keeps-parity",
        "transformer-loses-parity",
        "brackets-by-length",
        "brackets-by-depth",
    ]


def test_one_symbol_counts_for_one_nth_in_attention_and_wholly_in_a_recurrent_layer() -> None:
    assert found(one_symbol_moves_the_answer_by_one_nth, longest=128).verdict == "holds"
    lstm = untrained(
        "recurrent_text", seed=0, model_dim=16, hidden_dim=16, take="last", dropout=0.0
    )
    lengths = [16, 32, 64, 128]
    assert slope(lengths, [largest_change(lstm, length=n) for n in lengths]) > -0.3


def test_the_machine_for_parity_is_right_at_every_length() -> None:
    finding = found(parity_by_hand_at_every_length, longest=120)
    assert finding.verdict == "holds"
    assert finding.figures == {"wrong": 0, "lengths": 120}
    wrong = found(parity_needs_more_layers_as_strings_grow, longest=120)
    assert wrong.verdict == "fails"
    assert "right at every length to 120" in wrong.counter_example


def test_heads_that_prefer_the_wrong_places_or_none_are_found_out() -> None:
    for preference in (-2.0, 0.0):
        finding = found(parity_by_hand_at_every_length, longest=6, preference=preference)
        assert finding.verdict == "fails"
        assert "A string of length 1 is wrong" in finding.counter_example
        unrefuted = found(
            parity_needs_more_layers_as_strings_grow, longest=6, preference=preference
        )
        assert unrefuted.verdict == "holds"


def test_the_machine_gives_up_certainty_unless_its_scores_are_normed_without_epsilon() -> None:
    finding = found(parity_by_hand_loses_certainty, longest=400)
    assert finding.verdict == "holds"
    assert figure(finding, "slope") == pytest.approx(-2.0, abs=0.1)
    assert figure(finding, "normed") == pytest.approx(2.0)
    assert found(parity_by_hand_loses_certainty, longest=400, norm_epsilon=1e-5).verdict == "fails"


def test_scores_times_the_logarithm_of_the_length_keep_the_weight() -> None:
    finding = found(log_length_scaling_keeps_certainty, advantage=2.0, longest=1024)
    assert finding.verdict == "holds"
    assert figure(finding, "plain") == pytest.approx(math.exp(2) / (math.exp(2) + 1023))
    assert figure(finding, "least with log n") == pytest.approx(16 / (16 + 3))  # at n = 4
    assert found(log_length_scaling_keeps_certainty, advantage=0.5).verdict == "fails"


def test_softmax_keeps_every_pair_and_kernels_lose_some_of_twice_their_features() -> None:
    finding = found(linear_kernels_forget_pairs, width=8, most=128)
    assert finding.verdict == "holds"
    assert figure(finding, "softmax") == 1.0
    # 8, 1 + 8 and 1 + 8 + 8 · 9 / 2 features, each asked for twice as many.
    for asked in ("from 16 pairs", "from 18 pairs", "from 90 pairs"):
        assert asked in finding.because
    assert figure(finding, "Taylor, 3 terms") < 0.99
    # As many pairs as features are more than some kernels lose.
    assert found(linear_kernels_forget_pairs, width=16, most=256, times=1.0).verdict == "fails"
    # In two dimensions some of 64 keys are too close together even for softmax.
    crowded = found(linear_kernels_forget_pairs, width=2, most=64)
    assert crowded.verdict == "fails"
    assert figure(crowded, "softmax") < 1.0
    with pytest.raises(RegardError, match="most=64: Taylor, 3 terms is asked for 90 pairs"):
        linear_kernels_forget_pairs.run(width=8, most=64)


class Perfect:
    """A pupil that is always right."""

    def accuracy_at(self, length: int) -> float:
        return 1.0


def test_an_lstm_that_is_always_right_holds_and_one_without_lessons_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    untaught = found(recurrent_layer_keeps_parity, longest=4, seeds=1, steps=1)
    assert untaught.verdict == "fails"
    assert "at 16" in untaught.counter_example
    monkeypatch.setattr(limits, "parity_pupil", lambda *_, **__: Perfect())
    finding = found(recurrent_layer_keeps_parity, longest=4, seeds=2, steps=1)
    assert finding.verdict == "holds"
    assert finding.figures == {"seeds that got there": 2, "least": 1.0}


def test_a_transformer_without_lessons_is_not_said_to_have_lost_anything() -> None:
    finding = found(transformer_loses_parity, longest=4, seeds=1, steps=1)
    assert finding.verdict == "fails"
    assert figure(finding, "at the training length") < 0.99
    assert isinstance(finding.picture, CurvePicture)
    assert [curve.label for curve in finding.picture.curves] == [
        "softmax Transformer",
        "linear Transformer (elu + 1)",
        "LSTM",
    ]
    assert finding.picture.marks == ((4.0, "taught to here"),)


def test_brackets_are_asked_by_length_and_by_depth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limit_pupils, "BRACKET_STRINGS", 500)
    monkeypatch.setattr(limit_pupils, "NESTED_TRIED", 4)
    by_length = found(brackets_by_length, longest=10, seeds=1, steps=1)
    assert by_length.verdict == "fails"  # what was never known is not lost
    assert isinstance(by_length.picture, CurvePicture)
    assert by_length.picture.curves[0].x == (2.0, 4.0, 8.0, 10.0, 12.0, 16.0, 20.0, 30.0, 40.0)
    by_depth = found(brackets_by_depth, longest=12, seeds=1, steps=1)
    assert by_depth.verdict == "fails"
    assert isinstance(by_depth.picture, CurvePicture)
    assert by_depth.picture.curves[0].x == (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)


class SaysYes:
    """A pupil to which every string is balanced."""

    def accuracy(self, part: HeldOut) -> float:
        return sum(wanted == ("yes",) for wanted in part.answers) / len(part)


def test_one_that_always_says_yes_is_not_said_to_have_lost_anything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "bracket_pupil", lambda *_, **__: SaysYes())
    finding = found(brackets_by_depth, longest=12, seeds=1, steps=1)
    assert finding.verdict == "fails"
    assert figure(finding, "at the training depth") == pytest.approx(0.5, abs=0.01)
    assert figure(finding, "least beyond it") == pytest.approx(0.5, abs=0.01)


def test_lessons_that_are_too_short_are_refused() -> None:
    with pytest.raises(RegardError, match=r"longest=3: .* it must be from 4 to 256"):
        recurrent_layer_keeps_parity.run(longest=3)
    with pytest.raises(RegardError, match=r"longest=8: .* it must be from 10 to 256"):
        brackets_by_depth.run(longest=8)


def test_torch_is_left_as_it_was() -> None:
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    untrained("text_encoder", seed=0, model_dim=8, num_heads=2, num_layers=1)
    assert torch.equal(torch.rand(1), expected)
    assert nn.Linear(2, 2).weight.dtype == torch.float32
