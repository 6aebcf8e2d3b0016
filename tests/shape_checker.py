"""The checker that the import hook of conftest.py applies to every function of ours.

What `jaxtyping.jaxtyped` does on each call (binding the arguments, checking them twice) costs several
times what our functions do. Most signatures name no shape, and of those that do most need no more
than a place for the sizes of one call, so `jaxtyped_lightly` gives each function just what it needs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any, get_type_hints

import jaxtyping
from beartype import BeartypeConf, beartype
from beartype.roar import BeartypeDecorHintPep673Exception

jaxtyped_in_full = jaxtyping.jaxtyped

checked_by_beartype = beartype(conf=BeartypeConf(violation_type=jaxtyping.TypeCheckError))


def check(function: Callable[..., Any]) -> Callable[..., Any]:
    """Beartype, except that what is annotated `Self` is left unchecked.

    The hook decorates methods one by one, before their class exists, so `Self` has no meaning yet.
    """
    try:
        return checked_by_beartype(function)
    except BeartypeDecorHintPep673Exception:
        return function


def jaxtyped_lightly(function: Any = None, *, typechecker: Any = None) -> Any:
    """In place of `jaxtyping.jaxtyped`: the same checks and the same kind of error."""
    if function is None:
        return functools.partial(jaxtyped_lightly, typechecker=typechecker)
    written = function.__annotations__.values() if isinstance(function, FunctionType) else ["{"]
    text = " ".join(str(annotation) for annotation in written)
    # A size named in braces is read from the bound arguments.
    if "{" in text or "Self" in text:
        return jaxtyped_in_full(function, typechecker=typechecker)
    checked = _checked(function)
    # Shapes stand in quotes.
    with_sizes = bool({'"', "'"} & set(text))

    @functools.wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        if jaxtyping.config.jaxtyping_disable or hasattr(call, "__no_type_check__"):
            return function(*args, **keywords)
        if not with_sizes:
            return checked(*args, **keywords)
        with jaxtyped_in_full("context"):
            return checked(*args, **keywords)

    return call


def _checked(function: FunctionType) -> Callable[..., Any]:
    """With names resolved where they can be: what is imported for type checkers alone cannot."""
    kept = function.__annotations__
    function.__annotations__ = {name: _resolved(kept[name], function) for name in kept}
    try:
        return check(function)
    finally:
        function.__annotations__ = kept


def _resolved(annotation: Any, function: FunctionType) -> Any:
    def holder() -> None:
        """Carries one annotation."""

    holder.__annotations__ = {"held": annotation}
    try:
        return get_type_hints(holder, function.__globals__, include_extras=True)["held"]
    except Exception:
        return Any
