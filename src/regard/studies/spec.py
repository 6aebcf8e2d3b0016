"""What a study is: one question, a grid of variants, the same seeds for all, one budget.

Written the same in TOML, by flags or in Python:

    question = "Which score reads best?"
    recipe = "pronounce-quick"              what every run is, before a variant changes it
    seeds = 5                               that many, from 0; or a list
    baseline = "dot"                        the variant that others are matched with; else the first
    match = "parameters"                    widths are solved for, so that all variants are as large
    learning_rates = [1e-3, 2e-3]           every variant tries each, and the best on validation counts
    [training]                              over the recipe: the budget that all variants share
    steps = 2000
    [over]                                  the grid: every combination is a variant
    "model.mechanism" = ["dot", "additive"]
    [[variants]]                                or variants one by one, crossed with the grid
    name = "Transformer"
    set = ["model.name=transformer", "model.num_layers=2"]

Every variant has the same data, seeds, order of batches and evaluation, so that runs are paired by seed. Runs
compute with one thread unless `threads` says more: as many of them as there are cores go side by side.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, Self

from regard.core.errors import RegardError
from regard.core.registry import ShippedFiles, unknown_name
from regard.runs.spec import SECTIONS, RunSpec, Sections, merged, read_recipe, settings_as_sections

# The variants of a study: listed one by one, made by a grid, or both.


# That of an option in a grid which does not name its own.
DEFAULT_SECTION = "model"


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One of the compared: its name, and what it changes in the base."""

    name: str
    changes: Sections


def variants_of(sections: Mapping[str, Any]) -> tuple[Variant, ...]:
    """Those that are listed, each with every combination of the grid."""
    over = sections.get("over", {})
    if not isinstance(over, Mapping):
        raise RegardError(
            f"over={over!r}: it must be a table of options and the values each takes, such as "
            'over = { "model.mechanism" = ["dot", "additive"] }.'
        )
    given = sections.get("variants", [])
    if not isinstance(given, list | tuple):
        raise RegardError(
            f"variants={given!r}: it must be a list of tables, each a [[variants]] of its own."
        )
    listed = [_listed_variant(variant) for variant in given] or [Variant(name="", changes={})]
    names: list[tuple[str, str]] = []
    values: list[list[Any]] = []
    for name, choices in over.items():
        if not isinstance(choices, list | tuple) or not choices:
            raise RegardError(
                f"over {name}={choices!r}: it must be a list of the values to compare, such as "
                f'{name} = ["a", "b"].'
            )
        section, _, option = name.rpartition(".")
        names.append((section or DEFAULT_SECTION, option))
        values.append(list(choices))
    variants = []
    for variant in listed:
        for combination in product(*values):
            named = list(zip(names, combination, strict=True))
            labels = (_label(option, value) for (_, option), value in named)
            label = " · ".join(filter(None, (variant.name, *labels)))
            changes = variant.changes
            # Another model drops the options of the one before, so that it must come first.
            for (section, option), value in sorted(named, key=lambda one: one[0][1] != "name"):
                changes = merged(changes, {section: {option: value}})
            variants.append(Variant(name=label or "only", changes=changes))
    repeated = {
        variant.name
        for variant in variants
        if sum(variant.name == other.name for other in variants) > 1
    }
    if repeated:
        raise RegardError(
            f"Two variants are called '{min(repeated)}'. Every variant needs a name and options of its own."
        )
    return tuple(variants)


def _listed_variant(variant: Any) -> Variant:
    if (
        not isinstance(variant, Mapping)
        or not isinstance(variant.get("name"), str)
        or not set(variant) <= {"name", "set"}
        or not isinstance(variant.get("set", []), list | tuple)
    ):
        raise RegardError(
            f'A variant is {variant!r}; write it as name = "…" and set = ["model.option=value", …].'
        )
    return Variant(name=variant["name"], changes=settings_as_sections(variant.get("set", ())))


def _label(option: str, value: Any) -> str:
    return value if isinstance(value, str) else f"{option}={json.dumps(value)}"


KEYS = (
    *("question", "recipe", "seeds", "baseline", "match", "learning_rates", "over", "variants"),
    *(*SECTIONS, "threads"),
)
MATCHES = ("parameters",)


@dataclass(frozen=True, kw_only=True)
class StudyRun:
    """One training of a study; `key` is the hash of its spec, and the name of its folder."""

    variant: str
    seed: int
    learning_rate: float | None
    spec: RunSpec

    @property
    def key(self) -> str:
        return spec_key(self.spec)


