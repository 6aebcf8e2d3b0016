"""A small stand-in for `TextEncoder`, with the same methods."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.core.batches import TokenInput, TokenSpec
from regard.core.protocols import ClassifierOutput


class SmallEncoder(nn.Module):
    """Features of a token: its embedding, its neighbours', and the mean of the row."""

    def __init__(
        self, *, source: TokenSpec | int, outputs: int | None = None, dim: int = 16
    ) -> None:
        super().__init__()
        vocabulary = source if isinstance(source, int) else source.vocabulary
        self.embedding = nn.Embedding(vocabulary, dim)
        self.mix = nn.Linear(4 * dim, dim)
        self.tokens = nn.Linear(dim, vocabulary)
        self.pairs = nn.Linear(dim, 2)
        self.classes = nn.Linear(dim, outputs or 1)

    def hidden(self, input: TokenInput) -> Tensor:
        tokens, lengths = input.tokens, input.lengths
        real = torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]
        x = self.embedding(tokens) * real[..., None]
        mean = x.sum(dim=1, keepdim=True) / lengths[:, None, None]
        features = (x, x.roll(1, dims=1), x.roll(-1, dims=1), mean.expand_as(x))
        mixed: Tensor = self.mix(torch.cat(features, dim=-1)).tanh()
        return mixed

    def pooled(self, hidden: Tensor) -> Tensor:
        return hidden[:, 0]

    def token_logits(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.tokens(hidden)
        return logits

    def pair_logits(self, pooled: Tensor) -> Tensor:
        logits: Tensor = self.pairs(pooled)
        return logits

    def classify(self, input: TokenInput) -> ClassifierOutput:
        logits: Tensor = self.classes(self.pooled(self.hidden(input)))
        return ClassifierOutput(logits, logits.new_zeros(len(logits)))

    def text_attention(self, input: TokenInput) -> None:
        """No attention."""
