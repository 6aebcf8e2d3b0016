"""Words by how they begin and end."""

from __future__ import annotations

import pytest
import torch

from regard.core.batches import UNKNOWN
from regard.core.errors import RegardError
from regard.models.embeddings import MOST, WordSpelling, WordVectors, letter_groups

WORDS = ["film", "films", "filming", "a", "Films"]
FIRST = UNKNOWN + 1


def spelled(rows: int = 5000) -> WordSpelling:
    torch.manual_seed(0)
    spelling = WordSpelling(vocabulary=FIRST + len(WORDS), model_dim=3, rows=rows, spread=1.0)
    spelling.spell(WORDS)
    return spelling


def test_a_word_is_the_mean_of_its_beginnings_and_endings() -> None:
    spelling = spelled()
    vectors = spelling(torch.arange(FIRST + len(WORDS))[None])[0]
    rows = [spelling._row(group) for group in ("<fil", "<film", "lm>", "ilm>")]
    torch.testing.assert_close(vectors[FIRST], spelling.table.weight[rows].mean(0))
    assert letter_groups("film") == ["<fil", "<film", "lm>", "ilm>"]
    # Capitals are spelled alike; what has no group, and what is no word, has no vector.
    torch.testing.assert_close(vectors[FIRST + 4], vectors[FIRST + 1])
    assert not vectors[FIRST + 3].any()
    assert not vectors[:FIRST].any()


def test_what_is_learned_of_one_word_moves_those_that_begin_alike() -> None:
    spelling = spelled()
    spelling(torch.tensor([[FIRST + 2]])).sum().backward()
    grad = spelling.table.weight.grad
    assert grad is not None
    moved = grad[spelling.numbers[FIRST]].abs().sum(-1) > 0
    assert moved[:2].all()  # <fil and <film; its endings are its own
    assert not moved[2:].any()
    assert not grad[0].any()


def test_few_rows_are_shared_and_row_zero_stays_empty() -> None:
    spelling = spelled(rows=2)
    assert set(spelling.numbers.flatten().tolist()) == {0, 1}
    longest = letter_groups("photosynthesis")
    assert len(longest) == MOST


def test_without_the_words_or_with_others_it_says_so() -> None:
    words = WordVectors(vocabulary=9, model_dim=4, spelling_table=10)
    with pytest.raises(RegardError, match=r"call spell\(words\)"):
        words(torch.tensor([[4, 5]]), torch.tensor([2]))
    with pytest.raises(RegardError, match="2 words were given to a model of 5"):
        words.spell(["a", "b"])
    with pytest.raises(
        RegardError, match=r"model\.spelling_table=1: it must be 0, for none, or 2 or more"
    ):
        WordVectors(vocabulary=9, model_dim=4, spelling_table=1)
    WordVectors(vocabulary=9, model_dim=4).spell(["a", "b"])  # nothing to be told
