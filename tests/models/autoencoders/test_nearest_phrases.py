"""Nearest phrases: by pencil, against all cosines, from a model's trees, and what cannot be asked."""

from __future__ import annotations

import pytest
import torch
from tests.models.autoencoders.test_tree_records import CLASSES, LENGTHS, TOKENS, WORDS, model

from regard.core.errors import RegardError
from regard.models.autoencoders.recursive import Phrases, phrases_of, tree_records

COMPASS = Phrases(
    ("north", "north east", "east", "south"),
    torch.tensor([[0.0, 1.0], [0.6, 0.8], [1.0, 0.0], [0.0, -1.0]]),
)


def test_by_pencil() -> None:
    near = COMPASS.nearest("north", count=2)
    assert [phrase.text for phrase in near] == ["north east", "east"]
    assert [phrase.cosine for phrase in near] == pytest.approx([0.8, 0.0])
    # There are no more than there are, and none is nearest to itself.
    assert [phrase.text for phrase in COMPASS.nearest("south", count=9)][-1] == "north"
    assert len(COMPASS.nearest("south", count=9)) == 3


def test_phrases_are_the_nodes_of_the_trees() -> None:
    made = model()
    phrases = phrases_of(made, TOKENS, LENGTHS, words=WORDS)
    records = tree_records(made, TOKENS, LENGTHS, words=WORDS, classes=CLASSES)
    expected = {record.phrase(node) for record in records for node in range(record.num_nodes)}
    assert set(phrases.texts) == expected
    assert len(phrases.texts) == len(expected)
    lengths = phrases.vectors.norm(dim=1)
    torch.testing.assert_close(lengths, torch.ones_like(lengths))
    word = phrases.vectors[phrases.texts.index("good")]
    table = made.embedding.table.weight.detach()
    torch.testing.assert_close(word, table[TOKENS[0, 2]] / table[TOKENS[0, 2]].norm())


def test_the_nearest_of_all() -> None:
    phrases = phrases_of(model(), TOKENS, LENGTHS, words=WORDS)
    cosines = torch.nn.functional.cosine_similarity(
        phrases.vectors[:, None], phrases.vectors[None], dim=2
    ).fill_diagonal_(-2)
    for place, text in enumerate(phrases.texts):
        (found,) = phrases.nearest(text, count=1)
        assert found.cosine == pytest.approx(float(cosines[place].max()))


def test_what_cannot_be_asked() -> None:
    with pytest.raises(
        RegardError, match=r"'nort east' is none of the 4 phrases.*one that is: north east"
    ):
        COMPASS.nearest("nort east")
    with pytest.raises(RegardError, match=r"need not be one\.$"):
        COMPASS.nearest("zzz")
    with pytest.raises(RegardError, match="count=0"):
        COMPASS.nearest("north", count=0)
    with pytest.raises(RegardError, match="no texts to take phrases from"):
        phrases_of(model(), TOKENS[:0], LENGTHS[:0], words=[])
