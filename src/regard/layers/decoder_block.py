"""Decoder block: causal self-attention, cross-attention, feed-forward (Vaswani et al. 2017).

While decoding, the context's keys are projected once, at the start, and then only read.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import NamedTuple, Self

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.cost import Cost
from regard.core.errors import RegardError
from regard.core.masks import NO_MASK, Causal, Mask
from regard.core.state import State, Step
from regard.layers.block_parts import require_attention, require_feed_forward, require_one_width
from regard.layers.feed_forward import FeedForward
from regard.layers.layer_cost import SequenceShape, per_position, require_shape
from regard.layers.multi_head import MultiHead
from regard.layers.reading import Reading
from regard.layers.residual import Residual
from regard.layers.sequence_input import require_sequence

CAUSAL = Causal()


class DecoderState(NamedTuple):
    """What the block remembers: of its own tokens, and of the context."""

    own: State
    context: State

    @property
    def position(self) -> Int[Tensor, " batch"]:
        """How many tokens of its own each row has taken in."""
        return self.own.position

    def select(self, index: Int[Tensor, " rows"]) -> Self:
        """The state whose row r is this state's row index[r]."""
        return self._replace(own=self.own.select(index), context=self.context.select(index))


class DecoderWeights(NamedTuple):
    """Who read whom."""

    own: Float[Tensor, "batch heads length length"]
    context: Float[Tensor, "batch heads length context_length"]


class DecoderBlock(nn.Module):
    """Given its two attentions, of roles "self" and "cross", and its feed-forward."""

    def __init__(
        self,
        *,
        self_attention: MultiHead,
        cross_attention: MultiHead,
        feed_forward: FeedForward,
        norm_first: bool = True,
        norm_epsilon: float = 1e-5,
    ) -> None:
        super().__init__()
        require_attention("DecoderBlock", "self_attention", self_attention, role="self")
        require_attention("DecoderBlock", "cross_attention", cross_attention, role="cross")
        require_feed_forward("DecoderBlock", feed_forward)
        require_one_width(
            "DecoderBlock",
            self_attention=self_attention.sizes.model_dim,
            cross_attention=cross_attention.sizes.model_dim,
            feed_forward=feed_forward.widen.in_features,
        )
        around = partial(
            Residual,
            model_dim=self_attention.sizes.model_dim,
            norm_first=norm_first,
            norm_epsilon=norm_epsilon,
        )
        self.self_attention = self_attention
        self.around_self_attention = around()
        self.cross_attention = cross_attention
        self.around_cross_attention = around()
        self.feed_forward = feed_forward
        self.around_feed_forward = around()

    def forward(
        self,
        x: Float[Tensor, "batch length model_dim"],
        context: Float[Tensor, "batch context_length context_dim"],
        mask: Mask = CAUSAL,
        context_mask: Mask = NO_MASK,
    ) -> Float[Tensor, "batch length model_dim"]:
        self._require(x)
        x = self._self_attended(x, mask)
        around = self.around_cross_attention
        x = around.join(x, self.cross_attention(around.enter(x), context, context_mask))
        return self._fed_forward(x)

    def weights(
        self,
        x: Float[Tensor, "batch length model_dim"],
        context: Float[Tensor, "batch context_length context_dim"],
        mask: Mask = CAUSAL,
        context_mask: Mask = NO_MASK,
    ) -> DecoderWeights:
        """Who read whom in `forward` of the same arguments."""
        self._require(x)
        own = self.self_attention.weights(self.around_self_attention.enter(x), mask=mask)
        query = self.around_cross_attention.enter(self._self_attended(x, mask))
        return DecoderWeights(own, self.cross_attention.weights(query, context, context_mask))

    def start(
        self,
        context: Float[Tensor, "batch context_length context_dim"],
        context_mask: Mask = NO_MASK,
    ) -> DecoderState:
        """The state before any token, the context taken in."""
        context_dim = self.cross_attention.sizes.context_dim
        require_sequence(
            "DecoderBlock", context, width=context_dim, name="context", width_name="context_dim"
        )
        batch_size = context.shape[0]
        empty = self.cross_attention.start(batch_size)
        return DecoderState(
            own=self.self_attention.start(batch_size),
            context=self.cross_attention.extend(empty, context, context_mask),
        )

    def step(
        self,
        state: DecoderState,
        x: Float[Tensor, "batch new_length model_dim"],
        reading: Reading | None = None,
    ) -> Step:
        """The rows that `forward` would give the new tokens.

        With `reading`, one new token a row, and row r reads row reading.reader[r] of the context.
        """
        self._require(x)
        require_decoder_state(state)
        attended = self.self_attention.step(state.own, self.around_self_attention.enter(x))
        x = self.around_self_attention.join(x, attended.output)
        around = self.around_cross_attention
        query = around.enter(x)
        if reading is None:
            change = self.cross_attention.read(state.context, query)
        else:
            gathered = self.cross_attention.read(state.context, reading.gather(query))
            change = reading.scatter(gathered)
        x = around.join(x, change)
        return Step(self._fed_forward(x), state._replace(own=attended.state))

    def _require(self, x: Tensor) -> None:
        # Here too, because the norm comes before the parts that would say it.
        require_sequence("DecoderBlock", x, width=self.self_attention.sizes.model_dim)

    def _self_attended(self, x: Tensor, mask: Mask) -> Tensor:
        around = self.around_self_attention
        return around.join(x, self.self_attention(around.enter(x), mask=mask))

    def _fed_forward(self, x: Tensor) -> Tensor:
        around = self.around_feed_forward
        return around.join(x, self.feed_forward(around.enter(x)))

    def cost(self, shape: SequenceShape) -> Cost:
        """What `forward` takes; the path is that between two of its own positions."""
        require_shape("DecoderBlock", shape)
        own = self.self_attention.cost(shape)
        total = (
            own
            + self.around_self_attention.cost(shape)
            + self.cross_attention.cost(replace(shape, causal=False))
            + self.around_cross_attention.cost(shape)
            + per_position(self.feed_forward.cost(shape), length=shape.length)
            + self.around_feed_forward.cost(shape)
        )
        return replace(total, longest_path=own.longest_path)


def require_decoder_state(state: object) -> None:
    """Refuse a state that does not hold the context; its rows are checked by the attentions."""
    if not isinstance(state, DecoderState):
        raise RegardError(
            f"DecoderBlock was given a state of type {type(state).__name__}; it must be a "
            "DecoderState. Begin with start(context), and go on with the `state` of each step."
        )
