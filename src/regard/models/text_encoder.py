"""The encoder alone (BERT shape): one text, or two, becomes a vector a token and one for the whole.

    token + segment + position → norm → blocks (each token reads all) → hidden
    hidden of the first token → linear, tanh → pooled → sentence pair, classes
    hidden of a masked token → which token it was

(Devlin et al. 2019). Unlike `Transformer` it writes nothing: it fills gaps and tells texts apart. Dropout
is on the embedded tokens and in the blocks, never on attention weights.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.cost import Cost
from regard.core.errors import RegardError
from regard.core.protocols import Classified, TextReading
from regard.core.registry import look_up
from regard.layers.blocks import EncoderBlock
from regard.layers.cost import SequenceShape, cost_of, norm_cost
from regard.layers.dropout import Dropout
from regard.layers.feed_forward import ACTIVATIONS
from regard.layers.validation import require_dropout, require_positive
from regard.models.embeddings import SegmentEmbedding, TokenEmbedding
from regard.models.stack import build_stack
from regard.models.validation import padding_mask

# The head that says which token was masked: a small layer, then the token table.
#
# logits = norm(activation(W hidden + b)) · Eᵀ + c     (Devlin et al. 2019, section 3.1)
#
# E is the table the tokens were embedded with, so a token to be said is one to be read.


class MaskedTokenHead(nn.Module):
    """From hidden features to scores of every token of the embedding it is given."""

    def __init__(
        self,
        *,
        embedding: TokenEmbedding,
        activation: str = "gelu",
        norm_epsilon: float = 1e-12,
    ) -> None:
        super().__init__()
        self.activation = look_up("activation", activation, ACTIVATIONS)
        self.embedding = embedding
        vocabulary, model_dim = embedding.table.weight.shape
        self.linear = nn.Linear(model_dim, model_dim)
        self.norm = nn.LayerNorm(model_dim, eps=norm_epsilon)
        self.bias = nn.Parameter(torch.zeros(vocabulary))

    def forward(
        self, hidden: Float[Tensor, "*places model_dim"]
    ) -> Float[Tensor, "*places vocabulary"]:
        features = self.norm(self.activation.function(self.linear(hidden)))
        return F.linear(features, self.embedding.table.weight, self.bias)

    def cost(self, *, places: int) -> Cost:
        """What `forward` takes for so many places; the table's parameters are the embedding's."""
        vocabulary, model_dim = self.embedding.table.weight.shape
        numbers = places * model_dim
        activated = Cost(
            functions=numbers * self.activation.evaluations,
            arithmetic=numbers * self.activation.arithmetic,
            memory=numbers,
        )
        return (
            cost_of(self.linear, rows=places)
            + activated
            + norm_cost(rows=places, model_dim=model_dim)
            + self.embedding.logits_cost(rows=places)
            + Cost(arithmetic=places * vocabulary, parameters=vocabulary)
        )


class TextEncoder(nn.Module):
    """From tokens to features of each, and from those to what the heads say.

    classes              how many `class_logits` tells apart; no such head unless given
    feed_forward_dim     four times `model_dim` unless given
    norm_first           norms before attention and feed-forward; the stack then ends in one more
    position             a name of `layers.positions.POSITIONS`; "alibi" is a distance without a
                         direction, so both ways it reads a text and its mirror image alike
    max_length           for positions and mechanisms that end at a greatest length
    num_segments         how many texts may stand in one row
    mechanism            any that reads both ways and takes padding, with `mechanism_options`
    bias                 of the blocks; the pooler and the heads always have theirs
    embedding_scaled     whether token vectors are multiplied by √model_dim where they are read; beside
                         sinusoidal positions, which are not small, they are hardly heard otherwise
    pretraining_heads    whether `token_logits` and `pair_logits` are there
    """

    segments_are = "texts"

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
        require_positive(
            "TextEncoder",
            vocabulary=vocabulary,
            model_dim=model_dim,
            num_heads=num_heads,
            num_layers=num_layers,
            max_length=max_length,
            num_segments=num_segments,
        )
        if classes is not None:
            require_positive("TextEncoder", classes=classes)
        require_dropout("TextEncoder", dropout)
        self.embedding = TokenEmbedding(
            vocabulary=vocabulary, model_dim=model_dim, scaled=embedding_scaled
        )
        self.segment = SegmentEmbedding(num_segments=num_segments, model_dim=model_dim)
        self.embedding_norm = nn.LayerNorm(model_dim, eps=norm_epsilon)
        self.dropout = Dropout(dropout)
        stack = build_stack(
            place="encoder",
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
        """The most tokens its positions and mechanism reach; None without a limit."""
        bounds = [getattr(self.position, "max_length", None)]
        bounds += [block.attention.mechanism.capabilities.max_length for block in self._blocks()]
        return min((bound for bound in bounds if bound is not None), default=None)

    def hidden(
        self,
        tokens: Int[Tensor, "batch length"],
        lengths: Int[Tensor, " batch"],
        segments: Int[Tensor, "batch length"] | None = None,
    ) -> Float[Tensor, "batch length model_dim"]:
        """Features of every token; `lengths` says how many of a row are real, the rest is padding.

        `segments` says which of the texts in a row a token is of: all of the first unless given.
        """
        mask = padding_mask(tokens, lengths)
        x = self._entered(tokens, segments)
        for block in self.blocks:
            x = block(x, mask)
        hidden: Tensor = self.norm(x)
        return hidden

    def pooled(
        self, hidden: Float[Tensor, "batch length model_dim"]
    ) -> Float[Tensor, "batch model_dim"]:
        """One vector a row, from the features of its first token."""
        pooled: Tensor = self.pooler(hidden[:, 0]).tanh()
        return pooled

    def token_logits(
        self, hidden: Float[Tensor, "*places model_dim"]
    ) -> Float[Tensor, "*places vocabulary"]:
        """Scores of every token of the vocabulary, at whichever places are given."""
        logits: Tensor = self._head("token_head", "pretraining_heads=True")(hidden)
        return logits

    def pair_logits(self, pooled: Float[Tensor, "batch model_dim"]) -> Float[Tensor, "batch 2"]:
        """Scores of the two answers to whether the second text follows the first."""
        logits: Tensor = self._head("pair_head", "pretraining_heads=True")(pooled)
        return logits

    def class_logits(
        self, pooled: Float[Tensor, "batch model_dim"]
    ) -> Float[Tensor, "batch classes"]:
        """Scores of the classes."""
        logits: Tensor = self._head("class_head", "classes=…")(self.dropout(pooled))
        return logits

    def classified(
        self,
        tokens: Int[Tensor, "batch length"],
        lengths: Int[Tensor, " batch"],
        segments: Int[Tensor, "batch length"] | None = None,
    ) -> Classified:
        """The scores of the classes of each text."""
        logits = self.class_logits(self.pooled(self.hidden(tokens, lengths, segments)))
        return Classified(logits, logits.new_zeros(len(logits)))

    def reading(
        self,
        tokens: Int[Tensor, "batch length"],
        lengths: Int[Tensor, " batch"],
        segments: Int[Tensor, "batch length"] | None = None,
    ) -> TextReading:
        """What the first token, from which a text is classified, read in the last block: a hop a head.

        Blocks before it have mixed the tokens, so that it is a part of the way and not the whole of it.
        """
        last = self.weights(tokens, lengths, segments)[f"encoder/{len(self.blocks) - 1}"]
        return TextReading(last[:, :, 0])

    def weights(
        self,
        tokens: Int[Tensor, "batch length"],
        lengths: Int[Tensor, " batch"],
        segments: Int[Tensor, "batch length"] | None = None,
    ) -> dict[str, Float[Tensor, "batch heads length length"]]:
        """Who read whom in `hidden` of the same arguments: "encoder/0", "encoder/1", …"""
        mask = padding_mask(tokens, lengths)
        found: dict[str, Tensor] = {}
        x = self._entered(tokens, segments)
        for number, block in enumerate(self._blocks()):
            found[f"encoder/{number}"] = block.weights(x, mask)
            x = block(x, mask)
        return found

    def cost(
        self, *, batch_size: int, length: int, places: int | None = None, sentences: int = 1
    ) -> Cost:
        """What `hidden` with segments and `pooled` take; `longest_path` is that of one layer.

        How often its heads are asked is the task's: with `places`, they are counted too (`head_cost`).
        Sentences are of no account.
        """
        del sentences
        shape = SequenceShape(batch_size=batch_size, length=length)
        (model_dim,) = self.embedding_norm.normalized_shape
        norms = 1 + isinstance(self.norm, nn.LayerNorm)
        total = self.embedding.cost(rows=shape.rows)
        total += self.segment.cost(shape) + self.position.cost(shape)
        for _ in range(norms):
            total += norm_cost(rows=shape.rows, model_dim=model_dim)
        for block in self._blocks():
            total += block.cost(shape)
        numbers = batch_size * model_dim
        total += cost_of(self.pooler, rows=batch_size) + Cost(functions=numbers, memory=numbers)
        if places is not None:
            total += self.head_cost(batch_size=batch_size, places=places)
        # It never goes on token by token.
        return replace(total, step_products=0, state=0)

    def head_cost(self, *, batch_size: int, places: int) -> Cost:
        """What the heads there are take: a row's for every row, a token's for so many places in all."""
        total = Cost()
        for head in (self.pair_head, self.class_head):
            if head is not None:
                total += cost_of(head, rows=batch_size)
        return total if self.token_head is None else total + self.token_head.cost(places=places)

    def _blocks(self) -> list[EncoderBlock]:
        return [block for block in self.blocks if isinstance(block, EncoderBlock)]

    def _entered(self, tokens: Tensor, segments: Tensor | None) -> Tensor:
        x = self.position(self.segment(self.embedding(tokens), segments))
        entered: Tensor = self.dropout(self.embedding_norm(x))
        return entered

    def _head(self, name: str, option: str) -> nn.Module:
        head: nn.Module | None = getattr(self, name)
        if head is None:
            raise RegardError(
                f"This TextEncoder has no {name}: it was built without one. Build it with {option}."
            )
        return head
