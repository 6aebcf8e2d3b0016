"""Find and build the mechanism under test: a built-in name, a class in a file or module, or a factory.

regard.mechanisms              all built-in mechanisms
scaled_dot                     one of them
my_attention.py:MyAttention    a class in a file; the file is imported
my_package.attention:Mine      a class in an installed module
"""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from regard.core.errors import RegardError
from regard.core.mechanism import Mechanism
from regard.core.registry import build_from_signature, import_target
from regard.mechanisms import MECHANISMS, REGISTRY, mechanism_class

ALL_MECHANISMS = "regard.mechanisms"
SIZES = ("query_dim", "key_dim", "num_heads", "max_length")


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The mechanism under test; `build` takes the keywords in `SIZES`."""

    name: str
    build: Callable[..., Mechanism]
    target: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    # Constructor parameters by name; empty for a factory.
    parameters: frozenset[str] = frozenset()

    def command(self, check: str, seed: int) -> str:
        """The command that runs one check again."""
        if self.target is None:
            return f"check_mechanism({self.name}, only=['{check}'], seed={seed})"
        settings = [f"--set {shlex.quote(f'{k}={v}')}" for k, v in self.options.items()]
        parts = ["regard check", shlex.quote(self.target), f"--only {check}", f"--seed {seed}"]
        return " ".join([*parts, *settings])


def find_subjects(target: str, *, options: Mapping[str, Any] | None = None) -> list[Subject]:
    """The mechanisms that a target names. Each is built once, to raise errors early."""
    if target == ALL_MECHANISMS:
        if options:
            raise RegardError(
                f"The options {', '.join(options)} cannot be set for {ALL_MECHANISMS}. "
                f"Name one mechanism. Choose from: {', '.join(MECHANISMS)}."
            )
        return [_of_class(mechanism_class(name), name=name, target=name) for name in MECHANISMS]
    if ":" in target:
        kind = load_class(target)
        return [_of_class(kind, name=kind.__name__, target=target, options=options)]
    if target.endswith(".py"):
        raise RegardError(f"'{target}' is a file without a class. Use {target}:ClassName.")
    REGISTRY.activate(target)
    kind = mechanism_class(target)
    return [_of_class(kind, name=target, target=target, options=options)]


def load_class(target: str) -> type[Mechanism]:
    """Import the mechanism class FILE.py:CLASS or MODULE:CLASS."""
    return _validate_mechanism_class(import_target(target), target.rpartition(":")[2])


def subject_of(
    build: type[Mechanism] | Callable[..., Mechanism],
    *,
    name: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Subject:
    """The subject for a class or a factory that takes the keywords in `SIZES`."""
    if isinstance(build, type):
        return _of_class(
            _validate_mechanism_class(build, build.__name__), options=options, name=name
        )
    if options:
        raise RegardError(
            f"The options {', '.join(options)} cannot be set on a factory. "
            "Pass the class, or set them inside the factory."
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
    subject_name, chosen = name or kind.__name__, dict(options or {})
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
            f"{subject_name} needs {', '.join(needed)}; the suite sets only {', '.join(SIZES)}. "
            f"Add {' '.join(f'--set {option}=VALUE' for option in needed)}, "
            f"or give {'it a default' if len(needed) == 1 else 'them defaults'}."
        )
    build = partial(_build, kind, subject_name, chosen)
    # An abstract class or an invalid option is a usage error, not a failed check.
    if inspect.isabstract(kind):
        missing = ", ".join(sorted(kind.__abstractmethods__))
        raise RegardError(f"{subject_name} is abstract: it does not define {missing}. Define them.")
    try:
        with torch.random.fork_rng(devices=[]):
            build(query_dim=2, key_dim=2, num_heads=1, max_length=2)
    except RegardError:
        raise
    except Exception:
        # Only option errors matter here. `run_check` reports any other error as a failure.
        pass
    return Subject(
        name=subject_name, build=build, target=target, options=chosen, parameters=frozenset(known)
    )


def _build(kind: type[Mechanism], name: str, options: dict[str, Any], /, **sizes: int) -> Mechanism:
    return build_from_signature(kind, what=f"mechanism '{name}'", sizes=sizes, options=options)


def _validate_mechanism_class(found: object, name: str) -> type[Mechanism]:
    if isinstance(found, type) and issubclass(found, Mechanism):
        return found
    what = "a class" if isinstance(found, type) else f"a {type(found).__name__}"
    raise RegardError(
        f"{name} is {what}, not a mechanism. Subclass regard.Mechanism, or "
        "regard.mechanisms.ScoredMechanism. See docs/add-a-mechanism.md."
    )
