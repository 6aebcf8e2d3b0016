"""Transformer encoder–decoder, with any compatible mechanism in each of its three attention slots.

    source        → embed + position → encoder blocks ─────────────┐ keys and values
    decoder input → embed + position → decoder blocks (causal) ←───┘ → next-token logits

(Vaswani et al. 2017). Pre-norm (Xiong et al. 2020; `norm_first`) adds a final layer norm to each stack.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal, NamedTuple, Self

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.core.batches import FrameInput, Input, InputSpec, TokenSpec
from regard.core.errors import RegardError
from regard.core.mechanism import Step
from regard.core.options import PositiveInt, Probability, validated
from regard.core.traits import Size, Slot, Traits
from regard.layers.blocks import BeamContext, DecoderState
from regard.layers.dropout import Dropout
from regard.models.classifier import ANY_INPUT
from regard.models.embeddings import TokenEmbedding
from regard.models.seq2seq.encoder import CROSS, ENCODER, RECURRENT, EncoderDecoder, slot_options
from regard.models.stack import MechanismOptions, Mechanisms, StackBuilder, longest_sequence
from regard.models.stems import StemOptions, build_stem


class TransformerState(NamedTuple):
    """Caches of the decoder blocks, the source row of each hypothesis, and the transposed output table.

    With few rows, a product with the table itself takes up to twice as long as with its transpose.
    """

    blocks: tuple[DecoderState, ...]
    beam_context: BeamContext
    output_weight: Float[Tensor, "model_dim target_vocabulary"]

    @property
    def position(self) -> Int[Tensor, " batch"]:
        """How many target tokens each row has processed."""
        return self.blocks[0].position

    def select(self, index: Int[Tensor, " rows"]) -> Self:
        """The state whose row r is this state's row index[r]; rows of one sentence share its source."""
        beam_context, kept = self.beam_context.select(index)
        blocks = tuple(
            DecoderState(
                own=block.own.select(index),
                context=block.context if kept is None else block.context.select(kept),
            )
            for block in self.blocks
        )
        return self._replace(blocks=blocks, beam_context=beam_context)


DECODER = Slot(
    name="decoder",
    causal=True,
    masks=frozenset({"causal"}),
    option="decoder_mechanism",
    fallback="mechanism",
)


