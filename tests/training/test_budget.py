"""The nearest limit is what counts."""

from __future__ import annotations

import pytest

from regard.training.schedule import Budget, Usage

USED = Usage(steps=30, tokens=200, seconds=4.0, operations=1000)


@pytest.mark.parametrize(
    ("budget", "share", "ended"),
    [
        (Budget(steps=120), 0.25, False),
        (Budget(tokens=400), 0.5, False),
        (Budget(seconds=16.0), 0.25, False),
        (Budget(operations=8e3), 0.125, False),
        (Budget(steps=120, tokens=400, seconds=5.0), 0.8, False),
        (Budget(steps=30), 1.0, True),
        (Budget(steps=1000, tokens=150), 1.0, True),
        (Budget(), 0.0, False),
    ],
)
def test_share_and_end(budget: Budget, share: float, ended: bool) -> None:
    assert budget.share(USED) == share
    assert budget.is_used(USED) == ended
