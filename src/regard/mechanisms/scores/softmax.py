"""The family that scores every key: weights = softmax of the scores, output = weights @ values.

A member says how a query scores the keys. This file gives it all faces of the contract; the state is
the keys and values seen so far. Members with a faster way to the output override `attend`.
"""

from __future__ import annotations

from abc import abstractmethod

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.core.cost import AttentionShape, Cost
from regard.core.counter import SOFTMAX_ARITHMETIC
from regard.core.masks import NO_MASK, Mask
from regard.core.mechanism import (
    Capabilities,
    Mechanism,
    ScoreBias,
    Step,
    refuse_misextended,
    repeat_heads,
)
from regard.core.normalise import softmax_over_keys
from regard.mechanisms.scores.kv_cache import KeyValueState

# What drawing a mask, a softmax and an average take in arithmetic: `core.masks` and
# `core.normalise`.


def boolean_arithmetic(shape: AttentionShape) -> int:
    """`Mask.boolean` of the causal mask or of none: positions, distances, and their signs."""
    distances = 2 * shape.query_length + shape.pairs
    return distances + (shape.pairs if shape.causal else 0)


def softmax_arithmetic(shape: AttentionShape) -> int:
    """`softmax_over_keys` of all pairs, under the causal mask or none."""
    pairs = shape.rows * shape.pairs
    if not shape.causal:
        return SOFTMAX_ARITHMETIC * pairs
    # Once for all rows: which queries have no key (3 a pair, 1 a query). Then two times a filling.
    return (SOFTMAX_ARITHMETIC + 2) * pairs + 3 * shape.pairs + shape.query_length


def average_arithmetic(rows: int, width: int) -> int:
    """`average` of so many rows: the guard is 4 operations, and the inverse multiplies every number."""
    return rows * (4 + width)


