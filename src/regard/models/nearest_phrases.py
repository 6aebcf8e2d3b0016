"""Phrases that a recursive autoencoder holds for alike: those whose vectors point the same way.

    phrases = phrases_of(model, tokens, lengths, words=words)
    phrases.nearest("a good film", count=3)     → [("a great film", 0.97), …]

All nodes of all trees are phrases, single words included (such lists are in Socher et al. 2011, "Dynamic
pooling and unfolding recursive autoencoders"). The same words may have another tree, and so another
vector, in another text: the first that is met counts.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.core.errors import RegardError
from regard.layers.size_rules import require_positive
from regard.models.pair_autoencoder import unit
from regard.models.recursive_autoencoder import RecursiveAutoencoder
from regard.models.tree_records import require_words, rows_of


class Near(NamedTuple):
    """A phrase, and the cosine of the angle between its vector and the one asked about."""

    text: str
    cosine: float


class Phrases(NamedTuple):
    """Texts of phrases, each once, and the vector of each, of length 1."""

    texts: tuple[str, ...]
    vectors: Float[Tensor, "phrases model_dim"]

    def nearest(self, text: str, *, count: int = 5) -> list[Near]:
        """The phrases nearest to this one, itself left out, the nearest first."""
        require_positive("nearest", count=count)
        place = self._place(text)
        cosines = self.vectors @ self.vectors[place]
        cosines[place] = -torch.inf
        best = cosines.topk(min(count, len(self.texts) - 1))
        found = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        return [Near(self.texts[at], cosine) for at, cosine in found]

    def _place(self, text: str) -> int:
        if text in self.texts:
            return self.texts.index(text)
        close = difflib.get_close_matches(text, self.texts, n=3)
        hint = f" Ask for one that is: {', '.join(close)}." if close else ""
        raise RegardError(
            f"'{text}' is none of the {len(self.texts):,} phrases that were joined in these texts; "
            f"words that stand side by side need not be one.{hint}"
        )


@torch.no_grad()
def phrases_of(
    model: RecursiveAutoencoder,
    tokens: Int[Tensor, "batch length"],
    lengths: Int[Tensor, " batch"],
    *,
    words: Sequence[Sequence[str]],
) -> Phrases:
    """Every phrase of these rows, as first met; `words` has the text of each token of each row."""
    require_words(words, lengths)
    if not words:
        raise RegardError("There are no texts to take phrases from. Give at least one row.")
    trees = model.trees(tokens, lengths)
    met: dict[str, int] = {}
    for leaves, (nodes, joins, _) in zip(words, rows_of(trees, lengths), strict=True):
        texts = list(leaves)
        for left, right in joins:
            texts.append(f"{texts[left]} {texts[right]}")
        for node, text in zip(nodes, texts, strict=True):
            met.setdefault(text, node)
    vectors = trees.vectors[torch.tensor(list(met.values()), device=tokens.device)]
    return Phrases(tuple(met), unit(vectors))
