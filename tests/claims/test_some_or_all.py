"""Of all, of some, of none."""

from __future__ import annotations

import pytest

from regard.claims.engine import of_all


@pytest.mark.parametrize(
    ("fitting", "verdict"), [(["a", "b"], "holds"), (["b"], "holds if"), ([], "fails")]
)
def test_of_all_things_some_or_none(fitting: list[str], verdict: str) -> None:
    assert of_all(fitting, {"a": 1.0, "b": 2.0}) == verdict
