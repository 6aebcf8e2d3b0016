"""Promises that are not kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.conformance.broken.sound import Plain, Prefix
from torch import Tensor

from regard.core.masks import Mask
from regard.core.mechanism import Capabilities


class KnowsPositionsSecretly(Plain):
    """Scores fall along the sequence, which is not declared."""

    def scores(self, query: Tensor, remembered: Tensor, **words: Any) -> Tensor:
        scores = super().scores(query, remembered, **words)
        positions: Tensor = words["key_positions"][:, None, None, :]
        return scores - 0.1 * positions.clamp(min=0)


class ClaimsPositions(Plain):
    """Declares to know positions, and does not."""

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, position_aware=True)


class NamesAnUnknownMask(Plain):
    """Declares a mask kind that does not exist."""

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, masks=frozenset({"causal", "blocked"}))


class AnswersForeignMasks(Plain):
    """Declares not to take windows, and takes them."""

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, masks=frozenset({"causal", "padding"}))

    def admit(self, query: Tensor, key: Tensor, value: Tensor | None, mask: Mask) -> None:
        super().admit(query, key, value, mask.without("radius", "allowed"))


class AnswersWithoutCausal(Prefix):
    """Declares to need a causal mask, and answers without."""

    def admit(self, query: Tensor, key: Tensor, value: Tensor | None, mask: Mask) -> None:
        super().admit(query, key, value, replace(mask, causal=True))


class AnswersOverlong(Plain):
    """Declares a maximum length, and lets more pass."""

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, max_length=17)

    def refuse_overlong(self, key_length: int) -> None:
        del key_length


class FailsOnUnevenHeads(Plain):
    """Heads that do not fit end in torch's own error."""

    def admit(self, query: Tensor, key: Tensor, value: Tensor | None, mask: Mask) -> None:
        assert value is None or query.shape[1] % value.shape[1] == 0


class SwallowsKeywords(Plain):
    """A misspelled keyword goes unnoticed."""

    def forward(self, *given: Any, bias: Any = None, **_: Any) -> Tensor:
        return super().forward(*given, bias=bias)


class Raises(Plain):
    """Fails altogether."""

    def scores(self, query: Tensor, remembered: Tensor, **_: Any) -> Tensor:
        raise ZeroDivisionError("there is no score")
