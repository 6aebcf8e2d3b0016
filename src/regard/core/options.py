"""Options: pydantic models, and constructors whose signature is the schema.

    class TrainingOptions(Options):              a section of a spec: `training.steps=0` is an error
        steps: PositiveInt | None = None

    class FeedForward(nn.Module):
        @validated                               the arguments are checked when the layer is built
        def __init__(self, *, model_dim: PositiveInt, dropout: Probability = 0.0) -> None: ...

A range is stated once, on its field. Values are checked strictly: no numbers in strings, no true for 1. An
error names the option, the value, the rule and the way out; an unknown option lists the nearest ones.
"""

from __future__ import annotations

import functools
import inspect
import reprlib
from collections.abc import Callable, Iterable, Mapping
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    ParamSpec,
    Self,
    TypeVar,
    get_args,
    get_type_hints,
)

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model, model_validator

from regard.core.errors import RegardError
from regard.core.registry import known_options, unknown_name

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

PositiveInt = Annotated[int, Field(ge=1)]
NonNegativeInt = Annotated[int, Field(ge=0)]
PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegativeFloat = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Probability = Annotated[float, Field(ge=0, lt=1)]  # of dropout and held-out fractions: below 1
Fraction = Annotated[float, Field(ge=0, le=1)]
PositiveFraction = Annotated[float, Field(gt=0, le=1)]

STRICT = ConfigDict(
    strict=True,
    extra="forbid",
    frozen=True,
    allow_inf_nan=False,
    protected_namespaces=(),
    arbitrary_types_allowed=True,
)

P = ParamSpec("P")
R = TypeVar("R")


