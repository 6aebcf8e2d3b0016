"""Command-line options that several verbs share, and the run spec they describe.

Data files are `--train-file`, `--validation-file` and `--test-file` for every task; `--pretrain-file` is
the text of a pre-training stage, and `--init-from` a finished run to fine-tune (warm start).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, fields
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_type_hints

import typer

from regard.core.errors import RegardError
from regard.tasks import TASKS

if TYPE_CHECKING:
    from regard.runs.spec import RunSpec


TaskName = Annotated[
    str | None,
    typer.Argument(metavar="[TASK]", help=f"One of: {', '.join(TASKS)}."),
]
SourceColumn = Annotated[
    str | None,
    typer.Option(
        "--source-column",
        metavar="COLUMN",
        help="Source or text column: an index from 0, a header name or a JSON key.",
    ),
]
TargetColumn = Annotated[
    str | None,
    typer.Option("--target-column", metavar="COLUMN", help="Target or label column, likewise."),
]
Header = Annotated[bool, typer.Option("--header", help="The first row is a header.")]
SkipBadRows = Annotated[
    bool, typer.Option("--skip-bad-rows", help="Skip malformed rows and list them.")
]
RunSeed = Annotated[int | None, typer.Option(help="Random seed for initialisation and data order.")]
Threads = Annotated[int | None, typer.Option(help="CPU threads; default: all cores.")]
Plugins = Annotated[
    list[str] | None,
    typer.Option(
        "--plugin",
        metavar="FILE.py:CLASS",
        help="A mechanism of your own, registered under its class name. Repeatable.",
    ),
]
Only = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="A mechanism to include. May be repeated.")
]

# The options of any task that name files.
FILE_OPTIONS = ("train_file", "validation_file", "test_file", "qa_file")
# The options of `RunOptions` that are options of the task.
TASK_OPTIONS = (
    *("train_file", "validation_file", "test_file", "format"),
    *("source_column", "target_column", "skip_bad_rows", "header"),
)


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options of a training run that `train`, `plan` and `study` share: data, recipe, budget."""

    train_file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Training data: pairs, labelled texts or plain text; SOURCE,TARGET for parallel files; "
            "for classify also film-languages, movie-reviews or movie-sentences.",
        ),
    ] = None
    validation_file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Validation data; else split off the training data by hash."
        ),
    ] = None
    test_file: Annotated[str | None, typer.Option(metavar="FILE", help="Test data.")] = None
    pretrain_file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Text for the pre-training stage, one document per line."
        ),
    ] = None
    format: Annotated[
        str | None,
        typer.Option(help="File format: tsv, csv, jsonl, dictionary, lines or labelled."),
    ] = None
    source_column: SourceColumn = None
    target_column: TargetColumn = None
    header: Header = False
    skip_bad_rows: SkipBadRows = False
    recipe: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="A shipped recipe or FILE.toml; default: the task's own."
        ),
    ] = None
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Such as model.num_layers=3. Repeatable."),
    ] = None
    steps: Annotated[int | None, typer.Option(help="Stop after this many optimizer steps.")] = None
    minutes: Annotated[float | None, typer.Option(help="Stop after this many minutes.")] = None

    @property
    def task_options(self) -> dict[str, Any]:
        """The given data options; None and False are not given."""
        values = {name: getattr(self, name) for name in TASK_OPTIONS}
        return {name: value for name, value in values.items() if value not in (None, False)}

    def task_section(self, known: Collection[str]) -> dict[str, Any]:
        """The given data options as a section, by the names that the task has for them."""
        from regard.runs.spec import task_option_name

        named = {task_option_name(name, known): value for name, value in self.task_options.items()}
        return {"task": named}

    def with_budget(self, sections: dict[str, Any], **limits: float | None) -> dict[str, Any]:
        """The sections with the given budget; it replaces all limits of the recipe or study."""
        from regard.runs.spec import merge_sections
        from regard.training.options import BUDGETS

        seconds = None if self.minutes is None else 60 * self.minutes
        limits = {"steps": self.steps, **limits, "seconds": seconds}
        given = {name: limit for name, limit in limits.items() if limit is not None}
        if not given:
            return sections
        return merge_sections(sections, {"training": {**dict.fromkeys(BUDGETS), **given}})


