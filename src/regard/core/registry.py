"""Name lookup with suggestions, registries, construction by signature, built-in configs, option values.

A `Registry` finds the classes of one kind (mechanisms, models, tasks or metrics) by name: the built-in
ones, the plug-ins of this process, and the entry points of installed packages. Names come from run folders
and recipes too, so looking one up never imports a plug-in: only `import_target` and `Registry.activate` do,
for what a user typed.
"""

from __future__ import annotations

import ast
import difflib
import functools
import hashlib
import importlib
import inspect
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, runtime_checkable

from regard.core.errors import RegardError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint
    from types import ModuleType

Entry = TypeVar("Entry")
Built = TypeVar("Built")
Kind = TypeVar("Kind")

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


@runtime_checkable
class BuiltinEntry(Protocol):
    """A built-in class: its module below the package of the registry, and its name."""

    @property
    def module(self) -> str: ...
    @property
    def class_name(self) -> str: ...


@dataclass(frozen=True)
class Plugin:
    """A user's class: `target` as for `--plugin`, and the SHA-256 of the file that defines it."""

    kind: type
    target: str
    sha256: str


@dataclass(frozen=True)
class Registry(Generic[Kind]):
    """The classes of one kind, such as "mechanism", by name.

    Args:
        what: The kind; "regard.WHATs" is the group of its entry points.
        table: The built-in classes, named by strings, so that listing them imports none.
        package: The package of their modules.
        accepts: Whether a class is of this kind.
        name_attribute: The class attribute with a plug-in's name; default: the name of its class.
    """

    what: str
    table: Mapping[str, BuiltinEntry]
    package: str
    accepts: Callable[[type], bool]
    name_attribute: str = "plugin_name"
    plugins: dict[str, Plugin] = field(default_factory=dict)

    def names(self) -> list[str]:
        """Built-in names, plug-ins of this process, and entry points, which are not imported."""
        return list(dict.fromkeys([*self.table, *self.plugins, *self.entry_points()]))

    def entry_points(self) -> dict[str, EntryPoint]:
        """The entry points of installed packages by name, from their metadata."""
        return _entry_points(f"regard.{self.what}s")

    def load(self, name: str) -> type[Kind]:
        """The class of this name. It never imports a plug-in: the name may come from a folder."""
        if name in self.plugins:
            return self.plugins[name].kind
        if name in self.table:
            entry = self.table[name]
            module = importlib.import_module(f"{self.package}.{entry.module}")
            found: type[Kind] = getattr(module, entry.class_name)
            return found
        if name in self.entry_points():
            raise RegardError(
                f"The {self.what} '{name}' is {_describe(self.entry_points()[name])}. It is not imported "
                f"unless you name it: add --plugin {name}."
            )
        unknown = unknown_name(self.what, name, self.names())
        raise RegardError(f"{unknown} Use --plugin FILE.py:CLASS for a {self.what} of your own.")

    def add(self, kind: type[Kind], target: str = "", *, name: str | None = None) -> str:
        """Register a user's class in this process, under `name` or its own; returns the name."""
        if self.name_attribute == "name" and not isinstance(getattr(kind, "name", None), str):
            raise RegardError(
                f"The {self.what} class {kind.__name__} has no name. Add a class attribute, such as "
                f'name = "{kind.__name__.lower()}".'
            )
        name = name or str(getattr(kind, self.name_attribute, kind.__name__))
        if name in self.table:
            raise RegardError(
                f"A {self.what} named '{name}' exists already. Give {kind.__name__} another name."
            )
        file = getattr(sys.modules.get(kind.__module__), "__file__", None)
        target = target or f"{kind.__module__}:{kind.__qualname__}"
        self.plugins[name] = Plugin(kind, target, file_hash(file) if file else "")
        return name

    def activate(self, name: str) -> bool:
        """Import the entry point of this name, which the user typed; whether there is one."""
        if name in self.plugins or name in self.table or name not in self.entry_points():
            return name in self.plugins
        point = self.entry_points()[name]
        try:
            found = point.load()
        except (Exception, SystemExit) as error:
            raise RegardError(
                f"{_describe(point)} cannot be imported: {type(error).__name__}: {error}."
            ) from error
        if not (isinstance(found, type) and self.accepts(found)):
            raise RegardError(f"{_describe(point)} is not a {self.what}, but {found!r}.")
        self.add(found, name, name=name)
        return True


@functools.cache
def _entry_points(group: str) -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=group)}


def _describe(point: EntryPoint) -> str:
    package = "a package" if point.dist is None else f"the package '{point.dist.name}'"
    return f"the entry point {point.name} = {point.value} of {package}"


def file_hash(path: str | Path) -> str:
    """The SHA-256 of a file; empty if it cannot be read."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return ""


def import_target(target: str) -> Any:
    """What FILE.py:NAME or MODULE:NAME names. This runs the file: only for what a user typed."""
    source, colon, name = target.rpartition(":")
    if not colon:
        way_out = f"{target}:NAME" if target.endswith(".py") else "FILE.py:NAME or MODULE:NAME"
        raise RegardError(f"'{target}' names no class. Use {way_out}.")
    module = import_source(source)
    if not hasattr(module, name):
        own = [key for key, value in vars(module).items() if _is_defined_in(module, key, value)]
        raise unknown_name(f"class of {source}", name, own or ["(no class in it)"])
    return getattr(module, name)


def _is_defined_in(module: ModuleType, name: str, value: object) -> bool:
    own = isinstance(value, type) and value.__module__ == module.__name__
    return own and not name.startswith("_")


def import_source(source: str) -> ModuleType:
    """Import a file or a dotted module name; errors become a RegardError."""
    try:
        if source.endswith(".py"):
            return _import_file(Path(source))
        return importlib.import_module(source)
    except RegardError:
        raise
    except (Exception, SystemExit) as error:
        raise RegardError(
            f"'{source}' cannot be imported: {type(error).__name__}: {error}. "
            "Fix it so that Python can import it."
        ) from error


def _import_file(path: Path) -> ModuleType:
    import importlib.util

    if not path.is_file():
        raise RegardError(f"No file '{path}' in {Path.cwd()}. Use FILE.py:CLASS.")
    # Files of the same name in two folders are two modules; two classes of one file share one.
    digest = hashlib.sha256(str(path.resolve()).encode() + path.read_bytes()).hexdigest()[:12]
    name = f"regard_plugin_{path.stem}_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and annotations look up their module
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)  # as for a script: it may import neighbouring files
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        sys.path.remove(folder)
    return module


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
    """The value of `--set NAME=VALUE`: true, false, a literal of Python or TOML, or else the text itself.

    >>> [parse_value(text) for text in ("3", "1e-3", "false", "additive")]
    [3, 0.001, False, 'additive']
    >>> parse_value('{type = "convolutional", strides = [1, 2]}')
    {'type': 'convolutional', 'strides': [1, 2]}
    """
    text = text.strip()
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        pass
    if text.startswith("{"):
        with suppress(tomllib.TOMLDecodeError):
            return tomllib.loads(f"value = {text}")["value"]
    return text
