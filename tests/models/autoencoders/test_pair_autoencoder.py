"""Pair autoencoder: one merge by hand, weights, halves, normalisation."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from regard.core.errors import RegardError
from regard.models.autoencoders.trees import PairAutoencoder, unit_vectors


def by_hand(**options: bool) -> PairAutoencoder:
    """W₁ sums the children, W₂ copies the parent to both sides, no biases."""
    pair = PairAutoencoder(model_dim=2, **options).double()
    one = torch.eye(2, dtype=torch.float64)
    with torch.no_grad():
        pair.encoder.weight.copy_(torch.cat([one, one], dim=1))
        pair.decoder.weight.copy_(torch.cat([one, one]))
        pair.encoder.bias.zero_()
        pair.decoder.bias.zero_()
    return pair


# Two unit vectors at a right angle: their sum points between them.
CHILDREN = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]], dtype=torch.float64)
WORDS = torch.tensor([[3, 1]])
DIAGONAL = math.sqrt(0.5)


def parents(pair: PairAutoencoder, children: Tensor) -> Tensor:
    return pair.activate(pair.encoder(children.flatten(1)))


def test_merge() -> None:
    pair = by_hand()
    parent = parents(pair, CHILDREN)
    torch.testing.assert_close(parent, torch.full((1, 2), DIAGONAL, dtype=torch.float64))
    # Each child is reconstructed as (√½, √½), with error (1 − √½)² + ½.
    expected = (1 - DIAGONAL) ** 2 + 0.5
    assert pair.errors(parent, CHILDREN, WORDS).item() == pytest.approx(expected)
    plain = by_hand(normalise=False)
    assert parents(plain, CHILDREN)[0, 0].item() == pytest.approx(math.tanh(1.0))


def test_weighted_by_words() -> None:
    pair = by_hand(weighted_by_words=True)
    # The first child is exact, the second has error 1 + 1.
    parent = CHILDREN[:, 0]
    assert pair.errors(parent, CHILDREN, WORDS).item() == pytest.approx(1 / 4 * 2)
    assert pair.errors(parent, CHILDREN, WORDS.flip(1)).item() == pytest.approx(3 / 4 * 2)
    # With as many words on both sides, the unweighted error.
    even = torch.full_like(WORDS, 5)
    assert pair.errors(parent, CHILDREN, even) == by_hand().errors(parent, CHILDREN, even)


def test_halves_sum_to_the_encoder() -> None:
    torch.manual_seed(0)
    pair = PairAutoencoder(model_dim=5).double()
    children = torch.randn(7, 2, 5, dtype=torch.float64)
    halves = pair.halves()
    left, _ = halves.of(children[:, 0])
    _, right = halves.of(children[:, 1])
    torch.testing.assert_close(left + right, pair.encoder(children.flatten(1)))


def test_unit_vectors() -> None:
    torch.manual_seed(0)
    vectors = 100 * torch.randn(11, 3)
    torch.testing.assert_close(unit_vectors(vectors).norm(dim=1), torch.ones(11))
    torch.testing.assert_close(unit_vectors(vectors) * vectors.norm(dim=1, keepdim=True), vectors)
    # Zero vectors stay zero.
    assert torch.equal(unit_vectors(torch.zeros(2, 3)), torch.zeros(2, 3))


def test_invalid_model_dim() -> None:
    with pytest.raises(RegardError, match="model_dim=0"):
        PairAutoencoder(model_dim=0)
