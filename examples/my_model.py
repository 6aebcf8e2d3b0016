"""Max-pooled embeddings: a text classifier that takes the largest value of each embedding dimension.

logits = W max_t E[token_t] + b          (SWEM-max; Shen et al. 2018, sec. 3.2)

regard train classify --plugin examples/my_model.py:MaxEmbedding --set model.name=MaxEmbedding
"""

from __future__ import annotations

from typing import ClassVar

from torch import nn

from regard.core import (
    ClassifierOutput,
    PositiveInt,
    Probability,
    Size,
    TokenInput,
    TokenSpec,
    Traits,
)


class MaxEmbedding(nn.Module):
    """A linear classifier on the maximum over time of the token embeddings."""

    traits: ClassVar[Traits] = Traits(
        inputs=frozenset({"tokens"}),
        targets=frozenset({"class", "value"}),
        sizes={"model_dim": Size()},
    )

    def __init__(
        self,
        *,
        source: TokenSpec,
        outputs: int,
        model_dim: PositiveInt = 64,
        dropout: Probability = 0.1,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(source.vocabulary, model_dim)
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(model_dim, outputs)

    def classify(self, input: TokenInput) -> ClassifierOutput:
        vectors = self.embedding(input.tokens)
        length = input.tokens.shape[1]
        positions = input.lengths.new_tensor(range(length))
        is_padding = positions >= input.lengths[:, None]
        pooled = vectors.masked_fill(is_padding[:, :, None], float("-inf")).amax(dim=1)
        logits = self.head(self.dropout(pooled))
        return ClassifierOutput(logits=logits, penalty=logits.new_zeros(len(logits)))
