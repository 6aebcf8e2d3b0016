"""Times in turns: the median and its interval by order statistics."""

from __future__ import annotations

import torch

from regard.claims.engine import interleaved_seconds, median_interval, one_thread, quotient


def test_of_fifteen_values_the_fourth_from_either_end_encloses_the_median() -> None:
    """P(3 or fewer of 15 below the median) = 576/32768 < 2.5 % < P(4 or fewer) = 1941/32768."""
    found = median_interval([float(value) for value in range(1, 16)])
    assert (found.median, found.low, found.high) == (8.0, 4.0, 12.0)


def test_few_values_are_enclosed_by_their_ends() -> None:
    assert median_interval([3.0, 1.0, 2.0]) == (2.0, 1.0, 3.0)


def test_a_quotient_is_taken_round_by_round() -> None:
    """A slow round slows both, so the quotient is 2 in each."""
    assert quotient([2.0, 20.0, 4.0], [1.0, 10.0, 2.0]) == (2.0, 2.0, 2.0)


def test_rivals_are_run_in_turns_after_one_to_warm_up() -> None:
    called: list[str] = []
    runs = {name: (lambda name=name: called.append(name)) for name in "ab"}
    times = interleaved_seconds(runs, rounds=3)
    assert "".join(called) == "ab" * 4
    assert {name: len(each) for name, each in times.items()} == {"a": 3, "b": 3}


def test_threads_are_as_before_afterwards() -> None:
    before = torch.get_num_threads()
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before
