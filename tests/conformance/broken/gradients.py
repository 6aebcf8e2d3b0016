"""Gradients that are lost."""

from __future__ import annotations

from typing import Any

import torch
from tests.conformance.broken.sound import Plain
from torch import Tensor, nn


class DetachesItsKeys(Plain):
    """No gradient reaches the keys, through either face."""

    def remember(self, key: Tensor) -> Tensor:
        return key.detach()


class DetachesInForward(Plain):
    """The fast path loses the gradient of the queries; the weights keep it."""

    def attend(self, query: Tensor, *rest: Any) -> Tensor:
        return super().attend(query.detach(), *rest)


class DoesNotUseAParameter(Plain):
    """One of its parameters has no effect."""

    def __init__(self, *, num_heads: int) -> None:
        super().__init__(num_heads=num_heads)
        self.unused = nn.Parameter(torch.randn(num_heads))


class KeepsATensorUnsaved(Plain):
    """What it drew when it was built is not in its state_dict."""

    def __init__(self, *, num_heads: int) -> None:
        super().__init__(num_heads=num_heads)
        self.shift = torch.rand(num_heads, 1, 1)

    def scores(self, query: Tensor, remembered: Tensor, **words: Any) -> Tensor:
        return super().scores(query + self.shift.to(query), remembered, **words)
