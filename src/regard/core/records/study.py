"""The record of a study: scores, intervals, pairwise verdicts, learning curves, examples.

It is built from the run records and round-trips through JSON (`as_json`, `from_json`), so that pages and
figures need no access to the runs. Scores are on `split`. Of several metrics the first is the primary
one, which decides; the others are secondary.
"""

from __future__ import annotations

from dataclasses import dataclass, field
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
    says why a run failed or is missing; such a run has no scores. The best checkpoint is the best of
    `evaluations` on validation, which took `evaluation_seconds` besides the `seconds` of training.
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
    evaluations: int = 0
    evaluation_seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class MetricRecord:
    """What tables and charts must know of a metric; see `regard.tasks.metrics`."""

    name: str
    unit: str
    lower_is_better: bool
    digits: int
    note: str
    is_itemwise: bool

    @property
    def label(self) -> str:
        """The name with its unit.

        >>> MetricRecord(
        ...     name="per", unit="%", lower_is_better=True, digits=2, note="", is_itemwise=True
        ... ).label
        'per, %'
        """
        return f"{self.name}, {self.unit}" if self.unit else self.name

    @property
    def heading(self) -> str:
        """The label with an arrow that points to better scores."""
        return f"{self.label} {'↓' if self.lower_is_better else '↑'}"

    @property
    def direction(self) -> str:
        """The direction in words."""
        return "lower is better" if self.lower_is_better else "higher is better"


@dataclass(frozen=True, kw_only=True)
class ScoreRecord:
    """A metric of a variant: the mean over seeds, and its 95 % intervals over seeds and over items.

    The mean is None if a run has no score, the interval over seeds also for a single seed or equal
    scores. `item_low` to `item_high` is of these trained models together; item-wise metrics only.
    """

    mean: float | None = None
    low: float | None = None
    high: float | None = None
    item_low: float | None = None
    item_high: float | None = None


@dataclass(frozen=True, kw_only=True)
class VariantRecord:
    """A variant. `scores` has every metric of the study, the primary one first.

    `seconds`, `flops` and `peak_bytes` are those of one training run (means over seeds; peak memory of
    its largest step, or, where existing runs are compared, of the training process, 0 if unknown).
    `agreement` is the fraction of phones whose largest attention weight is on the letters of their known
    alignment, the mean over seeds with its interval. `shared_initialisation` is the fraction of the
    parameters that have the same initial values as the baseline's with the same seed.
    """

    name: str
    settings: dict[str, Any]
    is_baseline: bool
    scores: dict[str, ScoreRecord]
    parameters: int
    flops: float | None
    seconds: float | None
    peak_bytes: int
    learning_rate: float | None
    agreement: float | None
    agreement_low: float | None
    agreement_high: float | None
    problems: str
    shared_initialisation: float | None = None

    @property
    def primary(self) -> ScoreRecord:
        """The primary metric."""
        return next(iter(self.scores.values()))

    @property
    def mean(self) -> float | None:
        """The mean of the primary metric over seeds."""
        return self.primary.mean

    @property
    def low(self) -> float | None:
        """The lower end of its interval over seeds."""
        return self.primary.low

    @property
    def high(self) -> float | None:
        """The upper end of its interval over seeds."""
        return self.primary.high


@dataclass(frozen=True, kw_only=True)
class PairVerdict:
    """A comparison of two variants by one metric; the difference is the first score minus the second.

    `holds_for` is "method" (over seeds) or "models" (these trained models, over items).
    `detectable_difference` is the smallest one with 80 % power; over seeds only. `flops_ratio` is the
    training FLOPs of the first over those of the second.
    """

    metric: str
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
    flops_ratio: float | None = None


@dataclass(frozen=True, kw_only=True)
class PairingRecord:
    """What pairing by seed achieves: how much of the variance the seeds explain, and what is detectable.

    `intraclass_correlation` is the share of the variance within variants that the seed explains, with its
    95 % interval. `mean_correlation` and `variance_ratio` are means over pairs: the correlation of scores,
    and var(A − B) / (var(A) + var(B)), which is below 1 if pairing reduces the variance. The detectable
    differences are those of an average pair, tested paired or unpaired, in a study of all pairs. None if
    the scores do not vary.
    """

    variants: int
    seeds: int
    intraclass_correlation: float | None
    intraclass_low: float | None
    intraclass_high: float | None
    mean_correlation: float | None
    variance_ratio: float | None
    detectable_difference: float | None
    unpaired_detectable_difference: float | None


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

    `missing` has the seeds of each variant whose runs have not ended; a failed run has. Before the study is
    finished there are no verdicts and no intervals, and means are those of `seeds`, which are the seeds
    that all variants with a score share.

    `budget`, `tuning` and `matched` are sentences about the conditions of all variants. `reproducibility`
    maps labels to text: command, versions, seeds, data, machine.

    `differences` are what is not equal between the runs besides what makes the variants, such as the budget
    or the data: a sentence by subject. A study has none; existing runs that are compared may.
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
    metrics: tuple[MetricRecord, ...]
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
    pairing: PairingRecord | None = None
    missing: dict[str, tuple[int, ...]] = field(default_factory=dict)
    differences: dict[str, str] = field(default_factory=dict)

    @property
    def is_finished(self) -> bool:
        """Whether all runs have ended, so that variants are compared."""
        return not self.missing

    @property
    def primary(self) -> MetricRecord:
        """The metric that decides."""
        return self.metrics[0]

    @property
    def metric(self) -> str:
        """The name of the primary metric."""
        return self.primary.name

    @property
    def lower_is_better(self) -> bool:
        """Whether a lower score of the primary metric is better."""
        return self.primary.lower_is_better

    def verdicts_of(
        self, holds_for: Literal["method", "models"], metric: str = ""
    ) -> list[PairVerdict]:
        """The verdicts on one question by one metric, by default the primary one."""
        name = metric or self.metric
        return [one for one in self.verdicts if (one.holds_for, one.metric) == (holds_for, name)]

    def variant(self, name: str) -> VariantRecord:
        """The variant of this name."""
        return next(variant for variant in self.variants if variant.name == name)

    def runs_of(self, variant: str) -> tuple[StudyRunRecord, ...]:
        """The selected runs of a variant, one per seed of the comparison."""
        return tuple(
            run
            for run in self.runs
            if run.variant == variant and run.selected and run.seed in self.seeds
        )
