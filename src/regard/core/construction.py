"""Building something from a table by its signature: the signature is the schema."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from regard.core.errors import RegardError
from regard.core.names import unknown_name

Built = TypeVar("Built")


def known_options(kind: Callable[..., object]) -> list[str]:
    """The named arguments of a constructor; a class without one of its own has none."""
    parameters = inspect.signature(kind).parameters.values()
    catch_all = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [parameter.name for parameter in parameters if parameter.kind not in catch_all]


def construct(
    kind: Callable[..., Built],
    *,
    what: str,
    sizes: Mapping[str, int | None],
    options: Mapping[str, Any],
) -> Built:
    """Call a constructor with those of `sizes` it asks for (None is not given) and all `options`.

    An option it does not have is an error that calls the thing `what` and lists the options there are.
    """
    known = known_options(kind)
    for option in options:
        if option not in known:
            if not known:
                raise RegardError(f"Unknown option '{option}': {what} has no options.")
            raise unknown_name(f"option of {what}", option, known)
    wanted = {size: value for size, value in sizes.items() if size in known and value is not None}
    return kind(**{**wanted, **options})
