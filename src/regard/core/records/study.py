"""The record of a study: scores, intervals, pairwise verdicts, learning curves, examples.

It is built from the run records and round-trips through JSON (`as_json`, `from_json`), so that pages and
figures need no access to the runs. Scores are on `split`. Of several metrics the first is the primary
one, which decides; the others are secondary.
"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Literal

from regard.core.formatting import flat_settings
from regard.core.records.attention import AlignmentRecord
from regard.core.records.image import ClassifiedImage, ImageRecord
from regard.core.records.record import Record
from regard.core.records.sound import SoundRecord

RunState = Literal["finished", "failed", "missing"]

STEP_MEMORY = "peak of the largest step, with parameters and optimizer state"
PROCESS_MEMORY = "peak of the training process"


@dataclass(frozen=True, kw_only=True)
class CurvePoint:
    """A point of a learning curve: the validation metric, and what was used by then.

    Tokens, FLOPs and seconds include pre-training, steps do not.
    """

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
    `evaluations` on validation, which took `evaluation_seconds` besides the `seconds` of training; both
    include pre-training. `folder` is the run folder: its name in a study, the path that was given where
    existing runs are compared.
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
    folder: str = ""


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

    `seconds`, `flops` and `peak_bytes` are those of one training run, with its pre-training (means over
    seeds; see `StudyRecord.memory_is`, 0 if unknown).
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
    by the spread of their scores, and is None where a prediction is not right or wrong.
    """

    input: str
    references: tuple[str, ...]
    predictions: dict[str, str]
    correct: tuple[str, ...] | None


@dataclass(frozen=True, kw_only=True)
class AttentionExample:
    """Attention of every variant for the same input; `sound` or `image` is the one that all share.

    Variants have alignments, or `images` if they classify images.
    """

    input: str
    alignments: dict[str, AlignmentRecord]
    images: dict[str, ClassifiedImage] = field(default_factory=dict)
    sound: SoundRecord | None = None
    image: ImageRecord | None = None


@dataclass(frozen=True, kw_only=True)
class StudyRecord(Record):
    """The result of a study. `headline` is a summary in a few sentences.

    `missing` has the seeds of each variant whose runs have not ended; a failed run has. Before the study is
    finished there are no verdicts and no intervals, and means are those of `seeds`, which are the seeds
    that all variants with a score share.

    `budget`, `tuning` and `matched` are sentences about the conditions of all variants. `reproducibility`
    maps labels to text: command, versions, seeds, data, machine.

    `differences` are what is not equal between the runs besides what makes the variants, such as the budget
    or the data: a sentence by subject. A study has none; existing runs that are compared may, and then
    `is_study` is False. `memory_is` says what the memory of variants is the peak of, `attention_note` why
    there are no examples of attention.
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
    is_study: bool = True
    memory_is: str = STEP_MEMORY
    attention_note: str = ""

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

    def as_csv(self) -> str:
        """The runs as CSV (RFC 4180), one row per run with scores, cost and settings of its variant.

        Numbers have full precision. Unknown values are empty, and so are means of an unfinished study.
        Write the text with `newline=""`.
        """
        rows = [_csv_row(self, run) for run in self.runs]
        columns = list(dict.fromkeys(name for row in rows for name in row))
        buffer = io.StringIO(newline="")
        writer = csv.writer(buffer)
        writer.writerow([_safe(column) for column in columns])
        for row in rows:
            writer.writerow([_safe(row.get(column)) for column in columns])
        return buffer.getvalue()


# Spreadsheets execute cells that start with these as formulas.
FORMULA_PREFIXES = ("=", "+", "-", "@", "\t", "\r")
NUMBER = re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)?")

Cell = str | int | float | None

_CSV_ENDS = {
    "mean": "",
    "low": " low",
    "high": " high",
    "item_low": " items low",
    "item_high": " items high",
}


def _csv_row(record: StudyRecord, run: StudyRunRecord) -> dict[str, Cell]:
    variant = record.variant(run.variant)
    finished = run.state == "finished"
    row: dict[str, Cell] = {
        "variant": run.variant,
        "baseline": "yes" if variant.is_baseline else "no",
        "study_finished": "yes" if record.is_finished else "no",
        "seed": run.seed,
        "learning_rate": run.learning_rate,
        "state": run.state,
        "selected": "yes" if run.selected else "no",
        "reason": run.reason,
    }
    scores = dict.fromkeys(name for each in record.runs for name in each.scores)
    row |= {f"{record.split} {name}": run.scores.get(name) for name in scores}
    validation_scores = dict.fromkeys(
        name for each in record.runs for name in each.validation_scores
    )
    row |= {f"validation {name}": run.validation_scores.get(name) for name in validation_scores}
    last = run.curve[-1] if run.curve else None
    row |= {
        "steps": run.steps if finished else None,
        "seconds": run.seconds if finished else None,
        "evaluations": run.evaluations if finished else None,
        "evaluation_seconds": run.evaluation_seconds if finished else None,
        "tokens": last.tokens if last else None,
        "flops": last.flops if last else None,
        **{
            f"variant {name}{_CSV_ENDS[field]}": value if record.is_finished else None
            for name, score in variant.scores.items()
            for field, value in asdict(score).items()
        },
        "variant parameters": variant.parameters,
        "variant flops": variant.flops,
        "variant seconds": variant.seconds,
        "variant peak_bytes": variant.peak_bytes,
        "variant agreement": variant.agreement,
        "variant shared_initialisation": variant.shared_initialisation,
        "key": run.key,
        "folder": run.folder,
    }
    return row | {f"set {name}": text for name, text in flat_settings(variant.settings).items()}


def _safe(cell: Cell) -> Cell:
    """Escape formulas with an apostrophe (CSV injection); negative numbers are not formulas."""
    if isinstance(cell, str) and cell.startswith(FORMULA_PREFIXES) and not NUMBER.fullmatch(cell):
        return f"'{cell}"
    return cell
