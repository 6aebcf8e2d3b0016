"""The Transformer encoder–decoder, with any mechanism that fits in each of its three places.

    source → embed + position → encoder blocks ─────────────┐ keys and values
    given  → embed + position → decoder blocks (causal) ←───┘ → logits of the next token

(Vaswani et al. 2017). With norm first (Xiong et al. 2020) each stack ends in a layer norm.
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
from regard.core.registry import look_up
from regard.layers.blocks import DecoderBlock, DecoderState, EncoderBlock, Reading
from regard.layers.cost import SequenceShape, norm_cost, per_position
from regard.layers.dropout import Dropout
from regard.layers.feed_forward import FeedForward
from regard.layers.positions import POSITIONS, build_position
from regard.layers.validation import require_dropout, require_positive
from regard.models.embeddings import TokenEmbedding
from regard.models.stack import PlaceChoice, chosen
from regard.models.validation import padding_mask

TIES = {
    "all": "one table for source, target and output",
    "target": "one table for target and output",
    "none": "a table each",
}

# Few enough that their lengths are alike, enough that products are large.
ROWS_ENCODED_TOGETHER = 16


class TransformerState(NamedTuple):
    """What every decoder block remembers, which row of the source each row reads, and the output table.

    The table is kept as columns, for all rows together: with few rows a product with it as it
    is learned takes up to twice as long.
    """

    blocks: tuple[DecoderState, ...]
    reading: Reading
    columns: Float[Tensor, "model_dim target_vocabulary"]

    @property
    def position(self) -> Int[Tensor, " batch"]:
        """How many target tokens each row has taken in."""
        return self.blocks[0].position

    def select(self, index: Int[Tensor, " rows"]) -> Self:
        """The state whose row r is this state's row index[r]; rows of one sentence share its source."""
        reading, kept = self.reading.select(index)
        blocks = tuple(
            DecoderState(
                own=block.own.select(index),
                context=block.context if kept is None else block.context.select(kept),
            )
            for block in self.blocks
        )
        return self._replace(blocks=blocks, reading=reading)


