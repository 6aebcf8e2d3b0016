"""Decoding without gradients, where the tokens of a state stand in room that its continuation goes on in."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from regard.conformance.subjects import find_subjects
from regard.conformance.suite import check_subject
from regard.conformance.table import CHECKS
from regard.core.masks import NO_MASK, Padding
from regard.mechanisms.cache_room import LEAST_SPARE
from regard.mechanisms.key_value_state import KeyValueState

SCORED = [
    "additive",
    "dot",
    "general",
    "location",
    "scaled_dot",
    "synthesizer_dense",
    "synthesizer_factorised",
    "synthesizer_random",
    "window",
]
BATCH, HEADS, KEY_DIM, VALUE_DIM = 2, 3, 5, 7


def empty() -> KeyValueState:
    return KeyValueState.empty(
        torch.zeros(BATCH, HEADS, 0, KEY_DIM), torch.zeros(BATCH, HEADS, 0, VALUE_DIM)
    )


def tokens(length: int = 1) -> tuple[Tensor, Tensor]:
    return torch.randn(BATCH, HEADS, length, KEY_DIM), torch.randn(BATCH, HEADS, length, VALUE_DIM)


def assert_same(got: KeyValueState, expected: KeyValueState) -> None:
    for name, field, wanted in zip(got._fields, got, expected, strict=True):
        assert torch.equal(field, wanted), name


@pytest.mark.parametrize("name", SCORED)
def test_decoding_keeps_the_contract_in_inference_mode(name: str) -> None:
    (subject,) = find_subjects(name)
    decoding = [check for check, entry in CHECKS.items() if entry.module in ("decoding", "states")]
    with torch.inference_mode():
        report = check_subject(subject, only=decoding)
    assert report.passed, "\n".join(record.message() for record in report.failures)


@torch.inference_mode()
def test_taking_is_appending() -> None:
    """Beyond the first room, and after a prompt whose rows are of different lengths."""
    prompt = empty().append(*tokens(3), Padding(torch.tensor([3, 1])))
    taken = appended = prompt
    for _ in range(2 * LEAST_SPARE + 5):
        key, value = tokens()
        taken, appended = taken.take(key, value), appended.append(key, value, NO_MASK)
        assert_same(taken, appended)
    assert taken.position.tolist() == [2 * LEAST_SPARE + 8, 2 * LEAST_SPARE + 6]


@torch.inference_mode()
def test_nothing_is_copied_while_there_is_room() -> None:
    state = empty().take(*tokens())
    place = state.key.data_ptr()
    for _ in range(LEAST_SPARE - 1):
        state = state.take(*tokens())
    assert state.key.data_ptr() == place
    assert state.take(*tokens()).key.data_ptr() != place


@torch.inference_mode()
def test_continuations_of_one_state_do_not_meet() -> None:
    state = empty().take(*tokens())
    one, other, third = tokens(), tokens(), tokens()
    first = state.take(*one)
    second = state.take(*other)
    assert_same(first, state.append(*one, NO_MASK))
    assert_same(second, state.append(*other, NO_MASK))
    # Nor do those of a state that was selected, or had a field replaced.
    chosen = first.select(torch.tensor([0, 1])).take(*third)
    replaced = first._replace(position=first.position).take(*third)
    longer = first.take(*one)
    assert_same(chosen, first.append(*third, NO_MASK))
    assert_same(replaced, chosen)
    assert_same(longer, first.append(*one, NO_MASK))


def test_what_was_decoded_without_gradients_is_continued_with_them() -> None:
    with torch.inference_mode():
        state = empty().take(*tokens()).take(*tokens())
    key, value = tokens()
    after = state.take(key.requires_grad_(), value)
    assert_same(after, state.append(key, value, NO_MASK))
    with torch.inference_mode():
        assert_same(after.take(key, value), after.append(key, value, NO_MASK))
