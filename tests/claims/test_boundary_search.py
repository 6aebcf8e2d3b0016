"""Boundaries by halving: what is returned where there is one, and where there is none."""

from __future__ import annotations

import pytest

from regard.claims.engine import last_that_holds


def test_the_boundary_between_two_ends() -> None:
    assert last_that_holds(lambda x: x <= 0.3, low=0.0, high=1.0) == pytest.approx(0.3)


def test_what_holds_throughout_gives_the_upper_end() -> None:
    assert last_that_holds(lambda _: True, low=0.0, high=1.0) == 1.0


def test_what_holds_nowhere_gives_none() -> None:
    assert last_that_holds(lambda _: False, low=0.0, high=1.0) is None
