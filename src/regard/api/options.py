"""Options that several functions share: data, recipe and budget of a run, settings, plug-ins, threads.

Data files are `train_file`, `validation_file` and `test_file` for every task; `pretrain_file` is the text
of a pre-training stage, and `init_from` a finished run to fine-tune (warm start).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import wraps
from inspect import Parameter, Signature
from os import PathLike
from pathlib import Path
from typing import Any, ParamSpec, TypedDict, TypeVar, get_type_hints

import torch
from torch import nn

from regard.core.device import resolve_device
from regard.core.errors import RegardError
from regard.core.registry import parse_value
from regard.data.readers.text_file import file_exists
from regard.runs.folder import RunFolder
from regard.runs.plugins import activate_names, load_plugins as register
from regard.runs.spec import (
    MAX_THREADS,
    RunSpec,
    Sections,
    merge_sections,
    parse_settings,
    read_recipe,
    validate_sections,
)
from regard.runs.train import read_spec
from regard.runs.warm_start import tokens_options
from regard.tasks import EMBEDDED_DATASETS, REGISTRY, TASKS, task_class
from regard.training.options import BUDGETS

File = str | PathLike[str]
Log = Callable[[str], None]
# Options with their values, or texts such as "model.num_layers=3".
Settings = Mapping[str, Any] | Sequence[str]
# FILE.py:CLASS, MODULE:CLASS, the name of an entry point, or a class, or an object of it.
Plugin = str | type | nn.Module
Plugins = Plugin | Iterable[Plugin]

P = ParamSpec("P")
R = TypeVar("R")

# The options of any task that name files.
FILE_OPTIONS = ("train_file", "validation_file", "test_file", "qa_file")
# The options of `RunOptions` that are options of the task; all but the last two are texts.
TASK_OPTIONS = (
    *("train_file", "validation_file", "test_file", "format"),
    *("source_column", "target_column", "skip_bad_rows", "header"),
)


class RunOptions(TypedDict, total=False):
    """The options of a training run that `train`, `plan` and `study` share: data, recipe, budget."""

    train_file: File | None
    validation_file: File | None
    test_file: File | None
    pretrain_file: File | None
    format: str | None
    source_column: str | int | None
    target_column: str | int | None
    header: bool
    skip_bad_rows: bool
    recipe: File | None
    set: Settings | None
    steps: int | None
    minutes: float | None
    device: str | None
    threads: int | None


def takes_run_options(function: Callable[P, R]) -> Callable[P, R]:
    """The function with the keywords of `RunOptions` in its signature; others are a TypeError."""
    shared = [
        Parameter(
            name, Parameter.KEYWORD_ONLY, default=False if hint is bool else None, annotation=hint
        )
        for name, hint in get_type_hints(RunOptions).items()
    ]
    own = inspect.signature(function).parameters.values()
    of_function = [each for each in own if each.kind is not Parameter.VAR_KEYWORD]
    whole = Signature([*of_function, *shared])

    @wraps(function)
    def call(*arguments: P.args, **options: P.kwargs) -> R:
        whole.bind(*arguments, **options)
        return function(*arguments, **options)

    call.__signature__ = whole  # type: ignore[attr-defined]
    return call


def given_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that are given, with files and columns as text; None, False and () are not given."""
    given = {name: value for name, value in options.items() if _is_given(value)}
    texts = {*TASK_OPTIONS[:-2], "pretrain_file", "recipe"}
    return {name: str(value) if name in texts else value for name, value in given.items()}


def _is_given(value: object) -> bool:
    empty = isinstance(value, Mapping | Sequence) and not isinstance(value, str) and not value
    return value is not None and value is not False and not empty


def silent(_: str) -> None:
    """A log that drops its lines."""


def optional_path(file: File | None) -> Path | None:
    """The path, if one is given."""
    return None if file is None else Path(file)


