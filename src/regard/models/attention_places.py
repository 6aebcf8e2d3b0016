"""The three places of attention in an encoder–decoder, and the attention that is built for each.

    encoder    self-attention over the whole source
    decoder    self-attention over the target so far: causal
    cross      from the target to the source

One mechanism serves all three unless a place is given its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from regard.core.errors import RegardError
from regard.core.mechanism import Role
from regard.layers.multi_head import MultiHead
from regard.mechanisms.fitting import fitting_mechanisms, known_as

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
