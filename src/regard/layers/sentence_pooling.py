"""Attention pooling of the words of many sentences at once, optionally with document context.

    none     u = tanh(W h + b)                                      (Yang et al. 2016)
    added    u = tanh(W h + V c + b)                                (Remy et al. 2019)
    gated    λ = σ(P h + R c + d),  u = tanh(λ ∘ W h + (1 − λ) ∘ V c + b)

    α = softmax over the words of a sentence of u · u_context,  output = Σ α h

h is a word's vector, c the context vector of its sentence (such as a summary of the other sentences).
Unlike `ContextPooling`, the words of all sentences are concatenated without padding.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.cost import Cost
from regard.core.counting import Example
from regard.core.errors import RegardError
from regard.core.options import PositiveInt, validated
from regard.layers.cost import SequenceShape, layer_cost


def segment_softmax(
    scores: Float[Tensor, " items"], segment: Int[Tensor, " items"], *, count: int
) -> Float[Tensor, " items"]:
    """Softmax over the items of each of `count` segments.

    >>> segment_softmax(torch.zeros(5), torch.tensor([0, 0, 1, 1, 1]), count=2)
    tensor([0.5000, 0.5000, 0.3333, 0.3333, 0.3333])
    """
    with torch.no_grad():  # a shift of all scores of a segment does not change its weights
        least = torch.full((count,), -torch.inf, dtype=scores.dtype, device=scores.device)
        largest = least.scatter_reduce(0, segment, scores, reduce="amax")
    raised = (scores - largest[segment]).exp()
    totals = raised.new_zeros(count).index_add(0, segment, raised)
    return raised / totals[segment]


def segment_sum(
    weights: Float[Tensor, " items"],
    values: Float[Tensor, "items width"],
    segment: Int[Tensor, " items"],
    *,
    count: int,
) -> Float[Tensor, "count width"]:
    """The weighted sum of the values of each segment; zeros for an empty segment."""
    sums = values.new_zeros(count, values.shape[1])
    return sums.index_add(0, segment, weights[:, None] * values)


class PooledSentences(NamedTuple):
    """One vector per sentence, and the attention weight of each word."""

    context: Float[Tensor, "sentences model_dim"]
    weights: Float[Tensor, " words"]


class SentencePooling(nn.Module):
    """From the words of sentences to one vector per sentence; `context_dim` adds a context vector."""

    @validated
    def __init__(
        self,
        *,
        model_dim: PositiveInt,
        hidden_dim: PositiveInt | None = None,
        context_dim: PositiveInt | None = None,
        gated: bool = False,
    ) -> None:
        super().__init__()
        hidden_dim = model_dim if hidden_dim is None else hidden_dim
        if gated and context_dim is None:
            raise RegardError(
                "SentencePooling has gated=True and no context_dim: the gate weighs a word against the "
                "context vector. Set context_dim, or gated=False."
            )
        self.hidden = nn.Linear(model_dim, hidden_dim)
        self.score = nn.Parameter(torch.empty(hidden_dim))
        nn.init.normal_(self.score, std=hidden_dim**-0.5)
        self.elsewhere = self.gate = self.gate_elsewhere = None
        if context_dim is not None:
            self.elsewhere = nn.Linear(context_dim, hidden_dim, bias=False)
            if gated:
                self.gate = nn.Linear(model_dim, hidden_dim)
                self.gate_elsewhere = nn.Linear(context_dim, hidden_dim, bias=False)

    def project(self, words: Float[Tensor, "words model_dim"]) -> Projected:
        """The part of the scores that depends on the words only, computed once for all sentences."""
        return Projected(
            keys=nn.functional.linear(words, self.hidden.weight),
            gates=None if self.gate is None else self.gate(words),
        )

    def forward(
        self,
        words: Float[Tensor, "words model_dim"],
        sentence: Int[Tensor, " words"],
        *,
        count: int,
        projected: Projected | None = None,
        context: Float[Tensor, "sentences context_dim"] | None = None,
    ) -> PooledSentences:
        """The vectors of `count` sentences; `context` has one vector per sentence."""
        keys, gates = self.project(words) if projected is None else projected
        if self.elsewhere is not None and context is not None:
            added = self.elsewhere(context)[sentence]
            if gates is None or self.gate_elsewhere is None:
                keys = keys + added
            else:
                share = torch.sigmoid(gates + self.gate_elsewhere(context)[sentence])
                keys = share * keys + (1 - share) * added
        scores = torch.tanh(keys + self.hidden.bias) @ self.score
        weights = segment_softmax(scores, sentence, count=count)
        return PooledSentences(segment_sum(weights, words, sentence, count=count), weights)

    def cost(self, shape: SequenceShape) -> Cost:
        """The cost of `forward`, counted, for sentences of equal length."""

        def prepare(pooling: SentencePooling) -> Example:
            words = shape.vectors(pooling.hidden.in_features).flatten(0, 1)
            sentence = torch.arange(shape.batch_size).repeat_interleave(shape.length)
            inputs: tuple[Tensor, ...] = (words,)
            context = None
            if pooling.elsewhere is not None:
                context = torch.randn(shape.batch_size, pooling.elsewhere.in_features)
                inputs = (words, context)
            forward = partial(pooling, words, sentence, count=shape.batch_size, context=context)
            return Example(forward, inputs)

        return layer_cost(self, shape, prepare, max_path_length=lambda: 1)


class Projected(NamedTuple):
    """The words' part of the scores, and of the gates if there are any."""

    keys: Float[Tensor, "words hidden_dim"]
    gates: Float[Tensor, "words hidden_dim"] | None

    def of(self, chosen: slice) -> Projected:
        """The part of some words."""
        return Projected(self.keys[chosen], None if self.gates is None else self.gates[chosen])
