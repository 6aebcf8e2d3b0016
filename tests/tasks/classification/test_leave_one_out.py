"""Leave-one-out: drops by hand, and Kendall's tau by counting pairs."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
import torch
from tests.factories.lexicon_classifier import LexiconClassifier

from regard.core.batches import END, START, TokenInput
from regard.tasks.classification.leave_one_out import leave_one_out

VOTES = [0.0, 0.0, 0.0, 0.0, 3.0, -1.0, 0.5, 1.0]


def sigmoid(score: float) -> float:
    return float(1 / (1 + np.exp(-score)))


def row(tokens: list[int]) -> TokenInput:
    return TokenInput(torch.tensor([tokens]), torch.tensor([len(tokens)]))


def test_drops_by_hand() -> None:
    model = LexiconClassifier(VOTES, [0.0, 1.0, 1.0, 1.0, 9.0, 2.0, 1.0, 3.0])
    found = leave_one_out(model, row([START, 4, 5, END]))
    whole = sigmoid(2.0)
    assert found.drops[1:3] == pytest.approx([whole - sigmoid(-1.0), whole - sigmoid(3.0)])
    assert math.isnan(found.drops[0])
    assert math.isnan(found.drops[3])
    assert found.tau == 1.0


def test_kendall_tau() -> None:
    looks = [0.0, 1.0, 1.0, 1.0, 2.0, 9.0, 1.0, 3.0]
    tokens = [4, 5, 6, 7]
    found = leave_one_out(LexiconClassifier(VOTES, looks), row(tokens))
    # Drops are ordered like the votes.
    signs = [
        np.sign((VOTES[a] - VOTES[b]) * (looks[a] - looks[b])) for a, b in combinations(tokens, 2)
    ]
    assert found.tau == pytest.approx(sum(signs) / len(signs))


@pytest.mark.parametrize("tokens", [[4], [START, 4, END], [4, 4, 4]])
def test_tau_is_none_without_variation(tokens: list[int]) -> None:
    model = LexiconClassifier(VOTES, [0.0, *[1.0] * 7])
    assert leave_one_out(model, row(tokens)).tau is None
