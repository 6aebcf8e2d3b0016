"""What a run is, in full: the task, the model, the training, the seed.

The number of threads belongs to it, because sums depend on their order in the last bit. A spec is
written as sections, in a recipe (TOML), in a run folder (JSON) or in Python alike:

    {"task": {"name": "pronounce", ...}, "model": {"name": "transformer", ...},
     "training": {"steps": 5000, ...}, "seed": 0}

A model may learn something else first: `pretraining` has a task and a training of its own, and the
same model; or it starts from the weights of a finished run, whose folder is `start`. Every key is
checked against the signature of what it is for.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self, get_args, get_type_hints

from pydantic import ConfigDict, ValidationError, create_model

from regard.core.errors import RegardError
from regard.core.registry import ShippedFiles, known_options, look_up, setting_value, unknown_name
from regard.models import MODELS, model_class
from regard.tasks import TASKS, task_class
from regard.training.options import TrainingOptions

# Options checked against a signature: the signature of what they are for is their schema.


def typed_options(
    kind: Callable[..., object],
    options: Mapping[str, Any],
    *,
    section: str,
    given_elsewhere: tuple[str, ...] = (),
    beside: tuple[str, ...] = (),
) -> dict[str, Any]:
    """The options, each turned into the type that `kind` asks for.

    An option that `kind` does not have is refused, and the known ones are listed; those of
    `given_elsewhere` are not the user's to give, and those of `beside` are known in the section and taken
    out of it already. `section` is what errors call the place: "model".
    """
    known = [name for name in known_options(kind) if name not in given_elsewhere]
    for name in options:
        if name not in known:
            choices = [f"{section}.{key}" for key in (*beside, *known)]
            raise unknown_name("option", f"{section}.{name}", choices)
    function = kind.__init__ if inspect.isclass(kind) else kind
    hints = get_type_hints(function)
    fields: dict[str, Any] = {name: (hints.get(name, Any), ...) for name in options}
    for name, value in options.items():
        hint = hints.get(name, Any)
        # A number is asked for, and pydantic would take true for 1.
        if isinstance(value, bool) and not {bool, Any} & {hint, *get_args(hint)}:
            raise RegardError(f"{section}.{name}={value}: it must not be true or false.")
    options = {name: _nothing(value, hints.get(name, Any)) for name, value in options.items()}
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
        # pydantic's messages read "Input should be a valid integer, …".
        rule = fault["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
        raise RegardError(f"{section}.{name}={options[name]!r}: it must be {rule}.") from error
    return {name: getattr(checked, name) for name in options}


def _nothing(value: Any, hint: Any) -> Any:
    """None for the word "none", which neither TOML nor a command line can else say.

    Where a text is allowed, "none" may be a choice like any other, and stays.
    """
    kinds = get_args(hint)
    return None if value == "none" and type(None) in kinds and str not in kinds else value


SECTIONS = ("task", "model", "training", "pretraining")
OF_PRETRAINING = ("task", "training")
# section → an option of it, as an error shows it
EXAMPLES = {
    "task": 'task.name="pronounce"',
    "model": 'model.name="transformer"',
    "training": "training.steps=1000",
    "pretraining": "pretraining.task.name=lm",
}
NUMBERS = ("seed", "threads")
PATHS = ("start",)
MOST_THREADS = 1024  # torch ends without a word where the system has no room for its threads

Sections = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """A checked spec."""

    task: str
    task_options: Any
    model: str
    model_options: dict[str, Any]
    training: TrainingOptions
    pretraining: RunSpec | None = None
    start: str | None = None
    seed: int = 0
    threads: int | None = None

    @classmethod
    def from_sections(cls, sections: Mapping[str, Any]) -> Self:
        """The spec that these sections describe."""
        require_sections(sections)
        task, task_options = _named(sections, "task")
        model, model_options = _named(sections, "model")
        _require_fit(task, model)
        options_class = task_class(task).options_class
        seed = sections.get("seed", 0)
        if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
            raise RegardError(f"seed={seed!r}: it must be a whole number from 0 to 2**63 - 1.")
        threads = sections.get("threads")
        if threads is not None and (type(threads) is not int or not 1 <= threads <= MOST_THREADS):
            raise RegardError(f"threads={threads!r}: use a whole number from 1 to {MOST_THREADS}.")
        start = sections.get("start")
        pretraining = sections.get("pretraining")
        if pretraining == "none":
            pretraining = None
        if start is not None and not isinstance(start, str):
            raise RegardError(f"start={start!r}: it must be the folder of a finished run.")
        if pretraining and start is not None:
            raise RegardError(
                f"The run starts from '{start}' and has a section 'pretraining' too. Choose one: leave "
                "start away, or set pretraining=none."
            )
        return cls(
            task=task,
            task_options=options_class(
                **typed_options(options_class, task_options, section="task", beside=("name",))
            ),
            model=model,
            model_options=typed_options(
                model_class(model),
                model_options,
                section="model",
                given_elsewhere=MODELS[model].sizes,
                beside=("name",),
            ),
            training=TrainingOptions(
                **typed_options(TrainingOptions, sections.get("training", {}), section="training")
            ),
            pretraining=_pretraining(cls, sections) if pretraining else None,
            start=start,
            seed=seed,
            threads=threads,
        )

    def as_sections(self) -> Sections:
        """The sections, every option of the task and the training written out."""
        sections: Sections = {
            "task": {"name": self.task, **asdict(self.task_options)},
            "model": {"name": self.model, **self.model_options},
            "training": self.training.as_dict(),
            "seed": self.seed,
            "threads": self.threads,
        }
        if self.pretraining is not None:
            before = self.pretraining.as_sections()
            sections["pretraining"] = {name: before[name] for name in OF_PRETRAINING}
        if self.start is not None:
            sections["start"] = self.start
        return sections


def require_sections(sections: object) -> None:
    """Refuse what is not a table of known sections, each a table of options."""
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


def _require_fit(task: str, model: str) -> None:
    """Refuse a model that does not read what the task gives it."""
    reads = look_up("task", task, TASKS).reads
    if look_up("model", model, MODELS).reads != reads:
        fitting = [name for name, entry in MODELS.items() if entry.reads == reads]
        raise RegardError(
            f"The model '{model}' cannot learn the task '{task}', which gives it {reads}. Set model.name "
            f"to one of: {', '.join(fitting)}."
        )

    if task_class(task).goes_on and not getattr(model_class(model), "one_vocabulary", False):
        raise RegardError(
            f"The model '{model}' cannot learn the task '{task}': it reads one text and writes another, "
            "and cannot go on with one. Set model.name=decoder_only."
        )


def _pretraining(cls: type[RunSpec], sections: Mapping[str, Any]) -> RunSpec:
    """What the model learns first: the run's model and seed with a task and a training of its own."""
    own = sections["pretraining"]
    for name, options in own.items():
        if name not in OF_PRETRAINING:
            raise unknown_name("section of pretraining", name, OF_PRETRAINING)
        if not isinstance(options, Mapping):
            raise RegardError(
                f"The section 'pretraining.{name}' is {options!r}, but it must be a table of options."
            )
    run = {name: value for name, value in sections.items() if name != "pretraining"}
    name, before = _named(own, "task")
    task, options = _named(sections, "task")
    kind = task_class(task).options_class
    checked = kind(**typed_options(kind, options, section="task", beside=("name",)))
    try:
        taken = task_class(name).taken_over(before, checked)
        return cls.from_sections({**run, **own, "task": {"name": name, **before, **taken}})
    except RegardError as error:
        raise RegardError(f"In pretraining: {error}") from error


