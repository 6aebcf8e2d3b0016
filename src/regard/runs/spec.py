"""The spec of a run: task, model, training, seed and threads, validated.

A spec is written as sections, in a recipe (TOML), in a run folder (JSON) or in Python alike:

    {"task": {"name": "pronounce", ...}, "model": {"name": "transformer", ...},
     "training": {"steps": 5000, ...}, "seed": 0}

The defaults are those of the recipe named like the task, `runs/recipes/TASK.toml`; what a recipe does not
set has the default of the signature. `pretraining` has a task and training options of its own, with the
same model; `init_from` is the folder of a finished run to initialise from (warm start). Every option is
validated against the signature of the class it is for. The number of threads is included, because the
order of sums changes the last bit.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self, get_args, get_type_hints

from pydantic import ConfigDict, ValidationError, create_model

from regard.core.errors import RegardError
from regard.core.registry import BuiltinConfigs, known_options, lookup, parse_value, unknown_name
from regard.models import MODELS, model_class
from regard.tasks import TASKS, task_class
from regard.training.options import TrainingOptions


def validate_options(
    kind: Callable[..., object],
    options: Mapping[str, Any],
    *,
    section: str,
    reserved: tuple[str, ...] = (),
    section_keys: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Validate options against the signature of `kind`, and convert them to its types.

    An unknown option is an error that lists the known ones. `reserved` parameters are not options;
    `section_keys` are other keys of the section, listed in errors, and `section` is its name in errors.
    """
    known = [name for name in known_options(kind) if name not in reserved]
    for name in options:
        if name not in known:
            choices = [f"{section}.{key}" for key in (*section_keys, *known)]
            raise unknown_name("option", f"{section}.{name}", choices)
    function = kind.__init__ if inspect.isclass(kind) else kind
    hints = get_type_hints(function)
    fields: dict[str, Any] = {name: (hints.get(name, Any), ...) for name in options}
    for name, value in options.items():
        hint = hints.get(name, Any)
        # pydantic would accept true as the number 1.
        if isinstance(value, bool) and not {bool, Any} & {hint, *get_args(hint)}:
            raise RegardError(f"{section}.{name}={value}: it must not be true or false.")
    options = {name: _parse_none(value, hints.get(name, Any)) for name, value in options.items()}
    schema = create_model(
        "Options",
        __config__=ConfigDict(
            extra="forbid", protected_namespaces=(), arbitrary_types_allowed=True
        ),
        **fields,
    )
    try:
        checked = schema(**options)
    except ValidationError as error:
        fault = error.errors()[0]
        name = str(fault["loc"][0])
        # pydantic: "Input should be a valid integer, …".
        rule = fault["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
        raise RegardError(f"{section}.{name}={options[name]!r}: it must be {rule}.") from error
    return {name: getattr(checked, name) for name in options}


def _parse_none(value: Any, hint: Any) -> Any:
    """None for "none" where the type allows None but not str; TOML has no null."""
    kinds = get_args(hint)
    return None if value == "none" and type(None) in kinds and str not in kinds else value


SECTIONS = ("task", "model", "training", "pretraining")
PRETRAINING_SECTIONS = ("task", "training")
# section → an example for errors
EXAMPLES = {
    "task": 'task.name="pronounce"',
    "model": 'model.name="transformer"',
    "training": "training.steps=1000",
    "pretraining": "pretraining.task.name=lm",
}
NUMBERS = ("seed", "threads")
PATHS = ("init_from",)
MAX_THREADS = 1024  # torch aborts if the system cannot create its threads

Sections = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """A validated spec."""

    task: str
    task_options: Any
    model: str
    model_options: dict[str, Any]
    training: TrainingOptions
    pretraining: RunSpec | None = None
    init_from: str | None = None
    seed: int = 0
    threads: int | None = None

    @classmethod
    def from_sections(cls, sections: Mapping[str, Any]) -> Self:
        """Validate sections."""
        validate_sections(sections)
        task, task_options = _named(sections, "task")
        model, model_options = _named(sections, "model")
        _validate_compatibility(task, model)
        options_class = task_class(task).options_class
        seed = sections.get("seed", 0)
        if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
            raise RegardError(f"seed={seed!r}: it must be a whole number from 0 to 2**63 - 1.")
        threads = sections.get("threads")
        if threads is not None and (type(threads) is not int or not 1 <= threads <= MAX_THREADS):
            raise RegardError(f"threads={threads!r}: use a whole number from 1 to {MAX_THREADS}.")
        init_from = sections.get("init_from")
        pretraining = sections.get("pretraining")
        if pretraining == "none":
            pretraining = None
        if init_from is not None and not isinstance(init_from, str):
            raise RegardError(f"init_from={init_from!r}: it must be the folder of a finished run.")
        if pretraining and init_from is not None:
            raise RegardError(
                f"init_from='{init_from}' and the section 'pretraining' exclude each other. Remove "
                "init_from, or set pretraining=none."
            )
        return cls(
            task=task,
            task_options=options_class(
                **validate_options(
                    options_class, task_options, section="task", section_keys=("name",)
                )
            ),
            model=model,
            model_options=validate_options(
                model_class(model),
                model_options,
                section="model",
                reserved=MODELS[model].sizes,
                section_keys=("name",),
            ),
            training=TrainingOptions(
                **validate_options(
                    TrainingOptions, sections.get("training", {}), section="training"
                )
            ),
            pretraining=_pretraining(cls, sections) if pretraining else None,
            init_from=init_from,
            seed=seed,
            threads=threads,
        )

    def as_sections(self) -> Sections:
        """The sections, with every task and training option written out."""
        sections: Sections = {
            "task": {"name": self.task, **asdict(self.task_options)},
            "model": {"name": self.model, **self.model_options},
            "training": self.training.as_dict(),
            "seed": self.seed,
            "threads": self.threads,
        }
        if self.pretraining is not None:
            before = self.pretraining.as_sections()
            sections["pretraining"] = {name: before[name] for name in PRETRAINING_SECTIONS}
        if self.init_from is not None:
            sections["init_from"] = self.init_from
        return sections


def validate_sections(sections: object) -> None:
    """Raise unless it is a table of known sections, each a table of options."""
    if not isinstance(sections, Mapping):
        raise RegardError(
            f"A spec is a table of the sections {', '.join(SECTIONS)}, but this is {sections!r}."
        )
    known = (*SECTIONS, *NUMBERS, *PATHS)
    for name, options in sections.items():
        if name not in known:
            raise unknown_name("section", name, known)
        if name == "pretraining" and options in (None, "none"):
            continue
        if name in SECTIONS and not isinstance(options, Mapping):
            raise RegardError(
                f"The section '{name}' is {options!r}, but it must be a table of options. Set one "
                f"option at a time, such as {EXAMPLES[name]}."
            )


def _validate_compatibility(task: str, model: str) -> None:
    """Raise if the inputs of the model are not those of the task."""
    inputs = lookup("task", task, TASKS).inputs
    if lookup("model", model, MODELS).inputs != inputs:
        compatible = [name for name, entry in MODELS.items() if entry.inputs == inputs]
        raise RegardError(
            f"The model '{model}' is not compatible with the task '{task}', whose inputs are {inputs}. Set "
            f"model.name to one of: {', '.join(compatible)}."
        )

    is_decoder_only = getattr(model_class(model), "requires_shared_vocabulary", False)
    if task_class(task).is_generative and not is_decoder_only:
        raise RegardError(
            f"The model '{model}' is not compatible with the task '{task}', which needs a decoder-only "
            "model. Set model.name=decoder_only."
        )


def _pretraining(cls: type[RunSpec], sections: Mapping[str, Any]) -> RunSpec:
    """The spec of the pre-training: the run's model and seed with its own task and training options."""
    own = sections["pretraining"]
    for name, options in own.items():
        if name not in PRETRAINING_SECTIONS:
            raise unknown_name("section of pretraining", name, PRETRAINING_SECTIONS)
        if not isinstance(options, Mapping):
            raise RegardError(
                f"The section 'pretraining.{name}' is {options!r}, but it must be a table of options."
            )
    run = {name: value for name, value in sections.items() if name != "pretraining"}
    name, before = _named(own, "task")
    task, options = _named(sections, "task")
    kind = task_class(task).options_class
    checked = kind(**validate_options(kind, options, section="task", section_keys=("name",)))
    try:
        inherited = task_class(name).inherited_options(before, checked)
        return cls.from_sections({**run, **own, "task": {"name": name, **before, **inherited}})
    except RegardError as error:
        raise RegardError(f"In pretraining: {error}") from error


def _named(sections: Mapping[str, Any], section: str) -> tuple[str, dict[str, Any]]:
    options = sections.get(section, {})
    if not isinstance(options.get("name"), str):
        raise RegardError(
            f"The section '{section}' has no name. Write one, such as {EXAMPLES[section]}."
        )
    return options["name"], {key: value for key, value in options.items() if key != "name"}


def merge_sections(sections: Sections, changes: Mapping[str, Any]) -> Sections:
    """Sections updated with `changes`; keys that are not in `changes` stay.

    A model or task with another name replaces all options of the previous one.
    """
    result: Sections = {**sections}
    for name, change in changes.items():
        before = result.get(name)
        if name == "pretraining" and isinstance(change, Mapping) and isinstance(before, Mapping):
            result[name] = merge_sections(dict(before), change)
        elif isinstance(change, Mapping) and isinstance(before, Mapping):
            replaced = "name" in change and change["name"] != before.get("name")
            result[name] = {**({} if replaced else before), **change}
        else:
            result[name] = change
    return result


def parse_settings(settings: Iterable[str]) -> Sections:
    """Parse settings such as `model.num_layers=3` into sections; non-literals are strings.

    >>> parse_settings(["model.num_layers=3", "model.mechanism=additive", "seed=1"])
    {'model': {'num_layers': 3, 'mechanism': 'additive'}, 'seed': 1}
    >>> parse_settings(["pretraining.training.steps=100"])
    {'pretraining': {'training': {'steps': 100}}}
    """
    sections: Sections = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        *path, key = (piece.strip() for piece in name.split("."))
        depth = 2 if path[:1] == ["pretraining"] else 1
        is_none = name.strip() == "pretraining" and text.strip() == "none"
        if (
            not equals
            or not all((*path, key))
            or len(path) not in (0, depth)
            or (not path and key in SECTIONS and not is_none)
        ):
            raise RegardError(
                f"--set {setting}: write it as SECTION.OPTION=VALUE, such as --set model.num_layers=3."
            )
        inner = sections
        for section in path:
            inner = inner.setdefault(section, {})
            if not isinstance(inner, dict):
                raise RegardError(f"--set {setting}: '{section}' already has a value.")
        inner[key] = parse_value(text)
    return sections


RECIPES = BuiltinConfigs("recipe", Path(__file__).parent / "recipes")
builtin_recipes = RECIPES.paths
read_recipe = RECIPES.read


CLASSIFICATION_COLUMNS = {"source_column": "text_column", "target_column": "label_column"}


def task_option_name(option: str, known: Container[str]) -> str:
    """The task's name of a column option: for classification, the source is the text, the target the label.

    >>> task_option_name("source_column", {"text_column", "label_column"})
    'text_column'
    >>> task_option_name("source_column", {"source_column"})
    'source_column'
    """
    return option if option in known else CLASSIFICATION_COLUMNS.get(option, option)
