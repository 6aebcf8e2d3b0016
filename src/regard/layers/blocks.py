"""Transformer blocks (Vaswani et al. 2017): encoder block, decoder block, residual connections.

EncoderBlock   self-attention, feed-forward; with `Causal()` the block of a decoder-only model
DecoderBlock   causal self-attention, cross-attention, feed-forward
BeamContext    lets the hypotheses of one source share its keys and values in beam search
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Self

import torch
from jaxtyping import Float, Int
from pydantic import SkipValidation
from torch import Tensor, nn

from regard.core.cost import Cost
from regard.core.counting import Example
from regard.core.errors import RegardError, described
from regard.core.masks import NO_MASK, Causal, Mask
from regard.core.mechanism import SequenceMixer, State, Step
from regard.core.options import PositiveFloat, validated
from regard.layers.cost import SequenceShape, layer_cost
from regard.layers.feed_forward import FeedForward
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
        if not self.norm_first:
            return x
        try:
            normed: Tensor = self.norm(x)
        except (RuntimeError, TypeError):
            # The sublayer checks its input, but the norm runs before it.
            validate_sequence("The block", x, width=self.norm.normalized_shape[0])
            raise
        return normed

    def add(
        self,
        x: Float[Tensor, "batch length model_dim"],
        output: Float[Tensor, "batch length model_dim"],
    ) -> Float[Tensor, "batch length model_dim"]:
        """The sum of x and the sublayer's output, normalised in post-norm."""
        added: Tensor = x + output if self.norm_first else self.norm(x + output)
        return added


MIXER_PARTS = ("model_dim", "start", "extend", "read", "step")


def validate_sublayers(
    block: str, feed_forward: object, *, roles: tuple[str, ...], **mixers: object
) -> None:
    """Raise an error unless each mixer is a `SequenceMixer` of its role, and all widths are equal."""
    for (part, mixer), role in zip(mixers.items(), roles, strict=True):
        missing = [name for name in MIXER_PARTS if not hasattr(mixer, name)]
        if missing or not isinstance(mixer, nn.Module):
            lacks = f"it has no {', '.join(missing)}" if missing else "it is no nn.Module"
            raise RegardError(
                f"{block} was given {part} = {described(mixer)}; it must be a MultiHead or another "
                f"SequenceMixer, but {lacks}. Build it as MultiHead(role='{role}', …), or define "
                "what is missing."
            )
        if getattr(mixer, "role", role) != role:
            raise RegardError(
                f"{block} was given {part} of role '{mixer.role}'; it must be '{role}'. "
                f"Build it as MultiHead(role='{role}', …)."
            )
    if not isinstance(feed_forward, FeedForward):
        raise RegardError(
            f"{block} was given feed_forward = {described(feed_forward)}; it must be a "
            "FeedForward. Build it as FeedForward(model_dim=…)."
        )
    widths = {part: getattr(mixer, "model_dim", None) for part, mixer in mixers.items()}
    widths["feed_forward"] = feed_forward.widen.in_features
    if len(set(widths.values())) > 1:
        listed = ", ".join(f"{part} {model_dim}" for part, model_dim in widths.items())
        raise RegardError(
            f"{block} was given sublayers of different model_dim ({listed}): they must be equal. "
            "Build all of them with the same model_dim."
        )


def mixer_weights(mixer: SequenceMixer, *inputs: Tensor, mask: Mask) -> Tensor:
    """The attention weights of a mixer, if it has any."""
    if not hasattr(mixer, "weights"):
        raise RegardError(
            f"{type(mixer).__name__} has no method `weights`, so its block has no attention weights. "
            "Define weights(x, context, mask), or choose MultiHead."
        )
    weights: Tensor = mixer.weights(*inputs, mask=mask)
    return weights