def _named(sections: Mapping[str, Any], section: str) -> tuple[str, dict[str, Any]]:
    options = sections.get(section, {})
    if not isinstance(options.get("name"), str):
        raise RegardError(
            f"The section '{section}' has no name. Write one, such as {EXAMPLES[section]}."
        )
    return options["name"], {key: value for key, value in options.items() if key != "name"}


def merged(sections: Sections, changes: Mapping[str, Any]) -> Sections:
    """Sections with some keys replaced; of a section, the keys not named in `changes` stay.

    Another model or task than before keeps none of the options of the one it replaces.
    """
    result: Sections = {**sections}
    for name, change in changes.items():
        before = result.get(name)
        if name == "pretraining" and isinstance(change, Mapping) and isinstance(before, Mapping):
            result[name] = merged(dict(before), change)
        elif isinstance(change, Mapping) and isinstance(before, Mapping):
            replaced = "name" in change and change["name"] != before.get("name")
            result[name] = {**({} if replaced else before), **change}
        else:
            result[name] = change
    return result


def settings_as_sections(settings: Iterable[str]) -> Sections:
    """Words such as `model.num_layers=3` as sections; what is no Python literal is a text.

    >>> settings_as_sections(["model.num_layers=3", "model.mechanism=additive", "seed=1"])
    {'model': {'num_layers': 3, 'mechanism': 'additive'}, 'seed': 1}
    >>> settings_as_sections(["pretraining.training.steps=100"])
    {'pretraining': {'training': {'steps': 100}}}
    """
    sections: Sections = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        *path, key = (word.strip() for word in name.split("."))
        depth = 2 if path[:1] == ["pretraining"] else 1
        none_at_all = name.strip() == "pretraining" and text.strip() == "none"
        if (
            not equals
            or not all((*path, key))
            or len(path) not in (0, depth)
            or (not path and key in SECTIONS and not none_at_all)
        ):
            raise RegardError(
                f"--set {setting}: write it as SECTION.OPTION=VALUE, such as --set model.num_layers=3."
            )
        inner = sections
        for section in path:
            inner = inner.setdefault(section, {})
            if not isinstance(inner, dict):
                raise RegardError(
                    f"--set {setting}: '{section}' was given a value of its own before."
                )
        inner[key] = setting_value(text)
    return sections


# Recipes: TOML files with the sections of a spec, shipped in the folder `recipes`, or the user's
# own.


RECIPES = ShippedFiles("recipe", Path(__file__).parent / "recipes")
shipped_recipes = RECIPES.paths
read_recipe = RECIPES.read


# Columns as the command line calls them, and as a task does: a label is the target of a text.


OF_LABELLED_TEXTS = {"source_column": "text_column", "target_column": "label_column"}


def renamed(option: str, known: Container[str]) -> str:
    """The task's own word for an option.

    >>> renamed("source_column", {"text_column", "label_column"})
    'text_column'
    >>> renamed("source_column", {"source_column"})
    'source_column'
    """
    return option if option in known else OF_LABELLED_TEXTS.get(option, option)
