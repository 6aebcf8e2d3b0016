"""KV cache: in inference mode a token is written into the spare capacity of the buffer."""

from __future__ import annotations

from copy import copy, deepcopy

import pytest
import torch
from torch import Tensor

from regard.conformance.subject import find_subjects
from regard.conformance.suite import check_subject
from regard.conformance.table import CHECKS
from regard.core.masks import NO_MASK, Padding
from regard.core.mechanism import select_rows
from regard.mechanisms.scores.kv_cache import MIN_SPARE, KVCache

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


def empty() -> KVCache:
    return KVCache.empty(
        torch.zeros(BATCH, HEADS, 0, KEY_DIM), torch.zeros(BATCH, HEADS, 0, VALUE_DIM)
    )


def tokens(length: int = 1) -> tuple[Tensor, Tensor]:
    return torch.randn(BATCH, HEADS, length, KEY_DIM), torch.randn(BATCH, HEADS, length, VALUE_DIM)


def assert_same(got: KVCache, expected: KVCache) -> None:
    for name, field, wanted in zip(got._fields, got, expected, strict=True):
        assert torch.equal(field, wanted), name


@pytest.mark.parametrize("name", SCORED)
def test_decoding_checks_in_inference_mode(name: str) -> None:
    (subject,) = find_subjects(name)
    decoding = [check for check, entry in CHECKS.items() if entry.module in ("decoding", "states")]
    with torch.inference_mode():
        report = check_subject(subject, only=decoding)
    assert report.passed, "\n".join(record.message() for record in report.failures)


@torch.inference_mode()
def test_append_one_equals_append() -> None:
    """Beyond the first buffer, and after a prompt whose rows are of different lengths."""
    prompt = empty().append(*tokens(3), Padding(torch.tensor([3, 1])))
    taken = appended = prompt
    for _ in range(2 * MIN_SPARE + 5):
        key, value = tokens()
        taken, appended = taken.append_one(key, value), appended.append(key, value, NO_MASK)
        assert_same(taken, appended)
    assert taken.position.tolist() == [2 * MIN_SPARE + 8, 2 * MIN_SPARE + 6]


@torch.inference_mode()
def test_nothing_is_copied_within_the_capacity() -> None:
    state = empty().append_one(*tokens())
    place = state.key.data_ptr()
    for _ in range(MIN_SPARE - 1):
        state = state.append_one(*tokens())
    assert state.key.data_ptr() == place
    assert state.append_one(*tokens()).key.data_ptr() != place


@torch.inference_mode()
def test_continuations_of_one_cache_are_independent() -> None:
    state = empty().append_one(*tokens())
    one, other, third = tokens(), tokens(), tokens()
    first = state.append_one(*one)
    second = state.append_one(*other)
    assert_same(first, state.append(*one, NO_MASK))
    assert_same(second, state.append(*other, NO_MASK))
    # Nor do the copies of a state.
    copies = copy(first), deepcopy(first), first._replace(position=first.position)
    longer = first.append_one(*one)
    for other_first in copies:
        assert_same(other_first.append_one(*third), first.append(*third, NO_MASK))
    assert_same(longer, first.append(*one, NO_MASK))


@torch.inference_mode()
def test_other_numbers_of_rows_or_heads() -> None:
    state = empty().append_one(*tokens())
    key, value = tokens()
    for part in (slice(0, 1), (slice(None), slice(0, 1))):
        with pytest.raises(RuntimeError, match="must match"):
            state.append_one(key[part], value[part])


@torch.inference_mode()
def test_selected_rows_have_a_buffer_of_their_own() -> None:
    prompt = empty().append(*tokens(3), Padding(torch.tensor([3, 1])))
    state = prompt.append_one(*tokens())
    index = torch.tensor([1, 0])
    chosen, again = state.select(index), state.select(index)
    assert_same(chosen, select_rows(state, index))
    one, other, third = tokens(), tokens(), tokens()
    place = chosen.key.data_ptr()
    first, second, third_one = (
        chosen.append_one(*one),
        again.append_one(*other),
        state.append_one(*third),
    )
    assert first.key.data_ptr() == place
    assert_same(first, chosen.append(*one, NO_MASK))
    assert_same(second, again.append(*other, NO_MASK))
    assert_same(third_one, state.append(*third, NO_MASK))
    # Fewer rows and more, also at full capacity.
    while state.key.shape[2] < third_one.key.shape[2] + 2 * MIN_SPARE:
        state = state.append_one(*tokens())
        assert_same(state.select(index[:1]), select_rows(state, index[:1]))
        assert_same(state.select(index[[0, 0, 1]]), select_rows(state, index[[0, 0, 1]]))


def test_a_cache_from_inference_mode_continues_with_gradients() -> None:
    with torch.inference_mode():
        state = empty().append_one(*tokens()).append_one(*tokens())
    key, value = tokens()
    after = state.append_one(key.requires_grad_(), value)
    assert_same(after, state.append(key, value, NO_MASK))
    with torch.inference_mode():
        assert_same(after.append_one(key, value), after.append(key, value, NO_MASK))