def setting_texts(settings: Settings | None) -> list[str]:
    """Settings as texts of `--set`.

    >>> setting_texts({"model.num_layers": 3, "model.mechanism": "additive"})
    ['model.num_layers=3', "model.mechanism='additive'"]
    """
    if isinstance(settings, Mapping):
        plain = {
            name: str(value) if isinstance(value, PathLike) else value
            for name, value in settings.items()
        }
        return [f"{name}={value!r}" for name, value in plain.items()]
    return [settings] if isinstance(settings, str) else list(settings or ())


def constructor_options(settings: Settings | None) -> dict[str, Any]:
    """Settings of one object as a dict; a value that is not a Python literal is a string.

    >>> constructor_options(["radius=3", "form=linear"])
    {'radius': 3, 'form': 'linear'}
    """
    if isinstance(settings, Mapping):
        return dict(settings)
    options: dict[str, Any] = {}
    for setting in setting_texts(settings):
        name, equals, text = setting.partition("=")
        if not (equals and name.isidentifier()):
            raise RegardError(f"--set {setting}: use OPTION=VALUE, such as --set radius=3.")
        options[name] = parse_value(text)
    return options


def task_section(given: Mapping[str, Any]) -> Sections:
    """The given data options as a section."""
    return {"task": {name: given[name] for name in TASK_OPTIONS if name in given}}


def with_budget(sections: Sections, given: Mapping[str, Any], **limits: float | None) -> Sections:
    """The sections with the given budget; it replaces all limits of the recipe or study."""
    seconds = 60 * given["minutes"] if "minutes" in given else None
    limits = {"steps": given.get("steps"), **limits, "seconds": seconds}
    found = {name: limit for name, limit in limits.items() if limit is not None}
    if not found:
        return sections
    return merge_sections(sections, {"training": {**dict.fromkeys(BUDGETS), **found}})


def run_spec(
    task: str | None,
    given: Mapping[str, Any],
    *,
    seed: int | None = None,
    init_from: File | None = None,
) -> RunSpec:
    """The validated spec: the recipe, overridden by the options that are given."""
    sections = run_sections(task, given, seed=seed, init_from=init_from)
    try:
        spec = RunSpec.from_sections(sections)
    except RegardError as error:
        if init_from is None or "model." not in str(error):
            raise
        raise RegardError(f"{error} The model is that of '{init_from}' (--init-from).") from error
    resolve_device(spec.training.device, option="training.device=")  # before the data is read
    return spec


def run_sections(
    task: str | None,
    given: Mapping[str, Any],
    *,
    seed: int | None = None,
    init_from: File | None = None,
) -> Sections:
    """The sections of a spec, before they are validated."""
    recipe = given.get("recipe")
    if task is None and recipe is None:
        raise RegardError(
            f"Name a task, one of: {', '.join(TASKS)}; or a recipe; or a run to resume: --resume RUN."
        )
    settings = parse_settings(setting_texts(given.get("set")))
    activate_names([task, settings])
    if task is not None:
        task_class(task)
    if task in REGISTRY.plugins and recipe is None:
        raise RegardError(
            f"The task '{task}' has no recipe. Give the recipe of a similar task, such as --recipe "
            "classify, or FILE.toml."
        )
    sections = read_recipe(recipe or str(task))
    validate_sections(sections)
    if task in REGISTRY.plugins:  # the recipe of another task, for its model and training
        sections = merge_sections(sections, {"task": {"name": task}})
    named = sections.get("task", {}).get("name")
    if task is not None and named != task:
        raise RegardError(
            f"The recipe '{recipe}' is for the task '{named}', not '{task}'. Choose another recipe."
        )
    if init_from is not None:
        sections = _initialised_from(sections, Path(init_from))
    # `--set task.name` drops the old task's options, so the flags are merged after it.
    sections = merge_sections(sections, settings)
    sections = merge_sections(sections, task_section(given))
    if "pretrain_file" in given:
        sections = with_pretrain_file(sections, given["pretrain_file"])
    sections = with_budget(sections, given)
    sections = with_device(sections, given.get("device"))
    numbers = {"seed": seed, "threads": given.get("threads")}
    sections = merge_sections(
        sections, {key: value for key, value in numbers.items() if value is not None}
    )
    return with_absolute_paths(sections)


