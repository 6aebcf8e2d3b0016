"""What classifiers of texts share as modules: called, they give scores; most have nothing to look at."""

from __future__ import annotations

from abc import ABC, abstractmethod

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.text_classifier import Classified, TextReading


class TextModel(nn.Module, ABC):
    """A `TextClassifier` as a module: it says how it classifies, and what it looked at if it can."""

    @abstractmethod
    def classified(
        self,
        tokens: Int[Tensor, "batch length"],
        lengths: Int[Tensor, " batch"],
        segments: Int[Tensor, "batch length"] | None = None,
    ) -> Classified:
        """The scores of each text, and what training adds to its loss."""

    def forward(
        self,
        tokens: Int[Tensor, "batch length"],
        lengths: Int[Tensor, " batch"],
        segments: Int[Tensor, "batch length"] | None = None,
    ) -> Float[Tensor, "batch classes"]:
        return self.classified(tokens, lengths, segments).logits

    def reading(
        self,
        tokens: Int[Tensor, "batch length"],
        lengths: Int[Tensor, " batch"],
        segments: Int[Tensor, "batch length"] | None = None,
    ) -> TextReading | None:
        """Nothing, unless a model has attention."""
        del tokens, lengths, segments
        return None
