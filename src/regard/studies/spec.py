"""The spec of a study: a question, variants, seeds shared by all variants, one budget.

The same in TOML, by flags or in Python:

    question = "Which attention score is best?"
    recipe = "pronounce-quick"              the base of every run
    seeds = 5                               0 to 4; or a list
    baseline = "dot"                        the reference variant; default: the first
    match = "parameters"                    choose widths so that all variants have as many parameters
    learning_rates = [1e-3, 2e-3]           tuned per variant: the best on validation is selected
    tuning_seeds = 3                        with other seeds than those compared; or a list
    [training]                              overrides of the recipe: the budget of every variant
    steps = 2000
    [sweep]                                 a grid: every combination is a variant
    "model.mechanism" = ["dot", "additive"]
    [[variants]]                            or variants one by one, crossed with the grid
    name = "Transformer"
    set = ["model.name=transformer", "model.num_layers=2"]

All variants share data, seeds, batch order and evaluation, so that runs are paired by seed. A run uses one
thread unless `threads` is set, and the runs of a study are executed in parallel.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NotRequired, Self

from pydantic import ConfigDict, Field, field_validator, with_config
from typing_extensions import TypedDict

from regard.core.errors import RegardError
from regard.core.options import Options, PositiveFloat, PositiveInt
from regard.core.registry import BuiltinConfigs, unknown_name
from regard.runs.spec import (
    SECTIONS,
    RunSpec,
    Sections,
    SectionValues,
    Seed,
    Threads,
    merge_sections,
    parse_settings,
    read_recipe,
    spec_key,
)
from regard.training.options import TrainingOptions

FIRST_TUNING_SEED = 1_000_000  # far from the seeds that are compared, of which more may be added
DEFAULT_SECTION = "model"  # of a sweep option without a section


@with_config(ConfigDict(extra="forbid", strict=True))
class ListedVariant(TypedDict):
    """An entry of `[[variants]]`."""

    name: str
    set: NotRequired[list[str] | tuple[str, ...]]


class StudySections(Options):
    """The keys of a study; the sections in it are validated with every variant."""

    WHAT: ClassVar[str] = "key of a study"

    question: str = ""
    recipe: str | None = None
    seeds: PositiveInt | Annotated[tuple[Seed, ...], Field(min_length=1)] = 5
    baseline: str | None = None
    match: Literal["parameters"] | None = None
    learning_rates: tuple[PositiveFloat, ...] = ()
    tuning_seeds: PositiveInt | Annotated[tuple[Seed, ...], Field(min_length=1)] = 3
    sweep: dict[str, Annotated[list[Any] | tuple[Any, ...], Field(min_length=1)]] = Field(
        default_factory=dict
    )
    variants: tuple[ListedVariant, ...] = ()
    task: SectionValues
    model: SectionValues
    training: SectionValues
    pretraining: dict[str, Any] | None = None
    threads: Threads | None = None

    @field_validator("seeds", "learning_rates", "tuning_seeds")
    @classmethod
    def _validate_different(cls, values: Any) -> Any:
        if isinstance(values, tuple) and len(set(values)) < len(values):
            raise ValueError("the values must be different.")
        return values

    def all_seeds(self) -> tuple[int, ...]:
        """The seeds; a number stands for that many."""
        return tuple(range(self.seeds)) if isinstance(self.seeds, int) else self.seeds

    def all_tuning_seeds(self) -> tuple[int, ...]:
        """The seeds that learning rates are tuned with; none without a choice of rates."""
        if len(self.learning_rates) < 2:
            if "tuning_seeds" in self.model_fields_set:
                raise RegardError(
                    f"tuning_seeds={self.tuning_seeds}: there is nothing to tune. Give learning_rates, two "
                    "or more, or remove tuning_seeds."
                )
            return ()
        if isinstance(self.tuning_seeds, tuple):
            found = self.tuning_seeds
        else:
            found = tuple(range(FIRST_TUNING_SEED, FIRST_TUNING_SEED + self.tuning_seeds))
        if common := set(found) & set(self.all_seeds()):
            raise RegardError(
                f"tuning_seeds: {min(common)} is one of the seeds that are compared. Choose other seeds: "
                "rates tuned on the compared runs favour variants with more noise."
            )
        return found

    def base(self) -> Sections:
        """The sections of a run without variant and seed: the recipe with the study's changes."""
        recipe = read_recipe(self.recipe) if self.recipe is not None else {}
        given = {
            name: getattr(self, name) for name in self.model_fields_set & {*SECTIONS, "threads"}
        }
        # One thread per run, so that results do not depend on the machine or on parallel runs.
        return merge_sections({"threads": 1, **recipe}, given)


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A variant: its name and its changes to the base sections."""

    name: str
    changes: Sections


def variants_of(sections: StudySections) -> tuple[Variant, ...]:
    """The listed variants, each crossed with every combination of the sweep."""
    listed = [
        Variant(name=variant["name"], changes=parse_settings(variant.get("set", ())))
        for variant in sections.variants
    ] or [Variant(name="", changes={})]
    names = [
        (section or DEFAULT_SECTION, option)
        for section, _, option in (name.rpartition(".") for name in sections.sweep)
    ]
    values = sections.sweep.values()
    variants = []
    for variant in listed:
        for combination in product(*values):
            named = list(zip(names, combination, strict=True))
            labels = (_label(option, value) for (_, option), value in named)
            label = " · ".join(filter(None, (variant.name, *labels)))
            changes = variant.changes
            # `name` first: another model drops the options of the previous one.
            for (section, option), value in sorted(named, key=lambda one: one[0][1] != "name"):
                changes = merge_sections(changes, {section: {option: value}})
            variants.append(Variant(name=label or "only", changes=changes))
    repeated = {
        variant.name
        for variant in variants
        if sum(variant.name == other.name for other in variants) > 1
    }
    if repeated:
        raise RegardError(
            f"Two variants are named '{min(repeated)}'. Variant names must be unique."
        )
    return tuple(variants)


def _label(option: str, value: Any) -> str:
    return value if isinstance(value, str) else f"{option}={json.dumps(value)}"


@dataclass(frozen=True, kw_only=True)
class StudyRun:
    """One run of a study; `key` is the hash of its spec and the name of its folder.

    A tuning run serves to choose the learning rate, and is not compared.
    """

    variant: str
    seed: int
    learning_rate: float | None
    spec: RunSpec
    is_tuning: bool = False

    @property
    def key(self) -> str:
        return spec_key(self.spec)


@dataclass(frozen=True, kw_only=True)
class StudySpec:
    """A validated study.

    `base` are the sections of a run without variant and seed. `recorded` are the sections of every variant,
    all options written out, of a study that was read from its folder.
    """

    base: Sections
    variants: tuple[Variant, ...]
    seeds: tuple[int, ...]
    question: str = ""
    baseline: str = ""
    match: str | None = None
    learning_rates: tuple[float, ...] = ()
    tuning_seeds: tuple[int, ...] = ()
    sections: dict[str, Any] = field(default_factory=dict)
    recorded: Mapping[str, Sections] = field(default_factory=dict)

    @classmethod
    def from_sections(cls, sections: Mapping[str, Any]) -> Self:
        """Validate the sections of a study and every variant."""
        given = StudySections(**sections)
        base = given.base()
        # The content of the recipe in place of its name, since the file may change.
        resolved: dict[str, Any] = json.loads(json.dumps({**sections, **base}))
        resolved.pop("recipe", None)
        return cls._build(given, variants_of(given), base=base, sections=resolved)

    @classmethod
    def from_record(
        cls,
        sections: dict[str, Any],
        changes: Mapping[str, Sections],
        recorded: Mapping[str, Sections],
    ) -> Self:
        """From a record: its sections, and the changes and all options of each variant."""
        variants = tuple(Variant(name=name, changes=changes.get(name, {})) for name in recorded)
        given = StudySections(**sections)
        return cls._build(given, variants, base={}, sections=sections, recorded=recorded)

    @classmethod
    def _build(cls, given: StudySections, variants: tuple[Variant, ...], **rest: Any) -> Self:
        names = [variant.name for variant in variants]
        baseline = given.baseline or names[0]
        if baseline not in names:
            raise unknown_name("variant", baseline, names)
        study = cls(
            variants=variants,
            seeds=given.all_seeds(),
            question=given.question,
            baseline=baseline,
            match=given.match,
            learning_rates=given.learning_rates,
            tuning_seeds=given.all_tuning_seeds(),
            **rest,
        )
        study._validate_variants()
        return study

    def _validate_variants(self) -> None:
        """Every variant must have a valid spec, different from all others."""
        names: dict[str, str] = {}
        for variant in self.variants:
            try:
                spec = self.run_spec(
                    variant, seed=self.seeds[0], learning_rate=self.first_learning_rate
                )
                _validate_evaluations(spec.training)
                key = spec_key(spec)
            except RegardError as error:
                raise RegardError(f"In the variant '{variant.name}': {error}") from error
            if key in names:
                raise RegardError(
                    f"The variants '{names[key]}' and '{variant.name}' have the same options. Remove "
                    "one, or make them differ."
                )
            names[key] = variant.name

    @property
    def first_learning_rate(self) -> float | None:
        """The first of `learning_rates`; None without any."""
        return next(iter(self.learning_rates), None)

    def variant(self, name: str) -> Variant:
        """The variant of this name."""
        return next(variant for variant in self.variants if variant.name == name)

    def changed(self, changes: Mapping[str, Sections]) -> StudySpec:
        """The study with further changes to variants, by name."""
        variants = (
            replace(variant, changes=merge_sections(variant.changes, changes.get(variant.name, {})))
            for variant in self.variants
        )
        return replace(self, variants=tuple(variants))

    def run_spec(
        self, variant: Variant, *, seed: int, learning_rate: float | None = None
    ) -> RunSpec:
        """The spec of a run of a variant."""
        own = self.recorded.get(variant.name) or merge_sections(self.base, variant.changes)
        sections = merge_sections(own, {"seed": seed})
        if learning_rate is not None:
            sections = merge_sections(sections, {"training": {"learning_rate": learning_rate}})
        return RunSpec.from_sections(sections)

    def runs(self) -> tuple[StudyRun, ...]:
        """All runs that may be needed, ordered by seed, so that an interrupted study has complete seeds.

        First those that tune the learning rates, then the compared ones with every rate, of which one
        will be selected.
        """
        rates: Sequence[float | None] = self.learning_rates or (None,)
        return tuple(
            StudyRun(
                variant=variant.name,
                seed=seed,
                learning_rate=rate,
                spec=self.run_spec(variant, seed=seed, learning_rate=rate),
                is_tuning=seed in self.tuning_seeds,
            )
            for seed in (*self.tuning_seeds, *self.seeds)
            for variant in self.variants
            for rate in rates
        )


def _validate_evaluations(options: TrainingOptions) -> None:
    """Raise if variants would choose their best checkpoint from different numbers of evaluations."""
    every, limits = options.evaluate_every, options.budget._asdict()
    other = [name for name, limit in limits.items() if limit is not None and name != "steps"]
    if isinstance(every, int) and other:
        raise RegardError(
            f"training.evaluate_every={every} steps with a budget of {other[0]}: variants with cheaper "
            "steps would be evaluated more often. Give a fraction: training.evaluate_every=0.1."
        )


STUDIES = BuiltinConfigs("study", Path(__file__).parent / "configs")
builtin_studies = STUDIES.paths
read_study = STUDIES.read
