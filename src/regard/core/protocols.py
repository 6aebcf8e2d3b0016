"""What the training loop asks of a task: batches, a loss, and a score.

The task owns its data and its loss, so that the loop has nothing to know about either.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from regard.core.cost import Cost
from regard.core.mechanism import State, Step


class Loss(NamedTuple):
    """A loss summed over `num_predictions`; the mean is what is reported and followed."""

    total: Float[Tensor, ""]
    num_predictions: int


class Batch(Protocol):
    """The part of a batch that the loop may rely on."""

    @property
    def num_predictions(self) -> int:
        """What the loss of this batch is summed over."""
        ...

    @property
    def num_tokens(self) -> int:
        """What a budget of tokens counts."""
        ...


@runtime_checkable
class Task(Protocol):
    """Data, loss and metric of one problem."""

    @property
    def metric(self) -> str:
        """The score that decides which weights are kept: a name in what `evaluate` returns."""
        ...

    @property
    def lower_is_better(self) -> bool:
        """Whether a smaller value of the metric is better."""
        ...

    def epoch(self, number: int) -> Sequence[Any]:
        """The batches of one pass, in order; a function of the task's seed and the number alone.

        Its length is known before any batch is made, and batches are made one at a time.
        """
        ...

    def loss(self, model: Any, batch: Any) -> Loss:
        """The loss of a batch."""
        ...

    def evaluate(self, model: Any) -> dict[str, float]:
        """Scores on the held-out part; the model is in evaluation mode, without gradients."""
        ...


# What the rest of the system may ask of a sequence-to-sequence model, whatever it is made of.
#
# logits(hidden(source, source_lengths, given))     training: every next token at once start(source,
# source_lengths); step(state, token) decoding: one token at a time, the source read once
# weights(source, source_lengths, given)            looking: who read whom, recomputed on demand
#
# `step`, fed the tokens of `given` one after the other, gives the rows of `logits(hidden(...))`.


@runtime_checkable
class SequenceModel(Protocol):
    """An `nn.Module` from one token sequence to another."""

    def target_limits(self, source_lengths: Int[Tensor, " batch"]) -> Int[Tensor, " batch"] | None:
        """The most tokens each row can be given, START counted; None where there is no limit."""
        ...

    def hidden(
        self,
        source: Int[Tensor, "batch source_length"],
        source_lengths: Int[Tensor, " batch"],
        given: Int[Tensor, "batch target_length"],
    ) -> Float[Tensor, "batch target_length model_dim"]:
        """The features from which the token after each place of `given` is predicted."""
        ...

    def logits(
        self, hidden: Float[Tensor, "*places model_dim"]
    ) -> Float[Tensor, "*places target_vocabulary"]:
        """Scores of every token of the target vocabulary."""
        ...

    def start(
        self,
        source: Int[Tensor, "batch source_length"],
        source_lengths: Int[Tensor, " batch"],
    ) -> State:
        """The state before any target token, the source read."""
        ...

    def step(self, state: Any, token: Int[Tensor, " batch"]) -> Step:
        """The logits (batch, target_vocabulary) after one more token, and the new state."""
        ...

    def weights(
        self,
        source: Int[Tensor, "batch source_length"],
        source_lengths: Int[Tensor, " batch"],
        given: Int[Tensor, "batch target_length"],
    ) -> dict[str, Float[Tensor, "batch heads reading read"]]:
        """Every attention of the model by name; those that read the source begin with "cross"."""
        ...

    def cost(self, *, batch_size: int, source_length: int, target_length: int) -> Cost:
        """What `logits(hidden(...))` takes, forward."""
        ...

    def parameters(self) -> Iterable[Tensor]:
        """As every `nn.Module`."""
        ...


class Hypothesis(NamedTuple):
    """One decoded sequence, without START and END; `score` is what beam search ranked it by."""

    tokens: tuple[int, ...]
    score: float


@runtime_checkable
class Decode(Protocol):
    """Decoding with everything but the source settled, handed to those who may not know how."""

    def __call__(
        self,
        model: Any,
        source: Int[Tensor, "batch source_length"],
        source_lengths: Int[Tensor, " batch"],
    ) -> Sequence[Hypothesis]:
        """The best hypothesis of every row."""
        ...


# What the rest of the system may ask of a model that tells texts apart, whatever it is made of.
#
# classified(tokens, lengths, segments)    training and predicting: the scores of the classes
# reading(tokens, lengths, segments)       looking: how much each token and each sentence counted
#
# Tokens come padded at the end; `segments` says which sentence of its row a token belongs to,
# counted from 0, or which of two texts.


class Classified(NamedTuple):
    """The scores of the classes, and what training adds to the loss of each row; zeros where nothing."""

    logits: Float[Tensor, "batch classes"]
    penalty: Float[Tensor, " batch"]


class TextReading(NamedTuple):
    """How much each token counted, a row a hop, and how much each sentence, where sentences are read.

    Without `sentences` the weights of a hop sum to one over the tokens of a text, with them over those of
    each sentence; those of sentences sum to one over the text. Padding has no weight.
    """

    tokens: Float[Tensor, "batch hops length"]
    sentences: Float[Tensor, "batch sentences"] | None = None

    def importance(self, segments: Int[Tensor, "batch length"]) -> Float[Tensor, "batch length"]:
        """One number a token, which sum to one over a text: the mean of the hops, times its sentence's."""
        mean = self.tokens.mean(dim=1)
        if self.sentences is None:
            return mean
        # Padding may carry any segment; its weight is zero.
        places = segments.clamp(max=self.sentences.shape[1] - 1)
        return mean * torch.gather(self.sentences, 1, places)


def hop_overlap(weights: Float[Tensor, "batch hops length"]) -> Float[Tensor, " batch"]:
    """The mean over pairs of hops of aᵢ·aⱼ / (‖aᵢ‖ ‖aⱼ‖): 0 where none share a place, 1 where all are one.

    >>> hop_overlap(torch.tensor([[[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]]))
    tensor([0.])
    """
    hops = weights.shape[1]
    if hops < 2:
        return weights.new_zeros(weights.shape[0])
    unit = F.normalize(weights, dim=-1)
    products = unit @ unit.transpose(1, 2)
    own = torch.diagonal(products, dim1=1, dim2=2).sum(-1)
    return (products.sum(dim=(1, 2)) - own) / (hops * (hops - 1))


@runtime_checkable
class TextClassifier(Protocol):
    """An `nn.Module` from a text to the scores of its classes."""

    def classified(
        self,
        tokens: Int[Tensor, "batch length"],
        lengths: Int[Tensor, " batch"],
        segments: Int[Tensor, "batch length"] | None = None,
    ) -> Classified:
        """The scores of each row."""
        ...

    def reading(
        self,
        tokens: Int[Tensor, "batch length"],
        lengths: Int[Tensor, " batch"],
        segments: Int[Tensor, "batch length"] | None = None,
    ) -> TextReading | None:
        """What was looked at for `classified` of the same arguments; None in a model without attention."""
        ...

    def parameters(self) -> Iterable[Tensor]:
        """As every `nn.Module`."""
        ...
