"""Bidirectional text encoder (BERT): masked language model, next-sentence prediction, classifier.

    token + segment + position → norm → blocks (bidirectional) → hidden
    hidden of the first token → linear, tanh → pooled → next-sentence logits, class logits
    hidden of a masked token → token logits

(Devlin et al. 2019). Dropout is on the embeddings and in the blocks, never on attention weights.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.cost import Cost
from regard.core.errors import RegardError
from regard.core.protocols import ClassifierOutput, TextAttention
from regard.core.registry import lookup
from regard.layers.blocks import EncoderBlock
from regard.layers.cost import SequenceShape, cost_of, norm_cost
from regard.layers.dropout import Dropout
from regard.layers.feed_forward import ACTIVATIONS
from regard.layers.validation import validate_dropout, validate_positive
from regard.models.embeddings import SegmentEmbedding, TokenEmbedding
from regard.models.stack import build_stack
from regard.models.validation import padding_mask


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

    def cost(self, *, masked_tokens: int) -> Cost:
        """Cost of `forward` for this many tokens; the tied table is counted by the embedding."""
        vocabulary, model_dim = self.embedding.table.weight.shape
        numbers = masked_tokens * model_dim
        activated = Cost(
            transcendental_ops=numbers * self.activation.transcendental_ops,
            elementwise_ops=numbers * self.activation.elementwise_ops,
            memory=numbers,
        )
        return (
            cost_of(self.linear, rows=masked_tokens)
            + activated
            + norm_cost(rows=masked_tokens, model_dim=model_dim)
            + self.embedding.logits_cost(rows=masked_tokens)
            + Cost(elementwise_ops=masked_tokens * vocabulary, parameters=vocabulary)
        )


class TextEncoder(nn.Module):
    """Text encoder with optional heads.

    classes              size of the classification head; None: no such head
    feed_forward_dim     default: 4 × `model_dim`
    norm_first           pre-norm blocks and a final norm, instead of post-norm
    position             a name of `layers.positions.POSITIONS`; "alibi" is symmetric here: without
                         causal masking it cannot distinguish a text from its reverse
    max_length           longest text, where positions or mechanism have a maximum
    num_segments         number of segment ids, such as 2 for sentence pairs
    mechanism            any bidirectional one with padding masks, with `mechanism_options`
    bias                 of the blocks; pooler and heads always have one
    embedding_scaled     whether embeddings are multiplied by √model_dim; use it with sinusoidal
                         positions, which are much larger than unscaled embeddings
    pretraining_heads    whether to build the masked-token and next-sentence heads
    """

    segment_unit: ClassVar[str] = "texts"

    def __init__(
        self,
        *,
        vocabulary: int,
        classes: int | None = None,
        model_dim: int = 128,
        num_heads: int = 4,
        num_layers: int = 4,
        feed_forward_dim: int | None = None,
        dropout: float = 0.1,
        activation: str = "gelu",
        norm_first: bool = False,
        norm_epsilon: float = 1e-12,
        position: str = "learned",
        max_length: int = 128,
        num_segments: int = 2,
        mechanism: str = "scaled_dot",
        mechanism_options: dict[str, Any] | None = None,
        num_kv_heads: int | None = None,
        bias: bool = True,
        embedding_scaled: bool = False,
        pretraining_heads: bool = True,
    ) -> None:
        super().__init__()
        validate_positive(
            "TextEncoder",
            vocabulary=vocabulary,
            model_dim=model_dim,
            num_heads=num_heads,
            num_layers=num_layers,
            max_length=max_length,
            num_segments=num_segments,
        )
        if classes is not None:
            validate_positive("TextEncoder", classes=classes)
        validate_dropout("TextEncoder", dropout)
        self.embedding = TokenEmbedding(
            vocabulary=vocabulary, model_dim=model_dim, scaled=embedding_scaled
        )
        self.segment = SegmentEmbedding(num_segments=num_segments, model_dim=model_dim)
        self.embedding_norm = nn.LayerNorm(model_dim, eps=norm_epsilon)
        self.dropout = Dropout(dropout)
        stack = build_stack(
            slot="encoder",
            mechanism=mechanism,
            mechanism_options=mechanism_options,
            position=position,
            num_layers=num_layers,
            model_dim=model_dim,
            num_heads=num_heads,
            num_kv_heads=num_kv_heads,
            feed_forward_dim=feed_forward_dim,
            max_length=max_length,
            activation=activation,
            norm_first=norm_first,
            bias=bias,
            dropout=dropout,
            norm_epsilon=norm_epsilon,
        )
        self.position: Any = stack.position
        self.blocks, self.norm = stack.blocks, stack.norm
        self.pooler = nn.Linear(model_dim, model_dim)
        self.token_head = self.pair_head = self.class_head = None
        if pretraining_heads:
            self.token_head = MaskedTokenHead(
                embedding=self.embedding, activation=activation, norm_epsilon=norm_epsilon
            )
            self.pair_head = nn.Linear(model_dim, 2)
        if classes is not None:
            self.class_head = nn.Linear(model_dim, classes)

    def forward(
        self,
        tokens: Int[Tensor, "batch length"],
        lengths: Int[Tensor, " batch"],
        segments: Int[Tensor, "batch length"] | None = None,
    ) -> Float[Tensor, "batch length model_dim"]:
        return self.hidden(tokens, lengths, segments)

    @property
    def max_length(self) -> int | None:
        """Longest text that positions and mechanism support; None: unlimited."""
        bounds = [getattr(self.position, "max_length", None)]
        bounds += [block.attention.mechanism.capabilities.max_length for block in self._blocks()]
        return min((bound for bound in bounds if bound is not None), default=None)

    def hidden(
        self,
        tokens: Int[Tensor, "batch length"],
        lengths: Int[Tensor, " batch"],
        segments: Int[Tensor, "batch length"] | None = None,
    ) -> Float[Tensor, "batch length model_dim"]:
        """Features of every token; `lengths` without padding; `segments` default to 0."""
        mask = padding_mask(tokens, lengths)
        x = self._embed(tokens, segments)
        for block in self.blocks:
            x = block(x, mask)
        hidden: Tensor = self.norm(x)
        return hidden

    def pooled(
        self, hidden: Float[Tensor, "batch length model_dim"]
    ) -> Float[Tensor, "batch model_dim"]:
        """One vector per row, from the features of its first token."""
        pooled: Tensor = self.pooler(hidden[:, 0]).tanh()
        return pooled

    def token_logits(
        self, hidden: Float[Tensor, "*positions model_dim"]
    ) -> Float[Tensor, "*positions vocabulary"]:
        """Masked-token scores over the vocabulary, at any positions."""
        logits: Tensor = self._head("token_head", "pretraining_heads=True")(hidden)
        return logits

    def pair_logits(self, pooled: Float[Tensor, "batch model_dim"]) -> Float[Tensor, "batch 2"]:
        """Next-sentence scores: whether the second text follows the first."""
        logits: Tensor = self._head("pair_head", "pretraining_heads=True")(pooled)
        return logits

    def class_logits(
        self, pooled: Float[Tensor, "batch model_dim"]
    ) -> Float[Tensor, "batch classes"]:
        """Class scores."""
        logits: Tensor = self._head("class_head", "classes=…")(self.dropout(pooled))
        return logits

    def classify(
        self,
        tokens: Int[Tensor, "batch length"],
        lengths: Int[Tensor, " batch"],
        segments: Int[Tensor, "batch length"] | None = None,
    ) -> ClassifierOutput:
        """Class scores of each text; no penalty."""
        logits = self.class_logits(self.pooled(self.hidden(tokens, lengths, segments)))
        return ClassifierOutput(logits, logits.new_zeros(len(logits)))

    def text_attention(
        self,
        tokens: Int[Tensor, "batch length"],
        lengths: Int[Tensor, " batch"],
        segments: Int[Tensor, "batch length"] | None = None,
    ) -> TextAttention:
        """Attention of the first token, which is classified, in the last block: one hop per head.

        Earlier blocks have already mixed the tokens, so it is not a full attribution.
        """
        last = self.weights(tokens, lengths, segments)[f"encoder/{len(self.blocks) - 1}"]
        return TextAttention(last[:, :, 0])

    def weights(
        self,
        tokens: Int[Tensor, "batch length"],
        lengths: Int[Tensor, " batch"],
        segments: Int[Tensor, "batch length"] | None = None,
    ) -> dict[str, Float[Tensor, "batch heads length length"]]:
        """Attention weights of each block: "encoder/0", "encoder/1", …"""
        mask = padding_mask(tokens, lengths)
        found: dict[str, Tensor] = {}
        x = self._embed(tokens, segments)
        for number, block in enumerate(self._blocks()):
            found[f"encoder/{number}"] = block.weights(x, mask)
            x = block(x, mask)
        return found

    def cost(
        self, *, batch_size: int, length: int, masked_tokens: int | None = None, sentences: int = 1
    ) -> Cost:
        """Cost of `hidden` with segments and `pooled`; with `masked_tokens`, of the heads too.

        `max_path_length` is that of one layer. `sentences` is ignored.
        """
        del sentences
        shape = SequenceShape(batch_size=batch_size, length=length)
        (model_dim,) = self.embedding_norm.normalized_shape
        norms = 1 + isinstance(self.norm, nn.LayerNorm)
        total = self.embedding.cost(rows=shape.positions)
        total += self.segment.cost(shape) + self.position.cost(shape)
        for _ in range(norms):
            total += norm_cost(rows=shape.positions, model_dim=model_dim)
        for block in self._blocks():
            total += block.cost(shape)
        numbers = batch_size * model_dim
        total += cost_of(self.pooler, rows=batch_size) + Cost(
            transcendental_ops=numbers, memory=numbers
        )
        if masked_tokens is not None:
            total += self.head_cost(batch_size=batch_size, masked_tokens=masked_tokens)
        # There is no incremental decoding.
        return replace(total, step_matmul_flops=0, state=0)

    def head_cost(self, *, batch_size: int, masked_tokens: int) -> Cost:
        """Cost of the heads: pair and class heads per row, the token head per masked token."""
        total = Cost()
        for head in (self.pair_head, self.class_head):
            if head is not None:
                total += cost_of(head, rows=batch_size)
        if self.token_head is not None:
            total += self.token_head.cost(masked_tokens=masked_tokens)
        return total

    def _blocks(self) -> list[EncoderBlock]:
        return [block for block in self.blocks if isinstance(block, EncoderBlock)]

    def _embed(self, tokens: Tensor, segments: Tensor | None) -> Tensor:
        x = self.position(self.segment(self.embedding(tokens), segments))
        embedded: Tensor = self.dropout(self.embedding_norm(x))
        return embedded

    def _head(self, name: str, option: str) -> nn.Module:
        head: nn.Module | None = getattr(self, name)
        if head is None:
            raise RegardError(f"This TextEncoder has no {name}. Build it with {option}.")
        return head
