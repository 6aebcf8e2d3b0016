"""Transformer encoder–decoder, with any compatible mechanism in each of its three attention slots.

    source        → embed + position → encoder blocks ─────────────┐ keys and values
    decoder input → embed + position → decoder blocks (causal) ←───┘ → next-token logits

(Vaswani et al. 2017). Pre-norm (Xiong et al. 2020; `norm_first`) adds a final layer norm to each stack.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, Self

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.cost import Cost
from regard.core.errors import RegardError
from regard.core.masks import Mask
from regard.core.mechanism import Step
from regard.core.registry import lookup
from regard.layers.blocks import BeamContext, DecoderBlock, DecoderState, EncoderBlock
from regard.layers.cost import SequenceShape, norm_cost, per_position
from regard.layers.dropout import Dropout
from regard.layers.feed_forward import FeedForward
from regard.layers.positions import POSITIONS, build_position
from regard.layers.validation import validate_dropout, validate_positive
from regard.models.embeddings import TokenEmbedding
from regard.models.stack import AttentionSlot, resolve_slot
from regard.models.validation import padding_mask

TIES = {
    "all": "source, target and output share one table",
    "target": "target and output share one table",
    "none": "separate tables",
}

# Rows, sorted by length, are encoded in chunks: little padding, yet large matrix products.
ENCODER_CHUNK_SIZE = 16


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


class Transformer(nn.Module):
    """Transformer encoder–decoder.

    mechanism            of all attention slots; `encoder_mechanism`, `decoder_mechanism` and
                         `cross_mechanism` override one slot, `…_options` are the options of that slot
    num_decoder_layers   default: `num_layers`
    feed_forward_dim     default: 4 × `model_dim`
    position             a name of `layers.positions.POSITIONS`
    max_length           longest sequence, where positions or mechanism have a maximum
    tie                  tied embeddings: "all" (source, target and output), "target" or "none"
    final_norm           layer norm after each stack; default: `norm_first`
    """

    def __init__(
        self,
        *,
        source_vocabulary: int,
        target_vocabulary: int,
        model_dim: int = 256,
        num_heads: int = 4,
        num_layers: int = 3,
        num_decoder_layers: int | None = None,
        feed_forward_dim: int | None = None,
        dropout: float = 0.1,
        activation: str = "relu",
        norm_first: bool = True,
        final_norm: bool | None = None,
        position: str = "sinusoidal",
        max_length: int = 1024,
        mechanism: str = "scaled_dot",
        encoder_mechanism: str | None = None,
        decoder_mechanism: str | None = None,
        cross_mechanism: str | None = None,
        mechanism_options: dict[str, Any] | None = None,
        encoder_options: dict[str, Any] | None = None,
        decoder_options: dict[str, Any] | None = None,
        cross_options: dict[str, Any] | None = None,
        num_kv_heads: int | None = None,
        tie: str = "all",
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_decoder_layers is None:
            num_decoder_layers = num_layers
        validate_positive(
            "Transformer",
            source_vocabulary=source_vocabulary,
            target_vocabulary=target_vocabulary,
            model_dim=model_dim,
            num_heads=num_heads,
            num_layers=num_layers,
            num_decoder_layers=num_decoder_layers,
            max_length=max_length,
        )
        validate_dropout("Transformer", dropout)
        lookup("tie", tie, TIES)
        if tie == "all" and source_vocabulary != target_vocabulary:
            raise RegardError(
                f"Transformer has tie='all', source_vocabulary={source_vocabulary} and "
                f"target_vocabulary={target_vocabulary}: a tied table needs equal vocabularies. "
                "Use a shared vocabulary, or tie='target'."
            )

        def embedding(vocabulary: int) -> TokenEmbedding:
            return TokenEmbedding(vocabulary=vocabulary, model_dim=model_dim)

        self.target_embedding = embedding(target_vocabulary)
        self.source_embedding = (
            self.target_embedding if tie == "all" else embedding(source_vocabulary)
        )
        self.output = embedding(target_vocabulary) if tie == "none" else self.target_embedding

        on_tokens = lookup("position", position, POSITIONS).acts_on == "tokens"

        def token_position() -> Any:
            return build_position(
                position if on_tokens else "none",
                model_dim=model_dim,
                head_dim=model_dim // num_heads,
                num_heads=num_heads,
                max_length=max_length,
            )

        self.source_position: Any = token_position()
        self.target_position: Any = token_position()
        self.dropout = Dropout(dropout)

        def attention(slot: AttentionSlot) -> Any:
            return slot.build(
                position=None if on_tokens else position,
                model_dim=model_dim,
                num_heads=num_heads,
                num_kv_heads=num_kv_heads,
                max_length=max_length,
                bias=bias,
                dropout=dropout,
            )

        def feed_forward() -> FeedForward:
            return FeedForward(
                model_dim=model_dim,
                hidden_dim=feed_forward_dim,
                activation=activation,
                bias=bias,
                dropout=dropout,
            )

        shared: dict[str, Any] = {"mechanism": mechanism, "options": mechanism_options}
        encoder = resolve_slot(
            "encoder", **shared, own_mechanism=encoder_mechanism, own_options=encoder_options
        )
        decoder = resolve_slot(
            "decoder", **shared, own_mechanism=decoder_mechanism, own_options=decoder_options
        )
        cross = resolve_slot(
            "cross", **shared, own_mechanism=cross_mechanism, own_options=cross_options
        )
        self.encoder = nn.ModuleList(
            EncoderBlock(
                attention=attention(encoder), feed_forward=feed_forward(), norm_first=norm_first
            )
            for _ in range(num_layers)
        )
        self.decoder = nn.ModuleList(
            DecoderBlock(
                self_attention=attention(decoder),
                cross_attention=attention(cross),
                feed_forward=feed_forward(),
                norm_first=norm_first,
            )
            for _ in range(num_decoder_layers)
        )
        has_final_norm = norm_first if final_norm is None else final_norm
        self.encoder_norm, self.decoder_norm = (
            nn.LayerNorm(model_dim) if has_final_norm else nn.Identity() for _ in range(2)
        )

    def forward(
        self,
        source: Int[Tensor, "batch source_length"],
        source_lengths: Int[Tensor, " batch"],
        decoder_input: Int[Tensor, "batch target_length"],
    ) -> Float[Tensor, "batch target_length target_vocabulary"]:
        return self.logits(self.hidden(source, source_lengths, decoder_input))

    def target_limits(self, source_lengths: Int[Tensor, " batch"]) -> Int[Tensor, " batch"] | None:
        """Longest target that positions and decoder mechanism support; None: unlimited."""
        bounds = [getattr(self.target_position, "max_length", None)]
        bounds += [
            block.self_attention.mechanism.capabilities.max_length
            for block in self._decoder_blocks()
        ]
        least = min((bound for bound in bounds if bound is not None), default=None)
        return None if least is None else source_lengths.new_full(source_lengths.shape, least)

    def hidden(
        self,
        source: Int[Tensor, "batch source_length"],
        source_lengths: Int[Tensor, " batch"],
        decoder_input: Int[Tensor, "batch target_length"],
    ) -> Float[Tensor, "batch target_length model_dim"]:
        """Features from which the token after each position of `decoder_input` is predicted."""
        mask = padding_mask(source, source_lengths, name="source")
        context = self._encode(source, mask)
        x = self._embed_target(decoder_input)
        # Padding is at the end, where causal masking already hides it.
        for block in self.decoder:
            x = block(x, context, context_mask=mask)
        hidden: Tensor = self.decoder_norm(x)
        return hidden

    def logits(
        self, hidden: Float[Tensor, "*positions model_dim"]
    ) -> Float[Tensor, "*positions target_vocabulary"]:
        """Scores over the target vocabulary."""
        return self.output.logits(hidden)

    def start(
        self,
        source: Int[Tensor, "batch source_length"],
        source_lengths: Int[Tensor, " batch"],
    ) -> TransformerState:
        """The state before any target token: the source encoded, its keys and values cached."""
        mask = padding_mask(source, source_lengths, name="source")
        context = self._encode_by_length(source, source_lengths)
        return TransformerState(
            blocks=tuple(block.start(context, mask) for block in self._decoder_blocks()),
            beam_context=BeamContext.identity(len(source), device=source.device),
            output_weight=self.output.transposed(),
        )

    def step(self, state: TransformerState, token: Int[Tensor, " batch"]) -> Step:
        """Logits (batch, target_vocabulary) after one more token, and the new state."""
        x = self._embed_target(token[:, None], start=state.position)
        blocks = []
        for block, before in zip(self._decoder_blocks(), state.blocks, strict=True):
            x, after = block.step(before, x, state.beam_context)
            blocks.append(after)
        logits = self.decoder_norm(x)[:, 0] @ state.output_weight
        return Step(logits, state._replace(blocks=tuple(blocks)))

    def weights(
        self,
        source: Int[Tensor, "batch source_length"],
        source_lengths: Int[Tensor, " batch"],
        decoder_input: Int[Tensor, "batch target_length"],
    ) -> dict[str, Float[Tensor, "batch heads queries keys"]]:
        """Attention weights of each block: "encoder/0", "decoder/0", "cross/0", …"""
        mask = padding_mask(source, source_lengths, name="source")
        found: dict[str, Tensor] = {}
        x = self._embed_source(source)
        for number, block in enumerate(self._encoder_blocks()):
            found[f"encoder/{number}"] = block.weights(x, mask)
            x = block(x, mask)
        context = self.encoder_norm(x)
        x = self._embed_target(decoder_input)
        for number, decoder_block in enumerate(self._decoder_blocks()):
            both = decoder_block.weights(x, context, context_mask=mask)
            found[f"decoder/{number}"], found[f"cross/{number}"] = both
            x = decoder_block(x, context, context_mask=mask)
        return found

    def cost(self, *, batch_size: int, source_length: int, target_length: int) -> Cost:
        """Cost of `forward`; `max_path_length` is that of one layer, a step is one target token."""
        source = SequenceShape(batch_size=batch_size, length=source_length)
        target = SequenceShape(
            batch_size=batch_size, length=target_length, context_length=source_length, causal=True
        )
        logits = self.output.logits_cost(rows=target.positions)
        total = per_position(logits, length=target_length)
        tables = {self.source_embedding, self.target_embedding, self.output}
        total += Cost(parameters=sum(table.cost(rows=0).parameters for table in tables))
        for table, position, shape in (
            (self.source_embedding, self.source_position, source),
            (self.target_embedding, self.target_position, target),
        ):
            looked_up = replace(table.cost(rows=shape.positions), parameters=0)
            total += looked_up + position.cost(shape)
        for blocks, norm, shape in (
            (self._encoder_blocks(), self.encoder_norm, source),
            (self._decoder_blocks(), self.decoder_norm, target),
        ):
            for block in blocks:
                cost = block.cost(shape)
                # The source is encoded once, before the first step.
                total += cost if shape is target else replace(cost, step_matmul_flops=0)
            if isinstance(norm, nn.LayerNorm):
                total += norm_cost(rows=shape.positions, model_dim=norm.normalized_shape[0])
        return total

    def _encoder_blocks(self) -> list[EncoderBlock]:
        return [block for block in self.encoder if isinstance(block, EncoderBlock)]

    def _decoder_blocks(self) -> list[DecoderBlock]:
        return [block for block in self.decoder if isinstance(block, DecoderBlock)]

    def _embed_source(self, source: Tensor) -> Tensor:
        embedded: Tensor = self.dropout(self.source_position(self.source_embedding(source)))
        return embedded

    def _embed_target(self, decoder_input: Tensor, start: int | Tensor = 0) -> Tensor:
        embedded: Tensor = self.dropout(
            self.target_position(self.target_embedding(decoder_input), start)
        )
        return embedded

    def _encode(self, source: Tensor, mask: Mask) -> Tensor:
        x = self._embed_source(source)
        for block in self.encoder:
            x = block(x, mask)
        encoded: Tensor = self.encoder_norm(x)
        return encoded

    def _encode_by_length(self, source: Tensor, source_lengths: Tensor) -> Tensor:
        """As `_encode`, in chunks of rows of similar length, which saves padding."""
        order = source_lengths.argsort(stable=True)
        chunks = order.split(ENCODER_CHUNK_SIZE)
        if len(chunks) == 1:
            return self._encode(source, padding_mask(source, source_lengths, name="source"))
        width = self.source_embedding.table.embedding_dim
        encoded = self.source_embedding.table.weight.new_zeros(*source.shape, width)
        for rows in chunks:
            lengths = source_lengths[rows]
            chunk = source[rows, : int(lengths[-1])]
            encoded[rows, : chunk.shape[1]] = self._encode(
                chunk, padding_mask(chunk, lengths, name="source")
            )
        return encoded
