"""Decoder-only Transformer (GPT): one causal stack over the source as a prompt and the target.

    source tokens, START, target tokens → embed + position → blocks (causal) → next-token logits

(Radford et al. 2018). It has the interface of a sequence-to-sequence model (`SequenceModel`) and trains on
pairs by prompt packing: the source is the prompt, START ends it, and only the target is predicted. With
an empty source it is a plain language model. Attention over the source is causal.
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
from regard.core.registry import lookup
from regard.layers.blocks import EncoderBlock
from regard.layers.cost import SequenceShape, norm_cost, per_position
from regard.layers.dropout import Dropout
from regard.layers.validation import validate_dropout, validate_positive
from regard.models.embeddings import TokenEmbedding
from regard.models.stack import build_stack
from regard.models.validation import validate_lengths


class PackedPrompt(NamedTuple):
    """Prompt packing: source and decoder input of each row as one sequence, padded at the end only.

        source   w h o END PAD    decoder input   START m e    packed   w h o START m e
        source   w h e r e END    decoder input   START        packed   w h e r e START

    The source's END is dropped: START marks the same boundary. `source_lengths` do not count it.
    """

    tokens: Int[Tensor, "batch length"]
    source_lengths: Int[Tensor, " batch"]
    source_width: int
    target_width: int

    @classmethod
    def of(
        cls,
        source: Int[Tensor, "batch source_length"],
        source_lengths: Int[Tensor, " batch"],
        decoder_input: Int[Tensor, "batch target_length"],
    ) -> Self:
        """Pack source and decoder input, leaving out the padding of both."""
        validate_lengths(source, source_lengths, name="source")
        prompt_lengths = source_lengths - 1
        widths = {"source_width": source.shape[1], "target_width": decoder_input.shape[1]}
        if not prompt_lengths.numel() or not int(prompt_lengths.max()):
            return cls(decoder_input, prompt_lengths, **widths)
        length = int((prompt_lengths + (decoder_input != PAD).sum(dim=1)).max())
        positions = torch.arange(length, device=source.device)[None]
        after = source.shape[1] + positions - prompt_lengths[:, None]
        # Past the end of a row the index points to the extra column of padding.
        columns = F.pad(torch.cat([source, decoder_input], dim=1), (0, 1), value=PAD)
        index = torch.where(positions < prompt_lengths[:, None], positions, after)
        tokens = columns.gather(1, index.clamp(max=columns.shape[1] - 1))
        return cls(tokens, prompt_lengths, **widths)

    def select_target(self, x: Tensor, *, dim: int = 1) -> Tensor:
        """The slice of `x` at the target positions; past the end of a row the last one repeats."""
        if self.tokens.shape[1] == self.target_width and not int(self.source_lengths.sum()):
            return x
        positions = self.source_lengths[:, None] + torch.arange(self.target_width, device=x.device)
        return _gather_along(x, positions.clamp(max=self.tokens.shape[1] - 1), dim)

    def select_source(self, x: Tensor, *, dim: int = 1) -> Tensor:
        """The slice of `x` at the source positions; zeros at END and padding."""
        positions = torch.arange(self.source_width, device=x.device)
        is_token = positions < self.source_lengths[:, None]
        selected = _gather_along(x, torch.where(is_token, positions, 0), dim)
        return selected * _expand_along(is_token, selected, dim)


def _gather_along(x: Tensor, positions: Int[Tensor, "batch selected"], dim: int) -> Tensor:
    shape = list(x.shape)
    shape[dim] = positions.shape[1]
    return x.gather(dim, _expand_along(positions, x, dim).expand(shape))


def _expand_along(values: Tensor, x: Tensor, dim: int) -> Tensor:
    """View (batch, n) with the dimensions of x: batch first, n at `dim`, 1 elsewhere."""
    shape = [1] * x.ndim
    shape[0], shape[dim] = values.shape
    return values.view(shape)


TIES = {"all": "input and output share one table", "none": "separate tables"}


class DecoderOnlyState(NamedTuple):
    """The cache of each block, and the transposed output table (see `TransformerState`)."""

    blocks: tuple[State, ...]
    output_weight: Float[Tensor, "model_dim vocabulary"]

    @property
    def position(self) -> Int[Tensor, " batch"]:
        """How many tokens each row has processed, source included."""
        return self.blocks[0].position

    def select(self, index: Int[Tensor, " rows"]) -> Self:
        """The state whose row r is this state's row index[r]."""
        return self._replace(blocks=tuple(block.select(index) for block in self.blocks))


