"""Name lookup with suggestions, construction by signature, built-in TOML configs, option values."""

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
Built = TypeVar("Built")

MAX_LISTED = 40
NUM_NEAREST = 5


def unknown_name(kind: str, name: str, known: Iterable[str], *, of: str = "") -> RegardError:
    """The error for an unknown name, with the closest match and all names (of many, the nearest few).

    >>> print(unknown_name("mechanism", "adittive", ["additive", "dot"]))
    Unknown mechanism 'adittive'. Did you mean 'additive'? Choose from: additive, dot.
    """
    choices = sorted(known)
    near = difflib.get_close_matches(name, choices, n=1)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    unknown = f"Unknown {kind} '{name}'{f' of {of}' if of else ''}.{hint}"
    if len(choices) <= MAX_LISTED:
        return RegardError(f"{unknown} Choose from: {', '.join(choices)}.")
    nearest = difflib.get_close_matches(name, choices, n=NUM_NEAREST, cutoff=0.0)
    return RegardError(f"{unknown} The nearest of {len(choices)}: {', '.join(nearest)}.")


def lookup(kind: str, name: str, table: Mapping[str, Entry]) -> Entry:
    """The entry `name` of `table`, or an error that lists the known names."""
    if name not in table:
        raise unknown_name(kind, name, table)
    return table[name]


def known_options(kind: Callable[..., object]) -> list[str]:
    """The named arguments of a constructor."""
    parameters = inspect.signature(kind).parameters.values()
    catch_all = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [parameter.name for parameter in parameters if parameter.kind not in catch_all]


def build_from_signature(
    kind: Callable[..., Built],
    *,
    what: str,
    sizes: Mapping[str, int | None],
    options: Mapping[str, Any],
) -> Built:
    """Call a constructor with all `options` and with those of `sizes` that it accepts and are not None.

    The signature is the schema: an unknown option is an error that lists the options of `what`.
    """
    known = known_options(kind)
    for option in options:
        if option not in known:
            if not known:
                raise RegardError(f"Unknown option '{option}': {what} has no options.")
            raise unknown_name("option", option, known, of=what)
    accepted = {size: value for size, value in sizes.items() if size in known and value is not None}
    return kind(**{**accepted, **options})


@dataclass(frozen=True)
class BuiltinConfigs:
    """Built-in TOML configs in a folder, by name; `what` names their kind in errors, such as "recipe"."""

    what: str
    folder: Path

    def paths(self) -> dict[str, Path]:
        """Name → file."""
        return {path.stem: path for path in sorted(self.folder.glob("*.toml"))}

    def read(self, name: str) -> dict[str, Any]:
        """The content of a built-in config, or of a user's file, whose path ends in .toml."""
        builtin = self.paths()
        if name not in builtin and not name.endswith(".toml"):
            raise unknown_name(self.what, name, [*builtin, "FILE.toml"])
        try:
            return tomllib.loads(builtin.get(name, Path(name)).read_text(encoding="utf-8"))
        except OSError as error:
            raise RegardError(
                f"The {self.what} '{name}' cannot be read ({error.strerror}). Give the path of a TOML "
                f"file, or one of: {', '.join(builtin)}."
            ) from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise RegardError(f"The {self.what} '{name}' is not TOML: {error}.") from error


def parse_value(text: str) -> Any:
    """The value of `--set NAME=VALUE`: true, false, a Python literal, or else the text itself.

    >>> [parse_value(text) for text in ("3", "1e-3", "false", "additive")]
    [3, 0.001, False, 'additive']
    """
    text = text.strip()
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
