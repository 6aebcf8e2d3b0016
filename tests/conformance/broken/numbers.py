"""Mechanisms with wrong values, NaN, or a wrong dtype."""

from __future__ import annotations

from typing import Any

import torch
from tests.conformance.broken.sound import Plain
from torch import Tensor, nn

from regard.core.masks import NO_MASK, Mask


class ScalesTwice(Plain):
    """`weights` divides by d, `forward` by √d."""

    def weights(self, query: Tensor, key: Tensor, mask: Mask = NO_MASK, **kwargs: Any) -> Tensor:
        return super().weights(query * query.shape[-1] ** -0.5, key, mask, **kwargs)


class NotLinearInValues(Plain):
    """Applies tanh to the values."""

    def attend(self, query: Tensor, cached_key: Tensor, value: Tensor, *rest: Any) -> Tensor:
        return super().attend(query, cached_key, value.tanh(), *rest)


class DoesNotNormalise(Plain):
    """The exponentials are not divided by their sum."""

    def _weigh(self, query: Tensor, cached_key: Tensor, mask: Mask, bias: Any) -> Tensor:
        weights = super()._weigh(query, cached_key, mask, bias)
        return weights * (1.0 + query.square().mean(dim=-1, keepdim=True))


class GoesNegative(Plain):
    """Rows sum to one, but some weights are negative."""

    def _weigh(self, query: Tensor, cached_key: Tensor, mask: Mask, bias: Any) -> Tensor:
        toward = super()._weigh(query, cached_key, mask, bias)
        away = super()._weigh(-query, cached_key, mask, bias)
        return 2.0 * toward - away


class NaNWhenFullyMasked(Plain):
    """A softmax over a row of −∞."""

    def _weigh(self, query: Tensor, cached_key: Tensor, mask: Mask, bias: Any) -> Tensor:
        scores = self.scores(query, cached_key)
        allowed = mask.boolean(query.shape[2], cached_key.shape[2])
        if allowed is not None:
            scores = scores.masked_fill(~allowed, float("-inf"))
        return torch.softmax(scores, dim=-1)


class UniformWhenFullyMasked(Plain):
    """A softmax over a row of equal, very negative scores."""

    def _weigh(self, query: Tensor, cached_key: Tensor, mask: Mask, bias: Any) -> Tensor:
        scores = self.scores(query, cached_key)
        allowed = mask.boolean(query.shape[2], cached_key.shape[2])
        if allowed is not None:
            scores = scores.masked_fill(~allowed, -1e9)
        return torch.softmax(scores, dim=-1)


class Overflows(Plain):
    """exp without subtracting a maximum."""

    def _weigh(self, query: Tensor, cached_key: Tensor, mask: Mask, bias: Any) -> Tensor:
        exponentials = self.scores(query, cached_key).exp()
        allowed = mask.boolean(query.shape[2], cached_key.shape[2])
        if allowed is not None:
            exponentials = exponentials.masked_fill(~allowed, 0.0)
        total = exponentials.sum(dim=-1, keepdim=True)
        return exponentials / torch.where(total == 0, torch.ones_like(total), total)


class ComputesInHalfPrecision(Plain):
    """Computes float32 inputs in bfloat16."""

    def attend(self, query: Tensor, cached_key: Tensor, value: Tensor, *rest: Any) -> Tensor:
        output = super().attend(query, cached_key, value, *rest)
        return output.bfloat16().float() if output.dtype == torch.float32 else output


class ChangesTheType(Plain):
    """Always returns float64."""

    def attend(self, query: Tensor, cached_key: Tensor, value: Tensor, *rest: Any) -> Tensor:
        return super().attend(query, cached_key, value, *rest).double()


class DropsWeights(Plain):
    """Dropout on the weights, in evaluation mode too."""

    def _weigh(self, query: Tensor, cached_key: Tensor, mask: Mask, bias: Any) -> Tensor:
        return nn.functional.dropout(super()._weigh(query, cached_key, mask, bias), p=0.1)


class AssumesContiguous(Plain):
    """Reads the keys' memory as if they were contiguous."""

    def project_key(self, key: Tensor) -> Tensor:
        strides = key.contiguous().stride()
        last = sum((size - 1) * step for size, step in zip(key.shape, strides, strict=True))
        available = key.untyped_storage().nbytes() // key.element_size() - key.storage_offset()
        return key.as_strided(key.shape, strides) if last < available and key.numel() else key


class WritesIntoItsInput(Plain):
    """Scales the queries in place."""

    def forward(self, query: Tensor, *rest: Any, **kwargs: Any) -> Tensor:
        with torch.no_grad():
            query.mul_(1.0 + 1e-6)
        return super().forward(query, *rest, **kwargs)


class NeedsAKey(Plain):
    """Takes a maximum over possibly no keys."""

    def scores(self, query: Tensor, cached_key: Tensor, **kwargs: Any) -> Tensor:
        scores = super().scores(query, cached_key, **kwargs)
        return scores - scores.amax(dim=-1, keepdim=True)


class TilesGroups(Plain):
    """Key/value heads are repeated in turn, 0 1 0 1, instead of 0 0 1 1."""

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, *rest: Any, **kwargs: Any
    ) -> Tensor:
        if query.shape[1] % key.shape[1] == 0:
            times = query.shape[1] // key.shape[1]
            key, value = key.repeat(1, times, 1, 1), value.repeat(1, times, 1, 1)
        return super().forward(query, key, value, *rest, **kwargs)


class ExpectsEqualWidths(Plain):
    """Takes both widths, but works only if they are equal."""

    def __init__(self, *, query_dim: int, key_dim: int, num_heads: int) -> None:
        super().__init__(num_heads=num_heads)


class ForgetsTheBias(Plain):
    """`forward` ignores the bias."""

    def attend(
        self,
        query: Tensor,
        cached_key: Tensor,
        value: Tensor,
        mask: Mask,
        bias: Any,
        dropout: float,
    ) -> Tensor:
        return super().attend(query, cached_key, value, mask, None, dropout)


class FormsDiffer(Plain):
    """The linear form gives slightly different values."""

    form = "auto"

    def attend(self, query: Tensor, cached_key: Tensor, value: Tensor, *rest: Any) -> Tensor:
        output = super().attend(query, cached_key, value, *rest)
        return output * (1.0 + 1e-6) if self.form == "linear" else output