def takes_run_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose parameter `given` is replaced by the fields of `RunOptions`, for Typer."""
    hints = get_type_hints(RunOptions, include_extras=True)
    shared = [
        Parameter(
            each.name, Parameter.KEYWORD_ONLY, default=each.default, annotation=hints[each.name]
        )
        for each in fields(RunOptions)
    ]
    own = signature(command, eval_str=True).parameters.values()
    parameters = [each for of in own for each in (shared if of.name == "given" else [of])]

    @wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        given = {each.name: options.pop(each.name) for each in shared if each.name in options}
        command(*arguments, given=RunOptions(**given), **options)

    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def spec_from_options(
    task: str | None,
    given: RunOptions,
    *,
    numbers: dict[str, int | None],
    init_from: str | None = None,
) -> RunSpec:
    """The validated spec: the recipe, overridden by the options that are given."""
    from regard.core.registry import known_options, lookup
    from regard.runs.spec import (
        RunSpec,
        merge_sections,
        parse_settings,
        read_recipe,
        validate_sections,
    )
    from regard.tasks import task_class

    if task is None and given.recipe is None:
        raise RegardError(
            f"Name a task, one of: {', '.join(TASKS)}; or a recipe; or a run to resume: --resume RUN."
        )
    if task is not None:
        lookup("task", task, TASKS)
    sections = read_recipe(given.recipe or str(task))
    validate_sections(sections)
    named = sections.get("task", {}).get("name")
    if task is not None and named != task:
        raise RegardError(
            f"The recipe '{given.recipe}' is for the task '{named}', not '{task}'. Choose another recipe."
        )
    if init_from is not None:
        sections = _initialised_from(sections, init_from)
    # `--set task.name` drops the old task's options, so the flags are merged after it.
    sections = merge_sections(sections, parse_settings(given.settings or []))
    known = known_options(task_class(_task_name(sections)).options_class)
    sections = merge_sections(sections, given.task_section(known))
    if given.pretrain_file is not None:
        sections = with_pretrain_file(sections, given.pretrain_file)
    sections = given.with_budget(sections)
    sections = merge_sections(
        sections, {key: value for key, value in numbers.items() if value is not None}
    )
    return RunSpec.from_sections(with_absolute_paths(sections))


def _task_name(sections: dict[str, Any]) -> str:
    name = sections.get("task", {}).get("name")
    if not isinstance(name, str):
        raise RegardError(
            "The section 'task' has no name. Write one, such as task.name=\"pronounce\"."
        )
    return name


def _initialised_from(sections: dict[str, Any], run: str) -> dict[str, Any]:
    """The sections with the model options of `run`, and no pre-training stage."""
    from regard.runs.folder import RunFolder

    folder = RunFolder.existing(Path(run))
    model = folder.read_json(folder.spec).get("model", {})
    kept = {name: value for name, value in sections.items() if name != "pretraining"}
    return {**kept, "model": model, "init_from": str(Path(run).absolute())}


def with_pretrain_file(sections: dict[str, Any], file: str) -> dict[str, Any]:
    """The sections with `file` as training data of their pre-training stage."""
    from regard.runs.spec import merge_sections

    if not isinstance(sections.get("pretraining"), dict):
        raise RegardError(
            f"--pretrain-file {file}: the recipe has no pre-training stage. Remove the option, or "
            "pre-train first: regard train lm --train-file FILE, then --init-from RUN."
        )
    return merge_sections(sections, {"pretraining": {"task": {"train_file": file}}})


def with_absolute_paths(sections: dict[str, Any]) -> dict[str, Any]:
    """The sections with absolute paths of data files, so that a run can be resumed from anywhere."""
    found = dict(sections)
    if isinstance(task := sections.get("task"), dict):
        found["task"] = {
            key: absolute_files(value) if key in FILE_OPTIONS and isinstance(value, str) else value
            for key, value in task.items()
        }
    if isinstance(before := sections.get("pretraining"), dict):
        found["pretraining"] = with_absolute_paths(before)
    return found


def absolute_files(files: str) -> str:
    """The absolute path of FILE, or of both of SOURCE,TARGET; an embedded dataset keeps its name."""
    from regard.data.readers.text_file import file_exists
    from regard.tasks.classification.corpus import EMBEDDED_DATASETS

    if files in EMBEDDED_DATASETS:
        return files
    if "," not in files or file_exists(Path(files)):
        return str(Path(files).absolute())
    return ",".join(str(Path(file.strip()).absolute()) for file in files.split(","))


def log(line: str) -> None:
    """Print a line to standard error; standard output is for the result."""
    typer.echo(line, err=True)


def set_threads(spec: RunSpec) -> None:
    """Set the number of CPU threads that the spec asks for."""
    import torch

    if spec.threads is not None:
        torch.set_num_threads(spec.threads)


def load_plugins(plugins: list[str] | None) -> None:
    """Import and register the named mechanisms. This runs their files: name only trusted ones."""
    if not plugins:
        return
    from regard.conformance.subject import load_class
    from regard.mechanisms import register_plugin

    for target in plugins:
        register_plugin(load_class(target))


GREATEST_SEED = 2**63 - 1


def parse_int(value: str | int) -> str | int:
    """The integer that the text spells, else the text itself.

    `validate_seed` rejects the text: Typer would reword an error raised here, without the value.
    """
    try:
        return int(value)
    except ValueError:
        return value


def validate_seed(seed: str | int) -> int:
    """The seed, if `torch.Generator.manual_seed` takes it unchanged."""
    if isinstance(seed, str) or not 0 <= seed <= GREATEST_SEED:
        raise RegardError(
            f"--seed {seed}: a seed is an integer from 0 to {GREATEST_SEED} (2**63 - 1). "
            "Choose one of those."
        )
    return seed


Seed = Annotated[
    int,
    typer.Option(
        "--seed",
        metavar="NUMBER",
        help="Random seed, 0 or more.",
        parser=parse_int,
        callback=validate_seed,
    ),
]


def validate_utf8(text: str, *, what: str) -> None:
    """Raise if an argument of the command line holds undecodable bytes (surrogates)."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        shown = text.encode(errors="backslashreplace").decode()
        raise RegardError(
            f"{what} '{shown}' has undecodable bytes at character {error.start + 1}; it must be text in "
            "the encoding of this terminal. Type it again, in UTF-8."
        ) from error


BYTES = {"GB": 1e9, "MB": 1e6}
SECONDS = {"h": 3600.0, "min": 60.0, "s": 1.0}
AMOUNT = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>[A-Za-z]+)")


class Limits(NamedTuple):
    """The memory in bytes and the time in seconds that a run may take; None is unlimited."""

    memory: float
    seconds: float | None

    def exceeded(self, *, memory: float, seconds: float) -> list[str]:
        """The names of the limits that these amounts exceed."""
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
