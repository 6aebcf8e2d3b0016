"""Encoder block: self-attention, then feed-forward, each with a way round it (Vaswani et al. 2017).

Under `Causal()` it is the block of a decoder-only language model, and decodes token by token.
"""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.cost import Cost
from regard.core.masks import NO_MASK, Causal, Mask, Padding
from regard.core.state import State, Step
from regard.layers.block_parts import require_attention, require_feed_forward, require_one_width
from regard.layers.feed_forward import FeedForward
from regard.layers.layer_cost import SequenceShape, per_position, require_shape
from regard.layers.multi_head import MultiHead
from regard.layers.residual import Residual
from regard.layers.sequence_input import require_sequence


class EncoderBlock(nn.Module):
    """Given its attention and its feed-forward; dropout is theirs."""

    def __init__(
        self,
        *,
        attention: MultiHead,
        feed_forward: FeedForward,
        norm_first: bool = True,
        norm_epsilon: float = 1e-5,
    ) -> None:
        super().__init__()
        require_attention("EncoderBlock", "attention", attention, role="self")
        require_feed_forward("EncoderBlock", feed_forward)
        model_dim = attention.sizes.model_dim
        require_one_width(
            "EncoderBlock", attention=model_dim, feed_forward=feed_forward.widen.in_features
        )
        self.attention = attention
        self.around_attention = Residual(
            model_dim=model_dim, norm_first=norm_first, norm_epsilon=norm_epsilon
        )
        self.feed_forward = feed_forward
        self.around_feed_forward = Residual(
            model_dim=model_dim, norm_first=norm_first, norm_epsilon=norm_epsilon
        )

    def forward(
        self, x: Float[Tensor, "batch length model_dim"], mask: Mask = NO_MASK
    ) -> Float[Tensor, "batch length model_dim"]:
        self._require(x)
        attended = self.attention(self.around_attention.enter(x), mask=mask)
        return self._fed_forward(self.around_attention.join(x, attended))

    def weights(
        self, x: Float[Tensor, "batch length model_dim"], mask: Mask = NO_MASK
    ) -> Float[Tensor, "batch heads length length"]:
        """Who read whom in `forward` of the same arguments."""
        self._require(x)
        return self.attention.weights(self.around_attention.enter(x), mask=mask)

    def start(self, batch_size: int) -> State:
        """The state before any token."""
        return self.attention.start(batch_size)

    def prefill(
        self, x: Float[Tensor, "batch length model_dim"], lengths: Int[Tensor, " batch"]
    ) -> Step:
        """The output of `forward` under `Causal()`, and the state after each row's first `lengths`."""
        self._require(x)
        entered = self.around_attention.enter(x)
        attended = self.attention(entered, mask=Causal())
        state = self.attention.extend(self.start(len(x)), entered, Padding(lengths))
        return Step(self._fed_forward(self.around_attention.join(x, attended)), state)

    def step(self, state: State, x: Float[Tensor, "batch new_length model_dim"]) -> Step:
        """The rows that `forward` under `Causal()` would give the new tokens."""
        self._require(x)
        attended = self.attention.step(state, self.around_attention.enter(x))
        output = self._fed_forward(self.around_attention.join(x, attended.output))
        return Step(output, attended.state)

    def _require(self, x: Tensor) -> None:
        # Here too, because the norm comes before the parts that would say it.
        require_sequence("EncoderBlock", x, width=self.attention.sizes.model_dim)

    def _fed_forward(self, x: Tensor) -> Tensor:
        around = self.around_feed_forward
        return around.join(x, self.feed_forward(around.enter(x)))

    def cost(self, shape: SequenceShape) -> Cost:
        """What `forward` takes."""
        require_shape("EncoderBlock", shape)
        return (
            self.attention.cost(shape)
            + self.around_attention.cost(shape)
            + per_position(self.feed_forward.cost(shape), length=shape.length)
            + self.around_feed_forward.cost(shape)
        )