class EncoderBlock(nn.Module):
    """Self-attention and feed-forward, with residual connections; dropout is part of the sublayers."""

    @validated
    def __init__(
        self,
        *,
        attention: SkipValidation[SequenceMixer],
        feed_forward: SkipValidation[FeedForward],
        norm_first: bool = True,
        norm_epsilon: PositiveFloat = 1e-5,
    ) -> None:
        super().__init__()
        validate_sublayers("EncoderBlock", feed_forward, roles=("self",), attention=attention)
        around = partial(
            Residual,
            model_dim=attention.model_dim,
            norm_first=norm_first,
            norm_epsilon=norm_epsilon,
        )
        self.attention: SequenceMixer = attention
        self.around_attention = around()
        self.feed_forward = feed_forward
        self.around_feed_forward = around()

    def forward(
        self, x: Float[Tensor, "batch length model_dim"], mask: Mask = NO_MASK
    ) -> Float[Tensor, "batch length model_dim"]:
        x = self.around_attention(x, partial(self.attention, mask=mask))
        return self.around_feed_forward(x, self.feed_forward)

    def weights(
        self, x: Float[Tensor, "batch length model_dim"], mask: Mask = NO_MASK
    ) -> Float[Tensor, "batch heads length length"]:
        """The attention weights of `forward` with the same arguments."""
        return mixer_weights(self.attention, self.around_attention.pre_norm(x), mask=mask)

    def start(self, batch_size: int) -> State:
        """An empty decoding state."""
        state: State = self.attention.start(batch_size)
        return state

    def prefill(
        self, x: Float[Tensor, "batch length model_dim"], lengths: Int[Tensor, " batch"]
    ) -> Step:
        """The output of `forward` with `Causal()`, and the state after each row's first `lengths`."""
        normed = self.around_attention.pre_norm(x)
        attended = self.attention(normed, mask=Causal())
        state = self.attention.extend(self.start(len(x)), normed, Mask(lengths=lengths))
        x = self.around_attention.add(x, attended)
        return Step(self.around_feed_forward(x, self.feed_forward), state)

    def step(self, state: State, x: Float[Tensor, "batch new_length model_dim"]) -> Step:
        """The output of `forward` with `Causal()` for new tokens, continued from `state`."""
        attended = self.attention.step(state, self.around_attention.pre_norm(x))
        x = self.around_attention.add(x, attended.output)
        return Step(self.around_feed_forward(x, self.feed_forward), attended.state)

    def cost(self, shape: SequenceShape) -> Cost:
        """The cost of `forward`, counted."""

        def prepare(block: EncoderBlock) -> Example:
            x = shape.vectors(block.around_attention.norm.normalized_shape[0])
            state = block.attention.extend(block.start(shape.batch_size), x)
            step = partial(block.step, state, x[:, :1])
            return Example(partial(block, x, shape.mask(block)), (x,), state, step)

        path_length = partial(path_length_of, self.attention, shape)
        return layer_cost(self, shape, prepare, max_path_length=path_length)


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

    @validated
    def __init__(
        self,
        *,
        self_attention: SkipValidation[SequenceMixer],
        cross_attention: SkipValidation[SequenceMixer],
        feed_forward: SkipValidation[FeedForward],
        norm_first: bool = True,
        norm_epsilon: PositiveFloat = 1e-5,
    ) -> None:
        super().__init__()
        validate_sublayers(
            "DecoderBlock",
            feed_forward,
            roles=("self", "cross"),
            self_attention=self_attention,
            cross_attention=cross_attention,
        )
        around = partial(
            Residual,
            model_dim=self_attention.model_dim,
            norm_first=norm_first,
            norm_epsilon=norm_epsilon,
        )
        self.self_attention: SequenceMixer = self_attention
        self.around_self_attention = around()
        self.cross_attention: SequenceMixer = cross_attention
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
        own = mixer_weights(self.self_attention, self.around_self_attention.pre_norm(x), mask=mask)
        x = self.around_self_attention(x, partial(self.self_attention, mask=mask))
        query = self.around_cross_attention.pre_norm(x)
        read = mixer_weights(self.cross_attention, query, context, mask=context_mask)
        return DecoderWeights(own, read)

    def start(
        self,
        context: Float[Tensor, "batch context_length context_dim"],
        context_mask: Mask = NO_MASK,
    ) -> DecoderState:
        """The state after the context, before any token."""
        own, empty = (
            self.self_attention.start(len(context)),
            self.cross_attention.start(len(context)),
        )
        return DecoderState(own, self.cross_attention.extend(empty, context, context_mask))

    def step(
        self,
        state: DecoderState,
        x: Float[Tensor, "batch new_length model_dim"],
        beam_context: BeamContext | None = None,
    ) -> Step:
        """The output of `forward` for new tokens, continued from `state`.

        With `beam_context`, one token per row, and row r attends to row beam_context.context_row[r].
        """
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

    def cost(self, shape: SequenceShape) -> Cost:
        """The cost of `forward`, counted; `max_path_length` is between two decoder positions."""

        def prepare(block: DecoderBlock) -> Example:
            (model_dim,) = block.around_self_attention.norm.normalized_shape
            sizes = getattr(block.cross_attention, "sizes", None)
            x = shape.vectors(model_dim)
            context = shape.context(model_dim if sizes is None else sizes.context_dim)
            state = block.start(context)
            state = state._replace(own=block.self_attention.extend(state.own, x))
            forward = partial(block, x, context, shape.mask(block.self_attention))
            return Example(forward, (x, context), state, partial(block.step, state, x[:, :1]))

        path_length = partial(path_length_of, self.self_attention, shape)
        return layer_cost(self, shape, prepare, max_path_length=path_length)


def path_length_of(attention: object, shape: SequenceShape) -> int:
    """The maximum path length of a block's attention; 0 for one without a `cost`."""
    cost: Callable[[SequenceShape], Cost] | None = getattr(attention, "cost", None)
    return 0 if cost is None else cost(shape).max_path_length


def validate_decoder_state(state: object) -> None:
    """Raise an error unless `state` is a `DecoderState`."""
    if not isinstance(state, DecoderState):
        raise RegardError(
            f"DecoderBlock was given a state of type {type(state).__name__}; it must be a "
            "DecoderState. Begin with start(context), and continue with the `state` of each step."
        )
