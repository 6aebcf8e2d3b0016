"""What a run is, in full: the task, the model, the training, the seed.

The number of threads belongs to it, because sums depend on their order in the last bit. A spec is
written as sections, in a recipe (TOML), in a run folder (JSON) or in Python alike:

    {"task": {"name": "pronounce", ...}, "model": {"name": "transformer", ...},
     "training": {"steps": 5000, ...}, "seed": 0}

Every key is checked against the signature of what it is for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from regard.core.errors import RegardError
from regard.core.names import unknown_name
from regard.core.setting_value import setting_value
from regard.models import model_class
from regard.runs.typed_options import typed_options
from regard.tasks import task_class
from regard.tasks.pair_options import PairOptions
from regard.training.options import TrainingOptions

SECTIONS = ("task", "model", "training")
# section → an option of it, as an error shows it
EXAMPLES = {
    "task": 'task.name="pronounce"',
    "model": 'model.name="transformer"',
    "training": "training.steps=1000",
}
NUMBERS = ("seed", "threads")
MOST_THREADS = 1024  # torch ends without a word where the system has no room for its threads
VOCABULARY_SIZES = ("source_vocabulary", "target_vocabulary")  # the data decides these

Sections = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """A checked spec."""

    task: str
    task_options: PairOptions
    model: str
    model_options: dict[str, Any]
    training: TrainingOptions
    seed: int = 0
    threads: int | None = None

    @classmethod
    def from_sections(cls, sections: Mapping[str, Any]) -> Self:
        """The spec that these sections describe."""
        require_sections(sections)
        task, task_options = _named(sections, "task")
        model, model_options = _named(sections, "model")
        options_class = task_class(task).options_class
        seed = sections.get("seed", 0)
        if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
            raise RegardError(f"seed={seed!r}: it must be a whole number from 0 to 2**63 - 1.")
        threads = sections.get("threads")
        if threads is not None and (type(threads) is not int or not 1 <= threads <= MOST_THREADS):
            raise RegardError(f"threads={threads!r}: use a whole number from 1 to {MOST_THREADS}.")
        return cls(
            task=task,
            task_options=options_class(
                **typed_options(options_class, task_options, section="task")
            ),
            model=model,
            model_options=typed_options(
                model_class(model),
                model_options,
                section="model",
                given_elsewhere=VOCABULARY_SIZES,
            ),
            training=TrainingOptions(
                **typed_options(TrainingOptions, sections.get("training", {}), section="training")
            ),
            seed=seed,
            threads=threads,
        )

    def as_sections(self) -> Sections:
        """The sections, every option of the task and the training written out."""
        return {
            "task": {"name": self.task, **asdict(self.task_options)},
            "model": {"name": self.model, **self.model_options},
            "training": self.training.as_dict(),
            "seed": self.seed,
            "threads": self.threads,
        }


def require_sections(sections: object) -> None:
    """Refuse what is not a table of known sections, each a table of options."""
    if not isinstance(sections, Mapping):
        raise RegardError(
            f"A spec is a table of the sections {', '.join(SECTIONS)}, but this is {sections!r}."
        )
    for name, options in sections.items():
        if name not in (*SECTIONS, *NUMBERS):
            raise unknown_name("section", name, (*SECTIONS, *NUMBERS))
        if name in SECTIONS and not isinstance(options, Mapping):
            raise RegardError(
                f"The section '{name}' is {options!r}, but it must be a table of options. Set one "
                f"option at a time, such as {EXAMPLES[name]}."
            )


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
        if isinstance(change, Mapping) and isinstance(before, Mapping):
            replaced = "name" in change and change["name"] != before.get("name")
            result[name] = {**({} if replaced else before), **change}
        else:
            result[name] = change
    return result


def settings_as_sections(settings: Iterable[str]) -> Sections:
    """Words such as `model.num_layers=3` as sections; what is no Python literal is a text.

    >>> settings_as_sections(["model.num_layers=3", "model.mechanism=additive", "seed=1"])
    {'model': {'num_layers': 3, 'mechanism': 'additive'}, 'seed': 1}
    """
    sections: Sections = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        section, dot, key = name.strip().partition(".")
        whole_section = section in SECTIONS and not key
        if not equals or not section or bool(dot) != bool(key) or whole_section:
            raise RegardError(
                f"--set {setting}: write it as SECTION.OPTION=VALUE, such as --set model.num_layers=3."
            )
        value = setting_value(text)
        if key:
            inner = sections.setdefault(section, {})
            if not isinstance(inner, dict):
                raise RegardError(
                    f"--set {setting}: '{section}' was given a value of its own before."
                )
            inner[key] = value
        else:
            sections[section] = value
    return sections
