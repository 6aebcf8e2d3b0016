"""Mechanisms with wrong declarations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.conformance.broken.sound import Plain, Prefix
from torch import Tensor

from regard.core.masks import Mask
from regard.core.mechanism import Capabilities


class UndeclaredPositionAware(Plain):
    """Scores depend on positions, which is not declared."""

    def scores(self, query: Tensor, cached_key: Tensor, **kwargs: Any) -> Tensor:
        scores = super().scores(query, cached_key, **kwargs)
        positions: Tensor = kwargs["key_positions"][:, None, None, :]
        return scores - 0.1 * positions.clamp(min=0)


class ClaimsPositions(Plain):
    """Declares position_aware, but is not."""

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, position_aware=True)


class NamesAnUnknownMask(Plain):
    """Declares a mask kind that does not exist."""

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, masks=frozenset({"causal", "blocked"}))


class AcceptsUndeclaredMasks(Plain):
    """Accepts window masks that it does not declare."""

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, masks=frozenset({"causal", "padding"}))

    def validate_call(self, query: Tensor, key: Tensor, value: Tensor | None, mask: Mask) -> None:
        super().validate_call(query, key, value, mask.without("radius", "allowed"))


class AcceptsMissingCausal(Prefix):
    """Requires a causal mask, but accepts calls without."""

    def validate_call(self, query: Tensor, key: Tensor, value: Tensor | None, mask: Mask) -> None:
        super().validate_call(query, key, value, replace(mask, causal=True))


class AcceptsOverlong(Plain):
    """Declares a maximum length, but accepts more."""

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, max_length=17)

    def validate_length(self, key_length: int) -> None:
        del key_length


class FailsOnUnevenHeads(Plain):
    """Uneven heads raise an AssertionError instead of a RegardError."""

    def validate_call(self, query: Tensor, key: Tensor, value: Tensor | None, mask: Mask) -> None:
        assert value is None or query.shape[1] % value.shape[1] == 0


class IgnoresUnknownKeywords(Plain):
    """Ignores misspelled keywords."""

    def forward(self, *args: Any, bias: Any = None, **_: Any) -> Tensor:
        return super().forward(*args, bias=bias)


class Raises(Plain):
    """Always raises."""

    def scores(self, query: Tensor, cached_key: Tensor, **_: Any) -> Tensor:
        raise ZeroDivisionError("there is no score")
