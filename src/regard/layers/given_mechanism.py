"""The mechanism of a layer: already built, or named and then built for the layer's heads."""

from __future__ import annotations

from typing import Any

from regard.core.errors import RegardError
from regard.core.mechanism import Mechanism
from regard.layers.head_sizes import HeadSizes
from regard.mechanisms import build_mechanism


def given_mechanism(
    mechanism: Mechanism | str,
    *,
    options: dict[str, Any],
    sizes: HeadSizes,
    max_length: int | None,
) -> Mechanism:
    """The mechanism itself, or the one of this name with these options."""
    if isinstance(mechanism, str):
        return build_mechanism(
            mechanism,
            query_dim=sizes.head_dim,
            key_dim=sizes.head_dim,
            num_heads=sizes.num_heads,
            max_length=max_length,
            **options,
        )
    if options:
        raise RegardError(
            f"MultiHead has mechanism_options={options} for a {mechanism.name} that is already "
            "built. Give the options to the mechanism, or give it by name."
        )
    return mechanism
