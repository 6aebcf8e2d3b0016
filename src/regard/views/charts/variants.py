"""The variants of a study as charts, pages and text show them: order, colours, groups, verdicts, costs.

A variant has the same colour in every chart, by its index in the study. Colours repeat after eight, with
dashed lines. Colour is never the only cue: a name or a title says the same.
"""

from __future__ import annotations

from functools import cached_property
from typing import Literal, NamedTuple

from regard.core.formatting import (
    counted,
    flat_settings,
    interval_text,
    numbered,
    quantity_text,
    score_text,
)
from regard.core.records.study import (
    STEP_MEMORY,
    Disagreement,
    PairVerdict,
    StudyRecord,
    StudyRunRecord,
    VariantRecord,
)

COLOURS = 8
# A study with more variants is shown in groups, with its best ones named in charts.
MANY = 20
NAMED = 8

Question = Literal["method", "models"]
"""What a verdict is about: the method, over seeds, or the trained models, over items."""

TOO_FEW_SEEDS = "too few seeds"
OPPOSITE = {"better": "worse", "worse": "better"}


class CostMeasure(NamedTuple):
    """One kind of cost of a variant: a field of its record, and the quantity it is a number of."""

    name: str
    meaning: str
    field: str
    quantity: str

    def number(self, variant: VariantRecord) -> float:
        """The cost of a variant; 0 if unknown."""
        return float(getattr(variant, self.field) or 0.0)

    def text(self, variant: VariantRecord) -> str:
        """The cost of a variant as text; a dash if unknown."""
        number = self.number(variant)
        return quantity_text(number, self.quantity) if number > 0 else "–"


MEASURES = (
    CostMeasure(
        "FLOPs", "of one training run, counted on a sample of its batches", "flops", "flops"
    ),
    CostMeasure(
        "time", "wall-clock time of training one run, without evaluations", "seconds", "seconds"
    ),
    CostMeasure(
        "memory",
        STEP_MEMORY,
        "peak_bytes",
        "bytes",
    ),
    CostMeasure("parameters", "trainable parameters", "parameters", "count"),
)


