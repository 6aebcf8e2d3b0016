"""A stack of blocks with one kind of attention, as a decoder-only model and a text encoder have it.

    token vectors → + position → blocks → norm          the norm only where each block begins with one

Positions that act on heads or scores are given to every block's attention instead of being added.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from torch import nn

from regard.core.errors import RegardError
from regard.core.mechanism import Role
from regard.core.registry import look_up
from regard.layers.blocks import EncoderBlock
from regard.layers.feed_forward import FeedForward
from regard.layers.multi_head import MultiHead
from regard.layers.positions import POSITIONS, build_position
from regard.mechanisms.compatibility import fitting_mechanisms, known_as

# The three places of attention in an encoder–decoder, and the attention that is built for each.
#
# encoder    self-attention over the whole source decoder    self-attention over the target so far:
# causal cross      from the target to the source
#
# One mechanism serves all three unless a place is given its own.


Place = Literal["encoder", "decoder", "cross"]
ROLES: dict[Place, Role] = {"encoder": "self", "decoder": "self", "cross": "cross"}


@dataclass(frozen=True, kw_only=True)
class PlaceChoice:
    """The mechanism of one place, by name, with its options."""

    place: Place
    mechanism: str
    options: dict[str, Any]
    # What a user sets to choose it; the only place of a model has no name of its own.
    setting: str = ""

    def build(self, *, position: str | None, **sizes: Any) -> MultiHead:
        """The attention; an error says at which place, and what would fit there."""
        position = position if ROLES[self.place] == "self" else None
        try:
            attention = MultiHead(
                mechanism=self.mechanism,
                mechanism_options=self.options,
                role=ROLES[self.place],
                position=position,
                **sizes,
            )
        except RegardError as error:
            raise RegardError(f"At the place '{self.place}': {error}") from error
        self._require_fit(attention)
        return attention

    def _require_fit(self, attention: MultiHead) -> None:
        """Refuse what could be built and not be called: a reader of the past, or no padding."""
        promised = attention.mechanism.capabilities
        causal = self.place == "decoder"
        masks = frozenset({"causal"} if causal else {"padding"})
        if masks <= promised.masks and (causal or not promised.requires_causal):
            return
        why = (
            "it reads the past only, and this place reads all of the source"
            if masks <= promised.masks
            else f"it takes no {' or '.join(masks)} mask"
        )
        could = fitting_mechanisms(
            role=ROLES[self.place],
            causal=causal,
            masks=masks,
            score_bias=attention.score_bias is not None,
        )
        raise RegardError(
            f"At the place '{self.place}': mechanism '{known_as(attention.mechanism)}' cannot be "
            f"used, because {why}. Choose {self.setting or f'{self.place}_mechanism'} from: "
            f"{', '.join(could)}."
        )


def chosen(
    place: Place,
    *,
    mechanism: str,
    options: dict[str, Any] | None,
    own_mechanism: str | None,
    own_options: dict[str, Any] | None,
) -> PlaceChoice:
    """What a place gets: its own mechanism with its own options, else the one for all places.

    The options for all places go to the mechanism for all places, and a place's own add to them.
    """
    shared = dict(options or {}) if own_mechanism is None else {}
    return PlaceChoice(
        place=place,
        mechanism=mechanism if own_mechanism is None else own_mechanism,
        options=shared | (own_options or {}),
    )


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
