"""Options checked against a signature: the signature of what they are for is their schema."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_args, get_type_hints

from pydantic import ConfigDict, ValidationError, create_model

from regard.core.construction import known_options
from regard.core.errors import RegardError
from regard.core.names import unknown_name


def typed_options(
    kind: Callable[..., object],
    options: Mapping[str, Any],
    *,
    section: str,
    given_elsewhere: tuple[str, ...] = (),
    beside: tuple[str, ...] = (),
) -> dict[str, Any]:
    """The options, each turned into the type that `kind` asks for.

    An option that `kind` does not have is refused, and the known ones are listed; those of
    `given_elsewhere` are not the user's to give, and those of `beside` are known in the section and taken
    out of it already. `section` is what errors call the place: "model".
    """
    known = [name for name in known_options(kind) if name not in given_elsewhere]
    for name in options:
        if name not in known:
            choices = [f"{section}.{key}" for key in (*beside, *known)]
            raise unknown_name("option", f"{section}.{name}", choices)
    function = kind.__init__ if inspect.isclass(kind) else kind
    hints = get_type_hints(function)
    fields: dict[str, Any] = {name: (hints.get(name, Any), ...) for name in options}
    for name, value in options.items():
        hint = hints.get(name, Any)
        # A number is asked for, and pydantic would take true for 1.
        if isinstance(value, bool) and not {bool, Any} & {hint, *get_args(hint)}:
            raise RegardError(f"{section}.{name}={value}: it must not be true or false.")
    options = {name: _nothing(value, hints.get(name, Any)) for name, value in options.items()}
    schema = create_model(
        "Options",
        __config__=ConfigDict(
            extra="forbid", protected_namespaces=(), arbitrary_types_allowed=True
        ),
        **fields,
    )
    try:
        checked = schema(**options)
    except ValidationError as error:
        fault = error.errors()[0]
        name = str(fault["loc"][0])
        # pydantic's messages read "Input should be a valid integer, …".
        rule = fault["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
        raise RegardError(f"{section}.{name}={options[name]!r}: it must be {rule}.") from error
    return {name: getattr(checked, name) for name in options}


def _nothing(value: Any, hint: Any) -> Any:
    """None for the word "none", which neither TOML nor a command line can else say.

    Where a text is allowed, "none" may be a choice like any other, and stays.
    """
    kinds = get_args(hint)
    return None if value == "none" and type(None) in kinds and str not in kinds else value
