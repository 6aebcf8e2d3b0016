"""Words by how they begin and end: "developed" has vectors of its own for dev, deve, devel … and ed, ped.

    vector of a word  =  mean of S[hash(g)] over its beginnings and endings g

What is learned of a word is so shared with those that are spelled alike, which helps rare ones most. All
groups of letters, as Bojanowski et al. (2017) take them, did no better in trials and are four times as
many.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.cost import Cost
from regard.core.errors import RegardError
from regard.core.special_tokens import SPECIAL_TOKENS
from regard.layers.size_rules import require_positive

BEGINNINGS = (3, 4, 5, 6)
ENDINGS = (2, 3, 4)
MOST = len(BEGINNINGS) + len(ENDINGS)

NO_GROUP = 0  # a row that stays zero


def letter_groups(word: str) -> list[str]:
    """The beginnings and endings of a word, marked as such.

    >>> letter_groups("river")
    ['<riv', '<rive', '<river', 'er>', 'ver>', 'iver>']
    >>> letter_groups("a")
    []
    """
    begins = [f"<{word[:size]}" for size in BEGINNINGS if len(word) >= size]
    return begins + [f"{word[-size:]}>" for size in ENDINGS if len(word) > size]


class WordSpelling(nn.Module):
    """From token numbers to vectors of their spelling; `rows` of the table are shared by hashing."""

    numbers: Tensor
    shares: Tensor

    def __init__(self, *, vocabulary: int, model_dim: int, rows: int, spread: float) -> None:
        super().__init__()
        require_positive("WordSpelling", vocabulary=vocabulary, model_dim=model_dim)
        if rows < 2:
            raise RegardError(f"model.spelling_table={rows}: it must be 0, for none, or 2 or more.")
        self.table = nn.Embedding(rows, model_dim, padding_idx=NO_GROUP)
        nn.init.normal_(self.table.weight, std=spread)
        with torch.no_grad():
            self.table.weight[NO_GROUP] = 0
        # Not saved: the vocabulary beside the weights tells them.
        nothing = torch.full((vocabulary, MOST), NO_GROUP)
        self.register_buffer("numbers", nothing, persistent=False)
        self.register_buffer("shares", torch.zeros(vocabulary, 1), persistent=False)
        self.spelled = False

    def spell(self, words: Sequence[str]) -> None:
        """Learn how the words are spelled; the first has the number after the special tokens."""
        first, vocabulary = len(SPECIAL_TOKENS), len(self.numbers)
        if first + len(words) != vocabulary:
            raise RegardError(
                f"{len(words)} words were given to a model of {vocabulary - first}. Give those of the "
                "vocabulary that numbers its tokens, in order."
            )
        for number, word in enumerate(words, start=first):
            rows = [self._row(group) for group in letter_groups(word.lower())]
            self.numbers[number, : len(rows)] = torch.tensor(rows, dtype=torch.long)
            self.shares[number] = 1 / len(rows) if rows else 0.0
        self.spelled = True

    def forward(
        self, tokens: Int[Tensor, "batch length"]
    ) -> Float[Tensor, "batch length model_dim"]:
        if not self.spelled:
            raise RegardError(
                "The model reads spellings and was not told them: call spell(words) with the words of "
                "the vocabulary first."
            )
        groups: Tensor = self.table(self.numbers[tokens])
        return groups.sum(dim=-2) * self.shares[tokens]

    def _row(self, group: str) -> int:
        """Never that of `NO_GROUP`."""
        return 1 + zlib.crc32(group.encode()) % (self.table.num_embeddings - 1)

    def cost(self, *, rows: int) -> Cost:
        """Of so many words: a sum over all groups and a product with their share."""
        numbers = rows * self.table.embedding_dim
        return Cost(
            arithmetic=(MOST + 1) * numbers,
            memory=(MOST + 2) * numbers,
            parameters=self.table.weight.numel(),
        )
