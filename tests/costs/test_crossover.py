"""From where on one is ahead of the other."""

from __future__ import annotations

import pytest

from regard.costs.predict import LENGTHS, crossover


def test_a_line_passes_a_parabola_where_they_meet() -> None:
    assert crossover(lambda n: n * n, lambda n: 1000.0 * n) == pytest.approx(1000, rel=0.01)


def test_one_that_is_always_ahead_is_so_from_the_first_length() -> None:
    assert crossover(lambda n: 2.0 * n, lambda n: 1.0 * n) == LENGTHS[0]


def test_one_that_is_never_ahead_has_no_crossing() -> None:
    assert crossover(lambda n: 1.0 * n, lambda n: 2.0 * n) is None


def test_of_several_crossings_the_last_counts() -> None:
    ahead = {32: 2.0, 64: 0.5, 128: 2.0, 256: 0.5, 512: 4.0}
    found = crossover(lambda n: ahead[n], lambda _: 1.0, list(ahead))
    assert found is not None
    assert 256 < found < 512


def test_being_level_at_the_end_counts_as_ahead() -> None:
    assert crossover(lambda _: 1.0, lambda _: 1.0) == LENGTHS[0]
