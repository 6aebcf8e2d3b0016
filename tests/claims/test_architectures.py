"""Claims about architectures: hand-checked counts, and verdicts that change with the settings."""

from __future__ import annotations

import pytest

from regard.claims import architectures as topic
from regard.claims.engine import Claim
from regard.core.errors import RegardError
from regard.core.records.claim import Finding
from regard.runs.plan import PROCESS_BYTES


def found(claim: Claim, **changes: object) -> Finding:
    finding = claim.run(**changes).finding
    assert finding is not None
    return finding


def test_parameters_of_transformers() -> None:
    finding = found(topic.transformer_parameter_count)
    assert finding.verdict == "holds"
    assert finding.values["base"] == 63_082_496
    assert finding.values["big"] == 214_245_376


def test_a_formula_without_norms_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = topic.parameter_formula

    def without_norms(sizes: topic.Sizes) -> int:
        return whole(sizes) - 10 * sizes.num_layers * sizes.model_dim

    monkeypatch.setattr(topic, "parameter_formula", without_norms)
    finding = found(topic.transformer_parameter_count)
    assert finding.verdict == "fails"
    assert "exact for 0 of 3 models" in finding.reason


def test_parameters_of_one_block() -> None:
    """d = 2, f = 3, no tokens: attentions 3 · 4 · 6, feed-forwards 2 · (12 + 5), norms 5 · 4."""
    assert topic.parameter_formula(topic.Sizes(0, 2, 1, 1, 3)) == 72 + 34 + 20


def test_65_million_parameters_need_a_larger_vocabulary() -> None:
    finding = found(topic.base_transformer_has_65_million_parameters)
    assert finding.verdict == "holds if"
    assert finding.condition == "the vocabulary has from 39,769 to 41,721 tokens"
    for vocabulary, million in ((39_768, 64), (39_769, 65), (41_721, 65), (41_722, 66)):
        count = topic.parameter_formula(topic.BASE._replace(vocabulary=vocabulary))
        assert int(count / 1e6 + 0.5) == million
    assert (
        found(topic.base_transformer_has_65_million_parameters, vocabulary=40_000).verdict
        == "holds"
    )


def test_bert_base() -> None:
    finding = found(topic.bert_base_parameter_count)
    assert finding.verdict == "holds"
    assert finding.values == {"counted": 109_482_240, "formula": 109_482_240}
    assert found(topic.bert_base_parameter_count, vocabulary=30_000).verdict == "fails"


STEP = topic.StepProfile(
    bytes=1.5e9, flops_per_second=1e10, flops_per_pair=1e10 * topic.SECONDS_PER_DAY / 1e6
)


def test_days_are_flops_over_speed() -> None:
    """A million pairs a day."""
    assert STEP.days(2e6) == pytest.approx(2.0)


def test_training_is_possible_within_days_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """870,000 pairs at a million a day."""
    monkeypatch.setattr(topic, "profile_step", lambda **_: STEP)
    monkeypatch.setattr(topic, "machine_bytes", lambda: int(8e9))
    finding = found(topic.base_transformer_is_untrainable_on_one_machine)
    assert finding.verdict == "fails"
    assert finding.values["days"] == pytest.approx(0.87)
    assert "0.9 days, 1.40 GiB of 7.45 GiB" in finding.counter_example
    assert "with 4 pairs of 15 tokens" in finding.reason
    assert "optimizer updates not included" in finding.reason


@pytest.mark.parametrize(("max_days", "memory"), [(0.5, 8e9), (60.0, 1e9)])
def test_untrainable_with_too_little_time_or_memory(
    max_days: float, memory: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic, "profile_step", lambda **_: STEP)
    monkeypatch.setattr(topic, "machine_bytes", lambda: int(memory))
    finding = found(topic.base_transformer_is_untrainable_on_one_machine, max_days=max_days)
    assert finding.verdict == "holds"


def test_profiled_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a small model: three copies of its parameters, and a peak that includes the gradients."""
    monkeypatch.setattr(topic, "BASE", topic.Sizes(topic.BASE_VOCABULARY, 8, 2, 1, 16))
    step = topic.profile_step(batch_size=2, length=5)
    weights = 4 * topic.parameter_formula(topic.BASE)
    assert step.bytes > PROCESS_BYTES + 4 * weights
    assert step.flops_per_second > 0
    with pytest.raises(RegardError, match=r"length=0: .* from 1 to 128"):
        topic.base_transformer_is_untrainable_on_one_machine.run(length=0)


def test_another_expected_count_of_bert_fails() -> None:
    assert found(topic.bert_base_parameter_count, expected=109_482_241).verdict == "fails"
