"""Decoder-only Transformer (GPT): one causal stack over the source as a prompt and the target.

    source tokens, START, target tokens → embed + position → blocks (causal) → next-token logits

(Radford et al. 2018). It has the interface of a sequence-to-sequence model (`SequenceModel`) and trains on
pairs by prompt packing: the source is the prompt, START ends it, and only the target is predicted. With
an empty source it is a plain language model. Attention over the source is causal.
"""

from __future__ import annotations

from typing import ClassVar, Literal, NamedTuple, Self

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.core.batches import PAD, TokenInput, TokenSpec
from regard.core.errors import RegardError
from regard.core.masks import Causal
from regard.core.mechanism import State, Step
from regard.core.options import PositiveInt, Probability, validated
from regard.core.traits import Size, Traits
from regard.layers.dropout import Dropout
from regard.models.embeddings import TokenEmbedding
from regard.models.stack import (
    DECODER,
    MechanismOptions,
    Mechanisms,
    StackBuilder,
    longest_sequence,
)


class PackedPrompt(NamedTuple):
    """Prompt packing: source and decoder input of each row as one sequence, padded at the end only.

        source   w h o END PAD    decoder input   START m e    packed   w h o START m e
        source   w h e r e END    decoder input   START        packed   w h e r e START

    The source's END is dropped: START marks the same boundary. `source_lengths` do not count it.
    """

    tokens: Int[Tensor, "batch length"]
    source_lengths: Int[Tensor, " batch"]
    source_width: int
    target_width: int
    # Whether all sources have the same length, so that all targets begin at the same position.
    is_aligned: bool

    @classmethod
    def of(cls, source: TokenInput, decoder_input: Int[Tensor, "batch target_length"]) -> Self:
        """Pack source and decoder input, leaving out the padding of both."""
        tokens, prompt_lengths = source.tokens, source.lengths - 1
        widths = (tokens.shape[1], decoder_input.shape[1])
        if not source.padded:
            packed = torch.cat([tokens[:, :-1], decoder_input], dim=1)
            return cls(packed, prompt_lengths, *widths, is_aligned=True)
        length = int((prompt_lengths + (decoder_input != PAD).sum(dim=1)).max())
        positions = torch.arange(length, device=tokens.device)[None]
        after = tokens.shape[1] + positions - prompt_lengths[:, None]
        # Past the end of a row the index points to the extra column of padding.
        columns = F.pad(torch.cat([tokens, decoder_input], dim=1), (0, 1), value=PAD)
        index = torch.where(positions < prompt_lengths[:, None], positions, after)
        packed = columns.gather(1, index.clamp(max=columns.shape[1] - 1))
        return cls(packed, prompt_lengths, *widths, is_aligned=False)

    def select_target(self, x: Tensor, *, dim: int = 1) -> Tensor:
        """The slice of `x` at the target positions; past the end of a row the last one repeats."""
        if self.is_aligned:
            return x.narrow(dim, self.source_width - 1, self.target_width)
        positions = self.source_lengths[:, None] + torch.arange(self.target_width, device=x.device)
        return _gather_along(x, positions.clamp(max=self.tokens.shape[1] - 1), dim)

    def select_source(self, x: Tensor, *, dim: int = 1) -> Tensor:
        """The slice of `x` at the source positions; zeros at END and padding."""
        positions = torch.arange(self.source_width, device=x.device)
        is_token = positions < self.source_lengths[:, None]
        selected = _gather_along(x, torch.where(is_token, positions, 0), dim)
        return selected * _expand_along(is_token, selected, dim)


def _gather_along(x: Tensor, positions: Int[Tensor, "batch selected"], dim: int) -> Tensor:
    shape = list(x.shape)
    shape[dim] = positions.shape[1]
    return x.gather(dim, _expand_along(positions, x, dim).expand(shape))


def _expand_along(values: Tensor, x: Tensor, dim: int) -> Tensor:
    """View (batch, n) with the dimensions of x: batch first, n at `dim`, 1 elsewhere."""
    shape = [1] * x.ndim
    shape[0], shape[dim] = values.shape
    return values.view(shape)


class DecoderOnlyState(NamedTuple):
    """The cache of each block, and the transposed output table (see `TransformerState`)."""

    blocks: tuple[State, ...]
    output_weight: Float[Tensor, "model_dim vocabulary"]

    @property
    def position(self) -> Int[Tensor, " batch"]:
        """How many tokens each row has processed, source included."""
        return self.blocks[0].position

    def select(self, index: Int[Tensor, " rows"]) -> Self:
        """The state whose row r is this state's row index[r]."""
        return self._replace(blocks=tuple(block.select(index) for block in self.blocks))


