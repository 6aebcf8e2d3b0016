"""Vectors of words and of pairs: by hand, and which words are no pair."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.models.embeddings import MULTIPLIER, PRIME, WordVectors

TOKENS = torch.tensor([[5, 8, 6, 7, 9], [4, 7, 7, 0, 0]])
LENGTHS = torch.tensor([5, 3])
SEGMENTS = torch.tensor([[0, 0, 0, 2, 2], [0, 1, 1, 1, 1]])


def words() -> WordVectors:
    torch.manual_seed(0)
    return WordVectors(vocabulary=11, model_dim=3, pair_table=50, word_dropout=0.5).double().eval()


def pair(vectors: WordVectors, first: int, second: int) -> Tensor:
    assert vectors.pairs is not None
    number = (first * MULTIPLIER + second) * MULTIPLIER % PRIME % 50
    return vectors.pairs.weight[number]


def test_a_word_has_its_own_vector_and_that_of_its_pair() -> None:
    vectors = words()
    found = vectors(TOKENS, LENGTHS) - vectors.embedding.table.weight[TOKENS]
    none = torch.zeros(3, dtype=torch.float64)
    pairs = [(5, 8), (8, 6), (6, 7), (7, 9), None], [(4, 7), (7, 7), None, None, None]
    expected = [
        torch.stack([none if two is None else pair(vectors, *two) for two in row]) for row in pairs
    ]
    torch.testing.assert_close(found, torch.stack(expected))


def test_the_last_word_of_a_sentence_is_paired_with_none() -> None:
    vectors = words()
    apart = vectors(TOKENS, LENGTHS, SEGMENTS)
    together = vectors(TOKENS, LENGTHS)
    differs = (apart != together).any(dim=-1)
    assert differs.nonzero().tolist() == [[0, 2], [1, 0]]
    torch.testing.assert_close(apart[differs], vectors.embedding.table.weight[[6, 4]])


def test_padding_is_known_by_its_place() -> None:
    vectors = words()
    real = torch.arange(5) < LENGTHS[:, None]
    other = TOKENS.masked_fill(~real, 10)
    assert torch.equal(vectors(TOKENS, LENGTHS)[real], vectors(other, LENGTHS)[real])
