"""Similarities of texts by their characters, from 0 to 1: Jaccard, cosine, Damerau–Levenshtein.

The mean over items; where an item has several references, the most similar one counts. Jaccard and cosine
compare how often each character occurs, in any order: they are upper bounds on what a model got right, and
high even for unrelated sentences of one language.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from rapidfuzz.distance import DamerauLevenshtein

from regard.tasks.metrics.metric import RatioMetric, validate_choices


class CharacterSimilarity(RatioMetric):
    """The mean over items of `similarity` to the most similar reference.

    Two empty texts have the similarity 1, an empty and another one 0. Characters are Unicode code points;
    case, spaces and accents count.
    """

    digits = 4

    @staticmethod
    @abstractmethod
    def similarity(text: str, other: str) -> float:
        """The similarity of two texts, at least one of which is not empty."""

    def statistics(
        self, predictions: Sequence[str], references: Sequence[Sequence[str]]
    ) -> Float[np.ndarray, "items 2"]:
        validate_choices(references)
        best = [
            max(self._of_pair(prediction, reference) for reference in choices)
            for prediction, choices in zip(predictions, references, strict=True)
        ]
        return np.stack([np.array(best, dtype=np.float64), np.ones(len(best))], axis=1)

    def _of_pair(self, text: str, other: str) -> float:
        return self.similarity(text, other) if text or other else 1.0


def shared_characters(text: str, other: str) -> int:
    """How many characters two texts have in common, each as often as in both.

    >>> shared_characters("letter", "tree")
    4
    """
    return (Counter(text) & Counter(other)).total()


class JaccardSimilarity(CharacterSimilarity):
    """Jaccard similarity of multisets of characters: shared characters over those in either text.

    >>> JaccardSimilarity()(["letter"], [("tree",)])  # t, r, e, e of l, e, t, t, e, r
    0.6666666666666666
    """

    name = "jaccard_similarity"
    note = "shared characters over characters in either text, in any order; mean over items"

    @staticmethod
    def similarity(text: str, other: str) -> float:
        shared = shared_characters(text, other)
        return shared / (len(text) + len(other) - shared)


class CosineSimilarity(CharacterSimilarity):
    """Cosine (Ochiai) similarity of multisets of characters: shared characters over √(length · length).

    >>> CosineSimilarity()(["letter"], [("tree",)])  # 4 / √(6 · 4)
    0.8164965809277261
    """

    name = "cosine_similarity"
    note = "shared characters over the geometric mean of the lengths, in any order; mean over items"

    @staticmethod
    def similarity(text: str, other: str) -> float:
        if not text or not other:
            return 0.0
        return shared_characters(text, other) / math.sqrt(len(text) * len(other))


class DamerauLevenshteinSimilarity(CharacterSimilarity):
    """1 − edits / length of the longer text; an edit may also swap neighbouring characters.

    The distance is unrestricted (Damerau 1964; Lowrance and Wagner 1975): what was swapped may be edited
    again. "ca" becomes "abc" by two edits, ca → ac → abc. Optimal string alignment, the restricted form,
    edits no substring twice and needs three; it does not satisfy the triangle inequality.

    >>> round(DamerauLevenshteinSimilarity()(["ca"], [("abc",)]), 4)
    0.3333
    """

    name = "damerau_levenshtein_similarity"
    note = "1 − edits and swaps of neighbours over the longer length; mean over items"

    @staticmethod
    def similarity(text: str, other: str) -> float:
        return float(DamerauLevenshtein.normalized_similarity(text, other))