class DecoderOnly(nn.Module):
    """Causal language model; source and target share one vocabulary.

    feed_forward_dim     width of the feed-forward layers; default: 4 × `model_dim`
    feed_forward_dropout dropout inside feed-forward layers; default: `dropout` (GPT-2: 0)
    attention_dropout    dropout probability of attention weights
    mechanism            any causal mechanism, with `mechanism_options`; a list: see `models.stack`
    position             position encoding: sinusoidal, learned, rotary, alibi or none
    max_length           longest source plus target, where positions or mechanism have a maximum
    tie                  tied embeddings: "all" (input and output embeddings are tied) or "none"
    embedding_scaled     whether embeddings are multiplied by √model_dim
    """

    traits: ClassVar[Traits] = Traits(
        inputs=frozenset({"tokens"}),
        targets=frozenset({"sequence"}),
        sizes={
            "model_dim": Size(unit=2, times="num_heads"),
            "feed_forward_dim": Size(follows="model_dim", ratio=4.0),
        },
        slots=(DECODER,),
        shared_vocabulary=True,
        is_decoder_only=True,
    )

    @validated
    def __init__(
        self,
        *,
        source: TokenSpec | PositiveInt,
        target_vocabulary: PositiveInt,
        model_dim: PositiveInt = 256,
        num_heads: PositiveInt = 4,
        num_layers: PositiveInt = 4,
        feed_forward_dim: PositiveInt | None = None,
        dropout: Probability = 0.1,
        attention_dropout: Probability = 0.0,
        feed_forward_dropout: Probability | None = None,
        activation: str = "gelu",
        norm_first: bool = True,
        position: str = "rotary",
        max_length: PositiveInt = 1024,
        mechanism: Mechanisms = "scaled_dot",
        mechanism_options: MechanismOptions = None,
        num_kv_heads: PositiveInt | None = None,
        tie: Literal["all", "none"] = "all",
        bias: bool = True,
        embedding_scaled: bool = True,
    ) -> None:
        super().__init__()
        source_vocabulary = source if isinstance(source, int) else source.vocabulary
        if source_vocabulary != target_vocabulary:
            raise RegardError(
                f"DecoderOnly has a source vocabulary of {source_vocabulary} and "
                f"target_vocabulary={target_vocabulary}: both are packed into one sequence, so they must "
                "be equal. Use a shared vocabulary."
            )

        def table() -> TokenEmbedding:
            return TokenEmbedding(
                vocabulary=target_vocabulary, model_dim=model_dim, scaled=embedding_scaled
            )

        self.embedding = table()
        self.output = self.embedding if tie == "all" else table()
        self.dropout = Dropout(dropout)
        stack = StackBuilder(
            model_dim=model_dim,
            num_heads=num_heads,
            num_kv_heads=num_kv_heads,
            feed_forward_dim=feed_forward_dim,
            position=position,
            max_length=max_length,
            activation=activation,
            norm_first=norm_first,
            bias=bias,
            dropout=dropout,
            attention_dropout=attention_dropout,
            feed_forward_dropout=feed_forward_dropout,
        )
        self.position = stack.build_position()
        self.blocks = stack.encoder(DECODER, mechanism, mechanism_options, num_layers)
        self.norm = stack.final_norm()

    def forward(
        self, source: TokenInput, decoder_input: Int[Tensor, "batch target_length"]
    ) -> Float[Tensor, "batch target_length vocabulary"]:
        return self.logits(self.hidden(source, decoder_input))

    @property
    def max_length(self) -> int | None:
        """Longest source plus target that positions and mechanisms support; None: unlimited."""
        return longest_sequence(self.position, (block.attention for block in self.blocks))

    def target_limits(self, source: TokenInput) -> Int[Tensor, " batch"] | None:
        """`max_length` minus each source's length; the source's END is not counted."""
        longest = self.max_length
        return None if longest is None else longest - (source.lengths - 1)

    def hidden(
        self, source: TokenInput, decoder_input: Int[Tensor, "batch target_length"]
    ) -> Float[Tensor, "batch target_length model_dim"]:
        """Features from which the token after each position of `decoder_input` is predicted."""
        packed = PackedPrompt.of(source, decoder_input)
        x = self._embed(packed.tokens)
        # Padding is at the end, where causal masking already hides it.
        for block in self.blocks:
            x = block(x, Causal())
        hidden: Tensor = self.norm(packed.select_target(x))
        return hidden

    def logits(
        self, hidden: Float[Tensor, "*positions model_dim"]
    ) -> Float[Tensor, "*positions vocabulary"]:
        """Scores over the vocabulary."""
        return self.output.logits(hidden)

    def start(self, source: TokenInput) -> DecoderOnlyState:
        """The state before START: the prompt prefilled into the cache."""
        packed = PackedPrompt.of(source, source.tokens[:, :0])
        blocks: list[State] = []
        if packed.tokens.shape[1] == 0:
            blocks += [block.start(len(source.tokens)) for block in self.blocks]
        else:
            x = self._embed(packed.tokens)
            for block in self.blocks:
                x, state = block.prefill(x, packed.source_lengths)
                blocks.append(state)
        return DecoderOnlyState(tuple(blocks), self.output.transposed())

    def step(self, state: DecoderOnlyState, token: Int[Tensor, " batch"]) -> Step:
        """Logits (batch, vocabulary) after one more token, and the new state."""
        x = self._embed(token[:, None], start=_common_position(state.position))
        blocks = []
        for block, before in zip(self.blocks, state.blocks, strict=True):
            x, after = block.step(before, x)
            blocks.append(after)
        return Step(self.norm(x)[:, 0] @ state.output_weight, state._replace(blocks=tuple(blocks)))

    def weights(
        self, source: TokenInput, decoder_input: Int[Tensor, "batch target_length"]
    ) -> dict[str, Float[Tensor, "batch heads queries keys"]]:
        """Attention weights: "decoder/0", … over the packed sequence; "cross/0", … target to source."""
        packed = PackedPrompt.of(source, decoder_input)
        found: dict[str, Tensor] = {}
        x = self._embed(packed.tokens)
        for number, block in enumerate(self.blocks):
            found[f"decoder/{number}"] = weights = block.weights(x, Causal())
            cross = packed.select_target(weights, dim=2)
            found[f"cross/{number}"] = packed.select_source(cross, dim=3)
            x = block(x, Causal())
        return found

    def _embed(self, tokens: Tensor, start: int | Tensor = 0) -> Tensor:
        embedded: Tensor = self.dropout(self.position(self.embedding.embed(tokens), start))
        return embedded


def _common_position(position: Int[Tensor, " batch"]) -> int | Int[Tensor, " batch"]:
    """One int where all rows are at the same position, which is faster; otherwise the tensor."""
    distinct = set(position.tolist())
    return distinct.pop() if len(distinct) == 1 else position
