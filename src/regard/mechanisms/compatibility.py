"""Compatibility of a mechanism with a role, a mask, a sequence length and a score bias.

Errors name the compatible mechanisms, found by building each mechanism at a tiny size and reading its
`capabilities`; this happens only on an error.
"""

from __future__ import annotations

from regard.core.errors import RegardError
from regard.core.masks import Mask
from regard.core.mechanism import Mechanism, Role, UnsupportedCallError
from regard.mechanisms import MECHANISMS, build_mechanism

TINY = 4


def compatible_mechanisms(
    *,
    role: Role,
    causal: bool = True,
    masks: frozenset[str] = frozenset(),
    score_bias: bool = False,
    any_length: bool = False,
) -> list[str]:
    """The names of the mechanisms that support a role, mask kinds and a score bias.

    Mechanisms that need causal masking are included if `causal`; those with a maximum length are
    excluded if `any_length`.
    """
    names = []
    for name in MECHANISMS:
        built = build_mechanism(name, query_dim=TINY, key_dim=TINY, max_length=TINY)
        supported = built.capabilities
        if (
            role in supported.roles
            and masks <= supported.masks
            and (causal or not supported.requires_causal)
            and (supported.score_bias or not score_bias)
            and (supported.max_length is None or not any_length)
        ):
            names.append(name)
    return names


def validate_mechanism(mechanism: Mechanism, *, role: Role, score_bias: bool) -> None:
    """Raise an error if a mechanism does not support the role or a score bias."""
    supported = mechanism.capabilities
    if role not in supported.roles:
        raise RegardError(
            f"{_cannot(mechanism)} be used for {role}-attention: its roles are "
            f"{', '.join(sorted(supported.roles))}. "
            f"Choose one of: {_listed(compatible_mechanisms(role=role, score_bias=score_bias))}."
        )
    if score_bias and not supported.score_bias:
        raise RegardError(
            f"{_cannot(mechanism)} use a score bias such as alibi: it has no scores. "
            "Use rotary, sinusoidal or learned positions, "
            f"or choose one of: {_listed(compatible_mechanisms(role=role, score_bias=True))}."
        )


def with_alternatives(
    error: UnsupportedCallError, mechanism: Mechanism, *, role: Role, mask: Mask, key_length: int
) -> RegardError:
    """The error of a mechanism that does not support a call, with the names of those that do."""
    limit = mechanism.capabilities.max_length
    names = compatible_mechanisms(
        role=role,
        causal=mask.causal,
        masks=mask.kinds,
        any_length=limit is not None and key_length > limit,
    )
    return RegardError(f"{_cannot(mechanism)} be used: {error} Choose one of: {_listed(names)}.")


def mechanism_name(mechanism: Mechanism) -> str:
    """The name of a mechanism in `MECHANISMS`, or its class name."""
    kind = type(mechanism).__name__
    return next((name for name, entry in MECHANISMS.items() if entry.class_name == kind), kind)


def _cannot(mechanism: Mechanism) -> str:
    return f"Mechanism '{mechanism_name(mechanism)}' cannot"


def _listed(names: list[str]) -> str:
    return ", ".join(names) or "(none)"
