"""What is told beside the scores: of texts that are drawn from the whole file, not of its first ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.factories.lexicon_classifier import LexiconClassifier
from torch import Tensor

from regard.core.protocols import TextReading
from regard.data.text_dataset import DocumentRows, EncodedDocument
from regard.tasks.classification.task import (
    DELETION_TEXTS,
    OVERLAP_TEXTS,
    classify_details,
    overlap_of_hops,
)

# Token 4 votes for the second class, 5 for the first; 6 says nothing.
VOTES = [0.0, 0.0, 0.0, 0.0, 3.0, -3.0, 0.0]
LOOKS = [0.0, 1.0, 1.0, 1.0, 5.0, 2.0, 1.0]
HALF = 150


def sorted_file(half: int = HALF) -> DocumentRows:
    """First all texts of one label, then all of the other."""
    return DocumentRows.of(
        [EncodedDocument((token, 6, 6), (0, 0, 0)) for token in [5] * half + [4] * half],
        [0] * half + [1] * half,
    )


def details(rows: DocumentRows, **options: Any) -> dict[str, Any]:
    labels = ["bad", "good"]
    right = [labels[number] for number in rows.labels]
    logits = torch.tensor([[1.0, 0.0], [0.0, 1.0]])[torch.from_numpy(rows.labels)]
    return classify_details(
        LexiconClassifier(VOTES, LOOKS),
        rows,
        logits,
        predicted=right,
        right=right,
        labels=labels,
        **options,
    )


class TwoHops(LexiconClassifier):
    """One hop looks where the other does in texts with token 4, and elsewhere in those with 5."""

    def reading(
        self, tokens: Tensor, lengths: Tensor, segments: Tensor | None = None
    ) -> TextReading:
        first = torch.tensor([1.0, 0.0, 0.0]).expand(len(tokens), 3)
        second = torch.where(tokens[:, :1] == 4, first, first.flip(1))
        return TextReading(torch.stack([first, second], dim=1))


def test_leaving_words_out_is_of_texts_of_the_whole_file(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    classified = LexiconClassifier.classified

    def noting(self: Any, tokens: Tensor, *others: Any) -> Any:
        seen.extend(tokens[:, 0].tolist())
        return classified(self, tokens, *others)

    monkeypatch.setattr(LexiconClassifier, "classified", noting)
    found = details(sorted_file())
    assert found["deletion"]["texts"] == DELETION_TEXTS
    shares = np.bincount(seen, minlength=6)[[4, 5]] / np.isin(seen, [4, 5]).sum()
    assert shares.min() > 0.3


def test_the_overlap_of_hops_is_that_of_texts_of_the_whole_file() -> None:
    model = TwoHops(VOTES, LOOKS)
    overlap = overlap_of_hops(model, sorted_file())["hop_overlap"]
    # 0 in the texts of the first half, 1 in those of the second.
    assert 0.3 < overlap < 0.7
    # Of a file that is not too long every text counts.
    few = sorted_file(OVERLAP_TEXTS // 2)
    assert overlap_of_hops(model, few)["hop_overlap"] == pytest.approx(0.5)


def test_the_seed_decides_which_texts() -> None:
    model, rows = TwoHops(VOTES, LOOKS), sorted_file()
    overlaps = [overlap_of_hops(model, rows, seed=seed)["hop_overlap"] for seed in (0, 0, 1, 2, 3)]
    assert overlaps[0] == overlaps[1]
    assert len(set(overlaps)) > 1
    assert details(rows)["deletion"] == details(rows)["deletion"]
    assert details(rows)["deletion"] != details(rows, seed=1)["deletion"]


def test_a_model_without_weights_has_no_deletion_and_no_overlap() -> None:
    assert overlap_of_hops(LexiconClassifier(VOTES, None), sorted_file()) == {}
    assert overlap_of_hops(LexiconClassifier(VOTES, LOOKS), sorted_file()) == {}  # one hop
    assert overlap_of_hops(LexiconClassifier(VOTES, LOOKS), sorted_file(0)) == {}
