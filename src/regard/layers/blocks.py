"""Transformer blocks (Vaswani et al. 2017): encoder block, decoder block, residual connections.

EncoderBlock   self-attention, feed-forward; with `Causal()` the block of a decoder-only model
DecoderBlock   causal self-attention, cross-attention, feed-forward
BeamContext    lets the hypotheses of one source share its keys and values in beam search
"""

from __future__ import annotations

from collections.abc import Callable
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
from regard.layers.cost import SequenceShape, norm_cost, per_position, validate_sequence_shape
from regard.layers.feed_forward import FeedForward
from regard.layers.multi_head import MultiHead
from regard.layers.validation import validate_sequence


class Residual(nn.Module):
    """A residual connection with layer norm around a sublayer.

    pre-norm     x + sublayer(norm(x))        more stable to train (Xiong et al. 2020)
    post-norm    norm(x + sublayer(x))        the original (Vaswani et al. 2017)
    """

    def __init__(self, *, model_dim: int, norm_first: bool, norm_epsilon: float = 1e-5) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(model_dim, eps=norm_epsilon)
        self.norm_first = norm_first

    def forward(
        self, x: Float[Tensor, "batch length model_dim"], sublayer: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "batch length model_dim"]:
        return self.add(x, sublayer(self.pre_norm(x)))

    def pre_norm(
        self, x: Float[Tensor, "batch length model_dim"]
    ) -> Float[Tensor, "batch length model_dim"]:
        """The input of the sublayer."""
        normed: Tensor = self.norm(x) if self.norm_first else x
        return normed

    def add(
        self,
        x: Float[Tensor, "batch length model_dim"],
        output: Float[Tensor, "batch length model_dim"],
    ) -> Float[Tensor, "batch length model_dim"]:
        """The sum of x and the sublayer's output, normalised in post-norm."""
        added: Tensor = x + output if self.norm_first else self.norm(x + output)
        return added

    def cost(self, shape: SequenceShape) -> Cost:
        """The cost of the norm and the sum."""
        (model_dim,) = self.norm.normalized_shape
        numbers = shape.positions * model_dim
        norm = norm_cost(rows=shape.positions, model_dim=model_dim)
        return norm + Cost(elementwise_ops=numbers, memory=numbers)


def validate_attention(block: str, part: str, attention: object, *, role: str) -> None:
    """Raise an error unless `attention` is a `MultiHead` of this role."""
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


def validate_feed_forward(block: str, feed_forward: object) -> None:
    """Raise an error unless `feed_forward` is a `FeedForward`."""
    if not isinstance(feed_forward, FeedForward):
        raise RegardError(
            f"{block} was given a {type(feed_forward).__name__} as feed_forward; it must be a "
            "FeedForward. Build it as FeedForward(model_dim=…)."
        )


def validate_equal_widths(block: str, **model_dims: int) -> None:
    """Raise an error unless all sublayers have the same `model_dim`."""
    if len(set(model_dims.values())) > 1:
        listed = ", ".join(f"{part} {model_dim}" for part, model_dim in model_dims.items())
        raise RegardError(
            f"{block} was given sublayers of different model_dim ({listed}): they must be equal. "
            "Build all of them with the same model_dim."
        )


