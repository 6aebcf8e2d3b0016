"""A classifier whose answers and weights can be worked out with a pencil."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.core.protocols import Classified, TextReading


class LexiconClassifier(nn.Module):
    """Two classes; the score of the second is the sum of the `votes` of a text's tokens.

    A token's weight goes by `looks`: its share of them in its text, or with `sentences` in its sentence; a
    sentence's weight is its share of all looks. Without `looks` there is no attention.
    """

    def __init__(
        self, votes: list[float], looks: list[float] | None, *, sentences: bool = False
    ) -> None:
        super().__init__()
        self.votes = nn.Parameter(torch.tensor(votes))
        self.looks = None if looks is None else torch.tensor(looks)
        self.sentences = sentences
        self.rows_read = 0
        self.eval()

    def classified(
        self, tokens: Tensor, lengths: Tensor, segments: Tensor | None = None
    ) -> Classified:
        inside = torch.arange(tokens.shape[1]) < lengths[:, None]
        assert bool((inside == (tokens != 0)).all()), "padding stands in the middle of a text"
        self.rows_read += len(tokens)
        second = (self.votes[tokens] * inside).sum(dim=1)
        logits = torch.stack([torch.zeros_like(second), second], dim=1)
        return Classified(logits, torch.zeros(len(tokens)))

    def reading(
        self, tokens: Tensor, lengths: Tensor, segments: Tensor | None = None
    ) -> TextReading | None:
        if self.looks is None:
            return None
        looks = self.looks[tokens] * (torch.arange(tokens.shape[1]) < lengths[:, None])
        total = looks.sum(dim=1, keepdim=True)
        if not self.sentences:
            return TextReading((looks / total)[:, None])
        assert segments is not None
        parts = torch.zeros(len(tokens), int(segments.max()) + 1).scatter_add(1, segments, looks)
        within = looks / parts.gather(1, segments).clamp(min=1e-9)
        return TextReading(within[:, None], parts / total)
