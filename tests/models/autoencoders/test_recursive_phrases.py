"""Nearest phrases: an example, against all cosine similarities, and invalid queries."""

from __future__ import annotations

import pytest
import torch
from tests.models.autoencoders.test_recursive_records import (
    CLASSES,
    LENGTHS,
    TOKENS,
    WORDS,
    model,
    spans,
)

from regard.core.batches import TokenInput
from regard.core.errors import RegardError
from regard.models.autoencoders.recursive import Phrases, collect_phrases, tree_records

COMPASS = Phrases(
    ("north", "north east", "east", "south"),
    torch.tensor([[0.0, 1.0], [0.6, 0.8], [1.0, 0.0], [0.0, -1.0]]),
)


def test_nearest() -> None:
    near = COMPASS.nearest("north", count=2)
    assert [phrase.text for phrase in near] == ["north east", "east"]
    assert [phrase.cosine for phrase in near] == pytest.approx([0.8, 0.0])
    # The phrase itself is excluded.
    assert [phrase.text for phrase in COMPASS.nearest("south", count=9)][-1] == "north"
    assert len(COMPASS.nearest("south", count=9)) == 3


def test_phrases_are_tree_nodes() -> None:
    net = model()
    phrases = collect_phrases(net, TokenInput(TOKENS, LENGTHS), words=WORDS)
    records = tree_records(net, TokenInput(TOKENS, LENGTHS), words=WORDS, classes=CLASSES)
    expected = {
        " ".join(record.leaves[start:stop]) for record in records for start, stop in spans(record)
    }
    assert set(phrases.texts) == expected
    assert len(phrases.texts) == len(expected)
    lengths = phrases.vectors.norm(dim=1)
    torch.testing.assert_close(lengths, torch.ones_like(lengths))
    word = phrases.vectors[phrases.texts.index("good")]
    table = net.embedding.table.weight.detach()
    torch.testing.assert_close(word, table[TOKENS[0, 2]] / table[TOKENS[0, 2]].norm())


def test_nearest_has_the_largest_cosine() -> None:
    phrases = collect_phrases(model(), TokenInput(TOKENS, LENGTHS), words=WORDS)
    cosines = torch.nn.functional.cosine_similarity(
        phrases.vectors[:, None], phrases.vectors[None], dim=2
    ).fill_diagonal_(-2)
    for index, text in enumerate(phrases.texts):
        (found,) = phrases.nearest(text, count=1)
        assert found.cosine == pytest.approx(float(cosines[index].max()))


def test_invalid_queries() -> None:
    with pytest.raises(RegardError, match=r"'nort east' .* 4 phrases.*north east"):
        COMPASS.nearest("nort east")
    with pytest.raises(RegardError, match="'zzz'"):
        COMPASS.nearest("zzz")
    with pytest.raises(RegardError, match="count=0"):
        COMPASS.nearest("north", count=0)
    with pytest.raises(RegardError, match="no texts"):
        collect_phrases(model(), TokenInput(TOKENS[:0], LENGTHS[:0]), words=[])
