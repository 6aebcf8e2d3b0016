"""Plug-ins: a user's mechanisms, models, tasks and metrics, and the record of those that a run uses.

Python files and entry points are imported only if the user names them, with `--plugin` or as the value of
an option. A run or study folder records its plug-ins (target and hash of the file), but never has them
imported: `validate_plugins` says what to name.
"""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from torch import nn
from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12

from regard.core.errors import RegardError
from regard.core.registry import Plugin, Registry, file_hash, import_target, unknown_name
from regard.core.traits import traits_of
from regard.mechanisms import REGISTRY as MECHANISM_REGISTRY
from regard.models import REGISTRY as MODEL_REGISTRY
from regard.tasks import REGISTRY as TASK_REGISTRY
from regard.tasks.metrics import REGISTRY as METRIC_REGISTRY

REGISTRIES: tuple[Registry[Any], ...] = (
    MECHANISM_REGISTRY,
    MODEL_REGISTRY,
    TASK_REGISTRY,
    METRIC_REGISTRY,
)
# A name alone, or in a pattern such as "window*3,scaled_dot"; not a part of a path.
NAME, SEPARATORS = re.compile(r"[A-Za-z_][\w.-]*"), re.compile(r"[\s,*=\[\]\"']+")


class PluginRecord(TypedDict):
    """How a run records a plug-in: `target` as for `--plugin`, and the SHA-256 of its file."""

    target: str
    sha256: str


def load_plugins(targets: Iterable[str | type]) -> list[str]:
    """Register FILE.py:CLASS, MODULE:CLASS, entry points by name, or classes; returns their names.

    This imports them, which runs their code: name only what you trust.
    """
    names: list[str] = []
    for target in targets:
        name = _load_plugin(target)
        if name in names:
            raise RegardError(
                f"--plugin {target}: another plug-in is named '{name}'. Give the class another name."
            )
        names.append(name)
    return names


def _load_plugin(target: str | type) -> str:
    if isinstance(target, type):
        return _register(target, _target_of(target))
    if ":" not in target and not target.endswith(".py"):
        if any(registry.activate(target) for registry in REGISTRIES):
            return target
        known = {name for registry in REGISTRIES for name in registry.entry_points()}
        if target in known:
            raise RegardError(
                f"--plugin {target}: a built-in has this name, so the entry point cannot be used."
            )
        raise unknown_name("plug-in", target, [*known, "FILE.py:CLASS", "MODULE:CLASS"])
    source, _, _ = target.rpartition(":")
    if Path(source).is_file():
        target = f"{Path(source).absolute()}{target.removeprefix(source)}"
        for name, plugin in registered_plugins():
            if plugin.target == target and plugin.sha256 == file_hash(source):
                return name
    return _register(import_target(target), target)


def _target_of(kind: type) -> str:
    """FILE.py:CLASS of a class, for other processes and records; its name alone if it has no file."""
    try:
        return f"{Path(inspect.getfile(kind)).absolute()}:{kind.__name__}"
    except (OSError, TypeError):
        return kind.__name__


def _register(kind: object, target: str) -> str:
    for registry in REGISTRIES:
        if isinstance(kind, type) and registry.accepts(kind):
            return registry.add(kind, target)
    if isinstance(kind, type) and issubclass(kind, nn.Module):
        traits_of(kind)  # raises: a model without traits
    raise RegardError(
        f"--plugin {target}: {kind!r} is neither a mechanism, a model, a task nor a metric. Subclass "
        "regard.Mechanism, regard.tasks.Task or regard.tasks.metrics.Metric, or give an nn.Module traits "
        "(see docs/add-a-mechanism.md and its neighbours)."
    )


def registered_plugins() -> Iterator[tuple[str, Plugin]]:
    """The plug-ins of this process by name."""
    for registry in REGISTRIES:
        yield from registry.plugins.items()


def activate_names(values: object) -> None:
    """Import the entry points that are named in values which the user typed, such as those of `--set`."""
    for name in _names_in(values):
        for registry in REGISTRIES:
            registry.activate(name)


def used_plugins(sections: object) -> dict[str, PluginRecord]:
    """The plug-ins of this process that the sections of a spec name."""
    names = set(_names_in(sections))
    return {
        name: {"target": plugin.target, "sha256": plugin.sha256}
        for name, plugin in registered_plugins()
        if name in names
    }


def _names_in(values: object) -> Iterator[str]:
    """All names in the strings of nested values."""
    if isinstance(values, str):
        yield from filter(NAME.fullmatch, SEPARATORS.split(values))
    elif isinstance(values, Mapping):
        yield from _names_in(list(values.values()))
    elif isinstance(values, list | tuple):
        for value in values:
            yield from _names_in(value)


def validate_plugins(
    recorded: Mapping[str, PluginRecord], *, changed: Literal["error", "warn"] = "error"
) -> None:
    """Raise if a recorded plug-in is not loaded; raise or warn if its file has changed."""
    loaded = dict(registered_plugins())
    for name, record in recorded.items():
        was = f"{record['target']} with SHA-256 {record['sha256']}"
        if name not in loaded:
            target = record["target"]
            named = ":" in target or any(target in each.entry_points() for each in REGISTRIES)
            raise RegardError(
                f"The plug-in '{name}' is not loaded. It was {was}. A folder never imports code: if you "
                f"trust that file, add --plugin {target if named else f'FILE.py:{target}'}."
            )
        if loaded[name].sha256 != record["sha256"]:
            problem = (
                f"The plug-in '{name}' changed: it was {was}, and is {loaded[name].target} with SHA-256 "
                f"{loaded[name].sha256}. Restore the file, or train again in another folder."
            )
            if changed == "error":
                raise RegardError(problem)
            warnings.warn(problem, stacklevel=2)
