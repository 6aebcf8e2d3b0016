"""What the rest of the system may ask of a model that tells texts apart, whatever it is made of.

    classified(tokens, lengths, segments)    training and predicting: the scores of the classes
    reading(tokens, lengths, segments)       looking: how much each token and each sentence counted

Tokens come padded at the end; `segments` says which sentence of its row a token belongs to, counted from
0, or which of two texts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor


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
