"""Checks of incremental decoding and its state (KV cache): `extend`, `read` and `step` match `forward`."""

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
    assert_close,
    assert_equal,
    require,
)
from regard.core.masks import Causal, Padding
from regard.core.mechanism import ScoreBias

CHUNKS = (1, 3, 2, 5)


def decoding_equals_forward(case: Case) -> None:
    """Token by token, or in chunks, step equals the causal forward."""
    case.need_mask("causal")
    for kv_heads in (case.num_heads, KV_HEADS):
        _decode(case, case.draw_tokens(KEYS, num_kv_heads=kv_heads), chunks=(1,) * KEYS)
        _decode(case, case.draw_tokens(KEYS, num_kv_heads=kv_heads), chunks=CHUNKS)
    if case.fits(LONG):
        _decode(case, case.draw_tokens(LONG, batch_size=1), chunks=(LONG,))


def decoding_with_bias(case: Case) -> None:
    """The same with a score bias."""
    case.need_mask("causal")
    case.need_score_bias()
    _decode(case, case.draw_tokens(KEYS), chunks=(1,) * KEYS, bias=case.bias())
    _decode(case, case.draw_tokens(KEYS), chunks=CHUNKS, bias=case.bias())


def extending_in_chunks(case: Case) -> None:
    """Read after several extend calls equals the last row of forward over all keys."""
    inputs = case.draw_tokens(KEYS)
    state = case.start(inputs)
    for chunk in _slices(CHUNKS):
        state = case.extend(state, inputs.keys(chunk))
    last = inputs.queries(slice(KEYS - 1, None))
    expected = case.forward(last, case.open_mask)
    got = case.mechanism.read(state, last.query)
    assert_close(got, expected, f"read after chunks of {CHUNKS} against the last row of forward")


def reading_padded_keys(case: Case) -> None:
    """One padded extend and many reads equal forward on the unpadded keys."""
    case.need_mask("padding")
    inputs = case.draw()
    lengths = torch.tensor([KEYS, 4, 0])
    state = case.extend(case.start(inputs), inputs, Padding(lengths))
    got = case.mechanism.read(state, inputs.query)
    for row, length in enumerate(lengths.tolist()):
        own = inputs.examples(slice(row, row + 1)).keys(slice(0, length))
        for position in range(inputs.query_length):
            # Each query of a read is at the last position, as the only query of a call is.
            alone = own.queries(slice(position, position + 1))
            expected = case.forward(alone, case.open_mask)
            what = f"query {position} read from the {length} unpadded keys of row {row}"
            assert_close(got[row, :, position], expected[0, :, 0], what)
    if case.supports(Padding(lengths)) and not case.capabilities.position_aware:
        expected = case.forward(inputs, Padding(lengths))
        assert_close(got, expected, "read of padded keys against forward with the same padding")


def decoding_after_padding(case: Case) -> None:
    """Prompts of different lengths in one batch each continue where they ended."""
    case.need_mask("causal")
    _decode_after_padding(case)


def decoding_after_padding_with_bias(case: Case) -> None:
    """The same with a score bias, at each example's own positions."""
    case.need_mask("causal")
    case.need_score_bias()
    _decode_after_padding(case, bias=case.bias())


def _decode_after_padding(case: Case, *, bias: ScoreBias | None = None) -> None:
    prompt, rest = case.draw_tokens(KEYS), case.draw_tokens(4)
    lengths = case.lengths(prompt)
    state = case.extend(case.start(prompt), prompt, Padding(lengths))
    got, _ = case.step(state, rest, bias)
    for row, length in enumerate(lengths.tolist()):
        own, more = prompt.examples(slice(row, row + 1)), rest.examples(slice(row, row + 1))
        joined = more.with_tensors(
            {
                name: torch.cat([own.tensors()[name][:, :, :length], tensor], dim=2)
                for name, tensor in more.tensors().items()
            }
        )
        expected = case.forward(joined, Causal(), bias)[:, :, length:]
        what = f"row {row} decoded after a prompt of {length} tokens against forward over both"
        assert_close(got[row], expected[0], what)


def _decode(
    case: Case, inputs: Inputs, *, chunks: tuple[int, ...], bias: ScoreBias | None = None
) -> None:
    expected = case.forward(inputs, Causal(), bias)
    state: Any = case.start(inputs)
    for chunk in _slices(chunks):
        output, state = case.step(state, inputs.tokens(chunk), bias)
        what = f"positions {chunk.start} to {chunk.stop - 1} decoded against the causal forward"
        assert_close(output, expected[:, :, chunk], what)


