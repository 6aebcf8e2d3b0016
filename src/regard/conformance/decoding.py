"""One token at a time gives what the causal `forward` gives, however the tokens are cut up."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.conformance.case import (
    BATCH,
    KEYS,
    KV_HEADS,
    LONG,
    Case,
    Inputs,
    NotApplicable,
    close,
    demand,
    extend,
    forward,
    same,
    start,
    step,
)
from regard.core.masks import Causal, Padding
from regard.core.mechanism import ScoreBias

PIECES = (1, 3, 2, 5)


def decoding_equals_forward(case: Case) -> None:
    """Token by token, and in uneven pieces, `step` gives the rows of the causal `forward`."""
    case.need_mask("causal")
    for kv_heads in (case.num_heads, KV_HEADS):
        _decode(case, case.draw_tokens(KEYS, num_kv_heads=kv_heads), pieces=(1,) * KEYS)
        _decode(case, case.draw_tokens(KEYS, num_kv_heads=kv_heads), pieces=PIECES)
    if case.fits(LONG):
        _decode(case, case.draw_tokens(LONG, batch_size=1), pieces=(LONG,))


def decoding_with_bias(case: Case) -> None:
    """The same with a score bias, which must know at which position the decoding stands."""
    case.need_mask("causal")
    if not case.promised.score_bias:
        raise NotApplicable("it takes no score bias")
    _decode(case, case.draw_tokens(KEYS), pieces=(1,) * KEYS, bias=case.bias())
    _decode(case, case.draw_tokens(KEYS), pieces=PIECES, bias=case.bias())


def extending_in_pieces(case: Case) -> None:
    """After taking keys in by pieces, a read is the last row of a `forward` over all of them."""
    inputs = case.draw_tokens(KEYS)
    state = start(case.mechanism, inputs)
    for piece in _cut(PIECES):
        state = extend(case.mechanism, state, inputs.keys(piece))
    last = inputs.queries(slice(KEYS - 1, None))
    expected = forward(case.mechanism, last, case.open_mask)
    got = case.mechanism.read(state, last.query)
    close(got, expected, f"a read after pieces of {PIECES} against the last row of forward")


def reading_padded_keys(case: Case) -> None:
    """Keys taken in once with `Padding`, then read by many queries, as cross-attention does."""
    case.need_mask("padding")
    inputs = case.draw()
    lengths = torch.tensor([KEYS, 4, 0])
    state = extend(case.mechanism, start(case.mechanism, inputs), inputs, Padding(lengths))
    got = case.mechanism.read(state, inputs.query)
    for row, length in enumerate(lengths.tolist()):
        own = inputs.rows(slice(row, row + 1)).keys(slice(0, length))
        for place in range(inputs.query_length):
            # Each query of a read stands at the last position, as the only query of a call does.
            alone = own.queries(slice(place, place + 1))
            expected = forward(case.mechanism, alone, case.open_mask)
            what = f"query {place} read from the {length} real keys of row {row}"
            close(got[row, :, place], expected[0, :, 0], what)
    if case.takes(Padding(lengths)) and not case.promised.position_aware:
        expected = forward(case.mechanism, inputs, Padding(lengths))
        close(got, expected, "a read of padded keys against forward with the same padding")


def decoding_after_padding(case: Case) -> None:
    """Prompts of different lengths are taken in together, then each continues where it ended."""
    case.need_mask("causal")
    _continue_ragged(case)


def decoding_after_padding_with_bias(case: Case) -> None:
    """The same with a score bias, taken at each row's own positions and not at its slots."""
    case.need_mask("causal")
    if not case.promised.score_bias:
        raise NotApplicable("it takes no score bias")
    _continue_ragged(case, bias=case.bias())


def _continue_ragged(case: Case, *, bias: ScoreBias | None = None) -> None:
    prompt, rest = case.draw_tokens(KEYS), case.draw_tokens(4)
    lengths = case.lengths(prompt)
    state = extend(case.mechanism, start(case.mechanism, prompt), prompt, Padding(lengths))
    got, _ = step(case.mechanism, state, rest, bias)
    for row, length in enumerate(lengths.tolist()):
        own, more = prompt.rows(slice(row, row + 1)), rest.rows(slice(row, row + 1))
        joined = more.with_tensors(
            {
                name: torch.cat([own.tensors()[name][:, :, :length], tensor], dim=2)
                for name, tensor in more.tensors().items()
            }
        )
        expected = forward(case.mechanism, joined, Causal(), bias)[:, :, length:]
        what = f"row {row} decoded after a prompt of {length} tokens against forward over both"
        close(got[row], expected[0], what)


def _decode(
    case: Case, inputs: Inputs, *, pieces: tuple[int, ...], bias: ScoreBias | None = None
) -> None:
    expected = forward(case.mechanism, inputs, Causal(), bias)
    state: Any = start(case.mechanism, inputs)
    for piece in _cut(pieces):
        output, state = step(case.mechanism, state, inputs.tokens(piece), bias)
        what = f"positions {piece.start} to {piece.stop - 1} decoded against the causal forward"
        close(output, expected[:, :, piece], what)


def _cut(pieces: tuple[int, ...]) -> list[slice]:
    ends = torch.tensor(pieces).cumsum(0).tolist()
    return [slice(end - size, end) for end, size in zip(ends, pieces, strict=True)]


# A state is a value: a named tuple that can be reordered, branched from and counted.


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