class ScoredMechanism(Mechanism):
    """Softmax over scores. A member defines `scores`, and `remember` if keys can be prepared once."""

    # How far a query sees whatever the mask allows; a radius also bounds the decoding state.
    sight: Mask = NO_MASK

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(score_bias=True, position_aware=self.sight.radius is not None)

    @abstractmethod
    def scores(
        self,
        query: Float[Tensor, "batch heads query_length query_dim"],
        remembered: Float[Tensor, "batch heads key_length remembered_dim"],
        *,
        query_positions: Int[Tensor, "_rows query_length"],
        key_positions: Int[Tensor, "_rows key_length"],
    ) -> Float[Tensor, "batch heads query_length key_length"]:
        """The score of every pair. `remembered` is what `remember` made of the keys."""

    def remember(
        self, key: Float[Tensor, "batch kv_heads key_length key_dim"]
    ) -> Float[Tensor, "batch kept_heads key_length remembered_dim"]:
        """What is worth computing once for a key, and keeping while decoding."""
        return key

    def attend(
        self,
        query: Float[Tensor, "batch heads query_length query_dim"],
        remembered: Float[Tensor, "batch heads key_length remembered_dim"],
        value: Float[Tensor, "batch heads key_length value_dim"],
        mask: Mask,
        bias: ScoreBias | None,
    ) -> Float[Tensor, "batch heads query_length value_dim"]:
        """The output for whole sequences."""
        return self._weigh(query, remembered, mask, bias) @ value

    def forward(
        self,
        query: Float[Tensor, "batch heads query_length query_dim"],
        key: Float[Tensor, "batch kv_heads key_length key_dim"],
        value: Float[Tensor, "batch kv_heads key_length value_dim"],
        mask: Mask = NO_MASK,
        *,
        bias: ScoreBias | None = None,
    ) -> Float[Tensor, "batch heads query_length value_dim"]:
        self.admit(query, key, value, mask)
        heads = query.shape[1]
        remembered = repeat_heads(self.remember(key), heads)
        sight = mask & self.sight
        return self.attend(query, remembered, repeat_heads(value, heads), sight, bias)

    def weights(
        self,
        query: Float[Tensor, "batch heads query_length query_dim"],
        key: Float[Tensor, "batch kv_heads key_length key_dim"],
        mask: Mask = NO_MASK,
        *,
        bias: ScoreBias | None = None,
    ) -> Float[Tensor, "batch heads query_length key_length"]:
        self.admit(query, key, None, mask)
        remembered = repeat_heads(self.remember(key), query.shape[1])
        return self._weigh(query, remembered, mask & self.sight, bias)

    def _weigh(
        self, query: Tensor, remembered: Tensor, mask: Mask, bias: ScoreBias | None
    ) -> Tensor:
        query_length, key_length = query.shape[2], remembered.shape[2]
        key_positions = torch.arange(key_length, device=query.device)[None]
        # The last query stands where the last key stands.
        query_positions = key_positions.new_tensor(range(key_length - query_length, key_length))[
            None
        ]
        scores = self.scores(
            query, remembered, query_positions=query_positions, key_positions=key_positions
        )
        if bias is not None:
            scores = scores + bias.values(query_positions, key_positions)
        return softmax_over_keys(
            scores, mask.boolean(query_length, key_length, device=query.device)
        )

    def start(
        self,
        *,
        batch_size: int,
        num_kv_heads: int,
        key_dim: int,
        value_dim: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> KeyValueState:
        size = (batch_size, num_kv_heads, 0)
        no_keys = torch.zeros(*size, key_dim, dtype=dtype, device=device)
        no_values = torch.zeros(*size, value_dim, dtype=dtype, device=device)
        return KeyValueState.empty(self.remember(no_keys), no_values)

    def extend(
        self,
        state: KeyValueState,
        key: Float[Tensor, "batch kv_heads new_length key_dim"],
        value: Float[Tensor, "batch kv_heads new_length value_dim"],
        mask: Mask = NO_MASK,
    ) -> KeyValueState:
        refuse_misextended(key, value, mask)
        return self._bounded(state.append(self.remember(key), value, mask))

    def step(
        self,
        state: KeyValueState,
        query: Float[Tensor, "batch heads new_length query_dim"],
        key: Float[Tensor, "batch kv_heads new_length key_dim"],
        value: Float[Tensor, "batch kv_heads new_length value_dim"],
        *,
        bias: ScoreBias | None = None,
        **extras: Tensor,
    ) -> Step:
        if query.shape[2] != 1:
            return super().step(state, query, key, value, bias=bias, **extras)
        # One token, as decoding has it: what `extend` would check was just made by a layer.
        remembered = self.remember(key)
        if self.sight.radius is None:
            state = state.take(remembered, value)
        else:
            state = state.append(remembered, value, NO_MASK)
        state = self._bounded(state)
        return Step(self.read(state, query, bias=bias), state)

    def _bounded(self, extended: KeyValueState) -> KeyValueState:
        """The state within what the mechanism sees."""
        if self.sight.radius is not None:
            return extended.latest(self.sight.radius + 1)
        if self.capabilities.max_length is not None:
            self.refuse_overlong(int(extended.position.max()))
        return extended

    def read(
        self,
        state: KeyValueState,
        query: Float[Tensor, "batch heads query_length query_dim"],
        *,
        bias: ScoreBias | None = None,
    ) -> Float[Tensor, "batch heads query_length value_dim"]:
        heads = query.shape[1]
        query_positions = (state.position - 1)[:, None].expand(-1, query.shape[2])
        scores = self.scores(
            query,
            repeat_heads(state.key, heads),
            query_positions=query_positions,
            key_positions=state.key_positions,
        )
        if bias is not None:
            scores = scores + bias.values(query_positions, state.key_positions)
        allowed = None if state.is_full else state.real[:, None, None, :]
        return softmax_over_keys(scores, allowed) @ repeat_heads(state.value, heads)

    @abstractmethod
    def score_cost(self, shape: AttentionShape) -> Cost:
        """What the scores alone take, `remember` and parameters included.

        `Cost.step_products` is for one query and as many keys as are then there, key_length + 1, of
        which one is new.
        """

    def remembered_numbers(self, shape: AttentionShape) -> int:
        """How many numbers `remember` keeps of all keys."""
        return shape.kv_rows * shape.key_length * shape.key_dim

    def cost(self, shape: AttentionShape) -> Cost:
        pairs = shape.rows * shape.pairs
        products = 2 * pairs * shape.value_dim
        # The weights, and under a mask a copy for masking and one for zeroing empty rows.
        copies = 3 if shape.causal else 1
        read_out = Cost(
            products=products,
            functions=pairs,
            arithmetic=softmax_arithmetic(shape) + boolean_arithmetic(shape),
            # The gradients of the weights and of the values.
            backward_products=2 * products,
            step_products=2 * shape.rows * (shape.key_length + 1) * shape.value_dim,
            memory=copies * pairs + shape.output_numbers,
            state=self.remembered_numbers(shape) + shape.value_numbers,
            sequential_steps=1,
            longest_path=1,
        )
        return self.score_cost(shape) + read_out
