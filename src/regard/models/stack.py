"""Attention slots, and the block stack of models with a single slot (GPT and BERT style).

    encoder   self-attention over the source
    decoder   causal self-attention over the target
    cross     attention from the target to the source

One mechanism serves all slots unless a slot sets its own. The stack is: token vectors → + position →
blocks → final norm (with `norm_first` only). Positions that act on heads or scores (rotary, ALiBi) are
passed to every block's attention instead of being added.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from torch import nn

from regard.core.errors import RegardError
from regard.core.mechanism import Role
from regard.core.registry import lookup
from regard.layers.blocks import EncoderBlock
from regard.layers.feed_forward import FeedForward
from regard.layers.multi_head import MultiHead
from regard.layers.positions import POSITIONS, build_position
from regard.mechanisms.compatibility import compatible_mechanisms, mechanism_name

SlotName = Literal["encoder", "decoder", "cross"]
SLOT_ROLES: dict[SlotName, Role] = {"encoder": "self", "decoder": "self", "cross": "cross"}


@dataclass(frozen=True, kw_only=True)
class AttentionSlot:
    """The mechanism of one attention slot, by name, with its options."""

    name: SlotName
    mechanism: str
    options: dict[str, Any]
    # The option that chooses the mechanism; default: `{name}_mechanism`.
    setting: str = ""

    def build(self, *, position: str | None, **sizes: Any) -> MultiHead:
        """Build the attention layer; an error names the slot and the mechanisms that work there."""
        position = position if SLOT_ROLES[self.name] == "self" else None
        try:
            attention = MultiHead(
                mechanism=self.mechanism,
                mechanism_options=self.options,
                role=SLOT_ROLES[self.name],
                position=position,
                **sizes,
            )
        except RegardError as error:
            raise RegardError(f"Attention slot '{self.name}': {error}") from error
        self._validate_masks(attention)
        return attention

    def _validate_masks(self, attention: MultiHead) -> None:
        """Reject a mechanism that could be built but not called with the masks of this slot."""
        declared = attention.mechanism.capabilities
        causal = self.name == "decoder"
        masks = frozenset({"causal"} if causal else {"padding"})
        if masks <= declared.masks and (causal or not declared.requires_causal):
            return
        why = (
            "it is causal only, and this slot attends to the whole source"
            if masks <= declared.masks
            else f"it does not support the {' or '.join(masks)} mask"
        )
        compatible = compatible_mechanisms(
            role=SLOT_ROLES[self.name],
            causal=causal,
            masks=masks,
            score_bias=attention.score_bias is not None,
        )
        raise RegardError(
            f"Attention slot '{self.name}': mechanism '{mechanism_name(attention.mechanism)}' cannot be "
            f"used, because {why}. Choose {self.setting or f'{self.name}_mechanism'} from: "
            f"{', '.join(compatible)}."
        )


def resolve_slot(
    name: SlotName,
    *,
    mechanism: str,
    options: dict[str, Any] | None,
    own_mechanism: str | None,
    own_options: dict[str, Any] | None,
) -> AttentionSlot:
    """A slot with its own mechanism and options, or else the shared mechanism.

    The shared options apply to the shared mechanism only; a slot's own options update them.
    """
    shared = dict(options or {}) if own_mechanism is None else {}
    return AttentionSlot(
        name=name,
        mechanism=mechanism if own_mechanism is None else own_mechanism,
        options=shared | (own_options or {}),
    )


class BlockStack(NamedTuple):
    """The modules of the stack, which a model registers under its own names."""

    position: nn.Module
    blocks: nn.ModuleList
    norm: nn.Module


def build_stack(
    *,
    slot: SlotName,
    mechanism: str,
    mechanism_options: dict[str, Any] | None,
    position: str,
    num_layers: int,
    model_dim: int,
    num_heads: int,
    num_kv_heads: int | None,
    feed_forward_dim: int | None,
    max_length: int,
    activation: str,
    norm_first: bool,
    bias: bool,
    dropout: float,
    hidden_dropout: float | None = None,
    norm_epsilon: float = 1e-5,
) -> BlockStack:
    """Build the stack of a model whose only attention slot is "encoder" or "decoder"."""
    on_tokens = lookup("position", position, POSITIONS).acts_on == "tokens"
    attention = AttentionSlot(
        name=slot,
        mechanism=mechanism,
        options=dict(mechanism_options or {}),
        setting="mechanism",
    )
    # Built before the blocks: the order of random initialisation must not change.
    token_position = build_position(
        position if on_tokens else "none",
        model_dim=model_dim,
        head_dim=model_dim // num_heads,
        num_heads=num_heads,
        max_length=max_length,
    )
    blocks = nn.ModuleList(
        EncoderBlock(
            attention=attention.build(
                position=None if on_tokens else position,
                model_dim=model_dim,
                num_heads=num_heads,
                num_kv_heads=num_kv_heads,
                max_length=max_length,
                bias=bias,
                dropout=dropout,
            ),
            feed_forward=FeedForward(
                model_dim=model_dim,
                hidden_dim=feed_forward_dim,
                activation=activation,
                bias=bias,
                dropout=dropout,
                hidden_dropout=hidden_dropout,
            ),
            norm_first=norm_first,
            norm_epsilon=norm_epsilon,
        )
        for _ in range(num_layers)
    )
    norm = nn.LayerNorm(model_dim, eps=norm_epsilon) if norm_first else nn.Identity()
    return BlockStack(position=token_position, blocks=blocks, norm=norm)
