"""Inputs at the ends of what is legal: saturated extras, zeros, keys that are all the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from regard.conformance.agreement import finite_gradients, three_faces
from regard.conformance.case import KEYS, LONG, Case
from regard.conformance.inputs import Inputs, forward, weights
from regard.conformance.verdict import NotApplicable, finite

# A layer whose input is fifty times too large: every squashing function is saturated.
SATURATED = 50.0


def extras_at_their_extremes(case: Case) -> None:
    """With every extra at either end of its range: faces agree, and float32 stays finite."""
    if not case.mechanism.extras:
        raise NotApplicable("it declares no extras")
    length = LONG if case.fits(LONG) else KEYS
    for when, inputs in _saturated(case, length):
        three_faces(case, inputs, when)
        single = inputs.each(lambda tensor: tensor.float())
        mechanism = case.build().float()
        finite(weights(mechanism, single, case.open_mask), f"weights in float32 {when}")
        finite_gradients(mechanism, single, case.open_mask, f"in float32 {when}")


def zero_and_repeated_inputs(case: Case) -> None:
    """Queries and keys of zero, and keys that repeat, are inputs like any other."""
    for when, inputs in _degenerate(case):
        finite(forward(case.mechanism, inputs, case.open_mask), f"outputs {when}")
        three_faces(case, inputs, when)
        finite_gradients(case.mechanism, inputs, case.open_mask, when)


def _saturated(case: Case, length: int) -> Iterator[tuple[str, Inputs]]:
    inputs = case.draw_tokens(length, batch_size=1)
    signs: dict[str, Callable[[Tensor], Tensor]] = {
        "all at +50": torch.ones_like,
        "all at −50": lambda raw: -torch.ones_like(raw),
        "at +50 or −50 by chance": torch.sign,
    }
    for name, sign in signs.items():
        raw: dict[str, Tensor] = {
            extra.name: torch.randn(
                inputs.extras[extra.name].shape, generator=case.generator, dtype=torch.float64
            )
            for extra in case.mechanism.extras
        }
        squashed = {
            extra.name: extra.squash(SATURATED * sign(raw[extra.name]))
            for extra in case.mechanism.extras
        }
        yield f"with extras squashed from inputs {name}", inputs.with_tensors(squashed)


def _degenerate(case: Case) -> Iterator[tuple[str, Inputs]]:
    inputs = case.draw_tokens(KEYS)
    no_query, no_key = torch.zeros_like(inputs.query), torch.zeros_like(inputs.key)
    some = inputs.key.index_fill(2, torch.tensor([0, 4]), 0.0)
    one = inputs.key[:, :, :1].expand_as(inputs.key).contiguous()
    pairs = inputs.key[:, :, torch.arange(KEYS) // 2]
    changes: dict[str, dict[str, Tensor]] = {
        "with queries of zero": {"query": no_query},
        "with keys of zero": {"key": no_key},
        "with queries and keys of zero": {"query": no_query, "key": no_key},
        "with two keys of zero among others": {"key": some},
        "with one key repeated": {"key": one},
        "with every key twice": {"key": pairs},
    }
    for when, tensors in changes.items():
        yield when, inputs.with_tensors(tensors)