class Options(BaseModel):
    """Base class of option sections: immutable, no unknown keys. `SECTION` prefixes names in errors.

    A default may change in a later version, and options may be added. `INTRODUCED` maps an option that was
    added after the first release to the default it was introduced with: what a record without it meant.
    """

    model_config = STRICT
    SECTION: ClassVar[str] = ""
    INTRODUCED: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            defaults = {name: field.default for name, field in type(self).model_fields.items()}
            raise option_error(
                error, values, section=self.SECTION, known=defaults, defaults=defaults
            ) from error

    @model_validator(mode="before")
    @classmethod
    def _parse_none(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        hints = {name: field.annotation for name, field in cls.model_fields.items()}
        return {name: parse_none(value, hints.get(name)) for name, value in values.items()}

    def as_dict(self) -> dict[str, Any]:
        """Every option by name; JSON-compatible."""
        return self.model_dump(mode="json")

    def replace(self, **changes: Any) -> Self:
        """These options with changes, validated."""
        return type(self)(
            **{**{name: getattr(self, name) for name in type(self).model_fields}, **changes}
        )

    @classmethod
    def from_record(cls, values: Mapping[str, Any]) -> Self:
        """From a stored record: an option that it lacks has the default it was introduced with."""
        return cls(**{**cls.INTRODUCED, **values})

    def identity(self) -> dict[str, Any]:
        """What identifies these options in a key: all of them, but not those added later at the value that
        records without them have. So an added option changes no key, and a changed default does.
        """
        return {
            name: value
            for name, value in self.as_dict().items()
            if name not in self.INTRODUCED or value != self.INTRODUCED[name]
        }


def parse_none(value: Any, hint: Any) -> Any:
    """None for "none" where the type allows None but not str; TOML has no null."""
    kinds = get_args(hint)
    return None if value == "none" and type(None) in kinds and str not in kinds else value


def option_error(
    error: ValidationError,
    values: Mapping[str, Any],
    *,
    section: str,
    known: Iterable[str],
    defaults: Mapping[str, Any] | None = None,
    what: str = "option",
) -> RegardError:
    """The first error as a `RegardError` with the option's name, its value, the rule and the way out."""
    first = error.errors(include_url=False)[0]
    prefix = f"{section}." if section else ""
    if not first["loc"]:  # a rule about several options
        return RegardError(_message(first))
    name = str(first["loc"][0])
    if first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return unknown_name(what, f"{prefix}{name}", [f"{prefix}{each}" for each in known])
    if first["type"] in ("missing", "missing_argument", "missing_keyword_only_argument"):
        return RegardError(f"{prefix}{name} is missing. Set it: {prefix}{name}=VALUE.")
    if first["type"] == "value_error":
        return RegardError(f"{prefix}{name}={_shown(values.get(name))}: {_message(first)}")
    # One error per member of a union: "Input should be a valid integer".
    same = [each for each in error.errors(include_url=False) if each["loc"][:1] == first["loc"][:1]]
    rules = dict.fromkeys(each["msg"].partition(" should ")[2] or each["msg"] for each in same)
    default = (defaults or {}).get(name)
    has_default = name in (defaults or {}) and isinstance(default, str | int | float | bool)
    way_out = f" The default is {default}." if has_default else ""
    return RegardError(
        f"{prefix}{name}={_shown(values.get(name))}: it must {' or '.join(rules)}.{way_out}"
    )


def _message(fault: ErrorDetails) -> str:
    return str(fault.get("ctx", {}).get("error", fault["msg"]))


def _shown(value: object) -> str:
    return value if isinstance(value, str) and value.isprintable() else reprlib.repr(value)


@functools.cache
def _signature_schema(function: Callable[..., object]) -> type[BaseModel]:
    """A pydantic model of the keyword parameters of a function, without those that catch all."""
    own = function.__init__ if inspect.isclass(function) else function
    hints = get_type_hints(inspect.unwrap(own), include_extras=True)
    parameters = inspect.signature(function).parameters
    fields: dict[str, Any] = {
        name: (
            hints.get(name, Any),
            ...
            if parameters[name].default is inspect.Parameter.empty
            else parameters[name].default,
        )
        for name in known_options(function)
        if name != "self"
    }
    return create_model("Arguments", __config__=STRICT, **fields)


def validate_keywords(
    function: Callable[..., object],
    values: Mapping[str, Any],
    *,
    section: str,
    reserved: tuple[str, ...] = (),
    section_keys: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Options of a section, validated against the signature of a class or function; returns the given ones.

    `reserved` parameters are not options. `section_keys` are other keys of the section, listed in errors.
    """
    schema = _signature_schema(function)
    options = [name for name in schema.model_fields if name not in reserved]
    for name in values:
        if name not in options:
            choices = [f"{section}.{key}" for key in (*section_keys, *options)]
            raise unknown_name("option", f"{section}.{name}", choices)
    own = {name: schema.model_fields[name] for name in values}
    given = {name: parse_none(value, own[name].annotation) for name, value in values.items()}
    fields: dict[str, Any] = {name: (_hint(field), ...) for name, field in own.items()}
    partial: Any = create_model("Given", __config__=STRICT, **fields)
    try:
        checked = partial(**given)
    except ValidationError as error:
        defaults = {name: field.default for name, field in own.items() if not field.is_required()}
        raise option_error(
            error, given, section=section, known=options, defaults=defaults
        ) from error
    return {name: getattr(checked, name) for name in given}


def _hint(field: Any) -> Any:
    return Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation


def validated(init: Callable[P, R]) -> Callable[P, R]:
    """Decorate a constructor: its keyword arguments are checked against their annotations."""

    @functools.wraps(init)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        schema = _init_schema(init)
        owner = type(args[0]).__name__ if args else init.__qualname__
        try:
            found = schema(**kwargs)
        except ValidationError as error:
            defaults = {
                name: field.default
                for name, field in schema.model_fields.items()
                if not field.is_required()
            }
            raise option_error(
                error,
                kwargs,
                section=owner,
                known=schema.model_fields,
                defaults=defaults,
                what="argument",
            ) from error
        values: Any = {name: getattr(found, name) for name in kwargs}
        return init(*args, **values)

    return checked


@functools.cache
def _init_schema(init: Callable[..., object]) -> type[BaseModel]:
    """The keyword-only parameters of a constructor, resolved at its first call."""
    hints = get_type_hints(inspect.unwrap(init), include_extras=True)
    fields: dict[str, Any] = {}
    for name, parameter in inspect.signature(init).parameters.items():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[name] = (hints.get(name, Any), default)
    return create_model("Arguments", __config__=STRICT, **fields)