def _initialised_from(sections: Sections, run: Path) -> Sections:
    """The sections with the model options of `run`, and no pre-training stage.

    Tokens options that its task does not have are those of its vocabulary; others must agree with it.
    """
    folder = RunFolder.existing(run)
    before = read_spec(folder, changed_plugins="warn")
    model = {"name": before.model, **before.model_options}
    task = sections["task"]
    if "name" in task and folder.preprocessor.is_file():
        folder.verify()
        own = task_class(task["name"]).options_class.model_fields.keys()
        own -= type(before.task_options).model_fields.keys()
        known = tokens_options(folder.read_json(folder.preprocessor))
        task = {**task, **{name: kind for name, kind in known.items() if name in own}}
    kept = {name: value for name, value in sections.items() if name != "pretraining"}
    return {**kept, "task": task, "model": model, "init_from": str(run.absolute())}


def with_device(sections: Sections, device: str | None) -> Sections:
    """The sections with this device for training, and for pre-training if there is a stage."""
    if device is None:
        return sections
    resolve_device(device)
    changes: Sections = {"training": {"device": device}}
    if isinstance(sections.get("pretraining"), dict):
        changes = {**changes, "pretraining": dict(changes)}
    return merge_sections(sections, changes)


def with_pretrain_file(sections: Sections, file: str) -> Sections:
    """The sections with `file` as training data of their pre-training stage."""
    if not isinstance(sections.get("pretraining"), dict):
        raise RegardError(
            f"--pretrain-file {file}: the recipe has no pre-training stage. Remove the option, or "
            "pre-train first: regard train lm --train-file FILE, then --init-from RUN."
        )
    return merge_sections(sections, {"pretraining": {"task": {"train_file": file}}})


def with_absolute_paths(sections: Sections) -> Sections:
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
    if files in EMBEDDED_DATASETS:
        return files
    if "," not in files or file_exists(Path(files)):
        return str(Path(files).absolute())
    return ",".join(str(Path(file.strip()).absolute()) for file in files.split(","))


def load_plugins(plugins: Plugins) -> list[str]:
    """Register mechanisms, models, tasks and metrics; returns their names.

    This imports the files and modules that are named: name only what you trust.
    """
    given = [plugins] if isinstance(plugins, str | type | nn.Module) else list(plugins)
    return register([type(each) if isinstance(each, nn.Module) else each for each in given])


@contextmanager
def compute_on(device: str | None, threads: int | None) -> Iterator[None]:
    """Load models and create tensors on this device inside the context, with this many CPU threads."""
    place = resolve_device(device or "cpu")
    with torch_threads(threads), nullcontext() if place.type == "cpu" else place:
        yield


@contextmanager
def torch_threads(count: int | None) -> Iterator[None]:
    """Run torch on this many threads inside the context; None leaves it as it is."""
    if count is not None and not 1 <= count <= MAX_THREADS:
        raise RegardError(f"--threads {count}: use 1 to {MAX_THREADS}.")
    before = torch.get_num_threads()
    if count is not None:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def validate_exclusive(**flags: bool) -> None:
    """Raise if more than one of the flags is given."""
    given = [f"--{name.replace('_', '-')}" for name, flag in flags.items() if flag]
    if len(given) > 1:
        raise RegardError(f"{' and '.join(given)} exclude each other. Remove one.")


GREATEST_SEED = 2**63 - 1


def validate_seed(seed: str | int) -> int:
    """The seed, if `torch.Generator.manual_seed` takes it unchanged."""
    if isinstance(seed, str) or not 0 <= seed <= GREATEST_SEED:
        raise RegardError(
            f"--seed {seed}: a seed is an integer from 0 to {GREATEST_SEED} (2**63 - 1). "
            "Choose one of those."
        )
    return seed


def validate_utf8(text: str, *, what: str) -> None:
    """Raise if a text, such as an argument of the command line, holds undecodable bytes (surrogates)."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        shown = text.encode(errors="backslashreplace").decode()
        raise RegardError(
            f"{what} '{shown}' has undecodable bytes at character {error.start + 1}; it must be text in "
            "the encoding of this terminal. Type it again, in UTF-8."
        ) from error
