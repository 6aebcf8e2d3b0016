"""Recurrent encoder–decoder (LSTM or GRU) with Bahdanau- or Luong-style attention, or without.

    memory_1 … memory_n = encoder(source)        unidirectional or bidirectional
    initial state       = tanh(W · the encoder's final states)
    features_t          = decoder(target so far, memory)        see recurrent_decoder.py
    logits_t            = E W features_t + b     E the tied target embedding (tie="target"),
                        = W features_t + b       or a separate output matrix (tie="none")

Keys and values of the attention are both the encoder's memory, of size `hidden_dim`.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.core.batches import PAD, FrameInput, Input, InputSpec
from regard.core.errors import RegardError
from regard.core.masks import Mask
from regard.core.mechanism import Mechanism, Step
from regard.core.options import PositiveInt, Probability, validated
from regard.core.registry import unknown_name
from regard.core.traits import Alternative, Size, Slot, Traits
from regard.layers.recurrent import Recurrent
from regard.mechanisms import MECHANISMS, build_mechanism, is_plugin
from regard.models.classifier import ANY_INPUT
from regard.models.embeddings import TokenEmbedding
from regard.models.seq2seq.recurrent_decoder import (
    DecoderOutput,
    RecurrentDecoder,
    RecurrentDecoderState,
)
from regard.models.stems import StemOptions, build_stem

SCORES = ("dot", "scaled_dot", "general", "additive", "location")
NO_ATTENTION = "none"


def build_source_mechanism(
    mechanism: str | nn.Module | None, *, width: int, max_length: int, options: dict[str, Any]
) -> Mechanism | None:
    """The single-head cross-attention mechanism of the decoder; None without attention."""
    if mechanism is None or mechanism == NO_ATTENTION:
        if options:
            raise RegardError(
                f"RecurrentEncoderDecoder has mechanism_options={options} but no mechanism. "
                f"Choose one of: {', '.join(SCORES)}; or remove the options."
            )
        return None
    if not isinstance(mechanism, str):
        if options or not isinstance(mechanism, Mechanism):
            raise RegardError(
                f"RecurrentEncoderDecoder has mechanism={type(mechanism).__name__}: it must be a name, or "
                "a Mechanism built with its options, without mechanism_options."
            )
        return mechanism
    if mechanism not in SCORES and not is_plugin(mechanism):
        if mechanism in MECHANISMS:
            raise RegardError(
                f"Mechanism '{mechanism}' cannot be used in a recurrent decoder, which scores the source "
                f"with one query per step. Choose one of: {', '.join(SCORES)}; or {NO_ATTENTION}."
            )
        raise unknown_name("mechanism", mechanism, (*SCORES, NO_ATTENTION))
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


# Small, so that logits of a tied embedding start close to uniform.
EMBEDDING_STD = 0.1


class RecurrentEncoderDecoder(nn.Module):
    """Sequence-to-sequence model (`core.protocols.SequenceModel`).

    hidden_dim           width of the decoder, and of the encoder with both directions together
    num_decoder_layers   number of decoder layers; default: `num_layers`
    attention_style      order: "bahdanau" (attention before the decoder's update) or "luong" (after it)
    mechanism            a score (dot, scaled_dot, general, additive, location), a mechanism already
                         built for one head of hidden_dim, or "none"
    input_feeding        Luong style: feed the attentional features into the next step
    tie                  tied embeddings: "target" (target embedding and output matrix are tied) or "none"
    max_length           longest source, for the location score only
    stem                 options of the stem of real-valued input, or a stem; see `models.stems`
    """

    traits: ClassVar[Traits] = Traits(
        inputs=ANY_INPUT,
        targets=frozenset({"sequence"}),
        # Each direction of the encoder has half of the hidden_dim.
        sizes={"hidden_dim": Size(unit=2), "embedding_dim": Size()},
        slots=(Slot(name="cross", role="cross", mechanisms=(NO_ATTENTION, *SCORES)),),
        alternatives=(
            Alternative(
                model="transformer",
                options={"model_dim": "hidden_dim", "dropout": "dropout", "stem": "stem"},
                fixed={"num_heads": 4},
            ),
        ),
    )

    @validated
    def __init__(
        self,
        *,
        source: InputSpec | PositiveInt,
        target_vocabulary: PositiveInt,
        embedding_dim: PositiveInt = 256,
        hidden_dim: PositiveInt = 512,
        num_layers: PositiveInt = 1,
        num_decoder_layers: PositiveInt | None = None,
        cell: Literal["lstm", "gru"] = "lstm",
        bidirectional: bool = True,
        attention_style: Literal["bahdanau", "luong"] = "bahdanau",
        mechanism: str | nn.Module | None = "additive",
        mechanism_options: dict[str, Any] | None = None,
        input_feeding: bool = False,
        dropout: Probability = 0.2,
        tie: Literal["target", "none"] = "target",
        max_length: PositiveInt = 256,
        stem: StemOptions = None,
    ) -> None:
        super().__init__()
        num_decoder_layers = num_layers if num_decoder_layers is None else num_decoder_layers
        built = build_source_mechanism(
            mechanism, width=hidden_dim, max_length=max_length, options=mechanism_options or {}
        )
        if input_feeding and (built is None or attention_style == "bahdanau"):
            raise RegardError(
                f"RecurrentEncoderDecoder has input_feeding=True with mechanism={mechanism} and "
                f"attention_style='{attention_style}': what is fed back are the features of Luong-style "
                "attention. Choose a mechanism and attention_style='luong', or input_feeding=False."
            )

        def table(vocabulary: int) -> TokenEmbedding:
            return TokenEmbedding(
                vocabulary=vocabulary, model_dim=embedding_dim, scaled=False, initialised=False
            )

        self.stem = build_stem(source, model_dim=embedding_dim, tokens=table, stem=stem)
        self.target_embedding = table(target_vocabulary)
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
        for embedding in (self.stem, self.target_embedding):
            if isinstance(embedding, TokenEmbedding):
                nn.init.normal_(embedding.table.weight, std=EMBEDDING_STD)
                nn.init.zeros_(embedding.table.weight[PAD])
        if self.output_weight is not None:
            nn.init.normal_(self.output_weight, std=hidden_dim**-0.5)

    @property
    def output_matrix(self) -> Float[Tensor, "target_vocabulary output_dim"]:
        """The matrix that maps features to logits."""
        tied = self.target_embedding.table.weight
        return tied if self.output_weight is None else self.output_weight

    def forward(
        self, source: Input, decoder_input: Int[Tensor, "batch target_length"]
    ) -> Float[Tensor, "batch target_length target_vocabulary"]:
        return self.logits(self.hidden(source, decoder_input))

    def target_limits(self, source: Input) -> None:
        """None: unlimited."""

    def hidden(
        self, source: Input, decoder_input: Int[Tensor, "batch target_length"]
    ) -> Float[Tensor, "batch target_length output_dim"]:
        """Features from which the token after each position of `decoder_input` is predicted."""
        return self._to_output(self._decode(self.start(source), decoder_input).features)

    def logits(
        self, hidden: Float[Tensor, "*positions output_dim"]
    ) -> Float[Tensor, "*positions target_vocabulary"]:
        """Scores over the target vocabulary."""
        return F.linear(hidden, self.output_matrix, self.output_bias)

    def start(self, source: Input) -> RecurrentDecoderState:
        """The state before any target token: the source encoded, its keys cached."""
        features = self.stem(source)
        return self._first_state(self._encode(features), features)

    def step(self, state: RecurrentDecoderState, token: Int[Tensor, " batch"]) -> Step:
        """Logits after one more token, and the new state."""
        decoded = self._decode(state, token[:, None])
        return Step(self.logits(self._to_output(decoded.features[:, 0])), decoded.state)

    def weights(
        self, source: Input, decoder_input: Int[Tensor, "batch target_length"]
    ) -> dict[str, Float[Tensor, "batch heads queries keys"]]:
        """Attention weights of every step over the source: "cross/0", or empty without attention."""
        mechanism = self.decoder.mechanism
        if mechanism is None:
            return {}
        features = self.stem(source)
        encoded = self._encode(features)
        decoded = self._decode(self._first_state(encoded, features), decoder_input)
        query, key = decoded.queries[:, None], encoded.memory[:, None]
        return {"cross/0": mechanism.weights(query, key, features.mask)}

    def _encode(self, features: FrameInput) -> EncoderOutput:
        return self.encoder(self.dropout(features.frames), features.mask)

    def _first_state(self, encoded: EncoderOutput, features: FrameInput) -> RecurrentDecoderState:
        batch_size = len(features.lengths)
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
            source=self.decoder.encode_source(encoded.memory, features.mask),
            position=torch.zeros_like(features.lengths),
        )

    def _decode(self, state: RecurrentDecoderState, decoder_input: Tensor) -> DecoderOutput:
        return self.decoder(self.dropout(self.target_embedding.embed(decoder_input)), state)

    def _to_output(self, features: Tensor) -> Tensor:
        dropped = self.dropout(features)
        return dropped if self.narrow is None else self.narrow(dropped)
