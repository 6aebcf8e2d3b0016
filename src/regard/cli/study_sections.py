"""What `regard study` was asked for, as the sections of a study: a file with flags put over it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from regard.core.errors import RegardError


def asked_study(
    name: str | None,
    *,
    recipe: str | None,
    over: Sequence[str],
    settings: Sequence[str],
    task_options: dict[str, Any],
    budget: dict[str, Any],
    seeds: str | None,
    learning_rates: str | None,
    words: dict[str, Any],
) -> dict[str, Any]:
    """The sections; `words` are plain keys such as the question. What is None was not asked for."""
    from regard.cli.run_options import all_full_paths
    from regard.runs.column_names import renamed
    from regard.runs.spec import merged, settings_as_sections
    from regard.studies.study_files import read_study, shipped_studies
    from regard.training.options import BUDGETS

    if name is None and recipe is None:
        raise RegardError(
            f"Name a study, one of: {', '.join(shipped_studies())}; or FILE.toml; or make one of a recipe: "
            "regard study --recipe pronounce-quick --over mechanism=dot,additive"
        )
    sections = {} if name is None else read_study(name)
    if recipe is not None:
        sections["recipe"] = recipe
    changes = settings_as_sections(settings)
    given = {key: value for key, value in budget.items() if value is not None}
    if given:
        # A budget on the command line replaces the other, whatever that counts.
        changes = merged(changes, {"training": {**dict.fromkeys(BUDGETS), **given}})
    files = {key: value for key, value in task_options.items() if value not in (None, False)}
    sections = merged(sections, changes)
    if files:
        known = _options_of_the_task(sections)
        named = {renamed(key, known): value for key, value in files.items()}
        sections = merged(sections, {"task": named})
    sections = all_full_paths(sections)
    if over:
        axes = [_choices(text) for text in over]
        sections["over"] = dict(axes)
        if len(sections["over"]) < len(axes):
            raise RegardError(
                f"--over names an option twice: {', '.join(option for option, _ in axes)}. Give all its "
                "values at once, parted by commas."
            )
        sections.pop("arms", None)
        sections.pop("baseline", None)
    if seeds is not None:
        sections["seeds"] = _seeds(seeds)
    if learning_rates is not None:
        sections["learning_rates"] = [_number(rate) for rate in learning_rates.split(",")]
    return sections | {key: value for key, value in words.items() if value is not None}


def _options_of_the_task(sections: Mapping[str, Any]) -> set[str]:
    """The options of the task that the study, or the recipe it is made of, names; files have its words."""
    from regard.core.construction import known_options
    from regard.runs.recipe_files import read_recipe
    from regard.tasks import task_class

    task = sections.get("task", {}).get("name")
    if task is None and "recipe" in sections:
        task = read_recipe(str(sections["recipe"])).get("task", {}).get("name")
    return set() if task is None else set(known_options(task_class(str(task)).options_class))


def _choices(text: str) -> tuple[str, list[Any]]:
    from regard.core.setting_value import setting_value

    name, equals, values = text.partition("=")
    if not (name.strip() and equals and values.strip()):
        raise RegardError(
            f"--over {text}: write it as OPTION=VALUE,VALUE,…, such as --over mechanism=dot,additive."
        )
    return name.strip(), [setting_value(value) for value in _parted(values)]


def _parted(text: str) -> list[str]:
    """The values between commas; a comma inside brackets parts nothing.

    >>> _parted("{'num_terms': 2, 'scale': 1.0},none")
    ["{'num_terms': 2, 'scale': 1.0}", 'none']
    """
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _seeds(text: str) -> Any:
    """A number is how many; several are the seeds themselves."""
    try:
        found = [int(seed) for seed in text.split(",")]
    except ValueError as error:
        raise RegardError(
            f"--seeds {text}: give how many, such as 5, or which, such as 3,4,5."
        ) from error
    return found if "," in text else found[0]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise RegardError(
            f"--learning-rates … {text} …: give numbers, such as --learning-rates 1e-3,2e-3."
        ) from error
