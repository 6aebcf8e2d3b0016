"""The options that say which run is meant, the same for every verb that makes a spec."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

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
Validation = Annotated[
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
FILE_OPTIONS = ("pairs", "text", "labels", "validation", "test")


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
    from regard.core.registry import known_options, look_up
    from regard.runs.spec import merged, read_recipe, renamed, require_sections
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
    from regard.runs.folder import RunFolder

    folder = RunFolder.existing(Path(start))
    model = folder.read_json(folder.spec).get("model", {})
    kept = {name: value for name, value in sections.items() if name != "pretraining"}
    return {**kept, "model": model, "start": str(Path(start).absolute())}


def _text_section(sections: dict[str, Any], text: str) -> dict[str, Any]:
    """Where a file of texts belongs: to the task if it learns from texts, else to its pre-training."""
    from regard.core.registry import known_options
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
    from regard.data.readers.text_file import is_there
    from regard.tasks.classification.corpus import EMBEDDED_LABELS

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


# The options that say where in a file of pairs the two texts stand, the same for every verb.


SourceColumn = Annotated[
    str | None,
    typer.Option(
        "--source-column",
        metavar="COLUMN",
        help="Of the source: a number from 0, a header's name, a JSON key.",
    ),
]
TargetColumn = Annotated[
    str | None,
    typer.Option("--target-column", metavar="COLUMN", help="Of the target, in the same way."),
]
Header = Annotated[
    bool, typer.Option("--header", help="The first row names the columns and is no pair.")
]


# The option `--plugin`, the same for every verb that builds models.


Plugins = Annotated[
    list[str] | None,
    typer.Option(
        "--plugin",
        metavar="FILE.py:CLASS",
        help="A mechanism of your own, then known by its class's name. May be repeated.",
    ),
]


def plug_in_all(plugins: list[str] | None) -> None:
    """Make the mechanisms that were named known. Their files are run: name only what you trust."""
    if not plugins:
        return
    from regard.conformance.subject import class_at
    from regard.mechanisms import plug_in

    for target in plugins:
        plug_in(class_at(target))


# The option `--seed`, the same for every verb that draws at random.


GREATEST_SEED = 2**63 - 1


def whole_number(given: str | int) -> str | int:
    """The number that a text spells; the text itself where it spells none.

    The default comes through here too, as the number it is. A text is for `require_seed` to refuse:
    an error that is raised here would be reworded by Typer, and lose the value.
    """
    try:
        return int(given)
    except ValueError:
        return given


def require_seed(seed: str | int) -> int:
    """The seed itself, which is refused unless the generator of torch takes it as it is."""
    if isinstance(seed, str) or not 0 <= seed <= GREATEST_SEED:
        raise RegardError(
            f"--seed {seed}: a seed is a whole number from 0 to {GREATEST_SEED} (2**63 - 1). "
            "Choose one of those."
        )
    return seed


Seed = Annotated[
    int,
    typer.Option(
        "--seed",
        metavar="NUMBER",
        help="What the inputs and parameters are drawn from; 0 or more.",
        parser=whole_number,
        callback=require_seed,
    ),
]


# Text that was typed at a terminal.


def require_decoded(text: str, *, what: str) -> None:
    """Refuse a text whose bytes were not text: nothing that is written can hold them."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        shown = text.encode(errors="backslashreplace").decode()
        raise RegardError(
            f"{what} '{shown}' has bytes at letter {error.start + 1} that are not text in the "
            "encoding of this terminal; every letter must be. Type it anew, in UTF-8."
        ) from error


# Limits of time and memory as people write them: 4GB, 512MB, 1h, 90min, 45s.


BYTES = {"GB": 1e9, "MB": 1e6}
SECONDS = {"h": 3600.0, "min": 60.0, "s": 1.0}
AMOUNT = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>[A-Za-z]+)")


class Limits(NamedTuple):
    """What a run may take at most; no time is no limit."""

    memory: float
    seconds: float | None

    def beyond(self, *, memory: float, seconds: float) -> list[str]:
        """The names of the limits that this goes beyond."""
        too_long = self.seconds is not None and seconds > self.seconds
        return ["time"] * too_long + ["memory"] * (memory > self.memory)


def memory_limit(text: str) -> float:
    """Bytes.

    >>> memory_limit("4GB"), memory_limit("512MB")
    (4000000000.0, 512000000.0)
    """
    return _amount(text, BYTES, option="--memory", example="--memory 4GB")


def time_limit(text: str) -> float:
    """Seconds.

    >>> time_limit("1h"), time_limit("90min"), time_limit("45s")
    (3600.0, 5400.0, 45.0)
    """
    return _amount(text, SECONDS, option="--time", example="--time 90min")


def _amount(text: str, units: dict[str, float], *, option: str, example: str) -> float:
    found = AMOUNT.fullmatch(text)
    if found is None or found["unit"] not in units or not float(found["number"]):
        raise RegardError(
            f"{option} {text}: write a number above 0 and one of the units {', '.join(units)}, without a "
            f"space, such as {example}."
        )
    return float(found["number"]) * units[found["unit"]]