class Transformer(nn.Module):
    """From source tokens to target tokens.

    mechanism            the attention of all places; `encoder_mechanism`, `decoder_mechanism` and
                         `cross_mechanism` replace it at one, and `…_options` are its options there
    num_decoder_layers   as many as `num_layers` unless given
    feed_forward_dim     four times `model_dim` unless given
    position             a name of `layers.positions.POSITIONS`
    max_length           for positions and mechanisms that end at a greatest length
    tie                  "all" (source, target and output share a table), "target" or "none"
    final_norm           a layer norm after each stack; unless given, where `norm_first` is True
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
        require_positive(
            "Transformer",
            source_vocabulary=source_vocabulary,
            target_vocabulary=target_vocabulary,
            model_dim=model_dim,
            num_heads=num_heads,
            num_layers=num_layers,
            num_decoder_layers=num_decoder_layers,
            max_length=max_length,
        )
        require_dropout("Transformer", dropout)
        look_up("tie", tie, TIES)
        if tie == "all" and source_vocabulary != target_vocabulary:
            raise RegardError(
                f"Transformer has tie='all', source_vocabulary={source_vocabulary} and "
                f"target_vocabulary={target_vocabulary}: one table needs equal vocabularies. "
                "Use one vocabulary for both, or tie='target'."
            )

        def embedding(vocabulary: int) -> TokenEmbedding:
            return TokenEmbedding(vocabulary=vocabulary, model_dim=model_dim)

        self.target_embedding = embedding(target_vocabulary)
        self.source_embedding = (
            self.target_embedding if tie == "all" else embedding(source_vocabulary)
        )
        self.output = embedding(target_vocabulary) if tie == "none" else self.target_embedding

        on_tokens = look_up("position", position, POSITIONS).acts_on == "tokens"

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

        def attention(choice: PlaceChoice) -> Any:
            return choice.build(
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

        for_all: dict[str, Any] = {"mechanism": mechanism, "options": mechanism_options}
        encoder = chosen(
            "encoder", **for_all, own_mechanism=encoder_mechanism, own_options=encoder_options
        )
        decoder = chosen(
            "decoder", **for_all, own_mechanism=decoder_mechanism, own_options=decoder_options
        )
        cross = chosen("cross", **for_all, own_mechanism=cross_mechanism, own_options=cross_options)
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
        ends_in_norm = norm_first if final_norm is None else final_norm
        self.encoder_norm, self.decoder_norm = (
            nn.LayerNorm(model_dim) if ends_in_norm else nn.Identity() for _ in range(2)
        )

    def forward(
        self,
        source: Int[Tensor, "batch source_length"],
        source_lengths: Int[Tensor, " batch"],
        given: Int[Tensor, "batch target_length"],
    ) -> Float[Tensor, "batch target_length target_vocabulary"]:
        return self.logits(self.hidden(source, source_lengths, given))

    def target_limits(self, source_lengths: Int[Tensor, " batch"]) -> Int[Tensor, " batch"] | None:
        """What its positions and the decoder's mechanism reach, whatever the source."""
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
        given: Int[Tensor, "batch target_length"],
    ) -> Float[Tensor, "batch target_length model_dim"]:
        """The features from which the token after each place of `given` is predicted."""
        mask = padding_mask(source, source_lengths, name="source")
        context = self._encoded(source, mask)
        x = self._entered_target(given)
        # Padding stands at the end of `given`, where no real place can see it: causal is enough.
        for block in self.decoder:
            x = block(x, context, context_mask=mask)
        hidden: Tensor = self.decoder_norm(x)
        return hidden

    def logits(
        self, hidden: Float[Tensor, "*places model_dim"]
    ) -> Float[Tensor, "*places target_vocabulary"]:
        """Scores of every token of the target vocabulary."""
        return self.output.logits(hidden)

    def start(
        self,
        source: Int[Tensor, "batch source_length"],
        source_lengths: Int[Tensor, " batch"],
    ) -> TransformerState:
        """The state before any target token: the source encoded, its keys and values projected."""
        mask = padding_mask(source, source_lengths, name="source")
        context = self._encoded_by_length(source, source_lengths)
        return TransformerState(
            blocks=tuple(block.start(context, mask) for block in self._decoder_blocks()),
            reading=Reading.one_each(len(source), device=source.device),
            columns=self.output.columns(),
        )

    def step(self, state: TransformerState, token: Int[Tensor, " batch"]) -> Step:
        """The logits (batch, target_vocabulary) after one more token, and the new state."""
        x = self._entered_target(token[:, None], start=state.position)
        blocks = []
        for block, before in zip(self._decoder_blocks(), state.blocks, strict=True):
            x, after = block.step(before, x, state.reading)
            blocks.append(after)
        logits = self.decoder_norm(x)[:, 0] @ state.columns
        return Step(logits, state._replace(blocks=tuple(blocks)))

    def weights(
        self,
        source: Int[Tensor, "batch source_length"],
        source_lengths: Int[Tensor, " batch"],
        given: Int[Tensor, "batch target_length"],
    ) -> dict[str, Float[Tensor, "batch heads reading read"]]:
        """Who read whom in `hidden` of the same arguments: "encoder/0", "decoder/0", "cross/0", …"""
        mask = padding_mask(source, source_lengths, name="source")
        found: dict[str, Tensor] = {}
        x = self._entered_source(source)
        for number, block in enumerate(self._encoder_blocks()):
            found[f"encoder/{number}"] = block.weights(x, mask)
            x = block(x, mask)
        context = self.encoder_norm(x)
        x = self._entered_target(given)
        for number, reader in enumerate(self._decoder_blocks()):
            read = reader.weights(x, context, context_mask=mask)
            found[f"decoder/{number}"], found[f"cross/{number}"] = read
            x = reader(x, context, context_mask=mask)
        return found

    def cost(self, *, batch_size: int, source_length: int, target_length: int) -> Cost:
        """What `forward` takes; `longest_path` is that of one layer, a step one more target token."""
        source = SequenceShape(batch_size=batch_size, length=source_length)
        target = SequenceShape(
            batch_size=batch_size, length=target_length, context_length=source_length, causal=True
        )
        logits = self.output.logits_cost(rows=target.rows)
        total = per_position(logits, length=target_length)
        tables = {self.source_embedding, self.target_embedding, self.output}
        total += Cost(parameters=sum(table.cost(rows=0).parameters for table in tables))
        for table, position, shape in (
            (self.source_embedding, self.source_position, source),
            (self.target_embedding, self.target_position, target),
        ):
            looked_up = replace(table.cost(rows=shape.rows), parameters=0)
            total += looked_up + position.cost(shape)
        for blocks, norm, shape in (
            (self._encoder_blocks(), self.encoder_norm, source),
            (self._decoder_blocks(), self.decoder_norm, target),
        ):
            for block in blocks:
                cost = block.cost(shape)
                # The source is read once, before the first step.
                total += cost if shape is target else replace(cost, step_products=0)
            if isinstance(norm, nn.LayerNorm):
                total += norm_cost(rows=shape.rows, model_dim=norm.normalized_shape[0])
        return total

    def _encoder_blocks(self) -> list[EncoderBlock]:
        return [block for block in self.encoder if isinstance(block, EncoderBlock)]

    def _decoder_blocks(self) -> list[DecoderBlock]:
        return [block for block in self.decoder if isinstance(block, DecoderBlock)]

    def _entered_source(self, source: Tensor) -> Tensor:
        entered: Tensor = self.dropout(self.source_position(self.source_embedding(source)))
        return entered

    def _entered_target(self, given: Tensor, start: int | Tensor = 0) -> Tensor:
        entered: Tensor = self.dropout(self.target_position(self.target_embedding(given), start))
        return entered

    def _encoded(self, source: Tensor, mask: Mask) -> Tensor:
        x = self._entered_source(source)
        for block in self.encoder:
            x = block(x, mask)
        encoded: Tensor = self.encoder_norm(x)
        return encoded

    def _encoded_by_length(self, source: Tensor, source_lengths: Tensor) -> Tensor:
        """As `_encoded`, rows of like length together, so that little time goes into padding."""
        order = source_lengths.argsort(stable=True)
        parts = order.split(ROWS_ENCODED_TOGETHER)
        if len(parts) == 1:
            return self._encoded(source, padding_mask(source, source_lengths, name="source"))
        width = self.source_embedding.table.embedding_dim
        encoded = self.source_embedding.table.weight.new_zeros(*source.shape, width)
        for rows in parts:
            lengths = source_lengths[rows]
            part = source[rows, : int(lengths[-1])]
            encoded[rows, : part.shape[1]] = self._encoded(
                part, padding_mask(part, lengths, name="source")
            )
        return encoded
