"""The spec of a study: a question, variants, seeds shared by all variants, one budget.

The same in TOML, by flags or in Python:

    question = "Which attention score is best?"
    recipe = "pronounce-quick"              the base of every run
    seeds = 5                               0 to 4; or a list
    baseline = "dot"                        the reference variant; default: the first
    match = "parameters"                    choose widths so that all variants have as many parameters
    learning_rates = [1e-3, 2e-3]           tuned per variant: the best on validation is selected
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

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, Self

from regard.core.errors import RegardError
from regard.core.registry import BuiltinConfigs, unknown_name
from regard.runs.spec import (
    SECTIONS,
    RunSpec,
    Sections,
    merge_sections,
    parse_settings,
    read_recipe,
)

DEFAULT_SECTION = "model"  # of a sweep option without a section


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A variant: its name and its changes to the base sections."""

    name: str
    changes: Sections


def variants_of(sections: Mapping[str, Any]) -> tuple[Variant, ...]:
    """The listed variants, each crossed with every combination of the sweep."""
    sweep = sections.get("sweep", {})
    if not isinstance(sweep, Mapping):
        raise RegardError(
            f"sweep={sweep!r}: it must be a table of options with lists of values, such as "
            'over = { "model.mechanism" = ["dot", "additive"] }.'
        )
    entries = sections.get("variants", [])
    if not isinstance(entries, list | tuple):
        raise RegardError(f"variants={entries!r}: it must be a list of [[variants]] tables.")
    listed = [_listed_variant(variant) for variant in entries] or [Variant(name="", changes={})]
    names: list[tuple[str, str]] = []
    values: list[list[Any]] = []
    for name, choices in sweep.items():
        if not isinstance(choices, list | tuple) or not choices:
            raise RegardError(
                f"over {name}={choices!r}: it must be a list of values to compare, such as "
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
    return Variant(name=variant["name"], changes=parse_settings(variant.get("set", ())))


def _label(option: str, value: Any) -> str:
    return value if isinstance(value, str) else f"{option}={json.dumps(value)}"


KEYS = (
    *("question", "recipe", "seeds", "baseline", "match", "learning_rates", "sweep", "variants"),
    *(*SECTIONS, "threads"),
)
MATCHES = ("parameters",)


@dataclass(frozen=True, kw_only=True)
class StudyRun:
    """One run of a study; `key` is the hash of its spec and the name of its folder."""

    variant: str
    seed: int
    learning_rate: float | None
    spec: RunSpec

    @property
    def key(self) -> str:
        return spec_key(self.spec)


@dataclass(frozen=True, kw_only=True)
class StudySpec:
    """A validated study. `base` are the sections of a run without variant and seed."""

    base: Sections
    variants: tuple[Variant, ...]
    seeds: tuple[int, ...]
    question: str = ""
    baseline: str = ""
    match: str | None = None
    learning_rates: tuple[float, ...] = ()
    sections: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_sections(cls, sections: Mapping[str, Any]) -> Self:
        """Validate the sections of a study and every variant."""
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
            raise unknown_name("match", str(match), MATCHES)
        study = cls(
            base=base,
            variants=variants,
            seeds=_seeds(sections.get("seeds", 5)),
            question=str(sections.get("question", "")),
            baseline=str(baseline),
            match=match,
            learning_rates=_learning_rates(sections.get("learning_rates", ())),
            sections=_resolve_recipe(sections, base),
        )
        study._validate_variants()
        return study

    def _validate_variants(self) -> None:
        """Every variant must have a valid spec, different from all others."""
        names: dict[str, str] = {}
        for variant in self.variants:
            try:
                key = spec_key(
                    self.run_spec(
                        variant, seed=self.seeds[0], learning_rate=self.first_learning_rate
                    )
                )
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
        sections = merge_sections(merge_sections(self.base, variant.changes), {"seed": seed})
        if learning_rate is not None:
            sections = merge_sections(sections, {"training": {"learning_rate": learning_rate}})
        return RunSpec.from_sections(sections)

    def runs(self) -> tuple[StudyRun, ...]:
        """All runs, ordered by seed, so that an interrupted study has complete seeds."""
        rates: Sequence[float | None] = self.learning_rates or (None,)
        return tuple(
            StudyRun(
                variant=variant.name,
                seed=seed,
                learning_rate=rate,
                spec=self.run_spec(variant, seed=seed, learning_rate=rate),
            )
            for seed in self.seeds
            for variant in self.variants
            for rate in rates
        )


def spec_key(spec: RunSpec) -> str:
    """A short hash of all options of a spec."""
    text = json.dumps(spec.as_sections(), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _resolve_recipe(sections: Mapping[str, Any], base: Sections) -> dict[str, Any]:
    """The sections with the content of the recipe in place of its name, since the file may change."""
    plain: dict[str, Any] = json.loads(json.dumps({**sections, **base}))
    plain.pop("recipe", None)
    return plain


def _base(sections: Mapping[str, Any]) -> Sections:
    base = read_recipe(str(sections["recipe"])) if "recipe" in sections else {}
    own = {key: sections[key] for key in (*SECTIONS, "threads") if key in sections}
    # One thread per run, so that results do not depend on the machine or on parallel runs.
    return merge_sections({"threads": 1, **base}, own)


def _seeds(seeds: Any) -> tuple[int, ...]:
    found = list(range(seeds)) if type(seeds) is int else seeds
    if (
        not isinstance(found, list | tuple)
        or not found
        or any(type(seed) is not int or seed < 0 for seed in found)
        or len(set(found)) < len(found)
    ):
        raise RegardError(
            f"seeds={seeds!r}: give a number of seeds of at least 1, or a list of different integers."
        )
    return tuple(found)


def _learning_rates(rates: Any) -> tuple[float, ...]:
    if not isinstance(rates, list | tuple) or any(
        isinstance(rate, bool) or not isinstance(rate, int | float) or rate <= 0 for rate in rates
    ):
        raise RegardError(f"learning_rates={rates!r}: it must be a list of positive numbers.")
    if len(set(rates)) < len(rates):
        raise RegardError(f"learning_rates={rates!r}: the rates must be different.")
    return tuple(float(rate) for rate in rates)


STUDIES = BuiltinConfigs("study", Path(__file__).parent / "configs")
builtin_studies = STUDIES.paths
read_study = STUDIES.read
