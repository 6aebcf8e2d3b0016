"""A stack of blocks with one kind of attention, as a decoder-only model and a text encoder have it.

    token vectors → + position → blocks → norm          the norm only where each block begins with one

Positions that act on heads or scores are given to every block's attention instead of being added.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import nn

from regard.core.names import look_up
from regard.layers.encoder_block import EncoderBlock
from regard.layers.feed_forward import FeedForward
from regard.layers.positions import POSITIONS, build_position
from regard.models.attention_places import Place, PlaceChoice


class BlockStack(NamedTuple):
    """The parts, which a model keeps as its own modules."""

    position: nn.Module
    blocks: nn.ModuleList
    norm: nn.Module


def build_stack(
    *,
    place: Place,
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
    """The parts of a model whose only attention is at `place`, "encoder" or "decoder"."""
    on_tokens = look_up("position", position, POSITIONS).acts_on == "tokens"
    choice = PlaceChoice(
        place=place,
        mechanism=mechanism,
        options=dict(mechanism_options or {}),
        setting="mechanism",
    )
    # Drawn before the blocks, so that one seed gives one model wherever the stack is used.
    added = build_position(
        position if on_tokens else "none",
        model_dim=model_dim,
        head_dim=model_dim // num_heads,
        num_heads=num_heads,
        max_length=max_length,
    )
    blocks = nn.ModuleList(
        EncoderBlock(
            attention=choice.build(
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
    return BlockStack(position=added, blocks=blocks, norm=norm)
