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

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field

from regard.core.errors import RegardError
from regard.core.options import Options, options_of
from regard.core.registry import BuiltinConfigs, parse_value
from regard.core.traits import traits_of
from regard.models import DATA_ARGUMENTS, MODELS, REGISTRY as MODEL_REGISTRY, model_class
from regard.runs.plugins import PluginRecord, used_plugins, validate_plugins
from regard.tasks import task_class
from regard.training.options import TrainingOptions

# section → an example for errors
EXAMPLES = {"task": 'task.name="pronounce"', "model": 'model.name="transformer"'}

Sections = dict[str, Any]
SectionValues = Annotated[dict[str, Any], Field(default_factory=dict)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
MAX_THREADS = 1024  # torch aborts if the system cannot create its threads
Threads = Annotated[int, Field(ge=1, le=MAX_THREADS)]


class PretrainingSections(Options):
    """The sections of a pre-training."""

    SECTION: ClassVar[str] = "pretraining"
    WHAT: ClassVar[str] = "section"

    task: SectionValues
    training: SectionValues


class SpecSections(Options):
    """The sections of a spec; the options in them are validated by the classes they are for.

    Args:
        seed: Random seed for initialisation and data order.
        threads: CPU threads; none: all cores.
    """

    WHAT: ClassVar[str] = "section"

    task: SectionValues
    model: SectionValues
    training: SectionValues
    pretraining: dict[str, Any] | None = None
    init_from: str | None = None
    seed: Seed = 0
    threads: Threads | None = None
    plugins: dict[str, PluginRecord] = Field(default_factory=dict)


SECTIONS = ("task", "model", "training", "pretraining")


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """A validated spec. `model_options` are all options of the model."""

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
    def from_sections(
        cls,
        sections: object,
        *,
        is_record: bool = False,
        changed_plugins: Literal["error", "warn"] = "error",
    ) -> Self:
        """Validate sections. In a record, absent options have the defaults they were introduced with.

        Plug-ins in the sections must be loaded, and their files must not have changed.
        """
        given = validate_sections(sections)
        validate_plugins(given.plugins, changed=changed_plugins)
        task, task_values = _named("task", given.task)
        model, model_values = _named("model", given.model)
        _validate_compatibility(task, model)
        if given.pretraining and given.init_from is not None:
            raise RegardError(
                f"init_from='{given.init_from}' and the section 'pretraining' exclude each other. Remove "
                "init_from, or set pretraining=none."
            )
        task_options = _task_options(task, task_values, is_record=is_record)
        pretraining = None
        if given.pretraining:
            own = PretrainingSections(**given.pretraining)
            name, before = _named("task", own.task)
            try:
                inherited = task_class(name).inherited_options(before, task_options)
                stage = {"task": {**own.task, **inherited}, "training": own.training}
                run = {"model": given.model, "seed": given.seed, "threads": given.threads}
                pretraining = cls.from_sections({**run, **stage}, is_record=is_record)
            except RegardError as error:
                raise RegardError(f"In pretraining: {error}") from error
        return cls(
            task=task,
            task_options=task_options,
            model=model,
            model_options=_build(
                _model_options(model), model_values, is_record=is_record, section_keys=("name",)
            ).as_kwargs(),
            training=_build(TrainingOptions, given.training, is_record=is_record),
            pretraining=pretraining,
            init_from=given.init_from,
            seed=given.seed,
            threads=given.threads,
        )

    @classmethod
    def read(
        cls,
        path: Path,
        sections: object,
        *,
        changed_plugins: Literal["error", "warn"] = "error",
    ) -> Self:
        """From the content of a file that `as_sections` was written to; errors name the file."""
        try:
            return cls.from_sections(sections, is_record=True, changed_plugins=changed_plugins)
        except RegardError as error:
            raise RegardError(f"In '{path}': {error}") from error

    def as_sections(self) -> Sections:
        """The sections with every option written out, and the plug-ins that they name."""
        sections: Sections = {
            "task": {"name": self.task, **self.task_options.as_dict()},
            "model": {"name": self.model, **self.model_options},
            "training": self.training.as_dict(),
            "seed": self.seed,
            "threads": self.threads,
        }
        if self.pretraining is not None:
            before = self.pretraining.as_sections()
            sections["pretraining"] = {name: before[name] for name in ("task", "training")}
        if self.init_from is not None:
            sections["init_from"] = self.init_from
        plugins = used_plugins(sections)
        return {**sections, "plugins": plugins} if plugins else sections

    def identity(self) -> Sections:
        """What identifies the run: all options, see `Options.identity`.

        The files of plug-ins are no part of it: a changed one is an error when the run is resumed.
        """
        model = _model_options(self.model)(**self.model_options)
        before = None if self.pretraining is None else self.pretraining.identity()
        return {
            "task": [self.task, self.task_options.identity()],
            "model": [self.model, model.identity()],
            "training": self.training.identity(),
            "pretraining": before and {name: before[name] for name in ("task", "training")},
            "init_from": self.init_from,
            "seed": self.seed,
            "threads": self.threads,
        }


def spec_key(spec: RunSpec) -> str:
    """A short hash of what identifies a run."""
    text = json.dumps(spec.identity(), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def validate_sections(sections: object) -> SpecSections:
    """The sections, if they are known ones and tables of options."""
    if not isinstance(sections, Mapping):
        raise RegardError(
            f"A spec is a table of the sections {', '.join(SECTIONS)}, but this is {sections!r}."
        )
    return SpecSections(**sections)


def _build(
    kind: type[Options],
    values: Mapping[str, Any],
    *,
    is_record: bool,
    section_keys: tuple[str, ...] = (),
) -> Any:
    kind.validate_names(values, section_keys=section_keys)
    return kind.from_record(values) if is_record else kind(**values)


def _model_options(model: str) -> type[Options]:
    kind: Any = model_class(model)
    return options_of(kind, section="model", reserved=DATA_ARGUMENTS)


def _task_options(task: str, values: Mapping[str, Any], *, is_record: bool) -> Any:
    kind = task_class(task).options_class
    return _build(kind, values, is_record=is_record, section_keys=("name",))


def _validate_compatibility(task: str, model: str) -> None:
    """Raise if the model does not take the inputs of the task, or does not predict its targets."""
    if is_compatible(task, model):
        return
    known = (*MODELS, *MODEL_REGISTRY.plugins)
    compatible = [name for name in known if is_compatible(task, name)]
    raise RegardError(
        f"model.name={model}: it is not compatible with the task '{task}'. Set model.name to one of: "
        f"{', '.join(compatible)}."
    )


def is_compatible(task: str, model: str) -> bool:
    """Whether the model takes the inputs of the task and predicts its targets."""
    kind, traits = task_class(task), traits_of(model_class(model))
    return (
        kind.input_kind in traits.inputs
        and kind.target_kind in traits.targets
        and (traits.is_decoder_only or not kind.is_generative)
    )


def _named(section: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
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
