"""The record of a study: scores, intervals, pairwise verdicts, learning curves, examples.

It is built from the run records and round-trips through JSON (`as_json`, `from_json`), so that pages and
figures need no access to the runs. Scores are on `split`; `metric` is the one that is compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from regard.core.records.attention import AlignmentRecord
from regard.core.records.record import Record

RunState = Literal["finished", "failed", "missing"]


@dataclass(frozen=True, kw_only=True)
class CurvePoint:
    """A point of a learning curve: the validation metric, and the budget used by then."""

    step: int
    tokens: int
    flops: float
    seconds: float
    score: float


@dataclass(frozen=True, kw_only=True)
class StudyRunRecord:
    """One run. `selected` if it is the one of its variant and seed that is compared.

    With `learning_rates` each variant has several runs per seed, of which one rate is selected. `reason`
    says why a run failed or is missing; such a run has no scores.
    """

    variant: str
    seed: int
    learning_rate: float | None
    key: str
    state: RunState
    selected: bool
    reason: str
    scores: dict[str, float]
    validation_scores: dict[str, float]
    steps: int
    seconds: float
    curve: tuple[CurvePoint, ...]


@dataclass(frozen=True, kw_only=True)
class VariantRecord:
    """A variant. `mean` and `low` to `high` (95 % interval) are of the metric over seeds.

    The interval is None for a single seed or equal scores. `seconds`, `flops` and `peak_bytes` are those
    of one training run (means over seeds; peak memory of its largest step). `agreement` is the fraction
    of phones whose largest attention weight is on the letters of their known alignment, the mean over
    seeds with its interval.
    """

    name: str
    settings: dict[str, Any]
    is_baseline: bool
    mean: float | None
    low: float | None
    high: float | None
    scores: dict[str, float]
    parameters: int
    flops: float | None
    seconds: float | None
    peak_bytes: int
    learning_rate: float | None
    agreement: float | None
    agreement_low: float | None
    agreement_high: float | None
    problems: str


@dataclass(frozen=True, kw_only=True)
class PairVerdict:
    """A comparison of two variants; the difference is the first score minus the second.

    `holds_for` is "method" (over seeds) or "models" (these trained models, over items).
    `detectable_difference` is the smallest one with 80 % power; over seeds only.
    """

    holds_for: Literal["method", "models"]
    first: str
    second: str
    difference: float
    low: float | None
    high: float | None
    adjusted_p: float
    detectable_difference: float | None
    verdict: str
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Disagreement:
    """An item on which the predictions of variants differ, with the first seed.

    `correct` are the variants whose prediction is a reference; it may be empty where items were selected
    by the spread of their scores.
    """

    input: str
    references: tuple[str, ...]
    predictions: dict[str, str]
    correct: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class AttentionExample:
    """Attention of every variant for the same input."""

    input: str
    alignments: dict[str, AlignmentRecord]


@dataclass(frozen=True, kw_only=True)
class StudyRecord(Record):
    """The result of a study. `headline` is a summary in a few sentences.

    `budget`, `tuning` and `matched` are sentences about the conditions of all variants. `reproducibility`
    maps labels to text: command, versions, seeds, data, machine.
    """

    INDENT: ClassVar[int | None] = 1
    HOW_TO_MAKE: ClassVar[str] = (
        "Make one with `regard study`, or again with `regard report STUDY`."
    )
    name: str
    question: str
    headline: tuple[str, ...]
    task: str
    split: str
    items: int
    metric: str
    lower_is_better: bool
    seeds: tuple[int, ...]
    budget: str
    tuning: str
    matched: str
    variants: tuple[VariantRecord, ...]
    runs: tuple[StudyRunRecord, ...]
    verdicts: tuple[PairVerdict, ...]
    disagreements: tuple[Disagreement, ...]
    attention_examples: tuple[AttentionExample, ...]
    agreement_source: str
    reproducibility: dict[str, str]

    def variant(self, name: str) -> VariantRecord:
        """The variant of this name."""
        return next(variant for variant in self.variants if variant.name == name)

    def runs_of(self, variant: str) -> tuple[StudyRunRecord, ...]:
        """The selected runs of a variant, one per seed."""
        return tuple(run for run in self.runs if run.variant == variant and run.selected)
