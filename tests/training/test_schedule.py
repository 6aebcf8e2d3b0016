"""Learning rates that can be checked with a pencil."""

from __future__ import annotations

import pytest

from regard.training.schedule import SCHEDULES, Moment


@pytest.mark.parametrize(
    ("name", "step", "share", "factor"),
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
def test_factor(name: str, step: int, share: float, factor: float) -> None:
    moment = Moment(step=step, share=share, warmup_steps=4, final_fraction=0.2)
    assert SCHEDULES[name](moment) == pytest.approx(factor)


@pytest.mark.parametrize("name", SCHEDULES)
def test_without_warmup_the_first_step_has_the_peak(name: str) -> None:
    moment = Moment(step=1, share=0.0, warmup_steps=0, final_fraction=0.0)
    assert SCHEDULES[name](moment) == 1.0
