"""Transformer encoder, and an LSTM or GRU decoder with or without attention.

    source        → stem + position → encoder blocks ───────────────────────────────┐ keys and values
    decoder input → embed → norm → LSTM or GRU → cross-attention → feed-forward ←───┘ → next-token logits

The hybrid of Chen et al. (2018). As in Luong et al. (2015), attention comes after the recurrent update. Its
context is not fed back, so that all steps of training are one recurrent call and one attention call. It
differs from `recurrent` in the encoder, and in that the attention is a multi-head block with any mechanism;
from `transformer` in that the decoder has recurrent layers instead of self-attention and positions.
Without attention the decoder knows the source only by its initial state.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar, Literal, NamedTuple, Self

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.batches import FrameInput, Input, InputSpec
from regard.core.errors import RegardError
from regard.core.mechanism import SequenceMixer, State, Step
from regard.core.options import PositiveInt, Probability, validated
from regard.core.traits import Alternative, Size, Traits
from regard.layers.blocks import BeamContext, Residual, mixer_weights
from regard.layers.dropout import Dropout
from regard.layers.recurrent import Recurrent, RecurrentState
from regard.models.classifier import ANY_INPUT, mean_features
from regard.models.embeddings import TokenEmbedding
from regard.models.seq2seq.encoder import (
    CROSS,
    ENCODER,
    RECURRENT,
    SAME_OPTIONS,
    EncoderDecoder,
    slot_options,
)
from regard.models.stack import MechanismOptions, Mechanisms, StackBuilder
from regard.models.stems import StemOptions, build_stem

NO_ATTENTION = "none"


class TransformerRecurrentState(NamedTuple):
    """Recurrent states of the decoder layers, cached keys and values, the source row of each hypothesis."""

    layers: tuple[RecurrentState, ...]
    context: State | None
    beam_context: BeamContext

    @property
    def position(self) -> Int[Tensor, " batch"]:
        """How many target tokens each row has processed."""
        return self.layers[0].position

    def select(self, index: Int[Tensor, " rows"]) -> Self:
        """The state whose row r is this state's row index[r]; rows of one sentence share its source."""
        beam_context, kept = self.beam_context.select(index)
        context = self.context
        if context is not None and kept is not None:
            context = context.select(kept)
        layers = tuple(layer.select(index) for layer in self.layers)
        return type(self)(layers, context, beam_context)


