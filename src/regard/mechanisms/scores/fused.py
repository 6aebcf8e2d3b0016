"""Scores that are a scaled dot product of a prepared query with the key: the fused, blocked path.

Dot, scaled dot, general and window differ in the scale, in what is done to the query first, and in how
far a query sees. They share this way to the output; `weights` recomputes the same numbers in the open.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from regard.core.cost import AttentionShape, Cost
from regard.core.counter import ATTENTION_ARITHMETIC, SOFTMAX_ARITHMETIC
from regard.core.errors import RegardError
from regard.core.masks import Mask
from regard.core.mechanism import ScoreBias, repeat_heads
from regard.core.normalise import softmax_over_keys
from regard.mechanisms.scores.blocked import (
    ROWS,
    STEP_SCORES,
    Block,
    blocks_pay,
    keeps_weights,
    plan_blocks,
    reach,
    softmax_attention,
)
from regard.mechanisms.scores.kv_cache import KeyValueState
from regard.mechanisms.scores.softmax import ScoredMechanism

# What `blocked_softmax` takes: the pairs it computes, and the numbers it holds meanwhile.
#
# The forward pass is the one without gradients, as for every declared cost. With them, a plain
# causal call may go through blocks where it otherwise would not, and then computes fewer pairs,
# forward and backward.


def softmax_attention_cost(shape: AttentionShape, *, radius: int | None) -> Cost:
    """What `softmax_attention` takes, forward and backward."""
    if _is_fused(shape, radius=radius):
        pairs, arithmetic = (
            shape.rows * shape.pairs,
            ATTENTION_ARITHMETIC * shape.rows * shape.pairs,
        )
    else:
        blocks = _blocks(shape, radius=radius)
        pairs = shape.rows * sum(block.scores for block in blocks)
        arithmetic = _blocked_arithmetic(shape, blocks, radius=radius)
    return Cost(
        products=2 * pairs * (shape.key_dim + shape.value_dim),
        functions=pairs,
        arithmetic=arithmetic,
        backward_products=_backward_products(shape, radius=radius),
        memory=shape.output_numbers + _working_numbers(shape, radius=radius),
        sequential_steps=1,
    )


def _is_fused(shape: AttentionShape, *, radius: int | None) -> bool:
    aligned = shape.query_length == shape.key_length
    return radius is None and shape.key_dim == shape.value_dim and (aligned or not shape.causal)


def _blocks(shape: AttentionShape, *, radius: int | None) -> list[Block]:
    return plan_blocks(
        query_length=shape.query_length,
        key_length=shape.key_length,
        causal=shape.causal,
        radius=radius,
    )


def _blocked_arithmetic(shape: AttentionShape, blocks: list[Block], *, radius: int | None) -> int:
    scores = sum(block.scores for block in blocks)
    softmax = SOFTMAX_ARITHMETIC * shape.rows * scores
    if not blocks or (not shape.causal and radius is None):
        return softmax
    before, after = reach(shape.query_length, shape.key_length, shape.causal, radius)
    # The band is drawn once, and added to the scores.
    masked = softmax + ROWS * (before + ROWS + after) + shape.rows * scores
    if shape.query_length <= shape.key_length:
        return masked
    # Rows without a key are looked for once, and zeroed in every lane.
    return masked + scores + sum(block.stop - block.start for block in blocks) + shape.rows * scores


def _backward_products(shape: AttentionShape, *, radius: int | None) -> int:
    in_blocks = shape.causal and blocks_pay(
        rows=shape.rows, length=shape.query_length, width=shape.key_dim
    )
    # Scores again, then the gradients of weights, values, queries and keys.
    again, gradients = 2 * shape.key_dim, 4 * (shape.key_dim + shape.value_dim)
    if _is_fused(shape, radius=radius) and not in_blocks:
        return shape.rows * shape.pairs * (again + gradients)
    pairs = sum(block.scores for block in _blocks(shape, radius=radius))
    held = (shape.query_length + shape.key_length) * (shape.key_dim + shape.value_dim)
    if keeps_weights(weights=pairs, held=held):
        return shape.rows * pairs * gradients
    return shape.rows * pairs * (again + gradients)


def _working_numbers(shape: AttentionShape, *, radius: int | None) -> int:
    """Numbers held beside the output at the peak: the scores of one step, and the mask."""
    if _is_fused(shape, radius=radius):
        return shape.rows * shape.query_length
    largest = max((block.scores for block in _blocks(shape, radius=radius)), default=0)
    lanes = min(shape.rows, max(1, STEP_SCORES // max(largest, 1)))
    before, after = reach(shape.query_length, shape.key_length, shape.causal, radius)
    # The band is drawn once for a whole block, from three boolean tensors of its size.
    band = 4 * ROWS * (before + ROWS + after) if shape.causal or radius is not None else 0
    return lanes * largest + band


# A read for a few heads of a few rows is mostly calls, and Torch's kernel is one. With many it is slower,
# and in training it would compute the scores again for the backward pass.
FEW_LANES = 64


def _path(radius: int | None, farthest: int) -> int:
    if radius is None:
        return 1
    # A window passes things on by its radius a layer, and one of radius 0 never does.
    return -(-farthest // radius) if radius else 0


class FusedMechanism(ScoredMechanism):
    """softmax(scale · prepare(query) · key)."""

    def prepare(
        self, query: Float[Tensor, "batch heads query_length query_dim"]
    ) -> Float[Tensor, "batch heads query_length key_dim"]:
        """What is done to the query before the product; nothing, unless a member says otherwise."""
        return query

    def scale(self, key_dim: int) -> float:
        """What the product is multiplied by."""
        raise NotImplementedError

    def scores(
        self,
        query: Float[Tensor, "batch heads query_length query_dim"],
        remembered: Float[Tensor, "batch heads key_length key_dim"],
        *,
        query_positions: Int[Tensor, "_rows query_length"],
        key_positions: Int[Tensor, "_rows key_length"],
    ) -> Float[Tensor, "batch heads query_length key_length"]:
        del query_positions, key_positions
        scale = self.scale(remembered.shape[-1])
        return (self.prepare(query) * scale) @ remembered.transpose(-2, -1)

    def attend(
        self,
        query: Float[Tensor, "batch heads query_length query_dim"],
        remembered: Float[Tensor, "batch heads key_length key_dim"],
        value: Float[Tensor, "batch heads key_length value_dim"],
        mask: Mask,
        bias: ScoreBias | None,
    ) -> Float[Tensor, "batch heads query_length value_dim"]:
        prepared = self.prepare(query)
        if prepared.shape[-1] != remembered.shape[-1]:
            raise RegardError(
                f"{self.name} multiplies queries of width {prepared.shape[-1]} with keys of width "
                f"{remembered.shape[-1]}: they must be equal, or take general or additive."
            )
        return softmax_attention(
            prepared,
            remembered,
            value,
            scale=self.scale(remembered.shape[-1]),
            causal=mask.causal,
            radius=mask.radius,
            lengths=mask.lengths,
            allowed=mask.allowed,
            bias=bias,
        )

    def read(
        self,
        state: KeyValueState,
        query: Float[Tensor, "batch heads query_length query_dim"],
        *,
        bias: ScoreBias | None = None,
    ) -> Float[Tensor, "batch heads query_length value_dim"]:
        fewest, slots = state.fewest, state.key.shape[2]
        if bias is not None or fewest == 0:
            return super().read(state, query, bias=bias)
        batch_size, heads, query_length = query.shape[:3]
        prepared, scale = self.prepare(query), self.scale(state.key.shape[-1])
        key, value = repeat_heads(state.key, heads), repeat_heads(state.value, heads)
        is_plain = fewest >= slots and key.shape[-1] == value.shape[-1]
        if is_plain and batch_size * heads <= FEW_LANES and not torch.is_grad_enabled():
            return F.scaled_dot_product_attention(prepared, key, value, scale=scale)
        # The same numbers in fewer calls, which is what a step of decoding mostly consists of.
        scores = (prepared * scale).flatten(0, 1) @ key.flatten(0, 1).transpose(1, 2)
        if fewest < slots:
            empty = ~state.real[:, None, None, :]
            scores.view(batch_size, heads, query_length, -1).masked_fill_(empty, float("-inf"))
        output = softmax_over_keys(scores, None) @ value.flatten(0, 1)
        return output.view(batch_size, heads, query_length, -1)

    def score_cost(self, shape: AttentionShape) -> Cost:
        """What preparing the queries takes; the scores never exist on their own."""
        del shape
        return Cost(parameters=self.num_parameters)

    def _slots(self, key_length: int) -> int:
        """How many tokens the decoding state holds after `key_length` of them."""
        return key_length if self.sight.radius is None else min(key_length, self.sight.radius + 1)

    def cost(self, shape: AttentionShape) -> Cost:
        radius, width = self.sight.radius, shape.key_dim + shape.value_dim
        widest = max(shape.query_length, shape.key_length, 2) - 1
        kept = Cost(
            step_products=2 * shape.rows * self._slots(shape.key_length + 1) * width,
            state=shape.kv_rows * self._slots(shape.key_length) * width,
            longest_path=_path(radius, widest),
        )
        return self.score_cost(shape) + softmax_attention_cost(shape, radius=radius) + kept
