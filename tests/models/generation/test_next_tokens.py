"""The likeliest next tokens, found piece by piece: the same as by sorting everything."""

from __future__ import annotations

import pytest
import torch

from regard.core.batches import PAD, START
from regard.models.generation.search import PIECE, likeliest


@pytest.mark.parametrize("vocabulary", [7, PIECE, 8 * PIECE, 9 * PIECE + 1, 23 * PIECE + 37])
@pytest.mark.parametrize("count", [1, 4])
def test_it_is_a_sort(vocabulary: int, count: int) -> None:
    torch.manual_seed(vocabulary)
    for _ in range(20):
        logits = torch.randn(7, vocabulary, dtype=torch.float64)
        found = likeliest(logits, count=count)
        expected = logits.log_softmax(-1)
        expected[:, [PAD, START]] = float("-inf")
        values, tokens = expected.sort(dim=-1, descending=True)
        assert torch.equal(found.log_probability, values[:, :count])
        assert torch.equal(found.token, tokens[:, :count])


def test_the_first_of_equals() -> None:
    assert likeliest(torch.zeros(1, 5 * PIECE), count=1).token.tolist() == [[2]]


def test_the_logits_are_left_as_they_were() -> None:
    logits = torch.randn(2, 3 * PIECE)
    before = logits.clone()
    likeliest(logits, count=2)
    assert torch.equal(logits, before)
