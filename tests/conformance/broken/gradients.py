"""Mechanisms with missing gradients or an incomplete state_dict."""

from __future__ import annotations

from typing import Any

import torch
from tests.conformance.broken.sound import Plain
from torch import Tensor, nn


class DetachesItsKeys(Plain):
    """No gradient reaches the keys, through forward or weights."""

    def project_key(self, key: Tensor) -> Tensor:
        return key.detach()


class DetachesInForward(Plain):
    """`forward` loses the gradient of the queries; `weights` keeps it."""

    def attend(self, query: Tensor, *rest: Any) -> Tensor:
        return super().attend(query.detach(), *rest)


class DoesNotUseAParameter(Plain):
    """One of its parameters has no effect."""

    def __init__(self, *, num_heads: int) -> None:
        super().__init__(num_heads=num_heads)
        self.unused = nn.Parameter(torch.randn(num_heads))


class KeepsATensorUnsaved(Plain):
    """A random tensor is not in its state_dict."""

    def __init__(self, *, num_heads: int) -> None:
        super().__init__(num_heads=num_heads)
        self.shift = torch.rand(num_heads, 1, 1)

    def scores(self, query: Tensor, cached_key: Tensor, **kwargs: Any) -> Tensor:
        return super().scores(query + self.shift.to(query), cached_key, **kwargs)
