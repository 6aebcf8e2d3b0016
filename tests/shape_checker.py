"""The checker that the import hook of conftest.py applies to every function of ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from beartype import beartype
from beartype.roar import BeartypeDecorHintPep673Exception


def check(function: Callable[..., Any]) -> Callable[..., Any]:
    """Beartype, except that what is annotated `Self` is left unchecked.

    The hook decorates methods one by one, before their class exists, so `Self` has no meaning yet.
    """
    try:
        return beartype(function)
    except BeartypeDecorHintPep673Exception:
        return function
