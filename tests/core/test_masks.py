"""Masks as values: what they allow, how they combine, what they refuse."""

from __future__ import annotations

import pytest
import torch

from regard.core.errors import RegardError
from regard.core.masks import Allowed, Causal, Mask, Padding, Window


def drawn(mask: Mask, query_length: int, key_length: int) -> list[str]:
    """The first row of the batch as text, `#` = may attend."""
    allowed = mask.boolean(query_length, key_length)
    assert allowed is not None
    return ["".join("#" if cell else "." for cell in row) for row in allowed[0, 0]]


def test_causal_sees_the_past_and_itself() -> None:
    assert drawn(Causal(), 3, 3) == ["#..", "##.", "###"]


def test_the_last_query_stands_at_the_last_key() -> None:
    assert drawn(Causal(), 2, 4) == ["###.", "####"]
    assert drawn(Causal(), 4, 2) == ["..", "..", "#.", "##"]


def test_window_reaches_both_ways_and_combines() -> None:
    assert drawn(Window(1), 4, 4) == ["##..", "###.", ".###", "..##"]
    assert drawn(Window(1) & Causal(), 4, 4) == ["#...", "##..", ".##.", "..##"]
    assert drawn(Window(2) & Window(1), 3, 3) == ["##.", "###", ".##"]


def test_padding_hides_keys_row_by_row() -> None:
    allowed = Padding(torch.tensor([2, 0])).boolean(1, 3)
    assert allowed is not None
    assert allowed.tolist() == [[[[True, True, False]]], [[[False, False, False]]]]


def test_two_paddings_keep_the_shorter() -> None:
    both = Padding(torch.tensor([2, 3])) & Padding(torch.tensor([3, 1]))
    assert both.lengths is not None
    assert both.lengths.tolist() == [2, 1]


def test_nothing_forbidden_is_no_tensor() -> None:
    assert Mask().boolean(3, 3) is None
    assert Mask().kinds == frozenset()


def test_allowed_combines_with_the_rest() -> None:
    checkers = torch.tensor([[True, False], [True, True]])
    assert drawn(Allowed(checkers) & Causal(), 2, 2) == ["#.", "##"]
    assert (Allowed(checkers) & Causal()).kinds == {"allowed", "causal"}


def test_a_mask_describes_itself() -> None:
    mask = Causal() & Window(3) & Padding(torch.tensor([5, 4]))
    assert repr(mask) == "Causal() & Window(3) & Padding([5, 4])"
    assert repr(Mask()) == "Mask()"


def test_without_drops_a_rule() -> None:
    assert (Causal() & Window(3)).without("radius").kinds == {"causal"}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Window(-1), "Window radius is -1; it must be a whole number, 0 or more."),
        (lambda: Padding(torch.ones(2, 3, dtype=torch.long)), r"shape \(2, 3\); give one length"),
        (lambda: Allowed(torch.zeros(2, 2)), "dtype torch.float32; it must be torch.bool"),
        (lambda: Allowed(torch.ones(3, dtype=torch.bool)), r"shape \(3,\)"),
    ],
)
def test_what_is_refused(make: object, message: str) -> None:
    assert callable(make)
    with pytest.raises(RegardError, match=message):
        make()
