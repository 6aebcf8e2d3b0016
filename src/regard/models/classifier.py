"""Base class of classifiers: features of an input, and a head that maps them to classes or to a number.

class Mine(Classifier):                        one method, the head and the traits are a model
    traits = Traits(inputs=frozenset({"tokens"}), targets=frozenset({"class", "value"}))

    def __init__(self, *, source: InputSpec | PositiveInt, outputs: PositiveInt, …) -> None:
        …
        self.head = nn.Linear(width, outputs)

    def features(self, input: Any) -> Float[Tensor, "batch width"]: …
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.protocols import ClassifierOutput, TextAttention
from regard.core.traits import Alternative, InputKind, TargetKind, Traits

ANY_INPUT: frozenset[InputKind] = frozenset({"tokens", "frames", "images"})
ONE_OUTPUT: frozenset[TargetKind] = frozenset({"class", "value"})

# Classifiers of a text in general, each an alternative of the others in the same width.
GENERAL = ("text_encoder", "structured", "bilstm", "convolutional", "bag_of_words")


def alternatives_of(own: str) -> tuple[Alternative, ...]:
    """The other general classifiers, with this model's model_dim."""
    same_width = {"model_dim": "model_dim"}
    return tuple(Alternative(model=name, options=same_width) for name in GENERAL if name != own)


class Classifier(nn.Module, ABC):
    """From an input to class logits, or to a number with one output (`core.protocols.TextClassifier`).

    Which kinds of `Input` it takes is declared in its traits.
    """

    traits: ClassVar[Traits]
    head: nn.Module

    @abstractmethod
    def features(self, input: Any) -> Float[Tensor, "batch width"]:
        """The input of the head: one vector per row."""

    def classify(self, input: Any) -> ClassifierOutput:
        """The logits of each row, and a penalty that training adds to its loss: none by default."""
        logits = self.head(self.features(input))
        return ClassifierOutput(logits, logits.new_zeros(len(logits)))

    def forward(self, input: Any) -> Float[Tensor, "batch outputs"]:
        return self.classify(input).logits

    def text_attention(self, input: Any) -> TextAttention | None:
        """The attention over the positions of the stem; None for models without attention."""
        del input
        return None


def is_position(x: Float[Tensor, "batch length width"], lengths: Int[Tensor, " batch"]) -> Tensor:
    """Which positions (batch, length, 1) are not padding."""
    return (torch.arange(x.shape[1], device=x.device) < lengths[:, None])[:, :, None]


def last_features(
    x: Float[Tensor, "batch length width"], lengths: Int[Tensor, " batch"]
) -> Float[Tensor, "batch width"]:
    """Final states of a bidirectional layer: forward at the last position, backward at the first."""
    forward, backward = x.chunk(2, dim=-1)
    return torch.cat([forward[torch.arange(len(x)), lengths - 1], backward[:, 0]], dim=-1)


def max_features(
    x: Float[Tensor, "batch length width"], lengths: Int[Tensor, " batch"]
) -> Float[Tensor, "batch width"]:
    """Max pooling, without padding."""
    return x.masked_fill(~is_position(x, lengths), -torch.inf).amax(dim=1)


def mean_features(
    x: Float[Tensor, "batch length width"], lengths: Int[Tensor, " batch"]
) -> Float[Tensor, "batch width"]:
    """Mean pooling, without padding."""
    return x.masked_fill(~is_position(x, lengths), 0.0).sum(dim=1) / lengths[:, None]