class DecoderOnly(nn.Module):
    """Causal language model; source and target share one vocabulary.

    feed_forward_dim     default: 4 × `model_dim`
    feed_forward_dropout inside feed-forward layers; default: `dropout` (GPT-2: 0)
    position             a name of `layers.positions.POSITIONS`
    max_length           longest source plus target, where positions or mechanism have a maximum
    tie                  "all" (input and output embeddings are tied) or "none"
    embedding_scaled     whether embeddings are multiplied by √model_dim
    """

    # A task with separate source and target vocabularies cannot use this model.
    requires_shared_vocabulary: ClassVar[bool] = True

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
        validate_positive(
            "DecoderOnly",
            source_vocabulary=source_vocabulary,
            target_vocabulary=target_vocabulary,
            model_dim=model_dim,
            num_heads=num_heads,
            num_layers=num_layers,
            max_length=max_length,
        )
        validate_dropout("DecoderOnly", dropout)
        lookup("tie", tie, TIES)
        if source_vocabulary != target_vocabulary:
            raise RegardError(
                f"DecoderOnly has source_vocabulary={source_vocabulary} and "
                f"target_vocabulary={target_vocabulary}: both are packed into one sequence, so they must "
                "be equal. Use a shared vocabulary."
            )

        def table() -> TokenEmbedding:
            return TokenEmbedding(
                vocabulary=target_vocabulary, model_dim=model_dim, scaled=embedding_scaled
            )

        self.embedding = table()
        self.output = self.embedding if tie == "all" else table()
        self.dropout = Dropout(dropout)
        stack = build_stack(
            slot="decoder",
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
        decoder_input: Int[Tensor, "batch target_length"],
    ) -> Float[Tensor, "batch target_length vocabulary"]:
        return self.logits(self.hidden(source, source_lengths, decoder_input))

    @property
    def max_length(self) -> int | None:
        """Longest source plus target that positions and mechanism support; None: unlimited."""
        bounds = [getattr(self.position, "max_length", None)]
        bounds += [block.attention.mechanism.capabilities.max_length for block in self._blocks()]
        return min((bound for bound in bounds if bound is not None), default=None)

    def target_limits(self, source_lengths: Int[Tensor, " batch"]) -> Int[Tensor, " batch"] | None:
        """`max_length` minus each source's length; the source's END is not counted."""
        longest = self.max_length
        return None if longest is None else longest - (source_lengths - 1)

    def hidden(
        self,
        source: Int[Tensor, "batch source_length"],
        source_lengths: Int[Tensor, " batch"],
        decoder_input: Int[Tensor, "batch target_length"],
    ) -> Float[Tensor, "batch target_length model_dim"]:
        """Features from which the token after each position of `decoder_input` is predicted."""
        packed = PackedPrompt.of(source, source_lengths, decoder_input)
        x = self._embed(packed.tokens)
        # Padding is at the end, where causal masking already hides it.
        for block in self.blocks:
            x = block(x, Causal())
        hidden: Tensor = self.norm(packed.select_target(x))
        return hidden

    def logits(
        self, hidden: Float[Tensor, "*positions model_dim"]
    ) -> Float[Tensor, "*positions vocabulary"]:
        """Scores over the vocabulary."""
        return self.output.logits(hidden)

    def start(
        self,
        source: Int[Tensor, "batch source_length"],
        source_lengths: Int[Tensor, " batch"],
    ) -> DecoderOnlyState:
        """The state before START: the prompt prefilled into the cache."""
        packed = PackedPrompt.of(source, source_lengths, source[:, :0])
        blocks: list[State] = []
        if packed.tokens.shape[1] == 0:
            blocks += [block.start(len(source)) for block in self._blocks()]
        else:
            x = self._embed(packed.tokens)
            for block in self._blocks():
                x, state = block.prefill(x, packed.source_lengths)
                blocks.append(state)
        return DecoderOnlyState(tuple(blocks), self.output.transposed())

    def step(self, state: DecoderOnlyState, token: Int[Tensor, " batch"]) -> Step:
        """Logits (batch, vocabulary) after one more token, and the new state."""
        x = self._embed(token[:, None], start=_common_position(state.position))
        blocks = []
        for block, before in zip(self._blocks(), state.blocks, strict=True):
            x, after = block.step(before, x)
            blocks.append(after)
        return Step(self.norm(x)[:, 0] @ state.output_weight, state._replace(blocks=tuple(blocks)))

    def weights(
        self,
        source: Int[Tensor, "batch source_length"],
        source_lengths: Int[Tensor, " batch"],
        decoder_input: Int[Tensor, "batch target_length"],
    ) -> dict[str, Float[Tensor, "batch heads queries keys"]]:
        """Attention weights: "decoder/0", … over the packed sequence; "cross/0", … target to source."""
        packed = PackedPrompt.of(source, source_lengths, decoder_input)
        found: dict[str, Tensor] = {}
        x = self._embed(packed.tokens)
        for number, block in enumerate(self._blocks()):
            found[f"decoder/{number}"] = weights = block.weights(x, Causal())
            cross = packed.select_target(weights, dim=2)
            found[f"cross/{number}"] = packed.select_source(cross, dim=3)
            x = block(x, Causal())
        return found

    def cost(self, *, batch_size: int, source_length: int, target_length: int) -> Cost:
        """Cost of `forward` without padding; the source's END is not processed."""
        packed = SequenceShape(
            batch_size=batch_size, length=source_length - 1 + target_length, causal=True
        )
        predicted = SequenceShape(batch_size=batch_size, length=target_length, causal=True)
        total = self.embedding.cost(rows=packed.positions) + self.position.cost(packed)
        if self.output is not self.embedding:
            total += Cost(parameters=self.output.cost(rows=0).parameters)
        for block in self._blocks():
            total += block.cost(packed)
        if isinstance(self.norm, nn.LayerNorm):
            total += norm_cost(rows=predicted.positions, model_dim=self.norm.normalized_shape[0])
        return total + per_position(
            self.output.logits_cost(rows=predicted.positions), length=target_length
        )

    def _blocks(self) -> list[EncoderBlock]:
        return [block for block in self.blocks if isinstance(block, EncoderBlock)]

    def _embed(self, tokens: Tensor, start: int | Tensor = 0) -> Tensor:
        embedded: Tensor = self.dropout(self.position(self.embedding(tokens), start))
        return embedded


def _common_position(position: Int[Tensor, " batch"]) -> int | Int[Tensor, " batch"]:
    """One int where all rows are at the same position, which is faster; otherwise the tensor."""
    distinct = set(position.tolist())
    return distinct.pop() if len(distinct) == 1 else position