class Variants:
    """The variants of a study, with everything that is looked up by name."""

    def __init__(self, record: StudyRecord) -> None:
        self.record = record
        self.number = {variant.name: index for index, variant in enumerate(record.variants)}
        self.baseline = next((one for one in record.variants if one.is_baseline), None)
        self.is_many = len(record.variants) > MANY
        self._runs: dict[str, list[StudyRunRecord]] = {}
        for run in record.runs:
            if run.selected and run.seed in record.seeds:
                self._runs.setdefault(run.variant, []).append(run)

    @cached_property
    def measures(self) -> tuple[CostMeasure, ...]:
        """The kinds of cost, with what the memory of these variants is."""
        memory = self.record.memory_is
        return tuple(
            one._replace(meaning=memory) if one.field == "peak_bytes" else one for one in MEASURES
        )

    @cached_property
    def ranked(self) -> list[VariantRecord]:
        """Variants with a score, best first; then those without, in the order of the study.

        All in the order of the study if it is not finished: a rank would be a verdict.
        """
        record = self.record
        if not record.is_finished:
            return list(record.variants)
        sign = 1 if record.lower_is_better else -1
        return sorted(record.variants, key=lambda one: (one.mean is None, sign * (one.mean or 0.0)))

    @cached_property
    def scored(self) -> list[VariantRecord]:
        """Ranked variants that have a score."""
        return [variant for variant in self.ranked if variant.mean is not None]

    @cached_property
    def named(self) -> set[str]:
        """Variants that charts name: all, or of many the best ones and the baseline."""
        if not self.is_many:
            return set(self.number)
        best = {variant.name for variant in self.scored[:NAMED]}
        return best | ({self.baseline.name} if self.baseline else set())

    def tone(self, name: str) -> int:
        """Number of the colour of a variant."""
        return self.number[name] % COLOURS

    def dash(self, name: str) -> int:
        """Number of the line style of a variant."""
        return min(self.number[name] // COLOURS, 2)

    def runs(self, name: str) -> list[StudyRunRecord]:
        """The compared runs of a variant, one per seed."""
        return self._runs.get(name, [])

    def seed_scores(self, name: str) -> list[tuple[int, float]]:
        """Each seed of a variant with its score on the study's metric."""
        metric = self.record.metric
        return [(run.seed, run.scores[metric]) for run in self.runs(name) if metric in run.scores]

    @cached_property
    def _verdicts(self) -> dict[tuple[str, str, str, str], PairVerdict]:
        return {
            (pair.metric, pair.holds_for, pair.first, pair.second): pair
            for pair in self.record.verdicts
        }

    def pair(
        self, first: str, second: str, *, holds_for: Question, metric: str = ""
    ) -> PairVerdict | None:
        """The comparison of two variants, in this order."""
        return self._verdicts.get((metric or self.record.metric, holds_for, first, second))

    def verdict(
        self, first: str, second: str, *, holds_for: Question
    ) -> tuple[str, PairVerdict] | None:
        """The verdict on `first` against `second`, in either order of the stored pair."""
        if pair := self.pair(first, second, holds_for=holds_for):
            return pair.verdict, pair
        if pair := self.pair(second, first, holds_for=holds_for):
            return OPPOSITE.get(pair.verdict, pair.verdict), pair
        return None

    def against_baseline(self, name: str) -> str | None:
        """The verdict on a variant against the baseline, over seeds."""
        found = self.baseline and self.verdict(name, self.baseline.name, holds_for="method")
        return found[0] if found else None

    def predictions(self, item: Disagreement) -> list[tuple[tuple[bool | None, str], list[str]]]:
        """(correct, prediction) → variants; correct ones first, then by number of variants."""
        found: dict[tuple[bool | None, str], list[str]] = {}
        for variant, output in item.predictions.items():
            correct = None if item.correct is None else variant in item.correct
            found.setdefault((correct, output), []).append(variant)
        return sorted(found.items(), key=lambda each: (not each[0][0], -len(each[1])))

    @cached_property
    def settings(self) -> dict[str, dict[str, str]]:
        """The settings of each variant by dotted name, as text."""
        return {variant.name: flat_settings(variant.settings) for variant in self.record.variants}

    def groups(self) -> list[tuple[str, list[VariantRecord]]]:
        """Ranked variants; of many, in groups by the first option with few values, best group first."""
        options = dict.fromkeys(name for one in self.settings.values() for name in one)
        values = {
            option: {one.get(option, "") for one in self.settings.values()} for option in options
        }
        most = min(MANY, len(self.settings) / 2)
        option = next((name for name in options if 1 < len(values[name]) <= most), None)
        if not self.is_many or option is None:
            return [("", self.ranked)]
        grouped: dict[str, list[VariantRecord]] = {}
        for variant in self.ranked:
            value = self.settings[variant.name].get(option, "")
            grouped.setdefault(f"{option} = {value}", []).append(variant)
        return list(grouped.items())


def seeds_text(record: StudyRecord) -> str:
    """The number of seeds; of an unfinished study, what its means are."""
    if record.is_finished:
        return counted(len(record.seeds), "seed")
    if not any(variant.mean is not None for variant in record.variants):
        return "not finished"
    return f"not finished: descriptive means of {numbered('seed', record.seeds)}"


def missing_text(record: StudyRecord, name: str) -> str:
    """The seeds of a variant whose runs have not ended; empty if all have."""
    return f"missing: {numbered('seed', seeds)}" if (seeds := record.missing.get(name)) else ""


def pairing_text(record: StudyRecord) -> str:
    """What pairing by seed achieves, in a sentence or two; empty if unknown or scores do not vary."""
    pairing = record.pairing
    if pairing is None or pairing.intraclass_correlation is None:
        return ""
    figures = {
        "intraclass correlation": pairing.intraclass_correlation,
        "mean correlation of two variants": pairing.mean_correlation,
        "var(A − B) / (var(A) + var(B))": pairing.variance_ratio,
    }
    texts = [f"{name} {score_text(value, decimals=2)}" for name, value in figures.items()]
    if within := interval_text(pairing.intraclass_low, pairing.intraclass_high, decimals=2):
        texts[0] += f" (95 % interval {within})"
    paired, unpaired = (
        score_text(value, decimals=record.primary.digits)
        for value in (pairing.detectable_difference, pairing.unpaired_detectable_difference)
    )
    return (
        f"Pairing by seed: {', '.join(texts)}. Smallest detectable difference of an average pair: "
        f"{paired}, unpaired {unpaired}."
    )


def shared_text(variant: VariantRecord) -> str:
    """The share of parameters initialised like the baseline's; never rounded to all or none of them."""
    share = variant.shared_initialisation
    if share is None:
        return "–"
    rounded = round(100 * share)
    if rounded in (0, 100) and share not in (0, 1):
        return "< 1 %" if rounded == 0 else "> 99 %"
    return f"{rounded} %"
