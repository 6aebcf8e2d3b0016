"""The arms of a study: listed one by one, made by a grid, or both."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from regard.core.errors import RegardError
from regard.runs.spec import Sections, merged, settings_as_sections

# That of an option in a grid which does not name its own.
DEFAULT_SECTION = "model"


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One of the compared: its name, and what it changes in the base."""

    name: str
    changes: Sections


def arms_of(sections: Mapping[str, Any]) -> tuple[Arm, ...]:
    """Those that are listed, each with every combination of the grid."""
    over = sections.get("over", {})
    if not isinstance(over, Mapping):
        raise RegardError(
            f"over={over!r}: it must be a table of options and the values each takes, such as "
            'over = { "model.mechanism" = ["dot", "additive"] }.'
        )
    given = sections.get("arms", [])
    if not isinstance(given, list | tuple):
        raise RegardError(
            f"arms={given!r}: it must be a list of tables, each a [[arms]] of its own."
        )
    listed = [_listed_arm(arm) for arm in given] or [Arm(name="", changes={})]
    names: list[tuple[str, str]] = []
    values: list[list[Any]] = []
    for name, choices in over.items():
        if not isinstance(choices, list | tuple) or not choices:
            raise RegardError(
                f"over {name}={choices!r}: it must be a list of the values to compare, such as "
                f'{name} = ["a", "b"].'
            )
        section, _, option = name.rpartition(".")
        names.append((section or DEFAULT_SECTION, option))
        values.append(list(choices))
    arms = []
    for arm in listed:
        for combination in product(*values):
            named = list(zip(names, combination, strict=True))
            labels = (_label(option, value) for (_, option), value in named)
            label = " · ".join(filter(None, (arm.name, *labels)))
            changes = arm.changes
            # Another model drops the options of the one before, so that it must come first.
            for (section, option), value in sorted(named, key=lambda one: one[0][1] != "name"):
                changes = merged(changes, {section: {option: value}})
            arms.append(Arm(name=label or "only", changes=changes))
    repeated = {arm.name for arm in arms if sum(arm.name == other.name for other in arms) > 1}
    if repeated:
        raise RegardError(
            f"Two arms are called '{min(repeated)}'. Every arm needs a name and options of its own."
        )
    return tuple(arms)


def _listed_arm(arm: Any) -> Arm:
    if (
        not isinstance(arm, Mapping)
        or not isinstance(arm.get("name"), str)
        or not set(arm) <= {"name", "set"}
        or not isinstance(arm.get("set", []), list | tuple)
    ):
        raise RegardError(
            f'An arm is {arm!r}; write it as name = "…" and set = ["model.option=value", …].'
        )
    return Arm(name=arm["name"], changes=settings_as_sections(arm.get("set", ())))


def _label(option: str, value: Any) -> str:
    return value if isinstance(value, str) else f"{option}={json.dumps(value)}"
