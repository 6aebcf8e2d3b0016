"""Sound in ordinary sizes and at ordinary places, and wrong at the ends of what is legal."""

from __future__ import annotations

from typing import Any

import torch
from tests.conformance.broken.sound import Plain
from torch import Tensor

from regard.core.masks import NO_MASK, Mask, Window
from regard.mechanisms.recurrences.decay import GatedAttention
from regard.mechanisms.recurrences.recurrence import Tensors
from regard.mechanisms.scores.kv_cache import NO_TOKEN, KeyValueState


class ScalesFarOutputs(Plain):
    """From the 150th query on, the fast path is a hundredth too large."""

    def attend(self, query: Tensor, *rest: Any) -> Tensor:
        far = (torch.arange(query.shape[2]) >= 150)[:, None]
        return super().attend(query, *rest) * (1.0 + 0.01 * far)


class ForgetsFarTokens(Plain):
    """The cache holds 140 tokens, and says nothing when there are more."""

    def extend(
        self, state: KeyValueState, key: Tensor, value: Tensor, mask: Mask = NO_MASK
    ) -> KeyValueState:
        return super().extend(state, key, value, mask).latest(140)


class TakesSlotsForPositions(Plain):
    """The bias is taken where tokens lie in the cache, in which padding has left gaps."""

    def read(self, state: KeyValueState, query: Tensor, **words: Any) -> Tensor:
        slots = torch.arange(state.key.shape[2]).expand_as(state.key_positions)
        moved = state._replace(
            key_positions=slots.masked_fill(~state.real, NO_TOKEN),
            position=torch.full_like(state.position, state.key.shape[2]),
        )
        return super().read(moved, query, **words)


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

    def remember(self, key: Tensor) -> Tensor:
        return key / key.norm(dim=-1, keepdim=True)


class HalvesTheGradientOfALargeBatch(Plain):
    """With more than three rows the values get back half of what they should."""

    def attend(self, query: Tensor, remembered: Tensor, value: Tensor, *rest: Any) -> Tensor:
        if len(value) > 3:
            value = 0.5 * value + 0.5 * value.detach()
        return super().attend(query, remembered, value, *rest)


class IgnoresPatternsOverKeys(Plain):
    """A pattern of shape (batch, 1, 1, n_k) is taken for no pattern."""

    def _weigh(self, query: Tensor, remembered: Tensor, mask: Mask, bias: Any) -> Tensor:
        if mask.allowed is not None and mask.allowed.shape[1:3] == (1, 1):
            mask = mask.without("allowed")
        return super()._weigh(query, remembered, mask, bias)


class WidensLargeWindows(Plain):
    """From a radius of 20 on, a window is one wider than it should be, in both faces."""

    def _weigh(self, query: Tensor, remembered: Tensor, mask: Mask, bias: Any) -> Tensor:
        if mask.radius is not None and mask.radius >= 20:
            mask = mask.without("radius") & Window(mask.radius + 1)
        return super()._weigh(query, remembered, mask, bias)


class LosesLowRows(Plain):
    """A row whose best score is below −44 vanishes, as when exp of it is taken for zero."""

    def _weigh(self, query: Tensor, remembered: Tensor, mask: Mask, bias: Any) -> Tensor:
        whole = super()._weigh(query, remembered, mask, bias)
        return whole * (self.scores(query, remembered) >= -44.0).any(dim=-1, keepdim=True)
