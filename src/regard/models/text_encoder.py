"""Bidirectional text encoder (BERT): masked language model, next-sentence prediction, classifier.

    token + segment + position → norm → blocks (bidirectional) → hidden
    hidden of the first token → linear, tanh → pooled → next-sentence logits, class logits
    hidden of a masked token → token logits

(Devlin et al. 2019). Frames and images have no segments; their mean is pooled by default.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.core.batches import FrameInput, Input, InputSpec, TokenInput
from regard.core.errors import RegardError
from regard.core.masks import NO_MASK, Mask
from regard.core.options import PositiveFloat, PositiveInt, Probability, validated
from regard.core.protocols import TextAttention
from regard.core.registry import lookup
from regard.core.traits import Size, Traits
from regard.layers.dropout import Dropout
from regard.layers.feed_forward import ACTIVATIONS
from regard.models.classifier import (
    ANY_INPUT,
    ONE_OUTPUT,
    Classifier,
    alternatives_of,
    mean_features,
)
from regard.models.embeddings import SegmentEmbedding, TokenEmbedding
from regard.models.stack import (
    ENCODER,
    MechanismOptions,
    Mechanisms,
    StackBuilder,
    block_weights,
    longest_sequence,
)
from regard.models.stems import StemOptions, build_stem, grid_of


class MaskedTokenHead(nn.Module):
    """Masked-token head: norm(activation(W hidden + b)) · Eᵀ + c   (Devlin et al. 2019, section 3.1).

    E is the token embedding, tied.
    """

    def __init__(
        self,
        *,
        embedding: TokenEmbedding,
        activation: str = "gelu",
        norm_epsilon: float = 1e-12,
    ) -> None:
        super().__init__()
        self.activation = lookup("activation", activation, ACTIVATIONS)
        self.embedding = embedding
        vocabulary, model_dim = embedding.table.weight.shape
        self.linear = nn.Linear(model_dim, model_dim)
        self.norm = nn.LayerNorm(model_dim, eps=norm_epsilon)
        self.bias = nn.Parameter(torch.zeros(vocabulary))

    def forward(
        self, hidden: Float[Tensor, "*positions model_dim"]
    ) -> Float[Tensor, "*positions vocabulary"]:
        features = self.norm(self.activation.function(self.linear(hidden)))
        return F.linear(features, self.embedding.table.weight, self.bias)


class TextEncoder(Classifier):
    """Encoder with optional heads, of texts, frames or images.

    outputs              of the classification head, 1 for a number; None: no such head
    feed_forward_dim     width of the feed-forward layers; default: 4 × `model_dim`
    attention_dropout    dropout probability of attention weights
    norm_first           pre-norm blocks and a final norm, instead of post-norm
    position             sinusoidal, learned, rotary, alibi or none; "alibi" is symmetric here:
                         without causal masking it cannot distinguish a text from its reverse
    max_length           longest text, where positions or mechanism have a maximum
    num_segments         number of segment ids, such as 2 for sentence pairs
    mechanism            any bidirectional mechanism with padding masks, with `mechanism_options`; a list is
                         one per layer, see `models.stack`
    bias                 whether linear layers of the blocks have a bias; pooler and heads always have one
    embedding_scaled     whether embeddings are multiplied by √model_dim; use it with sinusoidal
                         positions, which are much larger than unscaled embeddings
    pretraining_heads    whether to build the masked-token and next-sentence heads, of tokens only
    pooling              what is classified: the "first" position, or the "mean"; default: the first token
                         of a text, the mean of frames and images
    stem                 options of the stem of frames and images, or a stem; see `models.stems`
    """

    traits: ClassVar[Traits] = Traits(
        inputs=ANY_INPUT,
        targets=ONE_OUTPUT | {"positions"},
        sizes={
            "model_dim": Size(unit=2, times="num_heads"),
            "feed_forward_dim": Size(follows="model_dim", ratio=4.0),
        },
        slots=(ENCODER,),
        segments="texts",
        alternatives=alternatives_of("text_encoder"),
    )

    @validated
    def __init__(
        self,
        *,
        source: InputSpec | PositiveInt,
        outputs: PositiveInt | None = None,
        model_dim: PositiveInt = 128,
        num_heads: PositiveInt = 4,
        num_layers: PositiveInt = 4,
        feed_forward_dim: PositiveInt | None = None,
        dropout: Probability = 0.1,
        attention_dropout: Probability = 0.0,
        activation: str = "gelu",
        norm_first: bool = False,
        norm_epsilon: PositiveFloat = 1e-12,
        position: str = "learned",
        max_length: PositiveInt = 128,
        num_segments: PositiveInt = 2,
        mechanism: Mechanisms = "scaled_dot",
        mechanism_options: MechanismOptions = None,
        num_kv_heads: PositiveInt | None = None,
        bias: bool = True,
        embedding_scaled: bool = False,
        pretraining_heads: bool = True,
        pooling: Literal["first", "mean"] | None = None,
        stem: StemOptions = None,
    ) -> None:
        super().__init__()
        # Of tokens: TokenEmbedding, tied to the masked-token head.
        self.embedding = build_stem(
            source,
            model_dim=model_dim,
            tokens=lambda vocabulary: TokenEmbedding(
                vocabulary=vocabulary, model_dim=model_dim, scaled=embedding_scaled
            ),
            stem=stem,
        )
        has_tokens = isinstance(self.embedding, TokenEmbedding)
        self.pooling = pooling or ("first" if has_tokens else "mean")
        self.segment = (
            SegmentEmbedding(num_segments=num_segments, model_dim=model_dim) if has_tokens else None
        )
        self.embedding_norm = nn.LayerNorm(model_dim, eps=norm_epsilon)
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
            norm_epsilon=norm_epsilon,
        )
        self.position = stack.build_position()
        self.blocks = stack.encoder(ENCODER, mechanism, mechanism_options, num_layers)
        self.norm = stack.final_norm()
        self.pooler = nn.Linear(model_dim, model_dim)
        self.token_head = self.pair_head = None
        if pretraining_heads and isinstance(self.embedding, TokenEmbedding):
            self.token_head = MaskedTokenHead(
                embedding=self.embedding, activation=activation, norm_epsilon=norm_epsilon
            )
            self.pair_head = nn.Linear(model_dim, 2)
        self.head: Any = None if outputs is None else nn.Linear(model_dim, outputs)

    def forward(self, input: Input) -> Float[Tensor, "batch length model_dim"]:
        return self.hidden(input)

    @property
    def max_length(self) -> int | None:
        """Longest text that positions and mechanisms support; None: unlimited."""
        return longest_sequence(self.position, (block.attention for block in self.blocks))

    def hidden(self, input: Input) -> Float[Tensor, "batch length model_dim"]:
        """Features of every position of the stem."""
        return self._encode(input).frames

    def pooled(
        self, hidden: Float[Tensor, "batch length model_dim"], mask: Mask = NO_MASK
    ) -> Float[Tensor, "batch model_dim"]:
        """One vector per row, from its first position, or from the mean of those not masked."""
        if self.pooling == "first":
            features = hidden[:, 0]
        else:
            features = (
                hidden.mean(1) if mask.lengths is None else mean_features(hidden, mask.lengths)
            )
        pooled: Tensor = self.pooler(features).tanh()
        return pooled

    def token_logits(
        self, hidden: Float[Tensor, "*positions model_dim"]
    ) -> Float[Tensor, "*positions vocabulary"]:
        """Masked-token scores over the vocabulary, at any positions."""
        logits: Tensor = self._require("token_head", "pretraining_heads=True")(hidden)
        return logits

    def pair_logits(self, pooled: Float[Tensor, "batch model_dim"]) -> Float[Tensor, "batch 2"]:
        """Next-sentence scores: whether the second text follows the first."""
        logits: Tensor = self._require("pair_head", "pretraining_heads=True")(pooled)
        return logits

    def features(self, input: Input) -> Float[Tensor, "batch model_dim"]:
        """The pooled vector of each row, with dropout."""
        self._require("head", "outputs=…")
        encoded = self._encode(input)
        features: Tensor = self.dropout(self.pooled(encoded.frames, encoded.mask))
        return features

    def text_attention(self, input: Input) -> TextAttention:
        """Attention of what is pooled, in the last block: one hop per head.

        Earlier blocks have already mixed the positions, so it is not a full attribution.
        """
        last = self.weights(input)[f"encoder/{len(self.blocks) - 1}"]
        grid = grid_of(self.embedding)
        if self.pooling == "first":
            return TextAttention(last[:, :, 0], grid=grid)
        lengths = self.embedding(input).lengths
        means = torch.stack([mean_features(head, lengths) for head in last.unbind(1)], 1)
        return TextAttention(means, grid=grid)

    def weights(self, input: Input) -> dict[str, Float[Tensor, "batch heads length length"]]:
        """Attention weights of each block: "encoder/0", "encoder/1", …"""
        features = self._embed(input)
        return block_weights(self.blocks, features.frames, features.mask)[0]

    def _embed(self, input: Input) -> FrameInput:
        features = self.embedding(input)
        x = features.frames
        if self.segment is not None and isinstance(input, TokenInput):
            x = self.segment(x, input.segments)
        x = self.dropout(self.embedding_norm(self.position(x)))
        return FrameInput(x, features.lengths, features.padded)

    def _encode(self, input: Input) -> FrameInput:
        features = self._embed(input)
        x, mask = features.frames, features.mask
        for block in self.blocks:
            x = block(x, mask)
        return FrameInput(self.norm(x), features.lengths, features.padded)

    def _require(self, name: str, option: str) -> nn.Module:
        head: nn.Module | None = getattr(self, name)
        if head is None:
            raise RegardError(f"This TextEncoder has no {name}. Build it with {option}.")
        return head
