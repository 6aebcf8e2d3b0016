"""A classifier whose logits and attention weights can be computed by hand."""

from __future__ import annotations

import torch
from torch import nn

from regard.core.batches import Input, TokenInput
from regard.core.protocols import ClassifierOutput, TextAttention


class LexiconClassifier(nn.Module):
    """Two classes; the logit of the second is the sum of the `votes` of a text's tokens.

    Attention weights are `looks`, normalised over the text, or with `sentences` over each sentence, whose
    weight is its normalised sum. Without `looks` there is no attention.
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

    def classify(self, input: Input) -> ClassifierOutput:
        assert isinstance(input, TokenInput)
        tokens, lengths = input.tokens, input.lengths
        inside = torch.arange(tokens.shape[1]) < lengths[:, None]
        assert bool((inside == (tokens != 0)).all()), "padding inside a text"
        self.rows_read += len(tokens)
        second = (self.votes[tokens] * inside).sum(dim=1)
        logits = torch.stack([torch.zeros_like(second), second], dim=1)
        return ClassifierOutput(logits, torch.zeros(len(tokens)))

    def text_attention(self, input: Input) -> TextAttention | None:
        assert isinstance(input, TokenInput)
        tokens, lengths, segments = input.tokens, input.lengths, input.segments
        if self.looks is None:
            return None
        looks = self.looks[tokens] * (torch.arange(tokens.shape[1]) < lengths[:, None])
        total = looks.sum(dim=1, keepdim=True)
        if not self.sentences:
            return TextAttention((looks / total)[:, None])
        assert segments is not None
        by_sentence = torch.zeros(len(tokens), int(segments.max()) + 1).scatter_add(
            1, segments, looks
        )
        within = looks / by_sentence.gather(1, segments).clamp(min=1e-9)
        return TextAttention(within[:, None], by_sentence / total)
