"""Looking a name up in a table, with an error that helps when it is not there."""

from __future__ import annotations

import ast
import difflib
import inspect
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from regard.core.errors import RegardError

Entry = TypeVar("Entry")

MOST_SHOWN = 40
SHOWN_OF_MANY = 5


def unknown_name(kind: str, name: str, known: Iterable[str]) -> RegardError:
    """The error for a name that is not in a table: what was asked, the nearest name, all names.

    Of a long table the nearest few are named.

    >>> print(unknown_name("mechanism", "adittive", ["additive", "dot"]))
    Unknown mechanism 'adittive'. Did you mean 'additive'? Choose from: additive, dot.
    """
    choices = sorted(known)
    near = difflib.get_close_matches(name, choices, n=1)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    if len(choices) <= MOST_SHOWN:
        return RegardError(f"Unknown {kind} '{name}'.{hint} Choose from: {', '.join(choices)}.")
    # Nobody reads a screen full of names.
    some = difflib.get_close_matches(name, choices, n=SHOWN_OF_MANY, cutoff=0.0)
    return RegardError(
        f"Unknown {kind} '{name}'.{hint} The nearest of {len(choices)}: {', '.join(some)}."
    )


def look_up(kind: str, name: str, table: Mapping[str, Entry]) -> Entry:
    """The entry of `table` called `name`, or an error that lists the names there are."""
    if name not in table:
        raise unknown_name(kind, name, table)
    return table[name]


# Building something from a table by its signature: the signature is the schema.


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


# TOML files that are shipped in a folder, one a name, beside which users have files of their own.


@dataclass(frozen=True)
class ShippedFiles:
    """`what` is what errors call one of them, such as "recipe"."""

    what: str
    folder: Path

    def paths(self) -> dict[str, Path]:
        """Name → file."""
        return {path.stem: path for path in sorted(self.folder.glob("*.toml"))}

    def read(self, name: str) -> dict[str, Any]:
        """What a shipped file says, by its name; or a file of one's own, whose path ends in .toml."""
        shipped = self.paths()
        if name not in shipped and not name.endswith(".toml"):
            raise unknown_name(self.what, name, [*shipped, "FILE.toml"])
        try:
            return tomllib.loads(shipped.get(name, Path(name)).read_text(encoding="utf-8"))
        except OSError as error:
            raise RegardError(
                f"The {self.what} '{name}' cannot be read ({error.strerror}). Give the path of a TOML "
                f"file, or one of: {', '.join(shipped)}."
            ) from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise RegardError(f"The {self.what} '{name}' is not TOML: {error}.") from error


# The value of `--set NAME=VALUE`: a Python literal where it is one, else the text itself.


WORDS = {"true": True, "false": False}


def setting_value(text: str) -> Any:
    """What a text spells.

    >>> [setting_value(text) for text in ("3", "1e-3", "false", "additive")]
    [3, 0.001, False, 'additive']
    """
    text = text.strip()
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
