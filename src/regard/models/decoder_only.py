"""The decoder-only model (GPT shape): one causal stack reads the source and goes on with the target.

    source tokens, START, target tokens → embed + position → blocks (causal) → logits of the next token

(Radford et al. 2018). It has the faces of every sequence-to-sequence model, so that it learns from pairs:
the source is the beginning of one sequence, START says that it is over, and only what follows is predicted.
With an empty source it is a plain language model. Unlike the Transformer's encoder, the source is read
from left to right only.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Self

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from regard.core.batches import PAD
from regard.core.cost import Cost
from regard.core.errors import RegardError
from regard.core.masks import Causal
from regard.core.mechanism import State, Step
from regard.core.registry import look_up
from regard.layers.blocks import EncoderBlock
from regard.layers.cost import SequenceShape, norm_cost, per_position
from regard.layers.dropout import Dropout
from regard.layers.validation import require_dropout, require_positive
from regard.models.embeddings import TokenEmbedding
from regard.models.stack import build_stack
from regard.models.validation import require_lengths

# Source and target of every row as one sequence, without a gap between them.
#
# source   w h o END PAD      given   START m e        joined   w h o START m e source   w h e r e
# END      given   START            joined   w h e r e START   (cut at the longest)
#
# The END of the source is left out: START says the same. Padding stands at the end only.


class JoinedSequence(NamedTuple):
    """The tokens, and where those of the target stand; `source_lengths` without END."""

    tokens: Int[Tensor, "batch length"]
    source_lengths: Int[Tensor, " batch"]
    source_width: int
    target_width: int

    @classmethod
    def of(
        cls,
        source: Int[Tensor, "batch source_length"],
        source_lengths: Int[Tensor, " batch"],
        given: Int[Tensor, "batch target_length"],
    ) -> Self:
        """Join them; a row of `given` ends where its padding begins."""
        require_lengths(source, source_lengths, name="source")
        before = source_lengths - 1
        widths = {"source_width": source.shape[1], "target_width": given.shape[1]}
        if not before.numel() or not int(before.max()):
            return cls(given, before, **widths)
        length = int((before + (given != PAD).sum(dim=1)).max())
        places = torch.arange(length, device=source.device)[None]
        after = source.shape[1] + places - before[:, None]
        # Past the end of a row stands the padding that was put after all columns.
        columns = F.pad(torch.cat([source, given], dim=1), (0, 1), value=PAD)
        index = torch.where(places < before[:, None], places, after)
        tokens = columns.gather(1, index.clamp(max=columns.shape[1] - 1))
        return cls(tokens, before, **widths)

    def of_target(self, x: Tensor, *, dim: int = 1) -> Tensor:
        """The part of `x` that stands at the places of the target; what is past a row's end repeats."""
        if self.tokens.shape[1] == self.target_width and not int(self.source_lengths.sum()):
            return x
        places = self.source_lengths[:, None] + torch.arange(self.target_width, device=x.device)
        return _picked(x, places.clamp(max=self.tokens.shape[1] - 1), dim)

    def of_source(self, x: Tensor, *, dim: int = 1) -> Tensor:
        """The part of `x` that stands at the places of the source; zeros at its END and padding."""
        places = torch.arange(self.source_width, device=x.device)
        real = places < self.source_lengths[:, None]
        picked = _picked(x, torch.where(real, places, 0), dim)
        return picked * _along(real, picked, dim)


def _picked(x: Tensor, places: Int[Tensor, "batch picked"], dim: int) -> Tensor:
    index = _along(places, x, dim)
    shape = list(x.shape)
    shape[dim] = places.shape[1]
    return x.gather(dim, index.expand(shape))


def _along(rows: Tensor, x: Tensor, dim: int) -> Tensor:
    """(batch, n) as a tensor with the dimensions of x: batch first, n at `dim`."""
    shape = [1] * x.ndim
    shape[0], shape[dim] = rows.shape
    return rows.view(shape)


TIES = {"all": "one table for input and output", "none": "a table each"}


