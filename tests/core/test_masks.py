"""Masks: boolean form, combination, invalid arguments."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.core.errors import RegardError
from regard.core.masks import Allowed, Causal, Mask, Padding, Window


def as_text(mask: Mask, query_length: int, key_length: int) -> list[str]:
    """The first row of the batch as text, `#` = may attend."""
    allowed = mask.boolean(query_length, key_length)
    assert allowed is not None
    return ["".join("#" if cell else "." for cell in row) for row in allowed[0, 0]]


def test_causal_sees_the_past_and_itself() -> None:
    assert as_text(Causal(), 3, 3) == ["#..", "##.", "###"]


def test_the_last_query_is_aligned_with_the_last_key() -> None:
    assert as_text(Causal(), 2, 4) == ["###.", "####"]
    assert as_text(Causal(), 4, 2) == ["..", "..", "#.", "##"]


def test_window_is_symmetric_and_combines() -> None:
    assert as_text(Window(1), 4, 4) == ["##..", "###.", ".###", "..##"]
    assert as_text(Window(1) & Causal(), 4, 4) == ["#...", "##..", ".##.", "..##"]
    assert as_text(Window(2) & Window(1), 3, 3) == ["##.", "###", ".##"]


def test_padding_masks_keys_per_row() -> None:
    allowed = Padding(torch.tensor([2, 0])).boolean(1, 3)
    assert allowed is not None
    assert allowed.tolist() == [[[[True, True, False]]], [[[False, False, False]]]]


def test_two_paddings_combine_to_the_shorter() -> None:
    both = Padding(torch.tensor([2, 3])) & Padding(torch.tensor([3, 1]))
    assert both.lengths is not None
    assert both.lengths.tolist() == [2, 1]


def test_an_empty_mask_has_no_tensor() -> None:
    assert Mask().boolean(3, 3) is None
    assert Mask().kinds == frozenset()


def test_allowed_combines_with_causal() -> None:
    checkers = torch.tensor([[True, False], [True, True]])
    assert as_text(Allowed(checkers) & Causal(), 2, 2) == ["#.", "##"]
    assert (Allowed(checkers) & Causal()).kinds == {"allowed", "causal"}


def test_repr() -> None:
    mask = Causal() & Window(3) & Padding(torch.tensor([5, 4]))
    assert repr(mask) == "Causal() & Window(3) & Padding([5, 4])"
    assert repr(Mask()) == "Mask()"


def test_without_drops_a_rule() -> None:
    assert (Causal() & Window(3)).without("radius").kinds == {"causal"}


@pytest.mark.parametrize("lengths", [[2, 0], (2, 0), np.array([2, 0], dtype=np.uint8)])
def test_padding_takes_lists_and_arrays(lengths: object) -> None:
    mask = Padding(lengths)
    assert mask.lengths is not None
    assert mask.lengths.tolist() == [2, 0]
    assert mask.lengths.dtype == torch.int64
    assert Padding([]).keep(3).shape == (0, 3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Window(-1), "radius is -1"),
        (lambda: Padding(torch.ones(2, 3, dtype=torch.long)), r"shape \(2, 3\)"),
        (lambda: Padding([2, -3]), "length of -3"),
        (lambda: Padding([2, 1.5]), r"the length 1\.5; .* whole numbers"),
        (lambda: Padding((2, True)), "the length True"),
        (lambda: Padding([[2], [3]]), "the length a list"),
        (lambda: Padding("17"), "lengths are '17'"),
        (lambda: Padding(np.array([2.0])), r"the length 2\.0"),
        (lambda: Padding(np.array([[2]])), "the length a list"),
        (lambda: Allowed(torch.zeros(2, 2)), "dtype torch.float32"),
        (lambda: Allowed(torch.ones(3, dtype=torch.bool)), r"shape \(3,\)"),
    ],
)
def test_invalid_arguments(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(RegardError, match=message):
        make()
