"""Options: pydantic models, and constructors whose signature is the schema.

    class TrainingOptions(Options):              a section of a spec: `training.steps=0` is an error
        steps: PositiveInt | None = None

    class FeedForward(nn.Module):
        @validated                               the arguments are checked when the layer is built
        def __init__(self, *, model_dim: PositiveInt, dropout: Probability = 0.0) -> None: ...

A range is stated once, on its field. Values are checked strictly: no numbers in strings, no true for 1. An
error names the option, the value, the rule and the way out; an unknown option lists the nearest ones.

A run is identified by its options, and a record without an option meant the default that the option was
introduced with. Those of regard are in introduced_defaults.json, which is only ever added to. A plug-in
marks an option whose default it changes: `scale: Annotated[float, Introduced(1.0)] = 2.0`.
"""

from __future__ import annotations

import functools
import inspect
import json
import reprlib
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    ParamSpec,
    Self,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model, model_validator
from pydantic_core import to_jsonable_python

from regard.core.errors import RegardError
from regard.core.registry import unknown_name

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

# pydantic's words → those of a recipe
RULES = {
    "a valid integer": "an integer",
    "a valid number": "a number",
    "a valid string": "text",
    "a valid boolean": "true or false",
    "a valid tuple": "a list",
    "a valid list": "a list",
    "a valid dictionary": "a table",
}

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Introduced:
    """Marks the default that an option was introduced with, where it is no longer the default."""

    default: Any


