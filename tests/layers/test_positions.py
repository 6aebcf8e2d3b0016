"""The table: listed without torch, every kind built by name, options its own."""

from __future__ import annotations

from typing import Any

import pytest

from regard.core.errors import RegardError
from regard.layers.positions import POSITIONS, build_position

SIZES = {"model_dim": 22, "head_dim": 10, "num_heads": 3}


@pytest.mark.parametrize("name", POSITIONS)
def test_every_kind_is_built(name: str) -> None:
    built = build_position(name, **SIZES, max_length=7)
    assert type(built).__name__ == POSITIONS[name].class_name
    acts = {"tokens": "forward", "heads": "rotation", "scores": "values"}
    assert hasattr(built, acts[POSITIONS[name].acts_on])
    assert hasattr(built, "cost")


def test_options_reach_their_kind() -> None:
    assert build_position("rotary", **SIZES, base=500.0).base == 500.0


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("rotery", {}, "Unknown position 'rotery'. Did you mean 'rotary'\\? Choose from: alibi, "),
        ("rotary", {"bass": 5}, "Unknown option of position 'rotary' 'bass'. Did you mean 'base'"),
        ("none", {"base": 5}, "position 'none' has no options"),
    ],
)
def test_a_wrong_name_is_refused(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(RegardError, match=message):
        build_position(name, **SIZES, **options)
