"""Checks of declarations: capabilities, gates, rejection of undeclared inputs, state_dict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import get_args

import torch
from safetensors.torch import load, save

from regard.conformance.case import (
    HEADS,
    KEYS,
    Case,
    CheckFailed,
    Inputs,
    NotApplicable,
    assert_equal,
    require,
)
from regard.core.cost import AttentionShape, Cost
from regard.core.errors import RegardError
from regard.core.masks import MASK_KINDS, NO_MASK, Allowed, Causal, Mask, Padding, Window
from regard.core.mechanism import Capabilities, Gate, Role

RESERVED_KEYWORDS = {"query", "key", "value", "mask", "state", "bias"}


def capabilities_well_formed(case: Case) -> None:
    """Capabilities, gates and cost have values of the declared types."""
    capabilities = case.mechanism.capabilities
    require(
        isinstance(capabilities, Capabilities),
        f"capabilities is a {type(capabilities).__name__}; it must be a Capabilities",
    )
    _known("roles", capabilities.roles, get_args(Role))
    require(bool(capabilities.roles), "capabilities.roles is empty")
    _known("masks", capabilities.masks, MASK_KINDS)
    for field in fields(Capabilities):
        found = getattr(capabilities, field.name)
        require(
            field.type != "bool" or isinstance(found, bool),
            f"capabilities.{field.name} is {found!r}; it must be True or False",
        )
    limit: object = capabilities.max_length
    require(
        limit is None or (isinstance(limit, int) and limit >= 1),
        f"capabilities.max_length is {limit!r}; it must be None or 1 or more",
    )
    require(
        not capabilities.requires_causal or "causal" in capabilities.masks,
        "capabilities has requires_causal=True, but 'causal' is not among its masks",
    )
    _gates(case)
    shape = AttentionShape(
        num_heads=case.num_heads,
        query_length=7,
        key_length=11,
        key_dim=case.key_dim,
        value_dim=case.value_dim,
        causal=case.open_mask.causal,
    )
    cost = case.mechanism.cost(shape)
    require(isinstance(cost, Cost), f"cost returns a {type(cost).__name__}; it must return a Cost")
    for name, found in vars(cost).items():
        require(
            isinstance(found, int) and found >= 0,
            f"cost returns {name}={found!r}; it must be a nonnegative integer",
        )


def _gates(case: Case) -> None:
    """Gates have unique names that are not reserved, and a known width."""
    names = [gate.name for gate in case.mechanism.gates]
    require(len(set(names)) == len(names), f"two gates have the same name: {names}")
    for gate in case.mechanism.gates:
        require(isinstance(gate, Gate), f"gates contains {gate!r}, which is not a Gate")
        require(gate.name not in RESERVED_KEYWORDS, f"gate name '{gate.name}' is reserved")
        require(
            gate.width in ("one", "key_dim"),
            f"gate '{gate.name}' has width {gate.width!r}; it must be 'one' or 'key_dim'",
        )


def _known(what: str, found: object, known: tuple[str, ...]) -> None:
    require(
        isinstance(found, frozenset) and found <= set(known),
        f"capabilities.{what} is {found!r}; it must be a frozenset of {', '.join(known)}",
    )


def rejects_undeclared_masks(case: Case) -> None:
    """A kind of mask that is not declared raises an error."""
    undeclared = [kind for kind in MASK_KINDS if kind not in case.capabilities.masks]
    if not undeclared:
        raise NotApplicable("it supports every kind of mask")
    inputs = case.draw_tokens(KEYS)
    masks: dict[str, Mask] = {
        "causal": Causal(),
        "padding": Padding(case.lengths(inputs)),
        "window": Window(2),
        "allowed": Allowed(torch.ones(KEYS, KEYS, dtype=torch.bool)),
    }
    for kind in undeclared:
        mask = masks[kind] & case.open_mask
        _assert_both_reject(case, inputs, mask, f"under {mask}")


def rejects_missing_causal(case: Case) -> None:
    """A causal-only mechanism raises an error without a causal mask."""
    if not case.capabilities.requires_causal:
        raise NotApplicable("it also works without a causal mask")
    _assert_both_reject(case, case.draw_tokens(KEYS), NO_MASK, "without a causal mask")


def rejects_overlong(case: Case) -> None:
    """More keys than max_length raise an error that contains both numbers."""
    limit = case.capabilities.max_length
    if limit is None:
        raise NotApplicable("it declares no max_length")
    inputs = case.draw(query_length=1, key_length=limit + 1)
    state = case.extend(case.start(inputs), inputs.keys(slice(0, limit)))
    one_more = inputs.keys(slice(limit, None))
    calls: dict[str, Callable[[], object]] = {
        "forward": lambda: case.forward(inputs, case.open_mask),
        "weights": lambda: case.weights(inputs, case.open_mask),
        "extend": lambda: case.extend(state, one_more),
    }
    for method, call in calls.items():
        message = _assert_rejects(call, f"{method} of {limit + 1} keys, one more than max_length,")
        for number in (limit, limit + 1):
            require(
                str(number) in message,
                f"the error of {method} does not contain {number}: {message}",
            )


def rejects_uneven_heads(case: Case) -> None:
    """Key/value heads that do not divide the query heads raise an error."""
    inputs = case.draw_tokens(KEYS, num_kv_heads=HEADS - 1)
    what = f"of {HEADS} query heads and {HEADS - 1} key/value heads"
    _assert_both_reject(case, inputs, case.open_mask, what)


def rejects_unknown_keyword(case: Case) -> None:
    """An undeclared keyword raises an error."""
    inputs = case.draw_tokens(KEYS)
    state = case.extend(case.start(inputs), inputs)
    unknown = {"no_such_keyword": inputs.value}
    if not case.capabilities.score_bias:
        unknown["bias"] = inputs.value
    given: dict[str, tuple[Callable[..., object], tuple[object, ...], bool]] = {
        "forward": (case.mechanism, (inputs.query, inputs.key, inputs.value, case.open_mask), True),
        "weights": (case.mechanism.weights, (inputs.query, inputs.key, case.open_mask), True),
        "extend": (case.mechanism.extend, (state, inputs.key, inputs.value), True),
        "read": (case.mechanism.read, (state, inputs.query), False),
    }
    for keyword, tensor in unknown.items():
        for method, (call, arguments, with_gates) in given.items():
            gates = inputs.gates if with_gates else {}
            answer = partial(call, *arguments, **gates, **{keyword: tensor})
            _assert_rejects(
                answer, f"{method} with the keyword '{keyword}'", (RegardError, TypeError)
            )


def _assert_both_reject(case: Case, inputs: Inputs, mask: Mask, what: str) -> None:
    _assert_rejects(lambda: case.forward(inputs, mask), f"forward {what}")
    _assert_rejects(lambda: case.weights(inputs, mask), f"weights {what}")


def _assert_rejects(
    call: Callable[[], object], what: str, kinds: tuple[type[Exception], ...] = (RegardError,)
) -> str:
    """The message of the error; fails if there is none, or one of another type."""
    try:
        call()
    except kinds as error:
        return str(error)
    except Exception as error:
        raise CheckFailed(
            f"{what} raises {type(error).__name__} ({error}); it must raise RegardError"
        ) from error
    raise CheckFailed(f"{what} raises no error; it must raise RegardError")


def state_dict_round_trip(case: Case) -> None:
    """Saved and loaded into another instance, it gives the same output."""
    inputs = case.draw_tokens(KEYS)
    expected = case.forward(inputs, case.open_mask)
    state = {name: tensor.contiguous() for name, tensor in case.mechanism.state_dict().items()}
    fresh = case.with_mechanism(case.build(seed=case.seed + 1))
    fresh.mechanism.load_state_dict(load(save(state)), strict=True)
    got = fresh.forward(inputs, case.open_mask)
    assert_equal(got, expected, "the output after saving and loading")
    for name, tensor in state.items():
        if not tensor.is_floating_point():
            continue
        noise = torch.randn(tensor.shape, generator=case.generator, dtype=tensor.dtype)
        fresh.mechanism.load_state_dict({**state, name: tensor + noise}, strict=True)
        changed = not torch.equal(fresh.forward(inputs, case.open_mask), expected)
        require(changed, f"loading another '{name}' has no effect on the output")