def _slices(chunks: tuple[int, ...]) -> list[slice]:
    ends = torch.tensor(chunks).cumsum(0).tolist()
    return [slice(end - size, end) for end, size in zip(ends, chunks, strict=True)]


def state_form(case: Case) -> None:
    """A state is a named tuple of batch-first tensors with a field position."""
    inputs = case.draw_tokens(3).float()
    case.mechanism.float()
    empty = case.start(inputs)
    _validate_state(empty)
    _validate_state(case.extend(empty, inputs))


def state_position(case: Case) -> None:
    """Position counts the tokens of each example, without padding."""
    inputs = case.draw_tokens(4)
    state = case.start(inputs)
    _assert_position(state, torch.zeros(BATCH), "at the start")
    state = case.extend(state, inputs)
    _assert_position(state, torch.full((BATCH,), 4), "after 4 tokens")
    _, state = case.step(state, inputs.tokens(slice(0, 1)))
    _assert_position(state, torch.full((BATCH,), 5), "after one more step")
    if "padding" in case.capabilities.masks:
        lengths = torch.tensor([4, 2, 0])
        state = case.extend(state, inputs, Padding(lengths))
        _assert_position(
            state, 5 + lengths, f"after more keys, padded to lengths {lengths.tolist()}"
        )


def state_select(case: Case) -> None:
    """After select(index), decoding continues on the reordered, repeated examples."""
    case.need_mask("causal")
    inputs, rest = case.draw_tokens(KEYS - 4), case.draw_tokens(4, batch_size=5)
    state = case.extend(case.start(inputs), inputs)
    index = torch.tensor([2, 0, 0, 1, 2])
    got, _ = case.step(state.select(index), rest)
    chosen = inputs.examples(index)
    joined = rest.with_tensors(
        {n: torch.cat([chosen.tensors()[n], t], dim=2) for n, t in rest.tensors().items()}
    )
    expected = case.forward(joined, Causal())[:, :, -4:]
    assert_close(got, expected, f"decoding after select({index.tolist()})")


def state_not_mutated(case: Case) -> None:
    """Extend and read do not modify a state, so that it can be reused."""
    inputs, one, other = case.draw_tokens(5), case.draw_tokens(3), case.draw_tokens(3)
    state = case.extend(case.start(inputs), inputs)
    kept = [tensor.clone() for tensor in state]
    first, after_one = case.step(state, one)
    kept_after_one = [tensor.clone() for tensor in after_one]
    case.step(state, other)
    again, _ = case.step(state, one)
    state.select(torch.tensor([1, 0]))
    for name, tensor, before in zip(state._fields, state, kept, strict=True):
        assert_equal(tensor, before, f"field {name} of a state that was extended twice and read")
    assert_equal(again, first, "the same continuation of a state, after another continuation")
    for name, tensor, before in zip(after_one._fields, after_one, kept_after_one, strict=True):
        assert_equal(tensor, before, f"field {name} of one continuation after making another")


def reading_an_empty_state(case: Case) -> None:
    """An empty state reads as zeros."""
    inputs = case.draw()
    got = case.mechanism.read(case.start(inputs), inputs.query)
    expected = inputs.value.new_zeros(*inputs.query.shape[:3], inputs.value.shape[-1])
    assert_equal(got, expected, "read from an empty state")


def _assert_position(state: Any, expected: Tensor, when: str) -> None:
    position: Tensor = state.position
    require(
        not position.is_floating_point(),
        f"position is {position.dtype}; it must be an integer type",
    )
    assert_close(position.double(), expected.double(), f"position {when}")


def _validate_state(state: Any) -> None:
    kind = type(state).__name__
    require(
        isinstance(state, tuple) and hasattr(state, "_fields"),
        f"the state is a {kind}; it must be a named tuple",
    )
    require("position" in state._fields, f"{kind} has no field `position`")
    require(callable(getattr(state, "select", None)), f"{kind} has no method `select(index)`")
    for name, tensor in zip(state._fields, state, strict=True):
        require(isinstance(tensor, Tensor), f"{kind}.{name} is not a tensor")
        require(
            tensor.dim() > 0 and tensor.shape[0] == BATCH,
            f"{kind}.{name} has shape {tuple(tensor.shape)}; the batch size ({BATCH}) must come first",
        )
        require(
            not tensor.is_floating_point() or tensor.dtype == torch.float32,
            f"{kind}.{name} is {tensor.dtype} although start was called with float32",
        )
