"""What was not promised is refused, with an error that helps."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from regard.conformance.case import HEADS, KEYS, Case
from regard.conformance.inputs import extend, forward, start, weights
from regard.conformance.verdict import CheckFailed, NotApplicable, demand
from regard.core.errors import RegardError
from regard.core.masks import MASK_KINDS, NO_MASK, Allowed, Causal, Mask, Padding, Window


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
