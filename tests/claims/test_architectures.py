"""Claims about architectures: counts by hand, and verdicts that change with what is asked."""

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
    finding = found(topic.transformer_parameters_follow)
    assert finding.verdict == "holds"
    assert finding.figures["base"] == 63_082_496
    assert finding.figures["big"] == 214_245_376


def test_a_formula_that_forgets_the_norms_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = topic.by_formula

    def without_norms(sizes: topic.Sizes) -> int:
        return whole(sizes) - 10 * sizes.layers * sizes.width

    monkeypatch.setattr(topic, "by_formula", without_norms)
    finding = found(topic.transformer_parameters_follow)
    assert finding.verdict == "fails"
    assert "exactly what 0 of 3 models built have" in finding.because


def test_one_block_by_hand() -> None:
    """d = 2, f = 3, no tokens: attentions 3 · 4 · 6, feed-forwards 2 · (12 + 5), norms 5 · 4."""
    assert topic.by_formula(topic.Sizes(0, 2, 1, 1, 3)) == 72 + 34 + 20


def test_65_million_take_a_larger_vocabulary() -> None:
    finding = found(topic.base_transformer_has_65_million)
    assert finding.verdict == "holds if"
    assert finding.boundary == "the vocabulary has from 39,769 to 41,721 tokens"
    for vocabulary, million in ((39_768, 64), (39_769, 65), (41_721, 65), (41_722, 66)):
        count = topic.by_formula(topic.BASE._replace(vocabulary=vocabulary))
        assert int(count / 1e6 + 0.5) == million
    assert found(topic.base_transformer_has_65_million, vocabulary=40_000).verdict == "holds"


def test_bert_base() -> None:
    finding = found(topic.bert_base_parameters_follow)
    assert finding.verdict == "holds"
    assert finding.figures == {"built": 109_482_240, "formula": 109_482_240}
    assert found(topic.bert_base_parameters_follow, vocabulary=30_000).verdict == "fails"


STEP = topic.StepTaken(
    bytes=1.5e9, operations_a_second=1e10, operations_a_pair=1e10 * topic.SECONDS_OF_A_DAY / 1e6
)


def test_days_are_pairs_times_operations_by_speed() -> None:
    """A million pairs a day."""
    assert STEP.days(2e6) == pytest.approx(2.0)


def test_training_takes_days_and_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """870,000 pairs at a million a day."""
    monkeypatch.setattr(topic, "one_step", lambda **_: STEP)
    monkeypatch.setattr(topic, "machine_bytes", lambda: int(8e9))
    finding = found(topic.base_transformer_is_untrainable_here)
    assert finding.verdict == "fails"
    assert finding.figures["days"] == pytest.approx(0.87)
    assert "0.9 days, 1.5 GB of 8 GB" in finding.counter_example
    assert "with 4 pairs of 15 tokens" in finding.because
    assert "what the optimiser takes, once a batch, is left out" in finding.because


@pytest.mark.parametrize(("patience", "machine"), [(0.5, 8e9), (60.0, 1e9)])
def test_without_patience_or_memory_it_is_untrainable(
    patience: float, machine: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic, "one_step", lambda **_: STEP)
    monkeypatch.setattr(topic, "machine_bytes", lambda: int(machine))
    finding = found(topic.base_transformer_is_untrainable_here, patience_days=patience)
    assert finding.verdict == "holds"


def test_a_step_is_really_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a small model: three copies of its weights, and a peak that holds at least the gradient."""
    monkeypatch.setattr(topic, "BASE", topic.Sizes(topic.BASE_VOCABULARY, 8, 2, 1, 16))
    step = topic.one_step(rows=2, length=5)
    weights = 4 * topic.by_formula(topic.BASE)
    assert step.bytes > PROCESS_BYTES + 4 * weights
    assert step.operations_a_second > 0
    with pytest.raises(RegardError, match=r"length=0: .* it must be from 1 to 128"):
        topic.base_transformer_is_untrainable_here.run(length=0)


def test_dropping_the_pooling_changes_nothing() -> None:
    finding = found(topic.dropping_the_pooling_raises_parameters)
    assert finding.verdict == "fails"
    assert finding.figures == {"pooled": 224_892, "strided": 224_892}


def test_for_odd_images_it_does() -> None:
    """29 → 14 → 12 → 6 pooled, 29 → 15 → 7 strided: 16 · (49 − 36) · 320 more."""
    finding = found(topic.dropping_the_pooling_raises_parameters, side=29)
    assert finding.verdict == "holds"
    assert finding.figures["strided"] == 224_892 + 16 * 13 * 320


def test_the_seeds_figures_are_those_of_missing_padding() -> None:
    finding = found(topic.the_missing_padding_lowers_parameters)
    assert finding.verdict == "holds"
    assert list(finding.figures.values()) == [224_892, 168_572, 224_892]
    assert "are those of" in finding.because
    other = found(topic.the_missing_padding_lowers_parameters, with_pooling=1)
    assert other.verdict == "fails"
    assert "The seed's 1 and 224,892 are not those of" in other.because


def test_the_image_network_by_hand() -> None:
    """80 + 1,168 of convolutions, 576 · 320 + 320, 320 · 120 + 120, 120 · 4 + 4."""
    count = topic.parameters_of(topic.image_network(pooled=True, padding=1))
    assert count == 80 + 1_168 + 184_640 + 38_520 + 484


def test_tiny_images_are_refused() -> None:
    with pytest.raises(RegardError, match=r"side=9: .* it must be from 10 to 128"):
        topic.dropping_the_pooling_raises_parameters.run(side=9)


def test_other_counts_may_be_said_of_bert() -> None:
    assert found(topic.bert_base_parameters_follow, said=109_482_241).verdict == "fails"
