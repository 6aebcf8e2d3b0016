"""Who reads what: exact zeros where something is hidden, and verdicts that turn when it is not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from regard.claims import claims_of, masking as masking_and_roles
from regard.claims.masking import (
    bert_input,
    bert_input_is_a_sum_of_three,
    mask_and_shift_hide_the_answer,
    padded_keys_have_zero_weight,
    prediction_slopes,
    role_sources,
    roles_of_self_and_cross_attention,
    small_decoder,
    zero_scores_hide_padded_keys,
)
from regard.core.batches import START
from regard.core.errors import RegardError
from regard.core.records.claim import Finding, MatrixPicture


def found(claim: Any, **changes: Any) -> Finding:
    finding = claim.run(**changes).finding
    assert finding is not None
    return finding


def test_every_verdict_is_the_known_one() -> None:
    assert {claim.name: found(claim).verdict for claim in claims_of("masking and roles")} == {
        "roles-of-self-and-cross-attention": "holds",
        "mask-and-shift-hide-the-answer": "holds",
        "mask-alone-hides-the-answer": "fails",
        "shift-alone-hides-the-answer": "fails",
        "padded-keys-have-zero-weight": "holds",
        "zero-scores-hide-padded-keys": "fails",
        "bert-input-is-a-sum-of-three": "holds",
    }


def test_the_wrong_ones_are_those_that_fail() -> None:
    claims = claims_of("masking and roles")
    assert all(claim.marked_wrong == (found(claim).verdict == "fails") for claim in claims)


def test_roles_and_shapes_of_a_small_case() -> None:
    lengths = {"x": 3, "y": 2}
    assert role_sources("self", "additive", lengths=lengths, seed=1) == (
        {"query": {"x"}, "key": {"x"}, "value": {"x"}},
        (3, 3),
    )
    assert role_sources("cross", "additive", lengths=lengths, seed=1) == (
        {"query": {"y"}, "key": {"x"}, "value": {"x"}},
        (2, 3),
    )


def test_other_roles_than_the_stated_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    swapped = {"query": {"x"}, "key": {"y"}, "value": {"y"}}
    stated = {**masking_and_roles.STATED_ROLES, "cross": swapped}
    monkeypatch.setattr(masking_and_roles, "STATED_ROLES", stated)
    assert found(roles_of_self_and_cross_attention).verdict == "fails"


@pytest.mark.parametrize(("masked", "shifted"), [(True, False), (False, True), (False, False)])
def test_without_the_mask_or_the_shift_the_answer_is_seen(masked: bool, shifted: bool) -> None:
    finding = found(mask_and_shift_hide_the_answer, masked=masked, shifted=shifted)
    assert finding.verdict == "fails"
    assert float(finding.figures["from i on"]) > 0.1
    assert "depends on target" in finding.counter_example


def test_what_is_seen_in_each_variant() -> None:
    every = torch.ones(5, 5, dtype=torch.bool)

    def seen(*, masked: bool, shifted: bool) -> Tensor:
        return prediction_slopes(masked=masked, shifted=shifted, length=5, seed=2) > 0

    assert torch.equal(seen(masked=True, shifted=True), every.tril(-1))
    assert torch.equal(seen(masked=True, shifted=False), every.tril())
    assert torch.equal(seen(masked=False, shifted=False), every)
    all_but_last = every.clone()
    all_but_last[:, -1] = False
    assert torch.equal(seen(masked=False, shifted=True), all_but_last)


def test_changing_a_token_tells_the_same_of_the_whole_transformer() -> None:
    """Independent of gradients, and through `forward`: target j moves predictions after j alone."""
    model, _, target = small_decoder(length=6, seed=4)
    source, lengths = torch.tensor([[5, 6, 7]]), torch.tensor([3])

    def logits(tokens: Tensor) -> Tensor:
        given = torch.cat([torch.full((1, 1), START), tokens[:, :-1]], dim=1)
        said: Tensor = model(source, lengths, given)[0]
        return said

    with torch.no_grad():
        before = logits(target)
        for place in range(6):
            other = target.clone()
            other[0, place] = 4 + (int(target[0, place]) - 3) % 19
            moved = (logits(other) - before).abs().amax(-1) > 0
            assert moved.tolist() == [prediction > place for prediction in range(6)]


def test_a_leak_into_padding_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    right = masking_and_roles.padded_weights

    def leaking(mechanism: Any, **options: Any) -> Tensor:
        weights = right(mechanism, **options)
        return weights + 1e-30 if type(mechanism).__name__ == "EluAttention" else weights

    monkeypatch.setattr(masking_and_roles, "padded_weights", leaking)
    finding = found(padded_keys_have_zero_weight)
    assert finding.verdict == "fails"
    assert finding.counter_example.startswith("elu gives padded keys the weight")


def test_padding_is_tried_on_every_mechanism_that_takes_it() -> None:
    finding = found(padded_keys_have_zero_weight, real=0)
    assert finding.verdict == "holds"
    assert {"scaled_dot", "taylor", "delta", "window"} <= set(finding.figures)


def test_a_score_of_zero_gets_its_share() -> None:
    """All real keys at score 0 too: four of nine equal scores are four ninths of the row."""
    zeroed = torch.zeros(9).softmax(-1)
    assert float(zeroed[5:].sum()) == pytest.approx(4 / 9)
    finding = found(zero_scores_hide_padded_keys)
    assert 4 / 9 < float(finding.figures["read from padding"]) < 1
    assert finding.figures["with −∞"] == 0.0
    assert found(zero_scores_hide_padded_keys, real=9).verdict == "holds"


def test_a_scaled_token_is_no_plain_sum() -> None:
    finding = found(bert_input_is_a_sum_of_three, embedding_scaled=True)
    assert finding.verdict == "fails"
    # √16 · row − row: three times the largest entry of the tokens' rows.
    _, rows = bert_input(embedding_scaled=True, position="learned", seed=0)
    assert finding.figures["error"] == pytest.approx(3 * float(rows["token"].abs().max()))


def test_the_picture_of_the_sum_adds_up() -> None:
    picture = found(bert_input_is_a_sum_of_three, position="sinusoidal").picture
    assert isinstance(picture, MatrixPicture)
    assert picture.row_labels == ("token", "segment", "position", "their sum", "the input")
    for token, segment, position, total, entered in zip(*picture.values, strict=True):
        assert token + segment + position == pytest.approx(total)
        assert total == pytest.approx(entered)


def test_no_more_keys_can_be_real_than_there_are() -> None:
    with pytest.raises(RegardError, match="real=10: of 9 keys no more can be real"):
        padded_keys_have_zero_weight.run(real=10)
