"""CTC: a Transformer encoder that predicts a token or a blank for every frame (Graves et al. 2006).

    source → stem + position → encoder blocks → linear → log p of every token and blank, in each frame

    p(output | source) = Σ over the paths that give the output        a a – a b –  →  a a b

Frames are independent of each other given the source, so there is no decoder: all frames are predicted at
once, outputs are at most as long as the frames, and the alignment is monotonic. The blank has the id of
padding, which no target holds, so that no token's id moves; START and END are never predicted.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from regard.core.batches import END, SPECIAL_TOKENS, Batch, Input, InputSpec
from regard.core.options import PositiveInt, Probability, validated
from regard.core.protocols import Hypothesis, Loss
from regard.core.traits import Alternative, Size, Traits
from regard.layers.dropout import Dropout
from regard.models.classifier import ANY_INPUT
from regard.models.embeddings import TokenEmbedding
from regard.models.generation.ctc_search import BLANK, best_path, prefix_beam_search
from regard.models.seq2seq.ctc_alignment import (
    ForcedAlignment,
    forced_alignment,
    token_posteriors,
)
from regard.models.seq2seq.ctc_output import CTCOutput, has_path, validate_paths
from regard.models.seq2seq.encoder import SAME_OPTIONS, SourceEncoder
from regard.models.stack import ENCODER, MechanismOptions, Mechanisms, StackBuilder
from regard.models.stems import StemOptions, build_stem


class CTC(SourceEncoder):
    """Connectionist temporal classification (`core.protocols.NonAutoregressiveModel`).

    The loss is −log p(target | source), in nats, over as many predictions as a decoder has: the tokens and
    END. So the losses of both can be compared. Label smoothing is of a decoder's next token, and does
    nothing here.

    mechanism            mechanism of the self-attention; a list is one per layer, see `models.stack`
    attention_dropout    dropout probability of attention weights
    feed_forward_dim     width of the feed-forward layers; default: 4 × `model_dim`
    position             position encoding: sinusoidal, learned, rotary, alibi or none
    max_length           longest source, where positions or mechanism have a maximum
    stem                 options of the stem of real-valued input, or a stem; see `models.stems`
    zero_infinity        whether a target that is too long for its frames is left out of the loss; else it
                         is an error
    """

    traits: ClassVar[Traits] = Traits(
        inputs=ANY_INPUT,
        targets=frozenset({"sequence"}),
        sizes={
            "model_dim": Size(unit=2, times="num_heads"),
            "feed_forward_dim": Size(follows="model_dim", ratio=4.0),
        },
        slots=(ENCODER,),
        alternatives=tuple(
            Alternative(model=name, options={option: option for option in SAME_OPTIONS})
            for name in ("transformer", "transformer_recurrent")
        ),
    )

    @validated
    def __init__(
        self,
        *,
        source: InputSpec | PositiveInt,
        target_vocabulary: Annotated[int, Field(ge=len(SPECIAL_TOKENS))],
        model_dim: PositiveInt = 256,
        num_heads: PositiveInt = 4,
        num_layers: PositiveInt = 3,
        feed_forward_dim: PositiveInt | None = None,
        dropout: Probability = 0.1,
        attention_dropout: Probability = 0.0,
        activation: str = "relu",
        norm_first: bool = True,
        position: str = "sinusoidal",
        max_length: PositiveInt = 1024,
        mechanism: Mechanisms = "scaled_dot",
        mechanism_options: MechanismOptions = None,
        num_kv_heads: PositiveInt | None = None,
        bias: bool = True,
        stem: StemOptions = None,
        zero_infinity: bool = False,
    ) -> None:
        super().__init__()
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
        self.stem = build_stem(
            source,
            model_dim=model_dim,
            tokens=lambda vocabulary: TokenEmbedding(vocabulary=vocabulary, model_dim=model_dim),
            stem=stem,
        )
        self.source_position = stack.build_position()
        self.dropout = Dropout(dropout)
        self.encoder = stack.encoder(ENCODER, mechanism, mechanism_options, num_layers)
        self.encoder_norm = stack.final_norm()
        self.output = CTCOutput(model_dim=model_dim, target_vocabulary=target_vocabulary)
        self.zero_infinity = zero_infinity

    def forward(self, source: Input) -> Float[Tensor, "batch frames target_vocabulary"]:
        """log p of every token and of the blank, in each frame of the stem."""
        return self.output.log_probabilities(self.encode(source))

    def sequence_loss(self, batch: Batch) -> Loss:
        """−log p(target | source), summed over the rows."""
        encoded, target = self.encode(batch.input), batch.target
        if not self.zero_infinity:
            validate_paths(encoded, target)
        kept = has_path(encoded, target)
        total = self.output.losses(encoded, target).sum()
        return Loss(total, int((target.lengths - 1)[kept].sum()))

    def decode_sequences(self, source: Input, *, beam_size: int = 1) -> list[Hypothesis]:
        """The output of each row: the best path with beam_size=1, else by prefix beam search."""
        encoded = self.encode_by_length(source)
        scores = self.output.log_probabilities(encoded)
        if beam_size == 1:
            return best_path(scores, encoded.lengths)
        return prefix_beam_search(scores, encoded.lengths, beam_size=beam_size)

    def align(
        self, source: Input, decoder_input: Int[Tensor, "batch target_length"]
    ) -> ForcedAlignment:
        """The best path of each row's tokens, START first: which frame of the stem belongs to which."""
        encoded = self.encode(source)
        tokens, counts = _tokens_of(decoder_input)
        scores = self.output.log_probabilities(encoded)
        return forced_alignment(scores, encoded.lengths, tokens, counts)

    def weights(
        self, source: Input, decoder_input: Int[Tensor, "batch target_length"]
    ) -> dict[str, Float[Tensor, "batch heads queries keys"]]:
        """Attention weights of each block, "encoder/0", …; and "cross/ctc", tokens over frames of the stem.

        Row i of "cross/ctc" is the distribution over frames of the token after `decoder_input[:, : i + 1]`
        (see `token_posteriors`), which must therefore be in `decoder_input` too. The last row, and those of
        END and padding, are the last frame: there the output ends. Rows without a path are zeros.
        """
        found, encoded = self.encoder_weights(source)
        tokens, counts = _tokens_of(decoder_input)
        scores = self.output.log_probabilities(encoded)
        aligned = token_posteriors(scores, encoded.lengths, tokens, counts)
        end = F.one_hot(encoded.lengths - 1, aligned.shape[2])[:, None].to(aligned)
        is_token = torch.arange(tokens.shape[1], device=counts.device) < counts[:, None]
        found["cross/ctc"] = torch.where(is_token[:, :, None], aligned, end)[:, None]
        return found


def _tokens_of(
    decoder_input: Int[Tensor, "batch target_length"],
) -> tuple[Int[Tensor, "batch target_length"], Int[Tensor, " batch"]]:
    """The tokens after START, up to END or padding, one column longer; and their numbers."""
    tokens = F.pad(decoder_input[:, 1:], (0, 1), value=BLANK)
    is_token = ((tokens != BLANK) & (tokens != END)).cumprod(dim=1)
    return tokens * is_token, is_token.sum(dim=1)
