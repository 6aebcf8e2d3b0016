"""Schedules and budgets, with values that can be checked by hand."""

from __future__ import annotations

import pytest

from regard.training.schedule import SCHEDULES, Budget, ScheduleState, Usage


@pytest.mark.parametrize(
    ("name", "step", "progress", "factor"),
    [
        ("constant", 1, 0.0, 0.25),
        ("constant", 4, 0.3, 1.0),
        ("constant", 9, 1.0, 1.0),
        ("linear", 2, 0.1, 0.5 * 0.92),  # 0.2 + 0.8 · 0.9
        ("linear", 6, 0.5, 0.6),
        ("linear", 10, 1.0, 0.2),
        ("cosine", 4, 0.0, 1.0),
        ("cosine", 6, 0.5, 0.6),
        ("cosine", 8, 1 / 3, 0.8),  # cos 60° = ½: 0.2 + 0.8 · ¾
        ("cosine", 10, 1.0, 0.2),
        ("inverse_sqrt", 1, 0.0, 0.25),
        ("inverse_sqrt", 4, 0.5, 1.0),
        ("inverse_sqrt", 16, 0.5, 0.5),
        ("inverse_sqrt", 400, 1.0, 0.1),
    ],
)
def test_factor(name: str, step: int, progress: float, factor: float) -> None:
    state = ScheduleState(step=step, progress=progress, warmup_steps=4, final_fraction=0.2)
    assert SCHEDULES[name](state) == pytest.approx(factor)


@pytest.mark.parametrize("name", SCHEDULES)
def test_first_step_without_warmup_has_peak_rate(name: str) -> None:
    state = ScheduleState(step=1, progress=0.0, warmup_steps=0, final_fraction=0.0)
    assert SCHEDULES[name](state) == 1.0


USED = Usage(steps=30, tokens=200, seconds=4.0, flops=1000)


@pytest.mark.parametrize(
    ("budget", "progress", "exhausted"),
    [
        (Budget(steps=120), 0.25, False),
        (Budget(tokens=400), 0.5, False),
        (Budget(seconds=16.0), 0.25, False),
        (Budget(flops=8e3), 0.125, False),
        (Budget(steps=120, tokens=400, seconds=5.0), 0.8, False),
        (Budget(steps=30), 1.0, True),
        (Budget(steps=1000, tokens=150), 1.0, True),
        (Budget(), 0.0, False),
    ],
)
def test_nearest_limit_counts(budget: Budget, progress: float, exhausted: bool) -> None:
    assert budget.progress(USED) == progress
    assert budget.is_exhausted(USED) == exhausted
