"""Learned-context pooling of many sentences at once, which may be told what the document says elsewhere.

    none     u = tanh(W h + b)                                      (Yang et al. 2016)
    added    u = tanh(W h + V c + b)                                (Remy et al. 2019)
    gated    λ = σ(P h + R c + d),  u = tanh(λ ∘ W h + (1 − λ) ∘ V c + b)

    α = softmax over the words of a sentence of u · u_context,  output = Σ α h

h is a word's vector, c what is known of the other sentences. Unlike `ContextPooling` the words of all
sentences come in one row without padding.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.cost import Cost, linear_cost
from regard.core.errors import RegardError
from regard.layers.cost import SequenceShape, cost_of, require_shape
from regard.layers.validation import require_positive

# Softmax and weighted sums within segments of one long row, without padding.
#
# scores    1 1 | 0 0 0        weights   ½ ½ | ⅓ ⅓ ⅓        sums of values   one vector a segment
#
# As `pooling.pool` of every segment, for segments of very different lengths that follow one
# another.


def softmax_within(
    scores: Float[Tensor, " items"], segment: Int[Tensor, " items"], *, count: int
) -> Float[Tensor, " items"]:
    """Weights that sum to one over the items of each of `count` segments.

    >>> softmax_within(torch.zeros(5), torch.tensor([0, 0, 1, 1, 1]), count=2)
    tensor([0.5000, 0.5000, 0.3333, 0.3333, 0.3333])
    """
    with torch.no_grad():  # a shift of all scores of a segment changes no weight
        least = torch.full((count,), -torch.inf, dtype=scores.dtype, device=scores.device)
        largest = least.scatter_reduce(0, segment, scores, reduce="amax")
    raised = (scores - largest[segment]).exp()
    totals = raised.new_zeros(count).index_add(0, segment, raised)
    return raised / totals[segment]


def sums_within(
    weights: Float[Tensor, " items"],
    values: Float[Tensor, "items width"],
    segment: Int[Tensor, " items"],
    *,
    count: int,
) -> Float[Tensor, "count width"]:
    """The weighted sum of each segment's values; zeros for a segment without items."""
    sums = values.new_zeros(count, values.shape[1])
    return sums.index_add(0, segment, weights[:, None] * values)


class PooledSentences(NamedTuple):
    """A vector a sentence, and how much each word counted in it."""

    context: Float[Tensor, "sentences model_dim"]
    weights: Float[Tensor, " words"]


class SentencePooling(nn.Module):
    """From the words of sentences to one vector each; with `context_dim`, told a vector beside them."""

    def __init__(
        self,
        *,
        model_dim: int,
        hidden_dim: int | None = None,
        context_dim: int | None = None,
        gated: bool = False,
    ) -> None:
        super().__init__()
        hidden_dim = model_dim if hidden_dim is None else hidden_dim
        require_positive("SentencePooling", model_dim=model_dim, hidden_dim=hidden_dim)
        if gated and context_dim is None:
            raise RegardError(
                "SentencePooling has gated=True and no context_dim: a gate weighs a word against what is "
                "known of other sentences. Give context_dim, or gated=False."
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

    def projected(self, words: Float[Tensor, "words model_dim"]) -> Projected:
        """What of the scores depends on the words alone, so that it is computed once for all sentences."""
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
        """The vectors of `count` sentences; `context` is what each is told."""
        keys, gates = self.projected(words) if projected is None else projected
        if self.elsewhere is not None and context is not None:
            told = self.elsewhere(context)[sentence]
            if gates is None or self.gate_elsewhere is None:
                keys = keys + told
            else:
                share = torch.sigmoid(gates + self.gate_elsewhere(context)[sentence])
                keys = share * keys + (1 - share) * told
        scores = torch.tanh(keys + self.hidden.bias) @ self.score
        weights = softmax_within(scores, sentence, count=count)
        return PooledSentences(sums_within(weights, words, sentence, count=count), weights)

    def cost(self, shape: SequenceShape) -> Cost:
        """What `forward` takes for so many sentences of one length, told a context where it takes one."""
        require_shape("SentencePooling", shape)
        words, sentences = shape.rows, shape.batch_size
        model_dim, hidden_dim = self.hidden.in_features, self.hidden.out_features
        total = linear_cost(rows=words, in_features=model_dim, out_features=hidden_dim)
        for layer in (self.elsewhere, self.gate_elsewhere):
            total += Cost() if layer is None else cost_of(layer, rows=sentences)
        if self.gate is not None:
            gates = words * hidden_dim
            total += cost_of(self.gate, rows=words)
            total += Cost(functions=gates, arithmetic=5 * gates, memory=3 * gates)
        elif self.elsewhere is not None:
            total += Cost(arithmetic=words * hidden_dim, memory=words * hidden_dim)
        return total + Cost(
            products=2 * words * hidden_dim,
            # Of scores: a shift and a sum; and the weighted sum, which is no matrix product here.
            arithmetic=2 * words + 2 * words * model_dim,
            backward_products=2 * words * hidden_dim,
            functions=words * (hidden_dim + 2),
            memory=words * (hidden_dim + model_dim + 3) + sentences * model_dim,
            parameters=hidden_dim,
            sequential_steps=2,
            longest_path=1,
        )


class Projected(NamedTuple):
    """A word's part of its score, and of its gate where there is one."""

    keys: Float[Tensor, "words hidden_dim"]
    gates: Float[Tensor, "words hidden_dim"] | None

    def of(self, chosen: slice) -> Projected:
        """Those of some words."""
        return Projected(self.keys[chosen], None if self.gates is None else self.gates[chosen])
