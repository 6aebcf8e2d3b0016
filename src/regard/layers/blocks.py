"""Encoder block: self-attention, then feed-forward, each with a way round it (Vaswani et al. 2017).

Under `Causal()` it is the block of a decoder-only language model, and decodes token by token.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import NamedTuple, Self

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.cost import Cost
from regard.core.errors import RegardError
from regard.core.masks import NO_MASK, Causal, Mask, Padding
from regard.core.mechanism import State, Step
from regard.layers.cost import SequenceShape, norm_cost, per_position, require_shape
from regard.layers.feed_forward import FeedForward
from regard.layers.multi_head import MultiHead
from regard.layers.validation import require_sequence

# The way round a sublayer, with its layer norm before the sublayer or after the sum.
#
# before (pre-norm)    x + sublayer(norm(x))        steadier to train (Xiong et al. 2020) after
# (post-norm)    norm(x + sublayer(x))        the original (Vaswani et al. 2017)


class Residual(nn.Module):
    """Used as `x = residual.join(x, sublayer(residual.enter(x)))`."""

    def __init__(self, *, model_dim: int, norm_first: bool, norm_epsilon: float = 1e-5) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(model_dim, eps=norm_epsilon)
        self.norm_first = norm_first

    def enter(
        self, x: Float[Tensor, "batch length model_dim"]
    ) -> Float[Tensor, "batch length model_dim"]:
        """What the sublayer is given."""
        entered: Tensor = self.norm(x) if self.norm_first else x
        return entered

    def join(
        self,
        x: Float[Tensor, "batch length model_dim"],
        change: Float[Tensor, "batch length model_dim"],
    ) -> Float[Tensor, "batch length model_dim"]:
        """What becomes of x once the sublayer has said its part."""
        joined: Tensor = x + change if self.norm_first else self.norm(x + change)
        return joined

    def cost(self, shape: SequenceShape) -> Cost:
        """The norm and the sum."""
        (model_dim,) = self.norm.normalized_shape
        norm, numbers = norm_cost(rows=shape.rows, model_dim=model_dim), shape.rows * model_dim
        return norm + Cost(arithmetic=numbers, memory=numbers)


# Whether the parts a block is given belong together.


def require_attention(block: str, part: str, attention: object, *, role: str) -> None:
    """Refuse an attention that is no `MultiHead`, or one of another role."""
    if not isinstance(attention, MultiHead):
        raise RegardError(
            f"{block} was given a {type(attention).__name__} as {part}; it must be a MultiHead. "
            f"Build it as MultiHead(role='{role}', …)."
        )
    if attention.role != role:
        raise RegardError(
            f"{block} was given {part} of role '{attention.role}'; it must be '{role}'. "
            f"Build it as MultiHead(role='{role}', …)."
        )


def require_feed_forward(block: str, feed_forward: object) -> None:
    """Refuse a feed-forward that is none."""
    if not isinstance(feed_forward, FeedForward):
        raise RegardError(
            f"{block} was given a {type(feed_forward).__name__} as feed_forward; it must be a "
            "FeedForward. Build it as FeedForward(model_dim=…)."
        )


def require_one_width(block: str, **model_dims: int) -> None:
    """Refuse parts of different widths: each adds to what the one before it gave."""
    if len(set(model_dims.values())) > 1:
        listed = ", ".join(f"{part} {model_dim}" for part, model_dim in model_dims.items())
        raise RegardError(
            f"{block} was given parts of different model_dim ({listed}): they must be equal. "
            "Build all of them with the same model_dim."
        )


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


# Which row of a context each row reads, where several may read the same.
#
# While beam search follows several beginnings of one sentence, all of them read the same source.
# Its keys and values are then kept once, and the queries of a sentence stand side by side:
#
# rows      A0 A1 A2 B0 C0 C1                reader  0 0 0 1 2 2 gathered  A0 A1 A2 | B0 –  –  | C0
# C1 –    one line a context row, `width` wide


# A context is made smaller, which takes a copy, once a part as large as this has no reader.
UNREAD_SHARE = 0.25


class Narrowed(NamedTuple):
    """What becomes of the readers, and which rows of the context stay (None: all)."""

    reading: Reading
    kept: Int[Tensor, " kept"] | None


class Reading(NamedTuple):
    """`place` is where each row stands among the gathered; None where all stand in order."""

    reader: Int[Tensor, " batch"]
    num_contexts: int
    width: int
    place: Int[Tensor, " batch"] | None

    @classmethod
    def one_each(cls, batch_size: int, *, device: torch.device) -> Self:
        """Every row reads its own row of the context."""
        return cls(torch.arange(batch_size, device=device), batch_size, 1, None)

    @classmethod
    def of(cls, reader: Int[Tensor, " batch"], num_contexts: int) -> Self:
        """Row r reads row reader[r] of a context."""
        counts = torch.bincount(reader, minlength=num_contexts)
        width = int(counts.max())
        order = reader.argsort(stable=True)
        in_order = torch.arange(len(reader), device=reader.device)
        first = counts.cumsum(0) - counts
        place = torch.empty_like(reader)
        place[order] = (
            in_order
            + (torch.arange(num_contexts, device=reader.device) * width - first)[reader[order]]
        )
        whole = len(reader) == num_contexts * width and torch.equal(place, in_order)
        return cls(reader, num_contexts, width, None if whole else place)

    def select(self, index: Int[Tensor, " rows"]) -> Narrowed:
        """The readers of the rows index[r], and the context they need."""
        reader = self.reader[index]
        read = torch.zeros(self.num_contexts, dtype=torch.bool, device=index.device)
        read[reader] = True
        kept = read.nonzero()[:, 0]
        if len(kept) > (1 - UNREAD_SHARE) * self.num_contexts:
            return Narrowed(Reading.of(reader, self.num_contexts), None)
        return Narrowed(Reading.of((read.cumsum(0) - 1)[reader], len(kept)), kept)

    def gather(self, x: Float[Tensor, "batch 1 dim"]) -> Float[Tensor, "contexts width dim"]:
        """The rows, one line a row of the context; zeros where a line is shorter."""
        flat = x[:, 0]
        if self.place is not None:
            empty = x.new_zeros(self.num_contexts * self.width, x.shape[2])
            flat = empty.index_copy(0, self.place, flat)
        return flat.view(self.num_contexts, self.width, x.shape[2])

    def scatter(
        self, gathered: Float[Tensor, "contexts width dim"]
    ) -> Float[Tensor, "batch 1 dim"]:
        """The rows back in their own order."""
        flat = gathered.flatten(0, 1)
        return (flat if self.place is None else flat.index_select(0, self.place))[:, None]


# Decoder block: causal self-attention, cross-attention, feed-forward (Vaswani et al. 2017).
#
# While decoding, the context's keys are projected once, at the start, and then only read.


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
