"""Inputs and targets: values are checked once, and rows are selected without unneeded padding."""

from __future__ import annotations

import pytest
import torch

from regard.core.batches import (
    IGNORE_INDEX,
    Batch,
    ClassTarget,
    FrameInput,
    PositionTarget,
    SequenceTarget,
    TokenInput,
)
from regard.core.errors import RegardError

TOKENS = torch.tensor([[4, 5, 2, 0], [4, 5, 6, 2], [4, 2, 0, 0]])
LENGTHS = torch.tensor([3, 4, 2])


@pytest.mark.parametrize("lengths", [[0, 4, 2], [3, 5, 2]])
def test_lengths_are_checked_at_construction(lengths: list[int]) -> None:
    with pytest.raises(RegardError, match=r"lengths"):
        TokenInput(TOKENS, torch.tensor(lengths))


def test_only_padded_inputs_have_a_mask() -> None:
    assert TokenInput(TOKENS, LENGTHS).mask.lengths is LENGTHS
    whole = FrameInput(torch.zeros(2, 3, 5), torch.tensor([3, 3]))
    assert not whole.padded
    assert whole.mask.lengths is None


def test_rows_are_selected_without_unneeded_padding() -> None:
    chosen = TokenInput(TOKENS, LENGTHS, segments=torch.zeros_like(TOKENS)).select(slice(2, 3))
    assert chosen.tokens.tolist() == [[4, 2]]
    assert chosen.segments is not None
    assert chosen.segments.shape == (1, 2)
    assert not chosen.padded
    target = SequenceTarget(TOKENS, LENGTHS).select(torch.tensor([2, 0]))
    assert target.labels.tolist() == [2, 5, 2]
    assert target.rows.tolist() == [0, 1, 1]


def test_position_targets_are_cut_with_the_input() -> None:
    classes = torch.full_like(TOKENS, IGNORE_INDEX)
    classes[0, 1], classes[1, 3], classes[2, 0] = 7, 8, 9
    batch = Batch(TokenInput(TOKENS, LENGTHS), PositionTarget(classes))
    assert batch.target.predicted(TOKENS).tolist() == [5, 2, 4]
    chosen = batch.select(torch.tensor([0, 2]))
    assert isinstance(chosen.input, TokenInput)
    assert chosen.input.shape == (2, 3)
    assert chosen.target.labels.tolist() == [7, 9]
    assert chosen.target.predicted(chosen.input.tokens).tolist() == [5, 4]


def test_a_batch_may_have_no_target() -> None:
    batch = Batch(TokenInput(TOKENS, LENGTHS), None)
    assert batch.num_tokens == 9
    assert batch.to("cpu").select(slice(1)).input.shape == (1, 3)
    assert Batch(batch.input, ClassTarget(torch.tensor([1, IGNORE_INDEX, 0]))).num_predictions == 2
