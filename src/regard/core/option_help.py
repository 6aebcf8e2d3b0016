"""What every option means, from the docstrings of the classes that define it, with its type and default.

    Args:                                        hops           number of attention hops
        max_length: Maximum length of a text.    cell           lstm, gru or tanh

Either form is read.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic_core import PydanticUndefined, to_jsonable_python

from regard.core.options import Options

ROW = re.compile(r"(?P<indent> *)(?P<names>\w+(?:, \w+)*)(?::| {2}| (?=\S))\s*(?P<text>.*)")
BOUNDS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """An option as `--set KEY=VALUE` takes it. `from_recipe`: the recipe or the command sets `default`."""

    key: str
    type: str
    default: Any
    meaning: str
    from_recipe: bool = False


def settings_of(
    options: type[Options],
    *,
    section: str,
    values: Mapping[str, Any],
    owner: type | None = None,
    shared: Mapping[str, str] | None = None,
) -> Iterator[Setting]:
    """Every option of a section; `owner` has the docstring, if it is not that of the options.

    `values` replace defaults; `shared` are meanings of options that the docstring does not explain.
    """
    meanings = {**(shared or {}), **meanings_in(owner or options, tuple(options.model_fields))}
    for name, field in options.model_fields.items():
        kind = (
            Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
        )
        default = field.get_default(call_default_factory=True)
        default = "required" if default is PydanticUndefined else to_jsonable_python(default)
        yield Setting(
            key=f"{section}.{name}" if section else name,
            type=type_name(kind),
            default=values.get(name, default),
            meaning=meanings.get(name, ""),
            from_recipe=name in values,
        )


def meanings_in(owner: type, names: tuple[str, ...]) -> dict[str, str]:
    """Option → meaning, from the docstrings of a class and its bases; the nearest one counts."""
    found: dict[str, str] = {}
    for kind in reversed(owner.__mro__):
        doc = inspect.cleandoc(vars(kind).get("__doc__") or "")
        found |= {name: _sentence(text) for name, text in _rows(doc, names)}
    return found


def _rows(doc: str, names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """The rows of a table, or the lines below Args, with their continuations."""
    current: list[str] = []
    texts: list[str] = []
    indent = 0
    for line in [*doc.splitlines(), ""]:
        match = ROW.fullmatch(line)
        given = match["names"].split(", ") if match else []
        starts = bool(given) and all(name in names for name in given)
        deeper = len(line) - len(line.lstrip()) > indent
        if current and not starts and line.strip() and deeper:
            texts.append(line.strip())
            continue
        yield from ((name, " ".join(texts)) for name in current)
        current = given if starts else []
        if match and starts:
            texts, indent = [match["text"].strip()], len(match["indent"])


def _sentence(text: str) -> str:
    text = text.strip().rstrip(";.")
    return text[:1].upper() + text[1:]


def type_name(kind: Any) -> str:
    """A type as a user writes its values.

    >>> type_name(Literal["best", "last"] | None)
    'best|last or none'
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        limits = [
            f"{sign} {getattr(mark, name):g}"
            for each in arguments[1:]
            for mark in (each, *getattr(each, "metadata", ()))
            for name, sign in BOUNDS.items()
            if getattr(mark, name, None) is not None
        ]
        return " ".join([type_name(arguments[0]), ", ".join(limits)]).strip()
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(type_name(each) for each in arguments))
    if origin is Literal:
        return "|".join(map(str, arguments))
    if kind is NoneType:
        return "none"
    names = {bool: "true|false", str: "text", dict: "table", tuple: "list", list: "list"}
    plain = origin or kind
    return names.get(plain, getattr(plain, "__name__", str(plain)))