class Transformer(EncoderDecoder):
    """Transformer encoder–decoder.

    mechanism            mechanism of all attentions; a list is one per layer, see `models.stack`
    encoder_mechanism    mechanism of the encoder's self-attention, instead of `mechanism`
    decoder_mechanism    mechanism of the decoder's self-attention, instead of `mechanism`
    cross_mechanism      mechanism of the cross-attention, instead of `mechanism`
    attention_dropout    dropout probability of attention weights
    num_decoder_layers   number of decoder layers; default: `num_layers`
    feed_forward_dim     width of the feed-forward layers; default: 4 × `model_dim`
    position             position encoding: sinusoidal, learned, rotary, alibi or none
    target_position      position encoding of the target; default: `position`
    max_length           longest sequence, where positions or mechanism have a maximum
    tie                  tied embeddings: "all" (source, if it is of tokens, target and output), "target"
                         or "none"
    stem                 options of the stem of real-valued input, or a stem; see `models.stems`
    final_norm           whether there is a layer norm after each stack; default: `norm_first`
    ctc_weight           weight of an auxiliary CTC loss of the encoder in training (Kim et al. 2017)
    alignment_weight     weight of the loss that teaches the first head of the last cross-attention the
                         alignment of CTC (Garg et al. 2019)
    token_dropout        probability that a decoder input token is replaced by UNKNOWN in training
    """

    traits: ClassVar[Traits] = Traits(
        inputs=ANY_INPUT,
        targets=frozenset({"sequence"}),
        sizes={
            "model_dim": Size(unit=2, times="num_heads"),
            "feed_forward_dim": Size(follows="model_dim", ratio=4.0),
        },
        slots=(ENCODER, DECODER, CROSS),
        tied={"tie": "all"},
        untied={"tie": "target"},
        alternatives=(RECURRENT,),
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
        num_decoder_layers: PositiveInt | None = None,
        feed_forward_dim: PositiveInt | None = None,
        dropout: Probability = 0.1,
        attention_dropout: Probability = 0.0,
        activation: str = "relu",
        norm_first: bool = True,
        final_norm: bool | None = None,
        position: str = "sinusoidal",
        target_position: str | None = None,
        max_length: PositiveInt = 1024,
        mechanism: Mechanisms = "scaled_dot",
        encoder_mechanism: Mechanisms | None = None,
        decoder_mechanism: Mechanisms | None = None,
        cross_mechanism: Mechanisms | None = None,
        mechanism_options: MechanismOptions = None,
        encoder_options: MechanismOptions = None,
        decoder_options: MechanismOptions = None,
        cross_options: MechanismOptions = None,
        num_kv_heads: PositiveInt | None = None,
        tie: Literal["all", "target", "none"] = "all",
        bias: bool = True,
        stem: StemOptions = None,
        ctc_weight: Probability = 0.0,
        alignment_weight: Probability = 0.0,
        token_dropout: Probability = 0.0,
    ) -> None:
        super().__init__()
        num_decoder_layers = num_layers if num_decoder_layers is None else num_decoder_layers
        source = TokenSpec(source) if isinstance(source, int) else source
        vocabulary = source.vocabulary if isinstance(source, TokenSpec) else target_vocabulary
        if tie == "all" and vocabulary != target_vocabulary:
            raise RegardError(
                f"Transformer has tie='all', a source vocabulary of {vocabulary} and "
                f"target_vocabulary={target_vocabulary}: a tied table needs equal vocabularies. "
                "Use a shared vocabulary, or tie='target'."
            )

        def table(vocabulary: int) -> TokenEmbedding:
            return TokenEmbedding(vocabulary=vocabulary, model_dim=model_dim)

        self.target_embedding = table(target_vocabulary)
        self.stem = build_stem(
            source,
            model_dim=model_dim,
            tokens=(lambda _: self.target_embedding) if tie == "all" else table,
            stem=stem,
        )
        self.output = table(target_vocabulary) if tie == "none" else self.target_embedding
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
        target_stack = replace(stack, position=target_position or position)
        self.source_position = stack.build_position()
        self.target_position = target_stack.build_position()
        self.dropout = Dropout(dropout)
        of_encoder, of_decoder, of_cross = (
            slot_options(mechanism, mechanism_options, own, own_options)
            for own, own_options in (
                (encoder_mechanism, encoder_options),
                (decoder_mechanism, decoder_options),
                (cross_mechanism, cross_options),
            )
        )
        self.encoder = stack.encoder(ENCODER, *of_encoder, num_layers)
        self.decoder = target_stack.decoder(
            (DECODER, CROSS),
            (of_decoder.mechanism, of_cross.mechanism),
            (of_decoder.options, of_cross.options),
            num_decoder_layers,
        )
        self.encoder_norm = stack.final_norm(final_norm)
        self.decoder_norm = stack.final_norm(final_norm)
        self.set_training_options(
            model_dim=model_dim,
            target_vocabulary=target_vocabulary,
            ctc_weight=ctc_weight,
            alignment_weight=alignment_weight,
            token_dropout=token_dropout,
        )

    def forward(
        self, source: Input, decoder_input: Int[Tensor, "batch target_length"]
    ) -> Float[Tensor, "batch target_length target_vocabulary"]:
        return self.logits(self.hidden(source, decoder_input))

    def target_limits(self, source: Input) -> Int[Tensor, " batch"] | None:
        """Longest target that positions and decoder mechanisms support; None: unlimited."""
        attention = (block.self_attention for block in self.decoder)
        longest = longest_sequence(self.target_position, attention)
        device = self.output.table.weight.device
        return None if longest is None else torch.full(source.shape[:1], longest, device=device)

    def decoder_features(
        self,
        encoded: FrameInput,
        decoder_input: Int[Tensor, "batch target_length"],
        *,
        weights: dict[str, Tensor] | None = None,
    ) -> Float[Tensor, "batch target_length model_dim"]:
        """As `hidden`, of an encoded source; adds the attention weights of each layer to `weights`."""
        context, mask = encoded.frames, encoded.mask
        x = self._embed_target(decoder_input)
        # Padding is at the end, where causal masking already hides it.
        for number, block in enumerate(self.decoder):
            if weights is not None:
                both = block.weights(x, context, context_mask=mask)
                weights[f"decoder/{number}"], weights[f"cross/{number}"] = both
            x = block(x, context, context_mask=mask)
        hidden: Tensor = self.decoder_norm(x)
        return hidden

    def logits(
        self, hidden: Float[Tensor, "*positions model_dim"]
    ) -> Float[Tensor, "*positions target_vocabulary"]:
        """Scores over the target vocabulary."""
        return self.output.logits(hidden)

    def start(self, source: Input) -> TransformerState:
        """The state before any target token: the source encoded, its keys and values cached."""
        context = self.encode_by_length(source)
        mask = context.mask
        return TransformerState(
            blocks=tuple(block.start(context.frames, mask) for block in self.decoder),
            beam_context=BeamContext.identity(len(context.frames), device=context.frames.device),
            output_weight=self.output.transposed(),
        )

    def step(self, state: TransformerState, token: Int[Tensor, " batch"]) -> Step:
        """Logits (batch, target_vocabulary) after one more token, and the new state."""
        x = self._embed_target(token[:, None], start=state.position)
        blocks = []
        for block, before in zip(self.decoder, state.blocks, strict=True):
            x, after = block.step(before, x, state.beam_context)
            blocks.append(after)
        logits = self.decoder_norm(x)[:, 0] @ state.output_weight
        return Step(logits, state._replace(blocks=tuple(blocks)))

    def _embed_target(self, decoder_input: Tensor, start: int | Tensor = 0) -> Tensor:
        embedded: Tensor = self.dropout(
            self.target_position(self.target_embedding.embed(decoder_input), start)
        )
        return embedded
