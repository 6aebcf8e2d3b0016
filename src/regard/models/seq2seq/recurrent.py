"""Recurrent encoder–decoder, with attention in two wirings, or without (the baseline).

    memory_1 … memory_n = encoder(source)        LSTM or GRU layers, one way or both
    first state         = tanh(W · the encoder's last states)
    features_t          = decoder(features so far, memory)      see recurrent_decoder.py for the wirings
    logits_t            = E W features_t + b     E the target embedding (tie="target"),
                        = W features_t + b       or a matrix of its own (tie="none")

The keys and values that the decoder reads are both the encoder's memory, `hidden_dim` wide.
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
from regard.core.registry import look_up
from regard.layers.cost import SequenceShape, cost_of, per_position
from regard.layers.recurrent import Recurrent
from regard.layers.validation import require_dropout, require_positive
from regard.mechanisms import MECHANISMS, build_mechanism, is_plugged_in
from regard.models.seq2seq.recurrent_decoder import (
    CELL_STEPS,
    Decoded,
    RecurrentDecoder,
    RecurrentDecoderState,
)

# What a recurrent encoder–decoder may be built of, and the errors when it is something else.


WIRINGS = {
    "before": "the source is read with the last state, before the cell's update",
    "after": "the source is read with the new state, after the cell's update",
}
TIES = {
    "target": "the target embedding is the output matrix",
    "none": "the output matrix is one of its own",
}
SCORES = ("dot", "scaled_dot", "general", "additive", "location")
WITHOUT = "none"


def require_choices(
    *, cell: str, wiring: str, mechanism: str | None, input_feeding: bool, tie: str
) -> None:
    """Refuse names that are not in the tables and choices that do not go together."""
    look_up("recurrent cell", cell, CELL_STEPS)
    look_up("wiring", wiring, WIRINGS)
    look_up("tie", tie, TIES)
    if not input_feeding:
        return
    if mechanism is None or mechanism == WITHOUT:
        raise RegardError(
            "RecurrentEncoderDecoder has input_feeding=True and no attention: what is fed back is "
            "what was attended to. Choose a mechanism, or input_feeding=False."
        )
    if wiring == "before":
        raise RegardError(
            "RecurrentEncoderDecoder has input_feeding=True with wiring='before', whose cell reads "
            "the context already. Choose wiring='after', or input_feeding=False."
        )


def source_mechanism(
    mechanism: str | None, *, width: int, max_length: int, options: dict[str, Any]
) -> Mechanism | None:
    """The score by which the decoder reads the source, for one head; None without attention."""
    if mechanism is None or mechanism == WITHOUT:
        if options:
            raise RegardError(
                f"RecurrentEncoderDecoder has mechanism_options={options} and no mechanism. "
                f"Choose one of: {', '.join(SCORES)}; or leave the options out."
            )
        return None
    if mechanism not in SCORES and not is_plugged_in(mechanism):
        if mechanism in MECHANISMS:
            raise RegardError(
                f"Mechanism '{mechanism}' does not fit a recurrent decoder, which scores the source "
                f"with one query at a time. Choose one of: {', '.join(SCORES)}; or {WITHOUT}."
            )
        look_up("mechanism", mechanism, dict.fromkeys((*SCORES, WITHOUT)))
    return build_mechanism(
        mechanism, query_dim=width, key_dim=width, max_length=max_length, **options
    )


# Recurrent encoder: layers of LSTM or GRU, one way or both, that end in a memory to be read.
#
# Its outputs have `hidden_dim` features whatever the number of directions: read both ways, each
# direction has half of them. So the memory is as wide as the decoder's state, and any score fits.


class Encoded(NamedTuple):
    """The source as read: every position, and where the last layer stopped, directions side by side."""

    memory: Float[Tensor, "batch length hidden_dim"]
    last_hidden: Float[Tensor, "batch hidden_dim"]
    last_memory: Float[Tensor, "batch memory_dim"]


class RecurrentEncoder(nn.Module):
    """`num_layers` layers with dropout between them."""

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
                "direction has half of it, so it must be even. Choose an even hidden_dim, or "
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

    def forward(self, x: Float[Tensor, "batch length embedding_dim"], mask: Mask) -> Encoded:
        for number, layer in enumerate(self.layers):
            x, last = layer(self.dropout(x) if number else x, mask)
        return Encoded(x, last.hidden.flatten(1), last.memory.flatten(1))

    def cost(self, shape: SequenceShape) -> Cost:
        """What `forward` takes; none of it is state or a step, since the decoder keeps the memory."""
        total = Cost()
        for layer in self.layers:
            assert isinstance(layer, Recurrent)
            # Of packed sequences, every output is looked at for whether its row is empty.
            width = layer.layer.hidden_size * (1 + layer.layer.bidirectional)
            total += replace(layer.cost(shape), state=0, step_products=0)
            total += Cost(arithmetic=shape.rows * width)
        return total


# Small enough that logits from a tied embedding start near one another.
EMBEDDING_STD = 0.1


class RecurrentEncoderDecoder(nn.Module):
    """A sequence-to-sequence model; `core/sequence_model.py` says what its faces answer.

    `mechanism` is a score (dot, scaled_dot, general, additive, location) or "none"; `max_length` bounds
    the source of a location score alone. `hidden_dim` is the width of the decoder and of
    the encoder, both directions together. `num_decoder_layers` is `num_layers` unless given.
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
        wiring: str = "before",
        mechanism: str | None = "additive",
        mechanism_options: dict[str, Any] | None = None,
        input_feeding: bool = False,
        dropout: float = 0.2,
        tie: str = "target",
        max_length: int = 256,
    ) -> None:
        super().__init__()
        num_decoder_layers = num_layers if num_decoder_layers is None else num_decoder_layers
        require_positive(
            "RecurrentEncoderDecoder",
            source_vocabulary=source_vocabulary,
            target_vocabulary=target_vocabulary,
            embedding_dim=embedding_dim,
            hidden_dim=hidden_dim,
            num_layers=num_layers,
            num_decoder_layers=num_decoder_layers,
            max_length=max_length,
        )
        require_dropout("RecurrentEncoderDecoder", dropout)
        require_choices(
            cell=cell, wiring=wiring, mechanism=mechanism, input_feeding=input_feeding, tie=tie
        )
        built = source_mechanism(
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
            attends_before=wiring == "before",
            input_feeding=input_feeding,
            dropout=dropout,
        )
        tied = tie == "target"
        self.narrow = nn.Linear(hidden_dim, embedding_dim, bias=False) if tied else None
        # Tied, the matrix is the embedding's, and not registered a second time.
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
        """What turns features into logits."""
        return self.target_embedding.weight if self.output_weight is None else self.output_weight

    def forward(
        self,
        source: Int[Tensor, "batch source_length"],
        source_lengths: Int[Tensor, " batch"],
        given: Int[Tensor, "batch target_length"],
    ) -> Float[Tensor, "batch target_length target_vocabulary"]:
        return self.logits(self.hidden(source, source_lengths, given))

    def target_limits(self, source_lengths: Int[Tensor, " batch"]) -> None:
        """None: a recurrent decoder has no limit."""

    def hidden(
        self,
        source: Int[Tensor, "batch source_length"],
        source_lengths: Int[Tensor, " batch"],
        given: Int[Tensor, "batch target_length"],
    ) -> Float[Tensor, "batch target_length output_dim"]:
        """The features from which the token after each place of `given` is predicted."""
        encoded = self._encode(source, source_lengths)
        state = self._first_state(encoded, source_lengths)
        return self._to_output(self._decode(state, given).features)

    def logits(
        self, hidden: Float[Tensor, "*places output_dim"]
    ) -> Float[Tensor, "*places target_vocabulary"]:
        """Scores of every token of the target vocabulary."""
        return F.linear(hidden, self.output_matrix, self.output_bias)

    def start(
        self, source: Int[Tensor, "batch source_length"], source_lengths: Int[Tensor, " batch"]
    ) -> RecurrentDecoderState:
        """The state before any target token, the source read and its keys prepared."""
        return self._first_state(self._encode(source, source_lengths), source_lengths)

    def step(self, state: RecurrentDecoderState, token: Int[Tensor, " batch"]) -> Step:
        """The logits after one more token, and the new state."""
        decoded = self._decode(state, token[:, None])
        return Step(self.logits(self._to_output(decoded.features[:, 0])), decoded.state)

    def weights(
        self,
        source: Int[Tensor, "batch source_length"],
        source_lengths: Int[Tensor, " batch"],
        given: Int[Tensor, "batch target_length"],
    ) -> dict[str, Float[Tensor, "batch heads reading read"]]:
        """How much of each source position every step reads: one attention, or none at all."""
        mechanism = self.decoder.mechanism
        if mechanism is None:
            return {}
        encoded = self._encode(source, source_lengths)
        decoded = self._decode(self._first_state(encoded, source_lengths), given)
        query, key = decoded.queries[:, None], encoded.memory[:, None]
        return {"cross/0": mechanism.weights(query, key, Padding(source_lengths))}

    def _encode(self, source: Tensor, source_lengths: Tensor) -> Encoded:
        embedded = self.dropout(self.source_embedding(source))
        return self.encoder(embedded, Padding(source_lengths))

    def _first_state(self, encoded: Encoded, source_lengths: Tensor) -> RecurrentDecoderState:
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
            fed=hidden.new_zeros(batch_size, hidden.shape[2] * self.decoder.input_feeding),
            source=self.decoder.taken_in(encoded.memory, Padding(source_lengths)),
            position=torch.zeros_like(source_lengths),
        )

    def _decode(self, state: RecurrentDecoderState, given: Tensor) -> Decoded:
        return self.decoder(self.dropout(self.target_embedding(given)), state)

    def _to_output(self, features: Tensor) -> Tensor:
        dropped = self.dropout(features)
        return dropped if self.narrow is None else self.narrow(dropped)

    def cost(self, *, batch_size: int, source_length: int, target_length: int) -> Cost:
        """What `logits(hidden(...))` takes."""
        source = SequenceShape(batch_size=batch_size, length=source_length)
        target = SequenceShape(
            batch_size=batch_size, length=target_length, context_length=source_length
        )
        total = Cost(parameters=self.source_embedding.weight.numel())
        total += Cost(parameters=self.target_embedding.weight.numel())
        total += self.encoder.cost(source)
        for first in filter(None, (self.first_hidden, self.first_memory)):
            numbers = batch_size * first.out_features
            tanh = Cost(functions=numbers, memory=numbers, sequential_steps=1)
            total += cost_of(first, rows=batch_size) + tanh
        total += self.decoder.cost(target)
        if self.narrow is not None:
            narrowed = cost_of(self.narrow, rows=target.rows)
            total += per_position(narrowed, length=target_length)
        if self.output_weight is not None:
            total += Cost(parameters=self.output_weight.numel())
        vocabulary, width = self.output_matrix.shape
        logits = linear_cost(rows=target.rows, in_features=width, out_features=vocabulary)
        logits = per_position(logits, length=target_length)
        return total + replace(logits, parameters=self.output_bias.numel())
