"""The Transformer encoder of a source, which several sequence models have in common.

source → stem + position → dropout → self-attention blocks → norm → one vector per position of the stem

`EncoderDecoder` adds what decoders over it have in common: joint training with CTC, token dropout.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.batches import PAD, START, Batch, FrameInput, ImageInput, Input
from regard.core.errors import RegardError
from regard.core.protocols import JointFeatures
from regard.core.traits import Alternative, Slot
from regard.models.embeddings import drop_tokens
from regard.models.seq2seq.ctc_output import CTCOutput
from regard.models.stack import MechanismOptions, Mechanisms, block_weights

# Rows, sorted by length, are encoded in chunks: little padding, yet large matrix products.
ENCODER_CHUNK_SIZE = 16

# Attention slots of models with several, whose option falls back to `mechanism`.
ENCODER = Slot(name="encoder", option="encoder_mechanism", fallback="mechanism")
CROSS = Slot(name="cross", role="cross", option="cross_mechanism", fallback="mechanism")

# Options that models with a Transformer encoder of the same size have in common.
SAME_OPTIONS = ("model_dim", "num_heads", "num_layers", "dropout", "stem")
# The recurrent encoder–decoder of the same width, as the alternative of those with a Transformer encoder.
RECURRENT = Alternative(
    model="recurrent",
    options={
        "embedding_dim": "model_dim",
        "hidden_dim": "model_dim",
        "dropout": "dropout",
        "stem": "stem",
    },
    fixed={"attention_style": "luong"},
)


class SlotOptions(NamedTuple):
    """The mechanism of an attention slot and its options."""

    mechanism: Mechanisms
    options: MechanismOptions


def slot_options(
    mechanism: Mechanisms,
    options: MechanismOptions,
    own: Mechanisms | None,
    own_options: MechanismOptions,
) -> SlotOptions:
    """A slot's mechanism and options, from those that all slots share and its own.

    A slot's own mechanism takes no shared options; its own options update the shared ones where both are
    the same for all layers.
    """
    shared = options if own is None else None
    chosen = mechanism if own is None else own
    if isinstance(shared, list) or isinstance(own_options, list):
        return SlotOptions(chosen, own_options or shared)
    return SlotOptions(chosen, (shared or {}) | (own_options or {}))


class EncoderWeights(NamedTuple):
    """Attention weights by name, "encoder/0", …, and what the encoder returns."""

    weights: dict[str, Float[Tensor, "batch heads length length"]]
    encoded: FrameInput


class SourceEncoder(nn.Module):
    """A model with a Transformer encoder; a subclass builds its parts and adds what predicts the target."""

    stem: nn.Module
    source_position: Any
    dropout: nn.Module
    encoder: Any  # a ModuleList of `EncoderBlock`
    encoder_norm: nn.Module

    def encode(self, source: Input) -> FrameInput:
        """Features of every position of the stem."""
        features = self._embed_source(source)
        x, mask = features.frames, features.mask
        for block in self.encoder:
            x = block(x, mask)
        return FrameInput(self.encoder_norm(x), features.lengths, features.padded)

    def encode_by_length(self, source: Input) -> FrameInput:
        """As `encode`, in chunks of rows of similar length, which saves padding."""
        if isinstance(source, ImageInput) or len(source.lengths) <= ENCODER_CHUNK_SIZE:
            return self.encode(source)
        chunks = source.lengths.argsort(stable=True).split(ENCODER_CHUNK_SIZE)
        parts = [self.encode(source.select(rows)) for rows in chunks]
        width = max(part.shape[1] for part in parts)
        encoded = parts[0].frames.new_zeros(len(source.lengths), width, parts[0].shape[2])
        lengths = torch.empty_like(source.lengths)
        for rows, part in zip(chunks, parts, strict=True):
            encoded[rows, : part.shape[1]] = part.frames
            lengths[rows] = part.lengths
        return FrameInput(encoded, lengths, source.padded)

    def encoder_weights(self, source: Input) -> EncoderWeights:
        """Attention weights of each block of the encoder."""
        features = self._embed_source(source)
        found, x = block_weights(self.encoder, features.frames, features.mask)
        encoded = FrameInput(self.encoder_norm(x), features.lengths, features.padded)
        return EncoderWeights(found, encoded)

    def _embed_source(self, source: Input) -> FrameInput:
        features = self.stem(source)
        x = self.dropout(self.source_position(features.frames))
        return FrameInput(x, features.lengths, features.padded)


class EncoderDecoder(SourceEncoder):
    """A decoder over the encoder, trained by teacher forcing, optionally with auxiliary losses."""

    ctc_weight: float
    alignment_weight: float
    ctc: CTCOutput | None
    token_dropout: float

    def set_training_options(
        self,
        *,
        model_dim: int,
        target_vocabulary: int,
        ctc_weight: float,
        alignment_weight: float,
        token_dropout: float,
        has_attention: bool = True,
    ) -> None:
        """What matters in training only: the CTC output, if its loss has a weight, and token dropout."""
        if alignment_weight and not (ctc_weight and has_attention):
            missing = "ctc_weight=0" if has_attention else "cross_mechanism='none'"
            raise RegardError(
                f"{type(self).__name__} has alignment_weight={alignment_weight} but {missing}: a head of "
                "the cross-attention learns the alignment of CTC. Set ctc_weight, such as 0.3, and a "
                "mechanism; or alignment_weight to 0."
            )
        self.ctc_weight, self.alignment_weight = ctc_weight, alignment_weight
        self.token_dropout = token_dropout
        sizes = {"model_dim": model_dim, "target_vocabulary": target_vocabulary}
        self.ctc = CTCOutput(**sizes) if ctc_weight else None

    def hidden(
        self, source: Input, decoder_input: Int[Tensor, "batch target_length"]
    ) -> Float[Tensor, "batch target_length model_dim"]:
        """Features from which the token after each position of `decoder_input` is predicted."""
        return self.decoder_features(self.encode(source), self._dropped(decoder_input))

    def weights(
        self, source: Input, decoder_input: Int[Tensor, "batch target_length"]
    ) -> dict[str, Float[Tensor, "batch heads queries keys"]]:
        """Attention weights by slot and layer: "encoder/0", "decoder/0", "cross/0", …"""
        found, encoded = self.encoder_weights(source)
        self.decoder_features(encoded, decoder_input, weights=found)
        return found

    def joint_features(self, batch: Batch) -> JointFeatures:
        """The features of the decoder, and the CTC loss of the encoder; 0 of a row without a path."""
        assert self.ctc is not None
        encoded, target = self.encode(batch.input), batch.target
        weights: dict[str, Tensor] | None = {} if self.alignment_weight else None
        hidden = self.decoder_features(
            encoded, self._dropped(target.decoder_input), weights=weights
        )
        ctc_loss = self.ctc.losses(encoded, target).sum()
        alignment_loss = torch.zeros_like(ctc_loss)
        if weights:
            *_, cross = (each for name, each in weights.items() if name.startswith("cross"))
            alignment_loss = self.ctc.alignment_loss(encoded, target, cross[:, 0])
        return JointFeatures(hidden, ctc_loss, alignment_loss)

    def _dropped(self, decoder_input: Tensor) -> Tensor:
        if self.training and self.token_dropout:
            return drop_tokens(decoder_input, self.token_dropout, keep=(PAD, START))
        return decoder_input

    def decoder_features(
        self,
        encoded: FrameInput,
        decoder_input: Int[Tensor, "batch target_length"],
        *,
        weights: dict[str, Tensor] | None = None,
    ) -> Float[Tensor, "batch target_length model_dim"]:
        """As `hidden`, of an encoded source; adds the attention weights of each layer to `weights`."""
        raise NotImplementedError
