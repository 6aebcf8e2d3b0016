"""The record of one run: what `regard report RUN` draws, finished or still training.

It is built from the run folder and round-trips through JSON (`as_json`, `from_json`), so that a page needs
no access to the folder, the data or the model. Scores are those of the best checkpoint; a run that is not
finished has learning curves only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from regard.core.records.attention import AlignmentRecord, TreeRecord
from regard.core.records.document import DeletionRecord, DocumentRecord
from regard.core.records.image import ClassifiedImage
from regard.core.records.record import Record
from regard.core.records.study import MetricRecord

RunState = Literal["finished", "training", "stopped"]


@dataclass(frozen=True, kw_only=True)
class TrainingPoint:
    """A row of the training log: the mean loss since the row before, and the budget used by then.

    None where a value is not finite. `epoch` is that of the step, from 1.
    """

    step: int
    tokens: int
    flops: int
    seconds: float
    loss: float | None
    learning_rate: float
    gradient_norm: float | None
    epoch: int | None = None


@dataclass(frozen=True, kw_only=True)
class EvaluationRecord:
    """Validation scores at a step; scores that are not finite are left out."""

    step: int
    tokens: int
    flops: int
    seconds: float
    scores: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class RunScore:
    """A score with its 95 % interval over items; item-wise metrics only."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, kw_only=True)
class ConfusionRecord:
    """`counts[i][j]` items of true label i were predicted as label j."""

    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, kw_only=True)
class ReliabilityBin:
    """The predictions of one range of confidence: their number, mean confidence and accuracy."""

    items: int
    confidence: float
    accuracy: float


@dataclass(frozen=True, kw_only=True)
class CalibrationRecord:
    """Calibration of a classifier: expected calibration error (0 to 1) and the bins behind it."""

    error: float
    bins: tuple[ReliabilityBin, ...]


@dataclass(frozen=True, kw_only=True)
class AlignmentScore:
    """Percentage of characters whose largest weight lies within their word, by `head` and by all `heads`.

    The head was chosen on validation; `chance` is that of a uniformly random position.
    """

    accuracy: float | None
    head: str
    chance: float
    heads: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class SplitRecord:
    """Results of the best checkpoint on one split; `baselines` are scores by name of the baseline."""

    name: str
    items: int
    scores: dict[str, RunScore]
    baselines: dict[str, dict[str, float]]
    confusion: ConfusionRecord | None = None
    calibration: CalibrationRecord | None = None
    deletion: DeletionRecord | None = None
    alignment: AlignmentScore | None = None


@dataclass(frozen=True, kw_only=True)
class ItemRecord:
    """One item of a split. `score` is its own score by the item metric of the run, if it has one.

    `correct` is None where a prediction is not right or wrong: a number, or the likelihood of a text.
    """

    input: str
    references: tuple[str, ...]
    prediction: str
    correct: bool | None
    score: float | None = None


@dataclass(frozen=True, kw_only=True)
class FileRecord:
    """A file of the run folder; the hash is empty where the manifest has none yet."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class RunRecord(Record):
    """One run.

    Args:
        name: Name of the run folder.
        state: "training" while a process holds the folder, "stopped" if none does and it can be resumed.
        progress: Used fraction of the budget, from 0 to 1.
        budget: The budget in words, such as "2,000 steps".
        metrics: The metrics of the task, the primary one first.
        best_step: Step of the best checkpoint, if there was an evaluation.
        splits: Results by split, the one that counts (test, if there is one) first.
        item_split, item_metric: What `examples`, `best_items` and `worst_items` are of, and are ranked by;
            the metric is empty if items have no score, and then there are no best and worst ones.
        examples: Items drawn with a fixed seed.
        num_best, num_worst: Number of items with the score of the last one of `best_items`, `worst_items`.
        alignments, documents, trees, images: Attention of the best checkpoint on a few of the examples;
            of images also feature maps.
        settings: The spec, every option written out.
        steps: Of the last stage; `tokens`, `flops`, `seconds` and `evaluation_seconds` are of all stages.
        peak_bytes: Peak memory of the training process; None if it was not recorded.
        stages: Earlier stages (pre-training) by name, in words.
        notes: Caveats, such as leakage.
        reproducibility: Command, versions, data, seed, machine.
        files: The files of the run folder.
    """

    INDENT: ClassVar[int | None] = 1
    HOW_TO_MAKE: ClassVar[str] = "Make one with `regard report RUN --json`."
    name: str
    state: RunState
    progress: float
    budget: str
    task: str
    model: str
    seed: int
    metrics: tuple[MetricRecord, ...]
    training: tuple[TrainingPoint, ...]
    evaluations: tuple[EvaluationRecord, ...]
    best_step: int | None
    splits: tuple[SplitRecord, ...]
    item_split: str
    item_metric: str
    examples: tuple[ItemRecord, ...]
    best_items: tuple[ItemRecord, ...]
    worst_items: tuple[ItemRecord, ...]
    num_best: int
    num_worst: int
    alignments: tuple[AlignmentRecord, ...]
    documents: tuple[DocumentRecord, ...]
    trees: tuple[TreeRecord, ...]
    images: tuple[ClassifiedImage, ...] = ()
    settings: dict[str, Any]
    parameters: int
    steps: int
    tokens: int
    flops: int
    seconds: float
    evaluation_seconds: float
    peak_bytes: int | None
    stages: dict[str, str]
    notes: tuple[str, ...]
    reproducibility: dict[str, str]
    files: tuple[FileRecord, ...]

    @property
    def is_finished(self) -> bool:
        """Whether the best checkpoint was evaluated."""
        return self.state == "finished"

    @property
    def primary(self) -> MetricRecord:
        """The metric that selects the best checkpoint."""
        return self.metrics[0]

    def metric_named(self, name: str) -> MetricRecord:
        """The metric of a score; one that the task does not list has only a name."""
        unknown = MetricRecord(
            name=name, unit="", lower_is_better=False, digits=4, note="", is_itemwise=False
        )
        return next((metric for metric in self.metrics if metric.name == name), unknown)
