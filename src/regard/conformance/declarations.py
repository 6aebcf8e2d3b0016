"""What is declared is declared in the right words."""

from __future__ import annotations

from typing import get_args

from regard.conformance.case import Case
from regard.conformance.verdict import demand
from regard.core.cost import AttentionShape, Cost
from regard.core.masks import MASK_KINDS
from regard.core.mechanism import Capabilities, Extra, Role

TAKEN_WORDS = {"query", "key", "value", "mask", "state", "bias"}


def capabilities_well_formed(case: Case) -> None:
    """`capabilities`, `extras` and `cost` hold values of the kinds that others rely on."""
    promised = case.mechanism.capabilities
    demand(
        isinstance(promised, Capabilities),
        f"capabilities is a {type(promised).__name__}; it must be a Capabilities",
    )
    _known("roles", promised.roles, get_args(Role))
    demand(bool(promised.roles), "capabilities.roles is empty: it could be used nowhere")
    _known("masks", promised.masks, MASK_KINDS)
    for name in (
        "requires_causal",
        "rows_sum_to_one",
        "nonnegative",
        "position_aware",
        "score_bias",
    ):
        found = getattr(promised, name)
        demand(
            isinstance(found, bool), f"capabilities.{name} is {found!r}; it must be True or False"
        )
    limit: object = promised.max_length
    demand(
        limit is None or (isinstance(limit, int) and limit >= 1),
        f"capabilities.max_length is {limit!r}; it must be None or 1 or more",
    )
    demand(
        not promised.requires_causal or "causal" in promised.masks,
        "capabilities has requires_causal=True, but 'causal' is not among its masks",
    )
    _extras(case)
    shape = AttentionShape(
        num_heads=case.num_heads,
        query_length=7,
        key_length=11,
        key_dim=case.key_dim,
        value_dim=case.value_dim,
        causal=case.open_mask.causal,
    )
    cost = case.mechanism.cost(shape)
    demand(isinstance(cost, Cost), f"cost gives a {type(cost).__name__}; it must give a Cost")
    for name, found in vars(cost).items():
        demand(
            isinstance(found, int) and found >= 0,
            f"cost gives {name}={found!r}; it must be a whole number, 0 or more",
        )


def _extras(case: Case) -> None:
    """Extras have names of their own, a known width, and a squash."""
    names = [extra.name for extra in case.mechanism.extras]
    demand(len(set(names)) == len(names), f"two extras have the same name: {names}")
    for extra in case.mechanism.extras:
        demand(isinstance(extra, Extra), f"extras holds {extra!r}, which is not an Extra")
        demand(extra.name not in TAKEN_WORDS, f"an extra may not be called '{extra.name}'")
        demand(
            extra.width in ("one", "key_dim"),
            f"extra '{extra.name}' has width {extra.width!r}; it must be 'one' or 'key_dim'",
        )


def _known(what: str, found: object, known: tuple[str, ...]) -> None:
    demand(
        isinstance(found, frozenset) and found <= set(known),
        f"capabilities.{what} is {found!r}; it must be a frozenset of {', '.join(known)}",
    )
