"""Word embeddings: hashed bigrams and affixes."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from regard.core.batches import UNKNOWN, TokenInput
from regard.core.errors import RegardError
from regard.models.embeddings import (
    MAX_AFFIXES,
    MULTIPLIER,
    PRIME,
    AffixEmbedding,
    WordEmbedding,
    affixes,
)

WORDS = ["film", "films", "filming", "a", "Films"]
FIRST = UNKNOWN + 1


def affix_embedding(affix_buckets: int = 5000) -> AffixEmbedding:
    torch.manual_seed(0)
    embedding = AffixEmbedding(
        vocabulary=FIRST + len(WORDS), model_dim=3, affix_buckets=affix_buckets
    )
    embedding.set_words(WORDS)
    return embedding


def test_affix_embedding_is_the_mean_of_prefixes_and_suffixes() -> None:
    embedding = affix_embedding()
    vectors = embedding(torch.arange(FIRST + len(WORDS))[None])[0]
    buckets = [embedding._bucket(affix) for affix in ("<fil", "<film", "lm>", "ilm>")]
    torch.testing.assert_close(vectors[FIRST], embedding.table.weight[buckets].mean(0))
    assert affixes("film") == ["<fil", "<film", "lm>", "ilm>"]
    # Case is ignored; words without affixes and special tokens have zero vectors.
    torch.testing.assert_close(vectors[FIRST + 4], vectors[FIRST + 1])
    assert not vectors[FIRST + 3].any()
    assert not vectors[:FIRST].any()


def test_words_share_gradients_through_prefixes() -> None:
    embedding = affix_embedding()
    embedding(torch.tensor([[FIRST + 2]])).sum().backward()
    grad = embedding.table.weight.grad
    assert grad is not None
    shared = grad[embedding.buckets[FIRST]].abs().sum(-1) > 0
    assert shared[:2].all()  # <fil and <film; the suffixes differ
    assert not shared[2:].any()
    assert not grad[0].any()


def test_few_buckets_are_shared_and_bucket_zero_stays_empty() -> None:
    embedding = affix_embedding(affix_buckets=2)
    assert set(embedding.buckets.flatten().tolist()) == {0, 1}
    assert len(affixes("photosynthesis")) == MAX_AFFIXES


def test_missing_or_wrong_words() -> None:
    words = WordEmbedding(vocabulary=9, model_dim=4, affix_buckets=10)
    with pytest.raises(RegardError, match=r"set_words\(words\)"):
        words(TokenInput(torch.tensor([[4, 5]]), torch.tensor([2])))
    with pytest.raises(RegardError, match="2 words for a vocabulary of 5"):
        words.set_words(["a", "b"])
    with pytest.raises(RegardError, match=r"affix_buckets=1:"):
        WordEmbedding(vocabulary=9, model_dim=4, affix_buckets=1)
    WordEmbedding(vocabulary=9, model_dim=4).set_words(["a", "b"])  # no affixes: ignored


TOKENS = torch.tensor([[5, 8, 6, 7, 9], [4, 7, 7, 0, 0]])
LENGTHS = torch.tensor([5, 3])
SEGMENTS = torch.tensor([[0, 0, 0, 2, 2], [0, 1, 1, 1, 1]])
TEXTS = TokenInput(TOKENS, LENGTHS, SEGMENTS)


def bigram_embedding(*, in_sentences: bool = False) -> WordEmbedding:
    torch.manual_seed(0)
    embedding = WordEmbedding(
        vocabulary=11,
        model_dim=3,
        bigram_buckets=50,
        word_dropout=0.5,
        in_sentences=in_sentences,
    )
    return embedding.double().eval()


def bigram(embedding: WordEmbedding, first: int, second: int) -> Tensor:
    assert embedding.pairs is not None
    return embedding.pairs.weight[(first * MULTIPLIER + second) * MULTIPLIER % PRIME % 50]


def test_word_plus_bigram() -> None:
    embedding = bigram_embedding()
    found = embedding(TEXTS).frames - embedding.embedding.table.weight[TOKENS]
    zero = torch.zeros(3, dtype=torch.float64)
    bigrams = [(5, 8), (8, 6), (6, 7), (7, 9), None], [(4, 7), (7, 7), None, None, None]
    expected = [
        torch.stack([zero if two is None else bigram(embedding, *two) for two in row])
        for row in bigrams
    ]
    torch.testing.assert_close(found, torch.stack(expected))


def test_bigrams_do_not_cross_sentences() -> None:
    embedding = bigram_embedding()
    separate = bigram_embedding(in_sentences=True)(TEXTS).frames
    differs = (separate != embedding(TEXTS).frames).any(dim=-1)
    assert differs.nonzero().tolist() == [[0, 2], [1, 0]]
    torch.testing.assert_close(separate[differs], embedding.embedding.table.weight[[6, 4]])


def test_padding_is_determined_by_lengths() -> None:
    embedding = bigram_embedding()
    is_token = torch.arange(5) < LENGTHS[:, None]
    other = TokenInput(TOKENS.masked_fill(~is_token, 10), LENGTHS)
    assert torch.equal(embedding(TEXTS).frames[is_token], embedding(other).frames[is_token])
