"""Claims about masking: exact zeros where inputs are masked, and deliberately wrong variants."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from regard.claims import list_claims, masking as topic
from regard.claims.masking import (
    bert_input,
    bert_input_is_a_sum_of_three_embeddings,
    causal_mask_and_shift_prevent_leakage,
    padded_keys_have_zero_weight,
    prediction_gradients,
    role_sources,
    roles_of_self_and_cross_attention,
    small_decoder,
    zero_scores_mask_padding,
)
from regard.core.batches import START, TokenInput
from regard.core.errors import RegardError
from regard.core.records.claim import Finding, MatrixFigure


def found(claim: Any, **changes: Any) -> Finding:
    finding = claim.run(**changes).finding
    assert finding is not None
    return finding


def test_verdicts() -> None:
    assert {claim.name: found(claim).verdict for claim in list_claims("masking")} == {
        "roles-of-self-and-cross-attention": "holds",
        "causal-mask-and-shift-prevent-leakage": "holds",
        "causal-mask-alone-prevents-leakage": "fails",
        "shift-alone-prevents-leakage": "fails",
        "padded-keys-have-zero-weight": "holds",
        "zero-scores-mask-padding": "fails",
        "bert-input-is-a-sum-of-three-embeddings": "holds",
    }


def test_known_false_claims_fail() -> None:
    claims = list_claims("masking")
    assert all(claim.known_false == (found(claim).verdict == "fails") for claim in claims)


def test_sources_and_shapes() -> None:
    lengths = {"x": 3, "y": 2}
    assert role_sources("self", "additive", lengths=lengths, seed=1) == (
        {"query": {"x"}, "key": {"x"}, "value": {"x"}},
        (3, 3),
    )
    assert role_sources("cross", "additive", lengths=lengths, seed=1) == (
        {"query": {"y"}, "key": {"x"}, "value": {"x"}},
        (2, 3),
    )


def test_swapped_roles_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    swapped = {"query": {"x"}, "key": {"y"}, "value": {"y"}}
    stated = {**topic.STATED_ROLES, "cross": swapped}
    monkeypatch.setattr(topic, "STATED_ROLES", stated)
    assert found(roles_of_self_and_cross_attention).verdict == "fails"


@pytest.mark.parametrize(("masked", "shifted"), [(True, False), (False, True), (False, False)])
def test_target_leaks_without_mask_or_shift(masked: bool, shifted: bool) -> None:
    finding = found(causal_mask_and_shift_prevent_leakage, masked=masked, shifted=shifted)
    assert finding.verdict == "fails"
    assert float(finding.values["from i on"]) > 0.1
    assert "depends on target" in finding.counter_example


def test_dependence_in_each_variant() -> None:
    every = torch.ones(5, 5, dtype=torch.bool)

    def depends(*, masked: bool, shifted: bool) -> Tensor:
        return prediction_gradients(masked=masked, shifted=shifted, length=5, seed=2) > 0

    assert torch.equal(depends(masked=True, shifted=True), every.tril(-1))
    assert torch.equal(depends(masked=True, shifted=False), every.tril())
    assert torch.equal(depends(masked=False, shifted=False), every)
    all_but_last = every.clone()
    all_but_last[:, -1] = False
    assert torch.equal(depends(masked=False, shifted=True), all_but_last)


def test_changing_a_token_agrees_with_gradients() -> None:
    """Through `forward`, without gradients: target j changes only predictions after j."""
    model, _, target = small_decoder(length=6, seed=4)
    source = TokenInput(torch.tensor([[5, 6, 7]]), torch.tensor([3]))

    def logits(tokens: Tensor) -> Tensor:
        decoder_input = torch.cat([torch.full((1, 1), START), tokens[:, :-1]], dim=1)
        output: Tensor = model(source, decoder_input)[0]
        return output

    with torch.no_grad():
        before = logits(target)
        for index in range(6):
            other = target.clone()
            other[0, index] = 4 + (int(target[0, index]) - 3) % 19
            moved = (logits(other) - before).abs().amax(-1) > 0
            assert moved.tolist() == [prediction > index for prediction in range(6)]


def test_padding_leak_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    original = topic.padded_weights

    def leaking(mechanism: Any, **options: Any) -> Tensor:
        weights = original(mechanism, **options)
        return weights + 1e-30 if type(mechanism).__name__ == "EluAttention" else weights

    monkeypatch.setattr(topic, "padded_weights", leaking)
    finding = found(padded_keys_have_zero_weight)
    assert finding.verdict == "fails"
    assert finding.counter_example.startswith("elu gives padded keys the weight")


def test_padding_covers_all_supporting_mechanisms() -> None:
    finding = found(padded_keys_have_zero_weight, real=0)
    assert finding.verdict == "holds"
    assert {"scaled_dot", "taylor", "delta", "window"} <= set(finding.values)


def test_zero_scores_have_weight() -> None:
    """All real keys at score 0 too: four of nine equal scores are four ninths of the row."""
    zeroed = torch.zeros(9).softmax(-1)
    assert float(zeroed[5:].sum()) == pytest.approx(4 / 9)
    finding = found(zero_scores_mask_padding)
    assert 4 / 9 < float(finding.values["padding weight"]) < 1
    assert finding.values["with −∞"] == 0.0
    assert found(zero_scores_mask_padding, real=9).verdict == "holds"


def test_scaled_embeddings_are_not_a_sum() -> None:
    finding = found(bert_input_is_a_sum_of_three_embeddings, embedding_scaled=True)
    assert finding.verdict == "fails"
    # √16 · row − row: three times the largest entry of the tokens' rows.
    _, rows = bert_input(embedding_scaled=True, position="learned", seed=0)
    assert finding.values["error"] == pytest.approx(3 * float(rows["token"].abs().max()))


def test_figure_rows_sum_to_the_input() -> None:
    figure = found(bert_input_is_a_sum_of_three_embeddings, position="sinusoidal").figure
    assert isinstance(figure, MatrixFigure)
    assert figure.row_labels == ("token", "segment", "position", "sum", "input")
    for token, segment, position, total, model_input in zip(*figure.values, strict=True):
        assert token + segment + position == pytest.approx(total)
        assert total == pytest.approx(model_input)


def test_error_for_too_many_real_keys() -> None:
    with pytest.raises(RegardError, match=r"real=10: .* 9 keys"):
        padded_keys_have_zero_weight.run(real=10)