class DecoderOnlyState(NamedTuple):
    """What every block remembers, and the output table as columns (see `TransformerState`)."""

    blocks: tuple[State, ...]
    columns: Float[Tensor, "model_dim vocabulary"]

    @property
    def position(self) -> Int[Tensor, " batch"]:
        """How many tokens each row has taken in, those of the source too."""
        return self.blocks[0].position

    def select(self, index: Int[Tensor, " rows"]) -> Self:
        """The state whose row r is this state's row index[r]."""
        return self._replace(blocks=tuple(block.select(index) for block in self.blocks))


class DecoderOnly(nn.Module):
    """From the tokens so far to the next one; source and target have one vocabulary.

    feed_forward_dim     four times `model_dim` unless given
    feed_forward_dropout on hidden features of feed-forward layers; as `dropout` unless given (GPT-2: 0)
    position             a name of `layers.positions.POSITIONS`
    max_length           for positions and mechanisms that end at a greatest length: source and target
    tie                  "all" (input and output share a table) or "none"
    embedding_scaled     whether token vectors are multiplied by √model_dim where they are read
    """

    # A run refuses it a task whose sides have vocabularies of their own.
    one_vocabulary: ClassVar[bool] = True

    def __init__(
        self,
        *,
        source_vocabulary: int,
        target_vocabulary: int,
        model_dim: int = 256,
        num_heads: int = 4,
        num_layers: int = 4,
        feed_forward_dim: int | None = None,
        dropout: float = 0.1,
        feed_forward_dropout: float | None = None,
        activation: str = "gelu",
        norm_first: bool = True,
        position: str = "rotary",
        max_length: int = 1024,
        mechanism: str = "scaled_dot",
        mechanism_options: dict[str, Any] | None = None,
        num_kv_heads: int | None = None,
        tie: str = "all",
        bias: bool = True,
        embedding_scaled: bool = True,
    ) -> None:
        super().__init__()
        require_positive(
            "DecoderOnly",
            source_vocabulary=source_vocabulary,
            target_vocabulary=target_vocabulary,
            model_dim=model_dim,
            num_heads=num_heads,
            num_layers=num_layers,
            max_length=max_length,
        )
        require_dropout("DecoderOnly", dropout)
        look_up("tie", tie, TIES)
        if source_vocabulary != target_vocabulary:
            raise RegardError(
                f"DecoderOnly has source_vocabulary={source_vocabulary} and "
                f"target_vocabulary={target_vocabulary}: it reads both as one sequence, so they must be "
                "equal. Use one vocabulary for both."
            )

        def table() -> TokenEmbedding:
            return TokenEmbedding(
                vocabulary=target_vocabulary, model_dim=model_dim, scaled=embedding_scaled
            )

        self.embedding = table()
        self.output = self.embedding if tie == "all" else table()
        self.dropout = Dropout(dropout)
        stack = build_stack(
            place="decoder",
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
            hidden_dropout=feed_forward_dropout,
        )
        self.position: Any = stack.position
        self.blocks, self.norm = stack.blocks, stack.norm

    def forward(
        self,
        source: Int[Tensor, "batch source_length"],
        source_lengths: Int[Tensor, " batch"],
        given: Int[Tensor, "batch target_length"],
    ) -> Float[Tensor, "batch target_length vocabulary"]:
        return self.logits(self.hidden(source, source_lengths, given))

    @property
    def max_length(self) -> int | None:
        """The most tokens its positions and mechanism reach, source and target together."""
        bounds = [getattr(self.position, "max_length", None)]
        bounds += [block.attention.mechanism.capabilities.max_length for block in self._blocks()]
        return min((bound for bound in bounds if bound is not None), default=None)

    def target_limits(self, source_lengths: Int[Tensor, " batch"]) -> Int[Tensor, " batch"] | None:
        """What is left of `max_length` after each source, whose END is not read."""
        longest = self.max_length
        return None if longest is None else longest - (source_lengths - 1)

    def hidden(
        self,
        source: Int[Tensor, "batch source_length"],
        source_lengths: Int[Tensor, " batch"],
        given: Int[Tensor, "batch target_length"],
    ) -> Float[Tensor, "batch target_length model_dim"]:
        """The features from which the token after each place of `given` is predicted."""
        joined = JoinedSequence.of(source, source_lengths, given)
        x = self._entered(joined.tokens)
        # Padding stands at the end, where no real place can see it: causal is enough.
        for block in self.blocks:
            x = block(x, Causal())
        hidden: Tensor = self.norm(joined.of_target(x))
        return hidden

    def logits(
        self, hidden: Float[Tensor, "*places model_dim"]
    ) -> Float[Tensor, "*places vocabulary"]:
        """Scores of every token of the vocabulary."""
        return self.output.logits(hidden)

    def start(
        self,
        source: Int[Tensor, "batch source_length"],
        source_lengths: Int[Tensor, " batch"],
    ) -> DecoderOnlyState:
        """The state before START, the source read."""
        joined = JoinedSequence.of(source, source_lengths, source[:, :0])
        blocks: list[State] = []
        if joined.tokens.shape[1] == 0:
            blocks += [block.start(len(source)) for block in self._blocks()]
        else:
            x = self._entered(joined.tokens)
            for block in self._blocks():
                x, state = block.prefill(x, joined.source_lengths)
                blocks.append(state)
        return DecoderOnlyState(tuple(blocks), self.output.columns())

    def step(self, state: DecoderOnlyState, token: Int[Tensor, " batch"]) -> Step:
        """The logits (batch, vocabulary) after one more token, and the new state."""
        x = self._entered(token[:, None], start=_standing(state.position))
        blocks = []
        for block, before in zip(self._blocks(), state.blocks, strict=True):
            x, after = block.step(before, x)
            blocks.append(after)
        return Step(self.norm(x)[:, 0] @ state.columns, state._replace(blocks=tuple(blocks)))

    def weights(
        self,
        source: Int[Tensor, "batch source_length"],
        source_lengths: Int[Tensor, " batch"],
        given: Int[Tensor, "batch target_length"],
    ) -> dict[str, Float[Tensor, "batch heads reading read"]]:
        """Who read whom: "decoder/0" over the joined sequence, "cross/0" its part from target to source."""
        joined = JoinedSequence.of(source, source_lengths, given)
        found: dict[str, Tensor] = {}
        x = self._entered(joined.tokens)
        for number, block in enumerate(self._blocks()):
            found[f"decoder/{number}"] = read = block.weights(x, Causal())
            found[f"cross/{number}"] = joined.of_source(joined.of_target(read, dim=2), dim=3)
            x = block(x, Causal())
        return found

    def cost(self, *, batch_size: int, source_length: int, target_length: int) -> Cost:
        """What `forward` takes where every row is as long as the longest; the source's END is not read."""
        whole = SequenceShape(
            batch_size=batch_size, length=source_length - 1 + target_length, causal=True
        )
        predicted = SequenceShape(batch_size=batch_size, length=target_length, causal=True)
        total = self.embedding.cost(rows=whole.rows) + self.position.cost(whole)
        if self.output is not self.embedding:
            total += Cost(parameters=self.output.cost(rows=0).parameters)
        for block in self._blocks():
            total += block.cost(whole)
        if isinstance(self.norm, nn.LayerNorm):
            total += norm_cost(rows=predicted.rows, model_dim=self.norm.normalized_shape[0])
        return total + per_position(
            self.output.logits_cost(rows=predicted.rows), length=target_length
        )

    def _blocks(self) -> list[EncoderBlock]:
        return [block for block in self.blocks if isinstance(block, EncoderBlock)]

    def _entered(self, tokens: Tensor, start: int | Tensor = 0) -> Tensor:
        entered: Tensor = self.dropout(self.position(self.embedding(tokens), start))
        return entered


def _standing(position: Int[Tensor, " batch"]) -> int | Int[Tensor, " batch"]:
    """Where the rows stand; where all stand at one place, that number, which is quicker to go on from."""
    places = set(position.tolist())
    return places.pop() if len(places) == 1 else position