class TransformerRecurrent(EncoderDecoder):
    """Transformer encoder and recurrent decoder (`core.protocols.SequenceModel`).

    The decoder starts from the mean of the encoder's outputs: no position of a bidirectional encoder is
    its last one.

    num_decoder_layers   number of recurrent layers; the last one's outputs are the queries
    mechanism            mechanism of all attentions; a list is one per layer, see `models.stack`
    encoder_mechanism    mechanism of the encoder's self-attention, instead of `mechanism`
    cross_mechanism      mechanism of the cross-attention, instead of `mechanism`; "none": no attention
    attention_dropout    dropout probability of attention weights
    feed_forward_dim     width of the feed-forward layers; default: 4 × `model_dim`
    position             position encoding of the source: sinusoidal, learned, rotary, alibi or none
    max_length           longest source, where positions or mechanism have a maximum
    tie                  tied embeddings: "target" (target embedding and output matrix are tied) or "none"
    stem                 options of the stem of real-valued input, or a stem; see `models.stems`
    ctc_weight           weight of an auxiliary CTC loss of the encoder in training (Kim et al. 2017)
    alignment_weight     weight of the loss that teaches the first head of the cross-attention the alignment
                         of CTC (Garg et al. 2019)
    token_dropout        probability that a decoder input token is replaced by UNKNOWN in training
    """

    traits: ClassVar[Traits] = Traits(
        inputs=ANY_INPUT,
        targets=frozenset({"sequence"}),
        sizes={
            "model_dim": Size(unit=2, times="num_heads"),
            "feed_forward_dim": Size(follows="model_dim", ratio=4.0),
        },
        slots=(ENCODER, CROSS),
        alternatives=(
            Alternative(
                model="transformer",
                options={option: option for option in SAME_OPTIONS},
            ),
            RECURRENT,
        ),
    )

    @validated
    def __init__(
        self,
        *,
        source: InputSpec | PositiveInt,
        target_vocabulary: PositiveInt,
        model_dim: PositiveInt = 256,
        num_heads: PositiveInt = 4,
        num_layers: PositiveInt = 3,
        num_decoder_layers: PositiveInt = 1,
        feed_forward_dim: PositiveInt | None = None,
        cell: Literal["lstm", "gru"] = "lstm",
        dropout: Probability = 0.1,
        attention_dropout: Probability = 0.0,
        activation: str = "relu",
        norm_first: bool = True,
        position: str = "sinusoidal",
        max_length: PositiveInt = 1024,
        mechanism: Mechanisms = "scaled_dot",
        encoder_mechanism: Mechanisms | None = None,
        cross_mechanism: Mechanisms | None = None,
        mechanism_options: MechanismOptions = None,
        encoder_options: MechanismOptions = None,
        cross_options: MechanismOptions = None,
        num_kv_heads: PositiveInt | None = None,
        tie: Literal["target", "none"] = "target",
        bias: bool = True,
        stem: StemOptions = None,
        ctc_weight: Probability = 0.0,
        alignment_weight: Probability = 0.0,
        token_dropout: Probability = 0.0,
    ) -> None:
        super().__init__()
        if cross_mechanism == NO_ATTENTION and cross_options:
            raise RegardError(
                f"TransformerRecurrent has cross_options={cross_options} but cross_mechanism='none'. "
                "Choose a mechanism, or remove the options."
            )

        def table(vocabulary: int) -> TokenEmbedding:
            return TokenEmbedding(vocabulary=vocabulary, model_dim=model_dim)

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
        )
        shared = partial(slot_options, mechanism, mechanism_options)
        self.stem = build_stem(source, model_dim=model_dim, tokens=table, stem=stem)
        self.source_position = stack.build_position()
        self.dropout = Dropout(dropout)
        of_encoder = shared(encoder_mechanism, encoder_options)
        self.encoder = stack.encoder(ENCODER, *of_encoder, num_layers)
        self.encoder_norm = stack.final_norm()

        self.target_embedding = table(target_vocabulary)
        self.embedding_norm = nn.LayerNorm(model_dim)
        self.decoder = nn.ModuleList(
            Recurrent(model_dim=model_dim, hidden_dim=model_dim, cell=cell)
            for _ in range(num_decoder_layers)
        )
        first_dim = num_decoder_layers * model_dim
        self.first_hidden = nn.Linear(model_dim, first_dim)
        self.first_memory = nn.Linear(model_dim, first_dim) if cell == "lstm" else None
        around = partial(Residual, model_dim=model_dim, norm_first=norm_first)
        self.cross_attention: SequenceMixer | None = None
        if cross_mechanism != NO_ATTENTION:
            of_cross = shared(cross_mechanism, cross_options)
            (self.cross_attention,) = stack.attention(CROSS, *of_cross, num_layers=1)
            self.around_cross_attention = around()
        self.feed_forward = stack.feed_forward()
        self.around_feed_forward = around()
        self.decoder_norm = stack.final_norm()
        self.output = table(target_vocabulary) if tie == "none" else self.target_embedding
        self.set_training_options(
            model_dim=model_dim,
            target_vocabulary=target_vocabulary,
            ctc_weight=ctc_weight,
            alignment_weight=alignment_weight,
            token_dropout=token_dropout,
            has_attention=cross_mechanism != NO_ATTENTION,
        )

    def forward(
        self, source: Input, decoder_input: Int[Tensor, "batch target_length"]
    ) -> Float[Tensor, "batch target_length target_vocabulary"]:
        return self.logits(self.hidden(source, decoder_input))

    def target_limits(self, source: Input) -> None:
        """None: unlimited."""

    def decoder_features(
        self,
        encoded: FrameInput,
        decoder_input: Int[Tensor, "batch target_length"],
        *,
        weights: dict[str, Tensor] | None = None,
    ) -> Float[Tensor, "batch target_length model_dim"]:
        """As `hidden`, of an encoded source; adds the weights of the cross-attention to `weights`."""
        x, _ = self._recur(decoder_input, self._first_layers(encoded))
        if self.cross_attention is None:
            return self._attend(x, None)
        context, mask = encoded.frames, encoded.mask
        if weights is not None:
            query = self.around_cross_attention.pre_norm(x)
            weights["cross/0"] = mixer_weights(self.cross_attention, query, context, mask=mask)
        return self._attend(x, partial(self.cross_attention, context=context, mask=mask))

    def logits(
        self, hidden: Float[Tensor, "*positions model_dim"]
    ) -> Float[Tensor, "*positions target_vocabulary"]:
        """Scores over the target vocabulary."""
        return self.output.logits(hidden)

    def start(self, source: Input) -> TransformerRecurrentState:
        """The state before any target token: the source encoded, its keys and values cached."""
        encoded = self.encode_by_length(source)
        rows, context = len(encoded.lengths), None
        if self.cross_attention is not None:
            empty = self.cross_attention.start(rows)
            context = self.cross_attention.extend(empty, encoded.frames, encoded.mask)
        beam_context = BeamContext.identity(rows, device=encoded.device)
        return TransformerRecurrentState(self._first_layers(encoded), context, beam_context)

    def step(self, state: TransformerRecurrentState, token: Int[Tensor, " batch"]) -> Step:
        """Logits (batch, target_vocabulary) after one more token, and the new state."""
        x, layers = self._recur(token[:, None], state.layers)
        hidden = self._attend(x, None if state.context is None else partial(self._read, state))
        return Step(self.logits(hidden[:, 0]), state._replace(layers=layers))

    def _first_layers(self, context: FrameInput) -> tuple[RecurrentState, ...]:
        """The initial state of each recurrent layer, from the mean of the encoder's outputs."""
        mean = mean_features(context.frames, context.lengths)
        layers = (len(mean), len(self.decoder), -1)
        hidden = torch.tanh(self.first_hidden(mean)).view(layers)
        memory = hidden[..., :0]
        if self.first_memory is not None:
            memory = torch.tanh(self.first_memory(mean)).view(layers)
        position = torch.zeros_like(context.lengths)
        return tuple(
            RecurrentState(hidden[:, layer, None], memory[:, layer, None], position)
            for layer in range(len(self.decoder))
        )

    def _recur(
        self, tokens: Tensor, layers: tuple[RecurrentState, ...]
    ) -> tuple[Tensor, tuple[RecurrentState, ...]]:
        """The outputs of the last recurrent layer, and the new states of all."""
        x = self.embedding_norm(self.target_embedding.embed(tokens))
        after = []
        for layer, before in zip(self.decoder, layers, strict=True):
            x, state = layer(self.dropout(x), state=before)
            after.append(state)
        return x, tuple(after)

    def _attend(self, x: Tensor, attend: Callable[[Tensor], Tensor] | None) -> Tensor:
        """Cross-attention, if there is any, feed-forward and norm."""
        if attend is not None:
            x = self.around_cross_attention(x, attend)
        hidden: Tensor = self.decoder_norm(self.around_feed_forward(x, self.feed_forward))
        return hidden

    def _read(self, state: TransformerRecurrentState, query: Tensor) -> Tensor:
        """Cross-attention of one query per row to the cached source."""
        assert self.cross_attention is not None
        gathered = state.beam_context.gather(query)
        return state.beam_context.scatter(self.cross_attention.read(state.context, gathered))
