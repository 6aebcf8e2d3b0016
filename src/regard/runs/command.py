"""The command that trains a run again, from its spec.

A run folder has no command line: the recipe and the options that were typed are one spec. The command sets
what differs from the recipe of the task, so it is as long as the run is unusual.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from regard.core.errors import RegardError
from regard.core.registry import parse_value
from regard.runs.folder import RunFolder
from regard.runs.spec import (
    SECTIONS,
    RunSpec,
    Sections,
    builtin_recipes,
    merge_sections,
    read_recipe,
)
from regard.training.options import BUDGETS

OTHER_RECIPE = "classify"  # for a task without a recipe; all that matters of it is set
FILES = ("train_file", "validation_file", "test_file")


def training_command(
    spec: RunSpec, *, threads: int | None = None, extended_from: Sequence[int] = ()
) -> str:
    """The command that trains a run with this spec.

    `threads` is the number of threads that the run had, which the spec of a run on all cores lacks. A run
    that was extended is trained with the steps of `extended_from` first.
    """
    goals = [*extended_from, spec.training.steps]
    if extended_from:
        spec = replace(spec, training=spec.training.replace(steps=extended_from[0]))
    words = ["regard", "train", spec.task]
    if spec.task not in builtin_recipes():
        words += ["--recipe", OTHER_RECIPE]
    for plugin in spec.as_sections().get("plugins", {}).values():
        words += ["--plugin", plugin["target"]]
    if spec.init_from is not None:
        words += ["--init-from", spec.init_from]
    words += _changes(spec)
    words += ["--seed", str(spec.seed)]
    count = threads if spec.threads is None else spec.threads
    words += [] if count is None else ["--threads", str(count)]
    if not extended_from:
        return shlex.join(words)
    folder = f"runs/{spec.task}-again"
    commands = [[*words, "--out", folder]]
    for before, after in pairwise(goals):
        more = str((after or 0) - (before or 0))
        commands.append(["regard", "train", "--resume", folder, "--extend", more])
    return " && ".join(map(shlex.join, commands))


def _changes(spec: RunSpec) -> Iterator[str]:
    """Options for what differs from the recipe, files and the budget first."""
    own = _plain(spec.as_sections())
    default = _defaults(spec)
    changed = {
        name: value for name, value in _flat(own).items() if default.get(name, default) != value
    }
    for name in FILES:
        if isinstance(file := changed.get(f"task.{name}"), str):
            changed.pop(f"task.{name}")
            yield from (f"--{name.replace('_', '-')}", file)
    budget = {name: own["training"][name] for name in BUDGETS if own["training"][name] is not None}
    if list(budget) == ["steps"] and any(f"training.{name}" in changed for name in BUDGETS):
        changed = {
            name: value
            for name, value in changed.items()
            if name not in {f"training.{each}" for each in BUDGETS}
        }
        yield from ("--steps", str(budget["steps"]))
    if spec.pretraining is None and spec.init_from is None and "pretraining" in _recipe(spec):
        yield from ("--set", "pretraining=none")
    for name, value in changed.items():
        yield from ("--set", f"{name}={_value_text(value)}")


def _recipe(spec: RunSpec) -> Sections:
    """The sections that the command starts from."""
    if spec.task in builtin_recipes():
        return read_recipe(spec.task)
    return merge_sections(read_recipe(OTHER_RECIPE), {"task": {"name": spec.task}})


def _defaults(spec: RunSpec) -> dict[str, Any]:
    """The options that the command need not set: those of the recipe with this model, written out."""
    sections = _recipe(spec)
    named = {
        f"{name}.name": sections[name]["name"] for name in ("task", "model") if name in sections
    }
    try:
        if spec.init_from is not None:
            before = RunFolder.existing(Path(spec.init_from))
            model = before.read_json(before.spec)["model"]
            sections = {**sections, "model": model}
            sections.pop("pretraining", None)
            named["model.name"] = model["name"]
        sections = merge_sections(sections, {"model": {"name": spec.model}})
        if spec.pretraining is None:
            sections.pop("pretraining", None)
        written = _flat(_plain(RunSpec.from_sections(sections).as_sections()))
    except (RegardError, KeyError, TypeError):
        written = {}  # everything is set
    return {**written, **named}


def _flat(sections: Mapping[str, Any]) -> dict[str, Any]:
    """Options by their names in `--set`."""
    found: dict[str, Any] = {}
    for section in SECTIONS:
        for name, value in (sections.get(section) or {}).items():
            if section == "pretraining":
                found |= {f"{section}.{name}.{option}": each for option, each in value.items()}
            else:
                found[f"{section}.{name}"] = value
    return found


def _plain(sections: Sections) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(sections))
    return plain


def _value_text(value: Any) -> str:
    """A value as `parse_value` reads it.

    >>> [_value_text(value) for value in (None, True, "additive", "3", [1, 2])]
    ['None', 'true', 'additive', "'3'", '[1, 2]']
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) and parse_value(value) == value:
        return value
    return repr(value)
