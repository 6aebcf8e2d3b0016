"""Block stacks: attention slots with a mechanism per layer, blocks, positions and the final norm.

    mechanism = "window"                     the same in every layer
    mechanism = ["window", "scaled_dot"]     one per layer, repeated; short: "window*3,scaled_dot"
    mechanism = [ScaledDot(), Additive(…)]   mechanisms already built, or layers that stand where
                                             `MultiHead` stands

An object is used itself where it is first needed, and copied for every further layer and slot, so that
no parameters are shared. Slots are those of the model's traits: "encoder" and "decoder" (self-attention),
"cross". Positions that act on heads or scores (rotary, ALiBi) are passed to every self-attention, others
are added to the embeddings.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from regard.core.errors import RegardError
from regard.core.masks import NO_MASK, Mask
from regard.core.mechanism import Mechanism
from regard.core.registry import lookup
from regard.core.traits import Slot
from regard.layers.blocks import DecoderBlock, EncoderBlock
from regard.layers.feed_forward import FeedForward
from regard.layers.multi_head import MultiHead
from regard.layers.names import POSITIONS
from regard.layers.positions import build_position
from regard.layers.rotary import Rotary
from regard.mechanisms.compatibility import compatible_mechanisms, mechanism_name

# Types of the options `mechanism` and `mechanism_options` of a stack.
Mechanisms = str | nn.Module | list[str | nn.Module]
MechanismOptions = dict[str, Any] | list[dict[str, Any]] | None

# Slots of stacks, as traits declare them; a model with one slot chooses it by "mechanism".
ENCODER = Slot(name="encoder")
DECODER = Slot(name="decoder", causal=True, masks=frozenset({"causal"}))


def per_layer(value: Any, num_layers: int, *, option: str) -> list[Any]:
    """One entry per layer: a single value, a list, or a shorter list that is repeated.

    >>> per_layer("window*3,scaled_dot", 4, option="mechanism")
    ['window', 'window', 'window', 'scaled_dot']
    >>> per_layer(["window", "dot"], 4, option="mechanism")
    ['window', 'dot', 'window', 'dot']
    """
    pattern = value if isinstance(value, list) else [value]
    if isinstance(value, str):
        parts = [part.strip().partition("*") for part in value.split(",")]
        if not all(times.isdecimal() or not star for _, star, times in parts):
            raise RegardError(
                f"{option}={value}: a pattern is NAME*NUMBER, …, such as window*3,scaled_dot."
            )
        pattern = [name for name, star, times in parts for _ in range(int(times) if star else 1)]
    if not pattern or num_layers % len(pattern):
        raise RegardError(
            f"{option}={value} has {len(pattern)} entries for {num_layers} layers: their number must "
            "divide the number of layers. Give one per layer, or a pattern that is repeated."
        )
    return pattern * (num_layers // len(pattern))


@dataclass(frozen=True, kw_only=True)
class StackBuilder:
    """Builds the blocks of a model; the fields are its options."""

    model_dim: int
    num_heads: int
    num_kv_heads: int | None
    feed_forward_dim: int | None
    position: str | Rotary
    max_length: int
    activation: str
    norm_first: bool
    bias: bool
    dropout: float
    attention_dropout: float
    feed_forward_dropout: float | None = None
    norm_epsilon: float = 1e-5
    _used: set[int] = field(default_factory=set)

    @property
    def _is_added(self) -> bool:
        if isinstance(self.position, Rotary):
            return False
        return lookup("position", self.position, POSITIONS).acts_on == "tokens"

    def build_position(self) -> Any:
        """The positions that are added to embeddings: none for rotary and ALiBi."""
        return build_position(
            self.position if isinstance(self.position, str) and self._is_added else "none",
            model_dim=self.model_dim,
            head_dim=self.model_dim // self.num_heads,
            num_heads=self.num_heads,
            max_length=self.max_length,
        )

    def encoder(
        self, slot: Slot, mechanism: Mechanisms, options: MechanismOptions, num_layers: int
    ) -> Any:
        """A ModuleList of blocks of self-attention and feed-forward."""
        return nn.ModuleList(
            EncoderBlock(
                attention=attention,
                feed_forward=self.feed_forward(),
                norm_first=self.norm_first,
                norm_epsilon=self.norm_epsilon,
            )
            for attention in self.attention(slot, mechanism, options, num_layers)
        )

    def decoder(
        self,
        slots: tuple[Slot, Slot],
        mechanisms: tuple[Mechanisms, Mechanisms],
        options: tuple[MechanismOptions, MechanismOptions],
        num_layers: int,
    ) -> Any:
        """A ModuleList of blocks of causal self-attention, cross-attention and feed-forward."""
        layers = (
            self.attention(*each, num_layers)
            for each in zip(slots, mechanisms, options, strict=True)
        )
        return nn.ModuleList(
            DecoderBlock(
                self_attention=self_attention,
                cross_attention=cross_attention,
                feed_forward=self.feed_forward(),
                norm_first=self.norm_first,
                norm_epsilon=self.norm_epsilon,
            )
            for self_attention, cross_attention in zip(*layers, strict=True)
        )

    def final_norm(self, wanted: bool | None = None) -> nn.Module:
        """The layer norm after the last block; default: with `norm_first`."""
        if self.norm_first if wanted is None else wanted:
            return nn.LayerNorm(self.model_dim, eps=self.norm_epsilon)
        return nn.Identity()

    def feed_forward(self) -> FeedForward:
        """The feed-forward layer of one block."""
        return FeedForward(
            model_dim=self.model_dim,
            hidden_dim=self.feed_forward_dim,
            activation=self.activation,
            bias=self.bias,
            dropout=self.dropout,
            hidden_dropout=self.feed_forward_dropout,
        )

    def attention(
        self, slot: Slot, mechanism: Mechanisms, options: MechanismOptions, num_layers: int
    ) -> Iterable[Any]:
        """The attention of each layer, built when it is asked for: parameters are drawn block by block."""
        named = per_layer(mechanism, num_layers, option=slot.option)
        own = f"{slot.option.removesuffix('_mechanism')}_options"
        given = per_layer(options or {}, num_layers, option=own)
        return (self._layer(slot, *each) for each in zip(named, given, strict=True))

    def _layer(self, slot: Slot, mechanism: str | nn.Module, options: dict[str, Any]) -> Any:
        """One attention layer; an error names the slot and the mechanisms that work there."""
        if not isinstance(mechanism, str):
            if id(mechanism) in self._used:
                mechanism = copy.deepcopy(mechanism)
            self._used.add(id(mechanism))
            if not isinstance(mechanism, Mechanism):
                return mechanism
        dropout: dict[str, Any] = {}
        if self.attention_dropout:
            dropout["attention_dropout"] = self.attention_dropout
        try:
            attention = MultiHead(
                mechanism=mechanism,
                mechanism_options=options,
                role=slot.role,
                position=None if self._is_added or slot.role == "cross" else self.position,
                model_dim=self.model_dim,
                num_heads=self.num_heads,
                num_kv_heads=self.num_kv_heads,
                max_length=self.max_length,
                bias=self.bias,
                dropout=self.dropout,
                **dropout,
            )
        except RegardError as error:
            raise RegardError(f"Attention slot '{slot.name}': {error}") from error
        _validate_masks(slot, attention)
        return attention


def _validate_masks(slot: Slot, attention: MultiHead) -> None:
    """Reject a mechanism that could be built but not called with the masks of this slot."""
    declared = attention.mechanism.capabilities
    if slot.masks <= declared.masks and (slot.causal or not declared.requires_causal):
        return
    why = (
        "it is causal only, and this slot attends to the whole source"
        if slot.masks <= declared.masks
        else f"it does not support the {' or '.join(slot.masks)} mask"
    )
    compatible = compatible_mechanisms(
        role=slot.role,
        causal=slot.causal,
        masks=slot.masks,
        score_bias=attention.score_bias is not None,
    )
    raise RegardError(
        f"Attention slot '{slot.name}': mechanism '{mechanism_name(attention.mechanism)}' cannot be "
        f"used, because {why}. Choose {slot.option} from: {', '.join(compatible)}."
    )


def block_weights(
    blocks: Iterable[Any], x: Float[Tensor, "batch length model_dim"], mask: Mask = NO_MASK
) -> tuple[dict[str, Float[Tensor, "batch heads length length"]], Tensor]:
    """The attention weights of each block, "encoder/0", …, and the output of the last one."""
    found: dict[str, Tensor] = {}
    for number, block in enumerate(blocks):
        found[f"encoder/{number}"] = block.weights(x, mask)
        x = block(x, mask)
    return found, x


def longest_sequence(position: nn.Module, attention: Iterable[Any]) -> int | None:
    """The longest sequence that positions and attention layers support; None: unlimited."""
    bounds = [getattr(position, "max_length", None)]
    bounds += [getattr(layer, "max_length", None) for layer in attention]
    return min((bound for bound in bounds if bound is not None), default=None)