@dataclass(frozen=True, kw_only=True)
class StudySpec:
    """A checked study. `base` are the sections of a run without variant and seed."""

    base: Sections
    variants: tuple[Variant, ...]
    seeds: tuple[int, ...]
    question: str = ""
    baseline: str = ""
    match: str | None = None
    learning_rates: tuple[float, ...] = ()
    written: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_sections(cls, sections: Mapping[str, Any]) -> Self:
        """The study that these sections describe, every variant of it checked."""
        for key in sections:
            if key not in KEYS:
                raise unknown_name("key of a study", key, KEYS)
        base = _base(sections)
        variants = variants_of(sections)
        baseline = sections.get("baseline") or variants[0].name
        if baseline not in {variant.name for variant in variants}:
            raise unknown_name("variant", str(baseline), [variant.name for variant in variants])
        match = sections.get("match")
        if match is not None and match not in MATCHES:
            raise unknown_name("figure to match", str(match), MATCHES)
        study = cls(
            base=base,
            variants=variants,
            seeds=_seeds(sections.get("seeds", 5)),
            question=str(sections.get("question", "")),
            baseline=str(baseline),
            match=match,
            learning_rates=_learning_rates(sections.get("learning_rates", ())),
            written=_written(sections, base),
        )
        study._require_different_variants()
        return study

    def _require_different_variants(self) -> None:
        """Every variant can be run, and none is another one under a second name."""
        names: dict[str, str] = {}
        for variant in self.variants:
            try:
                key = spec_key(
                    self.spec_of(variant, seed=self.seeds[0], learning_rate=self.some_rate)
                )
            except RegardError as error:
                raise RegardError(f"In the variant '{variant.name}': {error}") from error
            if key in names:
                raise RegardError(
                    f"The variants '{names[key]}' and '{variant.name}' are the same in every option. Leave one "
                    "away, or let them differ."
                )
            names[key] = variant.name

    @property
    def some_rate(self) -> float | None:
        """One of the learning rates, if there are any."""
        return next(iter(self.learning_rates), None)

    def variant(self, name: str) -> Variant:
        """The variant of this name."""
        return next(variant for variant in self.variants if variant.name == name)

    def changed(self, changes: Mapping[str, Sections]) -> StudySpec:
        """The study with more changes to some variants, by their names."""
        variants = (
            replace(variant, changes=merged(variant.changes, changes.get(variant.name, {})))
            for variant in self.variants
        )
        return replace(self, variants=tuple(variants))

    def spec_of(
        self, variant: Variant, *, seed: int, learning_rate: float | None = None
    ) -> RunSpec:
        """The spec of one run."""
        sections = merged(merged(self.base, variant.changes), {"seed": seed})
        if learning_rate is not None:
            sections = merged(sections, {"training": {"learning_rate": learning_rate}})
        return RunSpec.from_sections(sections)

    def runs(self) -> tuple[StudyRun, ...]:
        """All of them, seed by seed, so that a study that is stopped has whole seeds."""
        rates: Sequence[float | None] = self.learning_rates or (None,)
        return tuple(
            StudyRun(
                variant=variant.name,
                seed=seed,
                learning_rate=rate,
                spec=self.spec_of(variant, seed=seed, learning_rate=rate),
            )
            for seed in self.seeds
            for variant in self.variants
            for rate in rates
        )


def spec_key(spec: RunSpec) -> str:
    """A short name that two specs share only if they are the same in every option."""
    text = json.dumps(spec.as_sections(), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _written(sections: Mapping[str, Any], base: Sections) -> dict[str, Any]:
    """The sections with what the recipe says in its place: its file may change, or lie elsewhere."""
    plain: dict[str, Any] = json.loads(json.dumps({**sections, **base}))
    plain.pop("recipe", None)
    return plain


def _base(sections: Mapping[str, Any]) -> Sections:
    base = read_recipe(str(sections["recipe"])) if "recipe" in sections else {}
    own = {key: sections[key] for key in (*SECTIONS, "threads") if key in sections}
    # One thread a run, so that variants do not disturb one another and every machine counts alike.
    return merged({"threads": 1, **base}, own)


def _seeds(seeds: Any) -> tuple[int, ...]:
    found = list(range(seeds)) if type(seeds) is int else seeds
    if (
        not isinstance(found, list | tuple)
        or not found
        or any(type(seed) is not int or seed < 0 for seed in found)
        or len(set(found)) < len(found)
    ):
        raise RegardError(
            f"seeds={seeds!r}: give how many, 1 or more, or a list of different whole numbers."
        )
    return tuple(found)


def _learning_rates(rates: Any) -> tuple[float, ...]:
    if not isinstance(rates, list | tuple) or any(
        isinstance(rate, bool) or not isinstance(rate, int | float) or rate <= 0 for rate in rates
    ):
        raise RegardError(f"learning_rates={rates!r}: it must be a list of positive numbers.")
    if len(set(rates)) < len(rates):
        raise RegardError(f"learning_rates={rates!r}: every rate is tried once. Name each once.")
    return tuple(float(rate) for rate in rates)


# Studies as TOML files: those shipped in the folder `shipped`, one a file, or the user's own.


STUDIES = ShippedFiles("study", Path(__file__).parent / "shipped")
shipped_studies = STUDIES.paths
read_study = STUDIES.read
