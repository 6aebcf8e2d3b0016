"""The type checker that the import hook of conftest.py applies to every function of `regard`.

`jaxtyping.jaxtyped` binds and checks the arguments twice on each call, which costs several times what the
functions do. Most signatures have no shapes, and most of the others only need a context for the sizes of
one call. `fast_jaxtyped` gives each function just what it needs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any, get_args, get_type_hints

import jaxtyping
from beartype import BeartypeConf, beartype
from beartype.roar import BeartypeDecorHintPep673Exception

full_jaxtyped = jaxtyping.jaxtyped

beartype_checked = beartype(conf=BeartypeConf(violation_type=jaxtyping.TypeCheckError))


def check(function: Callable[..., Any]) -> Callable[..., Any]:
    """Beartype, without functions annotated `Self`: methods are decorated before their class exists."""
    try:
        return beartype_checked(function)
    except BeartypeDecorHintPep673Exception:
        return function


def fast_jaxtyped(function: Any = None, *, typechecker: Any = None) -> Any:
    """A replacement for `jaxtyping.jaxtyped` with the same checks and errors."""
    if function is None:
        return functools.partial(fast_jaxtyped, typechecker=typechecker)
    annotations = function.__annotations__.values() if isinstance(function, FunctionType) else ["{"]
    text = " ".join(str(annotation) for annotation in annotations)
    # A size in braces is evaluated with the bound arguments.
    if "{" in text or "Self" in text:
        return full_jaxtyped(function, typechecker=typechecker)
    resolved = {name: _resolve(hint, function) for name, hint in function.__annotations__.items()}
    checked = _checked(function, resolved)
    has_shapes = any(_has_shape(hint) for hint in resolved.values())

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if jaxtyping.config.jaxtyping_disable or hasattr(call, "__no_type_check__"):
            return function(*args, **kwargs)
        if not has_shapes:
            return checked(*args, **kwargs)
        with full_jaxtyped("context"):
            return checked(*args, **kwargs)

    return call


def _checked(function: FunctionType, resolved: dict[str, Any]) -> Callable[..., Any]:
    """Checked, with annotations resolved; names imported for type checkers only become `Any`."""
    original = function.__annotations__
    function.__annotations__ = resolved
    try:
        return check(function)
    finally:
        function.__annotations__ = original


def _has_shape(hint: Any) -> bool:
    """Whether an annotation, or a part of it, is a type such as Float[Tensor, "batch length"]."""
    if isinstance(hint, type) and issubclass(hint, jaxtyping.AbstractArray):
        return True
    return any(_has_shape(part) for part in get_args(hint))


def _resolve(annotation: Any, function: FunctionType) -> Any:
    def holder() -> None:
        """Carries one annotation."""

    holder.__annotations__ = {"held": annotation}
    try:
        return get_type_hints(holder, function.__globals__, include_extras=True)["held"]
    except Exception:
        return Any