class EncoderBlock(nn.Module):
    """Self-attention and feed-forward, with residual connections; dropout is part of the sublayers."""

    def __init__(
        self,
        *,
        attention: MultiHead,
        feed_forward: FeedForward,
        norm_first: bool = True,
        norm_epsilon: float = 1e-5,
    ) -> None:
        super().__init__()
        validate_attention("EncoderBlock", "attention", attention, role="self")
        validate_feed_forward("EncoderBlock", feed_forward)
        model_dim = attention.sizes.model_dim
        validate_equal_widths(
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
        self._validate(x)
        x = self.around_attention(x, partial(self.attention, mask=mask))
        return self.around_feed_forward(x, self.feed_forward)

    def weights(
        self, x: Float[Tensor, "batch length model_dim"], mask: Mask = NO_MASK
    ) -> Float[Tensor, "batch heads length length"]:
        """The attention weights of `forward` with the same arguments."""
        self._validate(x)
        return self.attention.weights(self.around_attention.pre_norm(x), mask=mask)

    def start(self, batch_size: int) -> State:
        """An empty decoding state."""
        return self.attention.start(batch_size)

    def prefill(
        self, x: Float[Tensor, "batch length model_dim"], lengths: Int[Tensor, " batch"]
    ) -> Step:
        """The output of `forward` with `Causal()`, and the state after each row's first `lengths`."""
        self._validate(x)
        normed = self.around_attention.pre_norm(x)
        attended = self.attention(normed, mask=Causal())
        state = self.attention.extend(self.start(len(x)), normed, Padding(lengths))
        x = self.around_attention.add(x, attended)
        return Step(self.around_feed_forward(x, self.feed_forward), state)

    def step(self, state: State, x: Float[Tensor, "batch new_length model_dim"]) -> Step:
        """The output of `forward` with `Causal()` for new tokens, continued from `state`."""
        self._validate(x)
        attended = self.attention.step(state, self.around_attention.pre_norm(x))
        x = self.around_attention.add(x, attended.output)
        return Step(self.around_feed_forward(x, self.feed_forward), attended.state)

    def _validate(self, x: Tensor) -> None:
        # Checked here, because the norm runs before the sublayers' own checks.
        validate_sequence("EncoderBlock", x, width=self.attention.sizes.model_dim)

    def cost(self, shape: SequenceShape) -> Cost:
        validate_sequence_shape("EncoderBlock", shape)
        return (
            self.attention.cost(shape)
            + self.around_attention.cost(shape)
            + per_position(self.feed_forward.cost(shape), length=shape.length)
            + self.around_feed_forward.cost(shape)
        )


# A context is copied to a smaller one once at least this share of its rows is unused.
MAX_UNUSED = 0.25


class Narrowed(NamedTuple):
    """The beam context after `select`, and which context rows remain (None: all)."""

    beam_context: BeamContext
    kept: Int[Tensor, " kept"] | None


class BeamContext(NamedTuple):
    """Which context row each batch row attends to, where several may share one.

    In beam search all hypotheses of one source attend to the same source. Its keys and values are kept
    once, and the queries of one source are gathered into one row:

        rows      A0 A1 A2 B0 C0 C1                context_row  0 0 0 1 2 2
        gathered  A0 A1 A2 | B0 –  –  | C0 C1 –    one row per context row, `width` wide

    `slot` is each row's index in the flattened gathered rows; None if they are in the same order.
    """

    context_row: Int[Tensor, " batch"]
    num_contexts: int
    width: int
    slot: Int[Tensor, " batch"] | None

    @classmethod
    def identity(cls, batch_size: int, *, device: torch.device) -> Self:
        """Every row attends to the context row of the same index."""
        return cls(torch.arange(batch_size, device=device), batch_size, 1, None)

    @classmethod
    def of(cls, context_row: Int[Tensor, " batch"], num_contexts: int) -> Self:
        """Row r attends to context row context_row[r]."""
        counts = torch.bincount(context_row, minlength=num_contexts)
        width = int(counts.max())
        order = context_row.argsort(stable=True)
        in_order = torch.arange(len(context_row), device=context_row.device)
        first = counts.cumsum(0) - counts
        slot = torch.empty_like(context_row)
        slot[order] = (
            in_order
            + (torch.arange(num_contexts, device=context_row.device) * width - first)[
                context_row[order]
            ]
        )
        full = len(context_row) == num_contexts * width and torch.equal(slot, in_order)
        return cls(context_row, num_contexts, width, None if full else slot)

    def select(self, index: Int[Tensor, " rows"]) -> Narrowed:
        """The beam context of the rows index[r], and the context rows they need."""
        context_row = self.context_row[index]
        used = torch.zeros(self.num_contexts, dtype=torch.bool, device=index.device)
        used[context_row] = True
        kept = used.nonzero()[:, 0]
        if len(kept) > (1 - MAX_UNUSED) * self.num_contexts:
            return Narrowed(BeamContext.of(context_row, self.num_contexts), None)
        return Narrowed(BeamContext.of((used.cumsum(0) - 1)[context_row], len(kept)), kept)

    def gather(self, x: Float[Tensor, "batch 1 dim"]) -> Float[Tensor, "contexts width dim"]:
        """The rows gathered by context row, padded with zeros."""
        flat = x[:, 0]
        if self.slot is not None:
            empty = x.new_zeros(self.num_contexts * self.width, x.shape[2])
            flat = empty.index_copy(0, self.slot, flat)
        return flat.view(self.num_contexts, self.width, x.shape[2])

    def scatter(
        self, gathered: Float[Tensor, "contexts width dim"]
    ) -> Float[Tensor, "batch 1 dim"]:
        """Gathered rows back in batch order."""
        flat = gathered.flatten(0, 1)
        return (flat if self.slot is None else flat.index_select(0, self.slot))[:, None]


CAUSAL = Causal()


class DecoderState(NamedTuple):
    """The states of self-attention and of cross-attention, whose keys are projected once, in `start`."""

    own: State
    context: State

    @property
    def position(self) -> Int[Tensor, " batch"]:
        """The number of decoder tokens in each row."""
        return self.own.position

    def select(self, index: Int[Tensor, " rows"]) -> Self:
        return self._replace(own=self.own.select(index), context=self.context.select(index))


class DecoderWeights(NamedTuple):
    """Attention weights of self-attention and cross-attention."""

    own: Float[Tensor, "batch heads length length"]
    context: Float[Tensor, "batch heads length context_length"]


class DecoderBlock(nn.Module):
    """Causal self-attention, cross-attention and feed-forward, with residual connections."""

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
        validate_attention("DecoderBlock", "self_attention", self_attention, role="self")
        validate_attention("DecoderBlock", "cross_attention", cross_attention, role="cross")
        validate_feed_forward("DecoderBlock", feed_forward)
        validate_equal_widths(
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
        self._validate(x)
        x = self.around_self_attention(x, partial(self.self_attention, mask=mask))
        cross_attention = partial(self.cross_attention, context=context, mask=context_mask)
        x = self.around_cross_attention(x, cross_attention)
        return self.around_feed_forward(x, self.feed_forward)

    def weights(
        self,
        x: Float[Tensor, "batch length model_dim"],
        context: Float[Tensor, "batch context_length context_dim"],
        mask: Mask = CAUSAL,
        context_mask: Mask = NO_MASK,
    ) -> DecoderWeights:
        """The attention weights of `forward` with the same arguments."""
        self._validate(x)
        own = self.self_attention.weights(self.around_self_attention.pre_norm(x), mask=mask)
        x = self.around_self_attention(x, partial(self.self_attention, mask=mask))
        query = self.around_cross_attention.pre_norm(x)
        return DecoderWeights(own, self.cross_attention.weights(query, context, context_mask))

    def start(
        self,
        context: Float[Tensor, "batch context_length context_dim"],
        context_mask: Mask = NO_MASK,
    ) -> DecoderState:
        """The state after the context, before any token."""
        context_dim = self.cross_attention.sizes.context_dim
        validate_sequence(
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
        beam_context: BeamContext | None = None,
    ) -> Step:
        """The output of `forward` for new tokens, continued from `state`.

        With `beam_context`, one token per row, and row r attends to row beam_context.context_row[r].
        """
        self._validate(x)
        validate_decoder_state(state)
        attended = self.self_attention.step(state.own, self.around_self_attention.pre_norm(x))
        x = self.around_self_attention.add(x, attended.output)
        query = self.around_cross_attention.pre_norm(x)
        if beam_context is None:
            output = self.cross_attention.read(state.context, query)
        else:
            gathered = self.cross_attention.read(state.context, beam_context.gather(query))
            output = beam_context.scatter(gathered)
        x = self.around_cross_attention.add(x, output)
        output = self.around_feed_forward(x, self.feed_forward)
        return Step(output, state._replace(own=attended.state))

    def _validate(self, x: Tensor) -> None:
        # Checked here, because the norm runs before the sublayers' own checks.
        validate_sequence("DecoderBlock", x, width=self.self_attention.sizes.model_dim)

    def cost(self, shape: SequenceShape) -> Cost:
        """The cost of `forward`; `max_path_length` is between two decoder positions."""
        validate_sequence_shape("DecoderBlock", shape)
        own = self.self_attention.cost(shape)
        total = (
            own
            + self.around_self_attention.cost(shape)
            + self.cross_attention.cost(replace(shape, causal=False))
            + self.around_cross_attention.cost(shape)
            + per_position(self.feed_forward.cost(shape), length=shape.length)
            + self.around_feed_forward.cost(shape)
        )
        return replace(total, max_path_length=own.max_path_length)


def validate_decoder_state(state: object) -> None:
    """Raise an error unless `state` is a `DecoderState`."""
    if not isinstance(state, DecoderState):
        raise RegardError(
            f"DecoderBlock was given a state of type {type(state).__name__}; it must be a "
            "DecoderState. Begin with start(context), and continue with the `state` of each step."
        )
