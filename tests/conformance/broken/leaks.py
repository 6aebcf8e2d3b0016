"""Outputs that depend on what they should not see."""

from __future__ import annotations

from typing import Any

import torch
from tests.conformance.broken.sound import Plain, Prefix
from torch import Tensor

from regard.core.masks import NO_MASK, Allowed, Mask


class SeesTheNextToken(Plain):
    """The causal mask is off by one."""

    def _weigh(self, query: Tensor, remembered: Tensor, mask: Mask, bias: Any) -> Tensor:
        if mask.causal:
            ahead = remembered.shape[2] - query.shape[2] + 1
            seen = torch.ones(query.shape[2], remembered.shape[2], dtype=torch.bool).tril(ahead)
            mask = mask.without("causal") & Allowed(seen)
        return super()._weigh(query, remembered, mask, bias)


class LooksAheadForItsMaximum(Plain):
    """The maximum that keeps exp in range is taken over masked keys too."""

    def _weigh(self, query: Tensor, remembered: Tensor, mask: Mask, bias: Any) -> Tensor:
        scores = self.scores(query, remembered)
        allowed = mask.boolean(query.shape[2], remembered.shape[2])
        exponentials = (scores - scores.amax(dim=-1, keepdim=True)).exp()
        if allowed is not None:
            exponentials = exponentials * allowed
        return exponentials / exponentials.sum(dim=-1, keepdim=True).clamp(min=1e-300)


class SendsGradientsBack(Plain):
    """Nothing of later values shows in the output, but a gradient reaches them."""

    def attend(self, query: Tensor, remembered: Tensor, value: Tensor, *rest: Any) -> Tensor:
        mean = value.mean(dim=2, keepdim=True)
        return super().attend(query, remembered, value, *rest) + (mean - mean.detach())


class AlignsTheFirstQuery(Plain):
    """The first query stands at the first key, as in torch's own is_causal."""

    def _weigh(self, query: Tensor, remembered: Tensor, mask: Mask, bias: Any) -> Tensor:
        if mask.causal:
            seen = torch.ones(query.shape[2], remembered.shape[2], dtype=torch.bool).tril()
            mask = mask.without("causal") & Allowed(seen)
        return super()._weigh(query, remembered, mask, bias)


class ReadsPadding(Plain):
    """Padding is ignored in both faces."""

    def _weigh(self, query: Tensor, remembered: Tensor, mask: Mask, bias: Any) -> Tensor:
        return super()._weigh(query, remembered, mask.without("lengths"), bias)


class IgnoresTheWindow(Plain):
    """A window is accepted and not applied."""

    def _weigh(self, query: Tensor, remembered: Tensor, mask: Mask, bias: Any) -> Tensor:
        return super()._weigh(query, remembered, mask.without("radius"), bias)


class ShowsWeightsThatAreMasked(Plain):
    """The shown weights have a little left where the mask says no."""

    def weights(self, query: Tensor, key: Tensor, mask: Mask = NO_MASK, **words: Any) -> Tensor:
        return super().weights(query, key, mask, **words).clamp(min=1e-12)


class DoesNotRenormalise(Plain):
    """The mask is applied after the softmax: what remains is too small."""

    def _weigh(self, query: Tensor, remembered: Tensor, mask: Mask, bias: Any) -> Tensor:
        whole = super()._weigh(query, remembered, NO_MASK, bias)
        allowed = mask.boolean(query.shape[2], remembered.shape[2])
        return whole if allowed is None else whole * allowed


class CentresOverTheBatch(Plain):
    """Keys are centred over the whole batch."""

    def scores(self, query: Tensor, remembered: Tensor, **words: Any) -> Tensor:
        return super().scores(query - query.mean(dim=0), remembered, **words)


class CentresOverHeads(Plain):
    """Queries are centred over the heads."""

    def scores(self, query: Tensor, remembered: Tensor, **words: Any) -> Tensor:
        return super().scores(query - query.mean(dim=1, keepdim=True), remembered, **words)


class DropsAKeyBetweenChunks(Prefix):
    """The running sum misses the last key of every chunk."""

    def sums(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        whole = super().sums(query, key, value)
        queries, keys = query.shape[2], key.shape[2]
        places = torch.arange(queries)[:, None] + keys - queries
        last = torch.arange(keys)[self.chunk_size - 1 :: self.chunk_size]
        missed = (query @ key[:, :, last].mT) * (places > last)
        return whole - missed @ value[:, :, last]