class Options(BaseModel):
    """Base class of option sections: immutable, no unknown keys.

    `SECTION` prefixes names in errors, `WHAT` is what a key is called there. `OWNER` is the class whose
    constructor has the options, if they are those of a signature.
    """

    model_config = STRICT
    SECTION: ClassVar[str] = ""
    WHAT: ClassVar[str] = "option"
    OWNER: ClassVar[str] = ""

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            fields = type(self).model_fields
            raise option_error(
                error, values, section=self.SECTION, defaults=_defaults(fields), what=self.WHAT
            ) from error

    @model_validator(mode="before")
    @classmethod
    def _convert(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        hints = {name: field.annotation for name, field in cls.model_fields.items()}
        return {name: convert(value, hints.get(name, Any)) for name, value in values.items()}

    @classmethod
    def validate_names(cls, values: Iterable[str], *, section_keys: tuple[str, ...] = ()) -> None:
        """Raise if a key is not an option; `section_keys` are other keys of the section."""
        for name in values:
            if name not in cls.model_fields:
                known = (f"{cls.SECTION}.{key}" for key in (*section_keys, *cls.model_fields))
                raise unknown_name(cls.WHAT, f"{cls.SECTION}.{name}", known)

    def as_kwargs(self) -> dict[str, Any]:
        """Every option by name, as Python values."""
        return {name: getattr(self, name) for name in type(self).model_fields}

    def as_dict(self) -> dict[str, Any]:
        """Every option by name; JSON-compatible."""
        return self.model_dump(mode="json")

    def replace(self, **changes: Any) -> Self:
        """These options with changes, validated."""
        return type(self)(**{**self.as_kwargs(), **changes})

    @classmethod
    def introduced(cls) -> dict[str, Any]:
        """The defaults that the options were introduced with, as JSON values.

        An option that is not in introduced_defaults.json is new: it is introduced with its default.
        """
        recorded: dict[str, Any] = {}
        for base in reversed(cls.__mro__):
            if base.__module__.startswith("regard."):
                recorded |= introduced_defaults().get(base.__name__, {})
            else:  # what a plug-in declares itself is its own
                for name in vars(base).get("__annotations__", {}):
                    recorded.pop(name, None)
        if cls.OWNER:
            recorded = introduced_defaults().get(cls.OWNER, {})
        found = {}
        for name, field in cls.model_fields.items():
            marks = [mark.default for mark in field.metadata if isinstance(mark, Introduced)]
            if not field.is_required():
                default = to_jsonable_python(field.get_default(call_default_factory=True))
                found[name] = marks[0] if marks else recorded.get(name, default)
        return found

    @classmethod
    def from_record(cls, values: Mapping[str, Any]) -> Self:
        """From a stored record: an option that it lacks has the default it was introduced with."""
        return cls(**{**cls.introduced(), **values})

    def identity(self) -> dict[str, Any]:
        """What identifies these options in a key: those that differ from the default of their introduction.

        So an added option changes no key, while a changed default changes the keys of runs that use it.
        """
        absent = self.introduced()
        return {
            name: value
            for name, value in self.as_dict().items()
            if name not in absent or value != absent[name]
        }


@functools.cache
def introduced_defaults() -> dict[str, dict[str, Any]]:
    """Class → option → the default it was introduced with."""
    path = Path(__file__).with_name("introduced_defaults.json")
    found: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _defaults(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: None if field.is_required() else field.default for name, field in fields.items()}


def convert(value: Any, hint: Any) -> Any:
    """A value of TOML, JSON or `--set` as the type needs it, where the meaning is clear: None for "none",
    1000 for 1e3, a tuple for a list.
    """
    kinds = _kinds(hint)
    if value == "none" and type(None) in kinds and str not in kinds:
        return None
    if isinstance(value, float) and value.is_integer() and int in kinds and float not in kinds:
        return int(value)
    if isinstance(value, list) and tuple in kinds and list not in kinds:
        return tuple(value)
    return value


def _kinds(hint: Any) -> set[Any]:
    """The types that a hint allows, without their arguments."""
    origin = get_origin(hint)
    if origin is Annotated:
        return _kinds(get_args(hint)[0])
    if origin in (Union, UnionType):
        return {kind for member in get_args(hint) for kind in _kinds(member)}
    return {origin or hint}


def option_error(
    error: ValidationError,
    values: Mapping[str, Any],
    *,
    section: str,
    defaults: Mapping[str, Any],
    what: str = "option",
) -> RegardError:
    """The first error as a `RegardError` with the option's name, its value, the rule and the way out.

    `defaults` has every known option; None for those without a default.
    """
    first = error.errors(include_url=False)[0]
    prefix = f"{section}." if section else ""
    if not first["loc"]:  # a rule about several options
        return RegardError(_message(first))
    name, *inner = first["loc"]
    if inner and first["type"] in ("missing", "extra_forbidden"):
        return RegardError(
            f"{prefix}{name}={_shown(values.get(str(name)))}: {inner[-1]}: {first['msg']}."
        )
    name = str(name)
    if first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return unknown_name(what, f"{prefix}{name}", [f"{prefix}{each}" for each in defaults])
    if first["type"] in ("missing", "missing_argument", "missing_keyword_only_argument"):
        return RegardError(f"{prefix}{name} is missing. Set it: {prefix}{name}=VALUE.")
    if first["type"] == "value_error":
        return RegardError(f"{prefix}{name}={_shown(values.get(name))}: {_message(first)}")
    if first["type"] == "dict_type" and not inner:
        return RegardError(
            f"{prefix}{name}={_shown(values.get(name))}: it must be a table. Set one key at a time, as "
            f"{prefix}{name}.KEY=VALUE."
        )
    # One error per member of a union: "Input should be a valid integer".
    same = [each for each in error.errors(include_url=False) if each["loc"][:1] == first["loc"][:1]]
    # Only Python code can give an object; an error of a recipe lists the other kinds.
    plain = [each for each in same if each["type"] != "is_instance_of"]
    rules = dict.fromkeys(_rule(each["msg"]) for each in plain or same)
    default = defaults.get(name)
    default = str(default).lower() if isinstance(default, bool) else default
    way_out = f" The default is {default}." if isinstance(default, str | int | float) else ""
    return RegardError(
        f"{prefix}{name}={_shown(values.get(name))}: it must be {' or '.join(rules)}.{way_out}"
    )


def _rule(message: str) -> str:
    """What a value must be, from a message of pydantic, in the words of a recipe.

    >>> _rule("Input should be a valid dictionary")
    'a table'
    """
    rule = (message.partition(" should ")[2] or message).removeprefix("be ")
    return RULES.get(rule, rule)


def _message(fault: ErrorDetails) -> str:
    return str(fault.get("ctx", {}).get("error", fault["msg"]))


def _shown(value: object) -> str:
    return value if isinstance(value, str) and value.isprintable() else reprlib.repr(value)


@functools.cache
def options_of(
    function: Callable[..., object], *, section: str, reserved: tuple[str, ...] = ()
) -> type[Options]:
    """The arguments of a class or function as options of a section; `reserved` arguments are no options."""
    fields = _signature_fields(function)
    own = {name: field for name, field in fields.items() if name not in reserved}
    found: type[Options] = _without_warnings(
        create_model, "SignatureOptions", __base__=Options, **own
    )
    found.SECTION = section
    if function.__module__.startswith("regard."):
        found.OWNER = function.__name__
    return found


def _without_warnings(make: Callable[..., Any], name: str, **fields: Any) -> Any:
    """A pydantic model whose fields may have the names of its methods, such as `validate`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return make(name, **fields)


def _signature_fields(function: Callable[..., object]) -> dict[str, Any]:
    """Type and default of each argument that can be given by name, but self."""
    own = function.__init__ if inspect.isclass(function) else function
    try:
        hints = get_type_hints(inspect.unwrap(own), include_extras=True)
    except NameError as error:
        name = getattr(function, "__qualname__", repr(function))
        raise RegardError(
            f"The type of an argument of {name} is not known ({error}). Import it outside of "
            "`if TYPE_CHECKING`."
        ) from error
    return {
        name: (
            hints.get(name, Any),
            ... if parameter.default is parameter.empty else parameter.default,
        )
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        and name != "self"
    }


def validated(init: Callable[P, R]) -> Callable[P, R]:
    """Decorate a constructor: its named arguments are checked against their annotations."""

    @functools.wraps(init)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        schema = _init_schema(init)
        fields = schema.model_fields
        # Positional arguments stand first among the fields; too many are for `init` to refuse.
        given: Any = {**dict(zip(fields, args[1:], strict=False)), **kwargs}
        given = {
            name: convert(value, fields[name].annotation) if name in fields else value
            for name, value in given.items()
        }
        try:
            found = schema(**given)
        except ValidationError as error:
            raise option_error(
                error,
                given,
                section=type(args[0]).__name__,
                defaults=_defaults(fields),
                what="argument",
            ) from error
        values: Any = {name: getattr(found, name) for name in kwargs}
        return init(*args, **values)

    return checked


@functools.cache
def _init_schema(init: Callable[..., object]) -> type[BaseModel]:
    """The named parameters of a constructor, resolved at its first call."""
    found: type[BaseModel] = _without_warnings(
        create_model, "Arguments", __config__=STRICT, **_signature_fields(init)
    )
    return found
