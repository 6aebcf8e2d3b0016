"""Details of a classifier: the deletion test and hop overlap sample texts from the whole file."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.factories.lexicon_classifier import LexiconClassifier

from regard.core.batches import Input, TokenInput
from regard.core.protocols import TextAttention
from regard.data.examples import Examples, Ragged
from regard.tasks.classification.task import (
    DELETION_TEXTS,
    OVERLAP_TEXTS,
    classify_details,
    mean_hop_overlap,
)

# Token 4 votes for the second class, 5 for the first; 6 says nothing.
VOTES = [0.0, 0.0, 0.0, 0.0, 3.0, -3.0, 0.0]
LOOKS = [0.0, 1.0, 1.0, 1.0, 5.0, 2.0, 1.0]
HALF = 150


def sorted_file(half: int = HALF) -> Examples:
    """First all texts of one label, then all of the other."""
    return Examples(
        inputs=Ragged.of((token, 6, 6) for token in [5] * half + [4] * half),
        targets=np.repeat([0, 1], half),
        segments=np.zeros(6 * half, dtype=np.int32),
    )


def details(rows: Examples, **options: Any) -> dict[str, Any]:
    labels = ["bad", "good"]
    assert isinstance(rows.targets, np.ndarray)
    targets = [labels[number] for number in rows.targets]
    logits = torch.tensor([[1.0, 0.0], [0.0, 1.0]])[torch.from_numpy(rows.targets)]
    return classify_details(
        LexiconClassifier(VOTES, LOOKS),
        rows,
        logits,
        predictions=targets,
        targets=targets,
        labels=labels,
        **options,
    )


class TwoHops(LexiconClassifier):
    """Both hops agree in texts with token 4, and differ in those with token 5."""

    def text_attention(self, input: Input) -> TextAttention:
        assert isinstance(input, TokenInput)
        first = torch.tensor([1.0, 0.0, 0.0]).expand(len(input.tokens), 3)
        second = torch.where(input.tokens[:, :1] == 4, first, first.flip(1))
        return TextAttention(torch.stack([first, second], dim=1))


def test_deletion_test_samples_the_whole_file(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    classify = LexiconClassifier.classify

    def recording(self: Any, input: TokenInput) -> Any:
        seen.extend(input.tokens[:, 0].tolist())
        return classify(self, input)

    monkeypatch.setattr(LexiconClassifier, "classify", recording)
    found = details(sorted_file())
    assert found["deletion"]["texts"] == DELETION_TEXTS
    fractions = np.bincount(seen, minlength=6)[[4, 5]] / np.isin(seen, [4, 5]).sum()
    assert fractions.min() > 0.3


def test_hop_overlap_samples_the_whole_file() -> None:
    model = TwoHops(VOTES, LOOKS)
    overlap = mean_hop_overlap(model, sorted_file())["hop_overlap"]
    # 0 in the texts of the first half, 1 in those of the second.
    assert 0.3 < overlap < 0.7
    # A short file is not sampled.
    few = sorted_file(OVERLAP_TEXTS // 2)
    assert mean_hop_overlap(model, few)["hop_overlap"] == pytest.approx(0.5)


def test_seed_selects_the_sample() -> None:
    model, rows = TwoHops(VOTES, LOOKS), sorted_file()
    overlaps = [mean_hop_overlap(model, rows, seed=seed)["hop_overlap"] for seed in (0, 0, 1, 2, 3)]
    assert overlaps[0] == overlaps[1]
    assert len(set(overlaps)) > 1
    assert details(rows)["deletion"] == details(rows)["deletion"]
    assert details(rows)["deletion"] != details(rows, seed=1)["deletion"]


def test_model_without_attention_or_several_hops() -> None:
    assert mean_hop_overlap(LexiconClassifier(VOTES, None), sorted_file()) == {}
    assert mean_hop_overlap(LexiconClassifier(VOTES, LOOKS), sorted_file()) == {}  # one hop
    assert mean_hop_overlap(LexiconClassifier(VOTES, LOOKS), sorted_file(0)) == {}
