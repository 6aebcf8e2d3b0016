"""Mechanisms whose outputs depend on masked or unrelated inputs."""

from __future__ import annotations

from typing import Any

import torch
from tests.conformance.broken.sound import Plain, Prefix
from torch import Tensor

from regard.core.masks import NO_MASK, Allowed, Mask


class SeesTheNextToken(Plain):
    """The causal mask is off by one."""

    def _weigh(self, query: Tensor, cached_key: Tensor, mask: Mask, bias: Any) -> Tensor:
        if mask.causal:
            ahead = cached_key.shape[2] - query.shape[2] + 1
            visible = torch.ones(query.shape[2], cached_key.shape[2], dtype=torch.bool).tril(ahead)
            mask = mask.without("causal") & Allowed(visible)
        return super()._weigh(query, cached_key, mask, bias)


class MaximumOverMaskedKeys(Plain):
    """The stabilising maximum includes masked keys."""

    def _weigh(self, query: Tensor, cached_key: Tensor, mask: Mask, bias: Any) -> Tensor:
        scores = self.scores(query, cached_key)
        allowed = mask.boolean(query.shape[2], cached_key.shape[2])
        exponentials = (scores - scores.amax(dim=-1, keepdim=True)).exp()
        if allowed is not None:
            exponentials = exponentials * allowed
        return exponentials / exponentials.sum(dim=-1, keepdim=True).clamp(min=1e-300)


class SendsGradientsBack(Plain):
    """Later values do not change the output, but receive a gradient."""

    def attend(self, query: Tensor, cached_key: Tensor, value: Tensor, *rest: Any) -> Tensor:
        mean = value.mean(dim=2, keepdim=True)
        return super().attend(query, cached_key, value, *rest) + (mean - mean.detach())


class AlignsTheFirstQuery(Plain):
    """Aligns the first query with the first key, as torch's is_causal."""

    def _weigh(self, query: Tensor, cached_key: Tensor, mask: Mask, bias: Any) -> Tensor:
        if mask.causal:
            visible = torch.ones(query.shape[2], cached_key.shape[2], dtype=torch.bool).tril()
            mask = mask.without("causal") & Allowed(visible)
        return super()._weigh(query, cached_key, mask, bias)


class ReadsPadding(Plain):
    """Padding is ignored in both methods."""

    def _weigh(self, query: Tensor, cached_key: Tensor, mask: Mask, bias: Any) -> Tensor:
        return super()._weigh(query, cached_key, mask.without("lengths"), bias)


class IgnoresTheWindow(Plain):
    """A window is accepted and not applied."""

    def _weigh(self, query: Tensor, cached_key: Tensor, mask: Mask, bias: Any) -> Tensor:
        return super()._weigh(query, cached_key, mask.without("radius"), bias)


class NonzeroMaskedWeights(Plain):
    """Masked weights are small but not zero."""

    def weights(self, query: Tensor, key: Tensor, mask: Mask = NO_MASK, **kwargs: Any) -> Tensor:
        return super().weights(query, key, mask, **kwargs).clamp(min=1e-12)


class DoesNotRenormalise(Plain):
    """The mask is applied after the softmax, without renormalising."""

    def _weigh(self, query: Tensor, cached_key: Tensor, mask: Mask, bias: Any) -> Tensor:
        whole = super()._weigh(query, cached_key, NO_MASK, bias)
        allowed = mask.boolean(query.shape[2], cached_key.shape[2])
        return whole if allowed is None else whole * allowed


class CentresOverTheBatch(Plain):
    """Keys are centred over the whole batch."""

    def scores(self, query: Tensor, cached_key: Tensor, **kwargs: Any) -> Tensor:
        return super().scores(query - query.mean(dim=0), cached_key, **kwargs)


class CentresOverHeads(Plain):
    """Queries are centred over the heads."""

    def scores(self, query: Tensor, cached_key: Tensor, **kwargs: Any) -> Tensor:
        return super().scores(query - query.mean(dim=1, keepdim=True), cached_key, **kwargs)


class DropsAKeyBetweenChunks(Prefix):
    """The running sum misses the last key of every chunk."""

    def sums(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        whole = super().sums(query, key, value)
        queries, keys = query.shape[2], key.shape[2]
        positions = torch.arange(queries)[:, None] + keys - queries
        last = torch.arange(keys)[self.chunk_size - 1 :: self.chunk_size]
        missed = (query @ key[:, :, last].mT) * (positions > last)
        return whole - missed @ value[:, :, last]
