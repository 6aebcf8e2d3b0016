"""A state is a value: a named tuple that can be reordered, branched from and counted."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.conformance.case import BATCH, KEYS, Case
from regard.conformance.inputs import extend, forward, start, step
from regard.conformance.verdict import close, demand, same
from regard.core.masks import Causal, Padding


def state_form(case: Case) -> None:
    """A named tuple of batch-first tensors, `position` among them, in the type asked for."""
    inputs = case.draw_tokens(3).each(lambda tensor: tensor.float())
    mechanism = case.mechanism.float()
    empty = start(mechanism, inputs)
    _well_formed(empty)
    _well_formed(extend(mechanism, empty, inputs))


def state_position(case: Case) -> None:
    """`position` counts the tokens each row has taken in, padding left out."""
    inputs = case.draw_tokens(4)
    state = start(case.mechanism, inputs)
    _at(state, torch.zeros(BATCH), "at the start")
    state = extend(case.mechanism, state, inputs)
    _at(state, torch.full((BATCH,), 4), "after 4 tokens")
    _, state = step(case.mechanism, state, inputs.tokens(slice(0, 1)))
    _at(state, torch.full((BATCH,), 5), "after one step more")
    if "padding" in case.promised.masks:
        lengths = torch.tensor([4, 2, 0])
        state = extend(case.mechanism, state, inputs, Padding(lengths))
        _at(state, 5 + lengths, f"after padded keys of lengths {lengths.tolist()} more")


def state_select(case: Case) -> None:
    """After `select(index)` decoding continues as if the batch had been ordered so all along."""
    case.need_mask("causal")
    inputs, rest = case.draw_tokens(KEYS - 4), case.draw_tokens(4, batch_size=5)
    state = extend(case.mechanism, start(case.mechanism, inputs), inputs)
    index = torch.tensor([2, 0, 0, 1, 2])
    got, _ = step(case.mechanism, state.select(index), rest)
    chosen = inputs.rows(index)
    joined = rest.with_tensors(
        {n: torch.cat([chosen.tensors()[n], t], dim=2) for n, t in rest.tensors().items()}
    )
    expected = forward(case.mechanism, joined, Causal())[:, :, -4:]
    close(got, expected, f"decoding after select({index.tolist()})")


def state_not_mutated(case: Case) -> None:
    """Two continuations of one state do not disturb each other, nor the state."""
    inputs, one, other = case.draw_tokens(5), case.draw_tokens(3), case.draw_tokens(3)
    state = extend(case.mechanism, start(case.mechanism, inputs), inputs)
    kept = [tensor.clone() for tensor in state]
    first, after_one = step(case.mechanism, state, one)
    kept_after_one = [tensor.clone() for tensor in after_one]
    step(case.mechanism, state, other)
    again, _ = step(case.mechanism, state, one)
    state.select(torch.tensor([1, 0]))
    for name, tensor, before in zip(state._fields, state, kept, strict=True):
        same(tensor, before, f"field {name} of a state that was extended twice and read")
    same(again, first, "the same continuation of a state, after another continuation")
    for name, tensor, before in zip(after_one._fields, after_one, kept_after_one, strict=True):
        same(tensor, before, f"field {name} of one continuation after making another")


def reading_nothing(case: Case) -> None:
    """An empty state reads as zeros."""
    inputs = case.draw()
    got = case.mechanism.read(start(case.mechanism, inputs), inputs.query)
    expected = inputs.value.new_zeros(*inputs.query.shape[:3], inputs.value.shape[-1])
    same(got, expected, "a read from an empty state")


def _at(state: Any, expected: Tensor, when: str) -> None:
    position: Tensor = state.position
    demand(not position.is_floating_point(), f"position is {position.dtype}; it must be whole")
    close(position.double(), expected.double(), f"position {when}")


def _well_formed(state: Any) -> None:
    kind = type(state).__name__
    demand(
        isinstance(state, tuple) and hasattr(state, "_fields"),
        f"the state is a {kind}; it must be a named tuple",
    )
    demand("position" in state._fields, f"{kind} has no field `position`")
    demand(callable(getattr(state, "select", None)), f"{kind} has no method `select(index)`")
    for name, tensor in zip(state._fields, state, strict=True):
        demand(isinstance(tensor, Tensor), f"{kind}.{name} is not a tensor")
        demand(
            tensor.dim() > 0 and tensor.shape[0] == BATCH,
            f"{kind}.{name} has shape {tuple(tensor.shape)}; the batch ({BATCH}) comes first",
        )
        demand(
            not tensor.is_floating_point() or tensor.dtype == torch.float32,
            f"{kind}.{name} is {tensor.dtype} though start was told float32",
        )
