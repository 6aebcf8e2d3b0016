"""What is to be checked, and how it is built: a name of the table, a class in a file, or a factory.

regard.mechanisms              every mechanism of the table
scaled_dot                     one of them
my_attention.py:MyAttention    a class in a file, which is imported because it was named
my_package.attention:Mine      a class in an installed module
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from regard.core.errors import RegardError
from regard.core.mechanism import Mechanism
from regard.core.registry import construct, unknown_name
from regard.mechanisms import MECHANISMS, mechanism_class

EVERY = "regard.mechanisms"
SIZES = ("query_dim", "key_dim", "num_heads", "max_length")


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A mechanism to check; `build` takes the keywords in `SIZES`, `target` is its command line."""

    name: str
    build: Callable[..., Mechanism]
    target: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    # What the constructor asks for by name; a factory hides this.
    parameters: frozenset[str] = frozenset()

    def again(self, check: str, seed: int) -> str:
        """What to type to run one check again."""
        if self.target is None:
            return f"check_mechanism({self.name}, only=['{check}'], seed={seed})"
        settings = [f"--set {shlex.quote(f'{k}={v}')}" for k, v in self.options.items()]
        words = ["regard check", shlex.quote(self.target), f"--only {check}", f"--seed {seed}"]
        return " ".join([*words, *settings])


def find_subjects(target: str, *, options: Mapping[str, Any] | None = None) -> list[Subject]:
    """The mechanisms that a target names, each built once to see that it can be."""
    if target == EVERY:
        if options:
            raise RegardError(
                f"The options {', '.join(options)} cannot go to every mechanism of {EVERY}: "
                f"name one mechanism. Choose from: {', '.join(MECHANISMS)}."
            )
        return [_of_class(mechanism_class(name), name=name, target=name) for name in MECHANISMS]
    if ":" in target:
        kind = class_at(target)
        return [_of_class(kind, name=kind.__name__, target=target, options=options)]
    if target.endswith(".py"):
        raise RegardError(
            f"'{target}' names a file and no class in it. Write it as {target}:ClassName."
        )
    if target not in MECHANISMS:
        raise unknown_name("mechanism", target, [*MECHANISMS, EVERY, "FILE.py:CLASS"])
    kind = mechanism_class(target)
    return [_of_class(kind, name=target, target=target, options=options)]


def class_at(target: str) -> type[Mechanism]:
    """The mechanism that FILE.py:CLASS or MODULE:CLASS names; its file is run, because it was named."""
    place, colon, class_name = target.rpartition(":")
    if not colon:
        raise RegardError(f"'{target}' names no class. Write it as FILE.py:CLASS.")
    return _class_in(module_at(place), class_name, place=place)


def subject_of(
    build: type[Mechanism] | Callable[..., Mechanism],
    *,
    name: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Subject:
    """The subject for a class, or for a factory that takes the keywords in `SIZES`."""
    if isinstance(build, type):
        return _of_class(_must_be_mechanism(build, build.__name__), options=options, name=name)
    if options:
        raise RegardError(
            f"Options {', '.join(options)} were given with a factory. "
            "Give the class instead, or set them inside the factory."
        )
    own_name: str = getattr(build, "__name__", type(build).__name__)
    return Subject(name=name or own_name, build=build)


def _of_class(
    kind: type[Mechanism],
    *,
    name: str | None = None,
    target: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Subject:
    called, chosen = name or kind.__name__, dict(options or {})
    known = inspect.signature(kind).parameters
    needed = [
        parameter.name
        for parameter in known.values()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        and parameter.name not in (*SIZES, *chosen)
    ]
    if needed:
        raise RegardError(
            f"{called} needs {', '.join(needed)}, which the suite cannot guess: it gives only "
            f"{', '.join(SIZES)}. Add {' '.join(f'--set {option}=VALUE' for option in needed)}, "
            f"or give {'it a default' if len(needed) == 1 else 'them defaults'}."
        )
    build = partial(_build, kind, called, chosen)
    # An abstract class or a refused option is a mistake in what was asked, not a failed check.
    if inspect.isabstract(kind):
        missing = ", ".join(sorted(kind.__abstractmethods__))
        raise RegardError(f"{called} cannot be built: it does not define {missing}. Define them.")
    try:
        with torch.random.fork_rng(devices=[]):
            build(query_dim=2, key_dim=2, num_heads=1, max_length=2)
    except RegardError:
        raise
    except Exception:
        # This build is only for finding mistakes in the options. Any other error belongs to the
        # mechanism: `run_check` meets it too, and reports it as a failure with its type.
        pass
    return Subject(
        name=called, build=build, target=target, options=chosen, parameters=frozenset(known)
    )


def _build(kind: type[Mechanism], name: str, options: dict[str, Any], /, **sizes: int) -> Mechanism:
    return construct(kind, what=f"mechanism '{name}'", sizes=sizes, options=options)


def module_at(place: str) -> ModuleType:
    """The module of a file, or of a dotted name; what is wrong in it is told as an error of the user's."""
    try:
        return _module_in_file(Path(place)) if place.endswith(".py") else _import(place)
    except RegardError:
        raise
    except (Exception, SystemExit) as error:
        raise RegardError(
            f"'{place}' cannot be imported: {type(error).__name__}: {error}. "
            "Correct it so that Python can import it on its own."
        ) from error


def _import(dotted: str) -> ModuleType:
    return importlib.import_module(dotted)


def _module_in_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise RegardError(
            f"There is no file '{path}' in {Path.cwd()}. Give the path of a Python file as "
            "FILE.py:CLASS."
        )
    name = f"regard_checked_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and annotations look their module up there
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)  # as when Python runs the file: it may import its neighbours
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    return module


def _class_in(module: ModuleType, name: str, *, place: str) -> type[Mechanism]:
    own = [
        key
        for key, found in vars(module).items()
        if isinstance(found, type) and issubclass(found, Mechanism) and not key.startswith("_")
    ]
    if not hasattr(module, name):
        raise unknown_name(f"class of {place}", name, own or ["(it has no mechanism)"])
    return _must_be_mechanism(getattr(module, name), name)


def _must_be_mechanism(found: object, name: str) -> type[Mechanism]:
    if isinstance(found, type) and issubclass(found, Mechanism):
        return found
    what = "a class" if isinstance(found, type) else f"a {type(found).__name__}"
    raise RegardError(
        f"{name} is {what} and not a mechanism: a mechanism is a subclass of regard.Mechanism, "
        "such as regard.mechanisms.scores.softmax.ScoredMechanism. See docs/add-a-mechanism.md."
    )
