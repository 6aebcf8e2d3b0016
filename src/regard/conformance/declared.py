"""What is declared is declared in the right words."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import get_args

import torch
from safetensors.torch import load, save

from regard.conformance.case import (
    HEADS,
    KEYS,
    Case,
    CheckFailed,
    NotApplicable,
    demand,
    extend,
    forward,
    same,
    start,
    weights,
)
from regard.core.cost import AttentionShape, Cost
from regard.core.errors import RegardError
from regard.core.masks import MASK_KINDS, NO_MASK, Allowed, Causal, Mask, Padding, Window
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


# What was not promised is refused, with an error that helps.


def refuses_foreign_masks(case: Case) -> None:
    """A mask of a kind that is not declared raises a RegardError in both faces."""
    foreign = [kind for kind in MASK_KINDS if kind not in case.promised.masks]
    if not foreign:
        raise NotApplicable("it takes every kind of mask")
    inputs = case.draw_tokens(KEYS)
    masks: dict[str, Mask] = {
        "causal": Causal(),
        "padding": Padding(case.lengths(inputs)),
        "window": Window(2),
        "allowed": Allowed(torch.ones(KEYS, KEYS, dtype=torch.bool)),
    }
    for kind in foreign:
        mask = masks[kind] & case.open_mask
        _refused(partial(forward, case.mechanism, inputs, mask), f"forward under {mask}")
        _refused(partial(weights, case.mechanism, inputs, mask), f"weights under {mask}")


def refuses_missing_causal(case: Case) -> None:
    """A mechanism that reads the past only does not answer without a causal mask."""
    if not case.promised.requires_causal:
        raise NotApplicable("it also works without a causal mask")
    inputs = case.draw_tokens(KEYS)
    _refused(lambda: forward(case.mechanism, inputs, NO_MASK), "forward without a causal mask")
    _refused(lambda: weights(case.mechanism, inputs, NO_MASK), "weights without a causal mask")


def refuses_overlong(case: Case) -> None:
    """More keys than `max_length` raise a RegardError that names both numbers."""
    limit = case.promised.max_length
    if limit is None:
        raise NotApplicable("it declares no max_length")
    inputs = case.draw(query_length=1, key_length=limit + 1)
    state = extend(case.mechanism, start(case.mechanism, inputs), inputs.keys(slice(0, limit)))
    one_more = inputs.keys(slice(limit, None))
    calls: dict[str, Callable[[], object]] = {
        "forward": lambda: forward(case.mechanism, inputs, case.open_mask),
        "weights": lambda: weights(case.mechanism, inputs, case.open_mask),
        "extend": lambda: extend(case.mechanism, state, one_more),
    }
    for face, call in calls.items():
        message = _refused(call, f"{face} of {limit + 1} keys, one more than max_length,")
        for number in (limit, limit + 1):
            demand(str(number) in message, f"{face}'s error does not name {number}: {message}")


def refuses_uneven_heads(case: Case) -> None:
    """Key/value heads that do not divide the query heads raise a RegardError."""
    inputs = case.draw_tokens(KEYS, num_kv_heads=HEADS - 1)
    what = f"of {HEADS} query heads and {HEADS - 1} key/value heads"
    _refused(lambda: forward(case.mechanism, inputs, case.open_mask), f"forward {what}")
    _refused(lambda: weights(case.mechanism, inputs, case.open_mask), f"weights {what}")


def refuses_unknown_keyword(case: Case) -> None:
    """A keyword that is not declared is an error in every face; so is a bias that is not taken."""
    inputs = case.draw_tokens(KEYS)
    state = extend(case.mechanism, start(case.mechanism, inputs), inputs)
    unknown = {"no_such_keyword": inputs.value}
    if not case.promised.score_bias:
        unknown["bias"] = inputs.value
    given: dict[str, tuple[Callable[..., object], tuple[object, ...], bool]] = {
        "forward": (case.mechanism, (inputs.query, inputs.key, inputs.value, case.open_mask), True),
        "weights": (case.mechanism.weights, (inputs.query, inputs.key, case.open_mask), True),
        "extend": (case.mechanism.extend, (state, inputs.key, inputs.value), True),
        "read": (case.mechanism.read, (state, inputs.query), False),
    }
    for word, tensor in unknown.items():
        for face, (call, arguments, with_extras) in given.items():
            extras = inputs.extras if with_extras else {}
            answer = partial(call, *arguments, **extras, **{word: tensor})
            _refused(answer, f"{face} with the keyword '{word}'", (RegardError, TypeError))


def _refused(
    call: Callable[[], object],
    what: str,
    kinds: tuple[type[Exception], ...] = (RegardError,),
) -> str:
    """The message of the refusal; a failure if there is none, or of another kind."""
    try:
        call()
    except kinds as error:
        return str(error)
    except Exception as error:
        raise CheckFailed(
            f"{what} raises {type(error).__name__} ({error}); it must raise RegardError"
        ) from error
    raise CheckFailed(f"{what} is answered; it must be refused")


# Everything the mechanism has learned or drawn is in its state_dict, and is used from there.


def state_dict_round_trip(case: Case) -> None:
    """Saved as safetensors and loaded into an instance that began otherwise: the same output."""
    inputs = case.draw_tokens(KEYS)
    expected = forward(case.mechanism, inputs, case.open_mask)
    state = {name: tensor.contiguous() for name, tensor in case.mechanism.state_dict().items()}
    fresh = case.build(seed=case.seed + 1)
    fresh.load_state_dict(load(save(state)), strict=True)
    same(forward(fresh, inputs, case.open_mask), expected, "the output after saving and loading")
    for name, tensor in state.items():
        if not tensor.is_floating_point():
            continue
        noise = torch.randn(tensor.shape, generator=case.generator, dtype=tensor.dtype)
        fresh.load_state_dict({**state, name: tensor + noise}, strict=True)
        changed = not torch.equal(forward(fresh, inputs, case.open_mask), expected)
        demand(changed, f"loading another '{name}' changes nothing: what is used is kept elsewhere")
