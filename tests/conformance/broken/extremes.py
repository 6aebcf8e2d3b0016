"""Mechanisms that fail only on long sequences or extreme inputs."""

from __future__ import annotations

from typing import Any

import torch
from tests.conformance.broken.sound import Plain
from torch import Tensor

from regard.core.masks import NO_MASK, Mask, Window
from regard.mechanisms.recurrences.decay import GatedAttention
from regard.mechanisms.recurrences.recurrence import Tensors
from regard.mechanisms.scores.kv_cache import EMPTY_SLOT, KVCache


class ScalesFarOutputs(Plain):
    """From the 150th query on, `forward` is 1 % too large."""

    def attend(self, query: Tensor, *rest: Any) -> Tensor:
        far = (torch.arange(query.shape[2]) >= 150)[:, None]
        return super().attend(query, *rest) * (1.0 + 0.01 * far)


class TruncatesCache(Plain):
    """The cache silently holds only the last 140 tokens."""

    def extend(self, state: KVCache, key: Tensor, value: Tensor, mask: Mask = NO_MASK) -> KVCache:
        return super().extend(state, key, value, mask).latest(140)


class UsesSlotsAsPositions(Plain):
    """The bias uses cache slots instead of positions; padding leaves gaps."""

    def read(self, state: KVCache, query: Tensor, **kwargs: Any) -> Tensor:
        slots = torch.arange(state.key.shape[2]).expand_as(state.key_positions)
        shifted = state._replace(
            key_positions=slots.masked_fill(~state.is_token, EMPTY_SLOT),
            position=torch.full_like(state.position, state.key.shape[2]),
        )
        return super().read(shifted, query, **kwargs)


class DividesByItsDecay(GatedAttention):
    """Keys are multiplied by exp(−elapsed), which overflows where the decay is strong."""

    def chunk_step(self, state: Tensors, chunk: Tensors) -> tuple[Tensor, Tensors]:
        (memory,), (query, key, value, log_decay) = state, chunk
        elapsed = log_decay.cumsum(dim=-2)
        grown, shrunk = key * (-elapsed).exp(), query * elapsed.exp()
        output = shrunk @ memory + (shrunk @ grown.mT).tril() @ value
        final = elapsed[..., -1:, :].exp().mT
        return output, ((memory + grown.mT @ value) * final,)

    def pair_weights(self, query: Tensor, key: Tensor, control: Tensor) -> Tensor:
        elapsed = control.cumsum(dim=-2)
        return ((query * elapsed.exp()) @ (key * (-elapsed).exp()).mT).tril()


class DividesByTheLengthOfAKey(Plain):
    """Keys are scaled to unit length; one of zero becomes 0/0."""

    def project_key(self, key: Tensor) -> Tensor:
        return key / key.norm(dim=-1, keepdim=True)


class HalvesTheGradientOfALargeBatch(Plain):
    """With a batch larger than three, the gradient of the values is halved."""

    def attend(self, query: Tensor, cached_key: Tensor, value: Tensor, *rest: Any) -> Tensor:
        if len(value) > 3:
            value = 0.5 * value + 0.5 * value.detach()
        return super().attend(query, cached_key, value, *rest)


class IgnoresPatternsOverKeys(Plain):
    """Ignores boolean masks of shape (batch, 1, 1, n_k)."""

    def _weigh(self, query: Tensor, cached_key: Tensor, mask: Mask, bias: Any) -> Tensor:
        if mask.allowed is not None and mask.allowed.shape[1:3] == (1, 1):
            mask = mask.without("allowed")
        return super()._weigh(query, cached_key, mask, bias)


class WidensLargeWindows(Plain):
    """From a radius of 20 on, windows are one position too wide."""

    def _weigh(self, query: Tensor, cached_key: Tensor, mask: Mask, bias: Any) -> Tensor:
        if mask.radius is not None and mask.radius >= 20:
            mask = mask.without("radius") & Window(mask.radius + 1)
        return super()._weigh(query, cached_key, mask, bias)


class UnderflowsLowRows(Plain):
    """A row whose largest score is below −44 underflows to zero."""

    def _weigh(self, query: Tensor, cached_key: Tensor, mask: Mask, bias: Any) -> Tensor:
        whole = super()._weigh(query, cached_key, mask, bias)
        return whole * (self.scores(query, cached_key) >= -44.0).any(dim=-1, keepdim=True)
