"""Recurrent encoder–decoder (LSTM or GRU) with Bahdanau- or Luong-style attention, or without.

    memory_1 … memory_n = encoder(source)        unidirectional or bidirectional
    initial state       = tanh(W · the encoder's final states)
    features_t          = decoder(target so far, memory)        see recurrent_decoder.py
    logits_t            = E W features_t + b     E the tied target embedding (tie="target"),
                        = W features_t + b       or a separate output matrix (tie="none")

Keys and values of the attention are both the encoder's memory, of size `hidden_dim`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.core.batches import PAD
from regard.core.cost import Cost, linear_cost
from regard.core.errors import RegardError
from regard.core.masks import Mask, Padding
from regard.core.mechanism import Mechanism, Step
from regard.core.registry import lookup
from regard.layers.cost import SequenceShape, cost_of, per_position
from regard.layers.recurrent import Recurrent
from regard.layers.validation import validate_dropout, validate_positive
from regard.mechanisms import MECHANISMS, build_mechanism, is_plugin
from regard.models.seq2seq.recurrent_decoder import (
    CELL_STEPS,
    DecoderOutput,
    RecurrentDecoder,
    RecurrentDecoderState,
)

ATTENTION_STYLES = {
    "bahdanau": "the previous decoder state is the query, before the cell's update",
    "luong": "the new decoder state is the query, after the cell's update",
}
TIES = {
    "target": "target embedding and output matrix are tied",
    "none": "a separate output matrix",
}
SCORES = ("dot", "scaled_dot", "general", "additive", "location")
NO_ATTENTION = "none"


def validate_options(
    *, cell: str, attention_style: str, mechanism: str | None, input_feeding: bool, tie: str
) -> None:
    """Reject unknown names and incompatible options."""
    lookup("recurrent cell", cell, CELL_STEPS)
    lookup("attention style", attention_style, ATTENTION_STYLES)
    lookup("tie", tie, TIES)
    if not input_feeding:
        return
    if mechanism is None or mechanism == NO_ATTENTION:
        raise RegardError(
            "RecurrentEncoderDecoder has input_feeding=True but no attention, whose output would be "
            "fed back. Choose a mechanism, or input_feeding=False."
        )
    if attention_style == "bahdanau":
        raise RegardError(
            "RecurrentEncoderDecoder has input_feeding=True with attention_style='bahdanau', whose cell "
            "reads the context already. Choose attention_style='luong', or input_feeding=False."
        )


def build_source_mechanism(
    mechanism: str | None, *, width: int, max_length: int, options: dict[str, Any]
) -> Mechanism | None:
    """The single-head cross-attention mechanism of the decoder; None without attention."""
    if mechanism is None or mechanism == NO_ATTENTION:
        if options:
            raise RegardError(
                f"RecurrentEncoderDecoder has mechanism_options={options} but no mechanism. "
                f"Choose one of: {', '.join(SCORES)}; or remove the options."
            )
        return None
    if mechanism not in SCORES and not is_plugin(mechanism):
        if mechanism in MECHANISMS:
            raise RegardError(
                f"Mechanism '{mechanism}' cannot be used in a recurrent decoder, which scores the source "
                f"with one query per step. Choose one of: {', '.join(SCORES)}; or {NO_ATTENTION}."
            )
        lookup("mechanism", mechanism, dict.fromkeys((*SCORES, NO_ATTENTION)))
    return build_mechanism(
        mechanism, query_dim=width, key_dim=width, max_length=max_length, **options
    )


class EncoderOutput(NamedTuple):
    """Outputs at every position, and the final states of the last layer, directions concatenated."""

    memory: Float[Tensor, "batch length hidden_dim"]
    last_hidden: Float[Tensor, "batch hidden_dim"]
    last_memory: Float[Tensor, "batch memory_dim"]


class RecurrentEncoder(nn.Module):
    """LSTM or GRU layers with dropout between them.

    The outputs have `hidden_dim` features; if bidirectional, each direction has half of them.
    """

    def __init__(
        self,
        *,
        embedding_dim: int,
        hidden_dim: int,
        num_layers: int,
        cell: str,
        bidirectional: bool,
        dropout: float,
    ) -> None:
        super().__init__()
        if bidirectional and hidden_dim % 2:
            raise RegardError(
                f"The recurrent encoder has hidden_dim={hidden_dim} and bidirectional=True: each "
                "direction has half of hidden_dim, so it must be even. Choose an even hidden_dim, or "
                "bidirectional=False."
            )
        self.layers = nn.ModuleList(
            Recurrent(
                model_dim=hidden_dim if number else embedding_dim,
                hidden_dim=hidden_dim // (1 + bidirectional),
                cell=cell,
                bidirectional=bidirectional,
            )
            for number in range(num_layers)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Float[Tensor, "batch length embedding_dim"], mask: Mask) -> EncoderOutput:
        for number, layer in enumerate(self.layers):
            x, last = layer(self.dropout(x) if number else x, mask)
        return EncoderOutput(x, last.hidden.flatten(1), last.memory.flatten(1))

    def cost(self, shape: SequenceShape) -> Cost:
        """Cost of `forward`; state and decoding steps are counted by the decoder."""
        total = Cost()
        for layer in self.layers:
            assert isinstance(layer, Recurrent)
            # Packed sequences compare every output to detect empty rows.
            width = layer.layer.hidden_size * (1 + layer.layer.bidirectional)
            total += replace(layer.cost(shape), state=0, step_matmul_flops=0)
            total += Cost(elementwise_ops=shape.positions * width)
        return total


# Small, so that logits of a tied embedding start close to uniform.
EMBEDDING_STD = 0.1


class RecurrentEncoderDecoder(nn.Module):
    """Sequence-to-sequence model (`core.protocols.SequenceModel`).

    hidden_dim           of the decoder, and of the encoder with both directions together
    num_decoder_layers   default: `num_layers`
    attention_style      "bahdanau" (attention before the decoder's update) or "luong" (after it)
    mechanism            a score (dot, scaled_dot, general, additive, location) or "none"
    input_feeding        Luong style: feed the attentional features into the next step
    tie                  "target" (target embedding and output matrix are tied) or "none"
    max_length           longest source, for the location score only
    """

    def __init__(
        self,
        *,
        source_vocabulary: int,
        target_vocabulary: int,
        embedding_dim: int = 256,
        hidden_dim: int = 512,
        num_layers: int = 1,
        num_decoder_layers: int | None = None,
        cell: str = "lstm",
        bidirectional: bool = True,
        attention_style: str = "bahdanau",
        mechanism: str | None = "additive",
        mechanism_options: dict[str, Any] | None = None,
        input_feeding: bool = False,
        dropout: float = 0.2,
        tie: str = "target",
        max_length: int = 256,
    ) -> None:
        super().__init__()
        num_decoder_layers = num_layers if num_decoder_layers is None else num_decoder_layers
        validate_positive(
            "RecurrentEncoderDecoder",
            source_vocabulary=source_vocabulary,
            target_vocabulary=target_vocabulary,
            embedding_dim=embedding_dim,
            hidden_dim=hidden_dim,
            num_layers=num_layers,
            num_decoder_layers=num_decoder_layers,
            max_length=max_length,
        )
        validate_dropout("RecurrentEncoderDecoder", dropout)
        validate_options(
            cell=cell,
            attention_style=attention_style,
            mechanism=mechanism,
            input_feeding=input_feeding,
            tie=tie,
        )
        built = build_source_mechanism(
            mechanism, width=hidden_dim, max_length=max_length, options=mechanism_options or {}
        )
        self.source_embedding = nn.Embedding(source_vocabulary, embedding_dim, padding_idx=PAD)
        self.target_embedding = nn.Embedding(target_vocabulary, embedding_dim, padding_idx=PAD)
        self.encoder = RecurrentEncoder(
            embedding_dim=embedding_dim,
            hidden_dim=hidden_dim,
            num_layers=num_layers,
            cell=cell,
            bidirectional=bidirectional,
            dropout=dropout,
        )
        first_dim = num_decoder_layers * hidden_dim
        self.first_hidden = nn.Linear(hidden_dim, first_dim)
        self.first_memory = nn.Linear(hidden_dim, first_dim) if cell == "lstm" else None
        self.decoder = RecurrentDecoder(
            embedding_dim=embedding_dim,
            hidden_dim=hidden_dim,
            num_layers=num_decoder_layers,
            cell=cell,
            mechanism=built,
            attends_before_update=attention_style == "bahdanau",
            input_feeding=input_feeding,
            dropout=dropout,
        )
        tied = tie == "target"
        self.narrow = nn.Linear(hidden_dim, embedding_dim, bias=False) if tied else None
        # If tied, the matrix is the embedding's and is not registered twice.
        self.output_weight = (
            None if tied else nn.Parameter(torch.empty(target_vocabulary, hidden_dim))
        )
        self.output_bias = nn.Parameter(torch.zeros(target_vocabulary))
        self.dropout = nn.Dropout(dropout)
        for embedding in (self.source_embedding, self.target_embedding):
            nn.init.normal_(embedding.weight, std=EMBEDDING_STD)
            nn.init.zeros_(embedding.weight[PAD])
        if self.output_weight is not None:
            nn.init.normal_(self.output_weight, std=hidden_dim**-0.5)

    @property
    def output_matrix(self) -> Float[Tensor, "target_vocabulary output_dim"]:
        """The matrix that maps features to logits."""
        return self.target_embedding.weight if self.output_weight is None else self.output_weight

    def forward(
        self,
        source: Int[Tensor, "batch source_length"],
        source_lengths: Int[Tensor, " batch"],
        decoder_input: Int[Tensor, "batch target_length"],
    ) -> Float[Tensor, "batch target_length target_vocabulary"]:
        return self.logits(self.hidden(source, source_lengths, decoder_input))

    def target_limits(self, source_lengths: Int[Tensor, " batch"]) -> None:
        """None: unlimited."""

    def hidden(
        self,
        source: Int[Tensor, "batch source_length"],
        source_lengths: Int[Tensor, " batch"],
        decoder_input: Int[Tensor, "batch target_length"],
    ) -> Float[Tensor, "batch target_length output_dim"]:
        """Features from which the token after each position of `decoder_input` is predicted."""
        encoded = self._encode(source, source_lengths)
        state = self._first_state(encoded, source_lengths)
        return self._to_output(self._decode(state, decoder_input).features)

    def logits(
        self, hidden: Float[Tensor, "*positions output_dim"]
    ) -> Float[Tensor, "*positions target_vocabulary"]:
        """Scores over the target vocabulary."""
        return F.linear(hidden, self.output_matrix, self.output_bias)

    def start(
        self, source: Int[Tensor, "batch source_length"], source_lengths: Int[Tensor, " batch"]
    ) -> RecurrentDecoderState:
        """The state before any target token: the source encoded, its keys cached."""
        return self._first_state(self._encode(source, source_lengths), source_lengths)

    def step(self, state: RecurrentDecoderState, token: Int[Tensor, " batch"]) -> Step:
        """Logits after one more token, and the new state."""
        decoded = self._decode(state, token[:, None])
        return Step(self.logits(self._to_output(decoded.features[:, 0])), decoded.state)

    def weights(
        self,
        source: Int[Tensor, "batch source_length"],
        source_lengths: Int[Tensor, " batch"],
        decoder_input: Int[Tensor, "batch target_length"],
    ) -> dict[str, Float[Tensor, "batch heads queries keys"]]:
        """Attention weights of every step over the source: "cross/0", or empty without attention."""
        mechanism = self.decoder.mechanism
        if mechanism is None:
            return {}
        encoded = self._encode(source, source_lengths)
        decoded = self._decode(self._first_state(encoded, source_lengths), decoder_input)
        query, key = decoded.queries[:, None], encoded.memory[:, None]
        return {"cross/0": mechanism.weights(query, key, Padding(source_lengths))}

    def _encode(self, source: Tensor, source_lengths: Tensor) -> EncoderOutput:
        embedded = self.dropout(self.source_embedding(source))
        return self.encoder(embedded, Padding(source_lengths))

    def _first_state(self, encoded: EncoderOutput, source_lengths: Tensor) -> RecurrentDecoderState:
        batch_size = len(source_lengths)
        layers = (batch_size, len(self.decoder.layers), -1)
        hidden = torch.tanh(self.first_hidden(encoded.last_hidden)).view(layers)
        if self.first_memory is None:
            memory = hidden[..., :0]
        else:
            memory = torch.tanh(self.first_memory(encoded.last_memory)).view(layers)
        return RecurrentDecoderState(
            hidden=hidden,
            memory=memory,
            input_feed=hidden.new_zeros(batch_size, hidden.shape[2] * self.decoder.input_feeding),
            source=self.decoder.encode_source(encoded.memory, Padding(source_lengths)),
            position=torch.zeros_like(source_lengths),
        )

    def _decode(self, state: RecurrentDecoderState, decoder_input: Tensor) -> DecoderOutput:
        return self.decoder(self.dropout(self.target_embedding(decoder_input)), state)

    def _to_output(self, features: Tensor) -> Tensor:
        dropped = self.dropout(features)
        return dropped if self.narrow is None else self.narrow(dropped)

    def cost(self, *, batch_size: int, source_length: int, target_length: int) -> Cost:
        """Cost of `logits(hidden(...))`."""
        source = SequenceShape(batch_size=batch_size, length=source_length)
        target = SequenceShape(
            batch_size=batch_size, length=target_length, context_length=source_length
        )
        total = Cost(parameters=self.source_embedding.weight.numel())
        total += Cost(parameters=self.target_embedding.weight.numel())
        total += self.encoder.cost(source)
        for first in filter(None, (self.first_hidden, self.first_memory)):
            numbers = batch_size * first.out_features
            tanh = Cost(transcendental_ops=numbers, memory=numbers, sequential_steps=1)
            total += cost_of(first, rows=batch_size) + tanh
        total += self.decoder.cost(target)
        if self.narrow is not None:
            narrowed = cost_of(self.narrow, rows=target.positions)
            total += per_position(narrowed, length=target_length)
        if self.output_weight is not None:
            total += Cost(parameters=self.output_weight.numel())
        vocabulary, width = self.output_matrix.shape
        logits = linear_cost(rows=target.positions, in_features=width, out_features=vocabulary)
        logits = per_position(logits, length=target_length)
        return total + replace(logits, parameters=self.output_bias.numel())
