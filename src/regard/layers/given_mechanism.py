"""The mechanism of a layer: already built, or named and then built for the layer's heads."""

from __future__ import annotations

from typing import Any

from regard.core.errors import RegardError
from regard.core.mechanism import Mechanism
from regard.layers.head_sizes import HeadSizes
from regard.mechanisms import build_mechanism


def given_mechanism(
    mechanism: object,
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
    if not isinstance(mechanism, Mechanism):
        raise RegardError(_no_mechanism(mechanism))
    if options:
        raise RegardError(
            f"MultiHead has mechanism_options={options} for a {mechanism.name} that is already "
            "built. Give the options to the mechanism, or give it by name."
        )
    # Parameters for one head are shared by all.
    built_for = getattr(mechanism, "num_heads", None)
    if isinstance(built_for, int) and built_for not in (1, sizes.num_heads):
        raise RegardError(
            f"MultiHead has num_heads={sizes.num_heads} and a {mechanism.name} built for "
            f"num_heads={built_for}: they must be equal, or the mechanism's 1. "
            f"Build it with num_heads={sizes.num_heads}, or give it by name."
        )
    return mechanism


def _no_mechanism(given: object) -> str:
    rule = "give a name of `regard list` or a built Mechanism"
    if isinstance(given, type):
        way_out = f": build it, e.g. {given.__name__}(…)" if issubclass(given, Mechanism) else ""
        return f"mechanism is a class; {rule}; you gave the class {given.__name__}{way_out}."
    return f"mechanism is {given!r}, of type {type(given).__name__}; {rule}."
