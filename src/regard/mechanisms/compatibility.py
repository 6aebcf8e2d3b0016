"""Whether a mechanism can do what is asked of it, and which mechanisms could.

The errors name what would fit. The answer comes from the mechanisms' own `capabilities`, by
building each of the table at a tiny size, and only once something did not fit.
"""

from __future__ import annotations

from regard.core.errors import RegardError
from regard.core.masks import Mask
from regard.core.mechanism import Mechanism, Role
from regard.mechanisms import MECHANISMS, build_mechanism

TINY = 4


def fitting_mechanisms(
    *,
    role: Role,
    causal: bool = True,
    masks: frozenset[str] = frozenset(),
    score_bias: bool = False,
    any_length: bool = False,
) -> list[str]:
    """The names of the mechanisms that take the role, the kinds of mask and the score bias.

    Those that only read the past fit where `causal` is True; `any_length` leaves out those whose
    number of positions is fixed.
    """
    fitting = []
    for name in MECHANISMS:
        built = build_mechanism(name, query_dim=TINY, key_dim=TINY, max_length=TINY)
        promised = built.capabilities
        if (
            role in promised.roles
            and masks <= promised.masks
            and (causal or not promised.requires_causal)
            and (promised.score_bias or not score_bias)
            and (promised.max_length is None or not any_length)
        ):
            fitting.append(name)
    return fitting


def require_fit(mechanism: Mechanism, *, role: Role, score_bias: bool) -> None:
    """Refuse a mechanism that cannot take the role or the score bias, naming those that can."""
    promised = mechanism.capabilities
    what = f"Mechanism '{known_as(mechanism)}' cannot"
    if role not in promised.roles:
        raise RegardError(
            f"{what} be used for {role}-attention: its roles are "
            f"{', '.join(sorted(promised.roles))}. "
            f"Choose one of: {_listed(fitting_mechanisms(role=role, score_bias=score_bias))}."
        )
    if score_bias and not promised.score_bias:
        raise RegardError(
            f"{what} take positions that are added to scores, such as alibi: it has no scores. "
            "Use rotary, sinusoidal or learned positions, "
            f"or choose one of: {_listed(fitting_mechanisms(role=role, score_bias=True))}."
        )


def require_call_fit(mechanism: Mechanism, *, role: Role, mask: Mask, key_length: int) -> None:
    """Refuse a mask or a length the mechanism cannot take, naming mechanisms that can."""
    promised = mechanism.capabilities
    limit = promised.max_length
    if (
        mask.kinds <= promised.masks
        and (mask.causal or not promised.requires_causal)
        and (limit is None or key_length <= limit)
    ):
        return
    what = f"Mechanism '{known_as(mechanism)}' cannot be used"
    foreign = mask.kinds - promised.masks
    if foreign:
        could = fitting_mechanisms(role=role, causal=mask.causal, masks=mask.kinds)
        raise RegardError(
            f"{what} with the mask {mask}: of the kinds of mask it takes "
            f"{', '.join(sorted(promised.masks)) or 'none'}, not {', '.join(sorted(foreign))}. "
            f"Choose one of: {_listed(could)}."
        )
    if promised.requires_causal and not mask.causal:
        could = fitting_mechanisms(role=role, causal=False, masks=mask.kinds)
        raise RegardError(
            f"{what} with the mask {mask}: it reads the past only. Pass a mask with Causal(), "
            f"or choose one of: {_listed(could)}."
        )
    could = fitting_mechanisms(role=role, causal=mask.causal, masks=mask.kinds, any_length=True)
    raise RegardError(
        f"{what} for {role}-attention: it weighs a fixed number of positions (max_length={limit}) "
        f"but the input has {key_length}. Raise max_length, or choose one of: {_listed(could)}."
    )


def known_as(mechanism: Mechanism) -> str:
    """The mechanism's name in the table, or its own if it is not there."""
    kind = type(mechanism).__name__
    return next((name for name, entry in MECHANISMS.items() if entry.class_name == kind), kind)


def _listed(names: list[str]) -> str:
    return ", ".join(names) or "(none of the table)"
