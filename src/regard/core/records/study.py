"""What a study found, as plain values: made from the records of its runs, drawn without them.

`as_json` and `from_json` are each other's inverse, so that a page can be drawn again from the file
alone. Scores are of the part named in `part`, by the metric that decides (`metric`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from regard.core.errors import RegardError
from regard.core.records.attention import AlignmentRecord

RunState = Literal["finished", "failed", "missing"]


@dataclass(frozen=True, kw_only=True)
class CurvePoint:
    """The metric on the part held out for development, and what had been spent by then."""

    step: int
    tokens: int
    operations: float
    seconds: float
    score: float


@dataclass(frozen=True, kw_only=True)
class StudyRunRecord:
    """One training. `counts` says that it is the one of its variant and seed whose score is compared.

    With a grid of learning rates each variant has several runs a seed, and one rate counts. `reason` says
    why a run failed or is missing; such a run has no scores.
    """

    variant: str
    seed: int
    learning_rate: float | None
    key: str
    state: RunState
    counts: bool
    reason: str
    scores: dict[str, float]
    validation_scores: dict[str, float]
    steps: int
    seconds: float
    curve: tuple[CurvePoint, ...]


@dataclass(frozen=True, kw_only=True)
class VariantRecord:
    """One of the compared. `mean` and `low` to `high` (95 %) are of the metric over seeds.

    The interval is missing where one seed, or seeds all alike, show no spread. `seconds`, `operations` and
    `peak_bytes` are what one training took (means over seeds; the memory is that of its largest step, with
    weights and moments). `agreement` is the share of phones, the right ones being given, whose largest
    attention lies on the letters that known alignments give them, as mean over seeds with its interval.
    """

    name: str
    settings: dict[str, Any]
    is_baseline: bool
    mean: float | None
    low: float | None
    high: float | None
    scores: dict[str, float]
    parameters: int
    operations: float | None
    seconds: float | None
    peak_bytes: int
    learning_rate: float | None
    agreement: float | None
    agreement_low: float | None
    agreement_high: float | None
    trouble: str


@dataclass(frozen=True, kw_only=True)
class PairVerdict:
    """Two variants compared, over seeds or on items; the difference is the first's score minus the second's.

    `holds_for` is what the question was: "method" (over seeds) or "models" (these, on other items).
    `detectable` is the smallest difference that would probably have been found; only over seeds.
    """

    holds_for: Literal["method", "models"]
    first: str
    second: str
    difference: float
    low: float | None
    high: float | None
    adjusted_p: float
    detectable: float | None
    verdict: str
    words: str


@dataclass(frozen=True, kw_only=True)
class Disagreement:
    """One item on which variants differ; what each wrote with the first seed.

    Some get it right and others wrong; where hardly any output is right as a whole, their own scores lie
    far apart, and `right` may be empty.
    """

    source: str
    answers: tuple[str, ...]
    predicted: dict[str, str]
    right: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class SharedPicture:
    """What the variants read while each wrote its output for one and the same source."""

    source: str
    alignments: dict[str, AlignmentRecord]


@dataclass(frozen=True, kw_only=True)
class StudyRecord:
    """Everything that a page shows. `headline` is the verdict in a sentence or two.

    `budget` and `tries` are sentences: what every variant was given. `facts` are label → text for whoever
    wants to repeat the study: command, versions, seeds, data, machine.
    """

    name: str
    question: str
    headline: tuple[str, ...]
    task: str
    part: str
    items: int
    metric: str
    lower_is_better: bool
    seeds: tuple[int, ...]
    budget: str
    tries: str
    matched: str
    variants: tuple[VariantRecord, ...]
    runs: tuple[StudyRunRecord, ...]
    verdicts: tuple[PairVerdict, ...]
    disagreements: tuple[Disagreement, ...]
    pictures: tuple[SharedPicture, ...]
    agreement_source: str
    facts: dict[str, str]

    def variant(self, name: str) -> VariantRecord:
        """The variant of this name."""
        return next(variant for variant in self.variants if variant.name == name)

    def runs_of(self, variant: str) -> tuple[StudyRunRecord, ...]:
        """The runs of a variant whose scores count, one a seed."""
        return tuple(run for run in self.runs if run.variant == variant and run.counts)

    def as_json(self) -> str:
        """The record as JSON text."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> StudyRecord:
        """The record that `as_json` wrote."""
        try:
            return _study(json.loads(text))
        except RegardError:
            raise
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise RegardError(
                f"The text is not the record of a study ({type(error).__name__}: {error}). "
                "Make one with `regard study`, or again with `regard report STUDY`."
            ) from error


def _study(plain: Mapping[str, Any]) -> StudyRecord:
    nested = {
        "headline": tuple(plain["headline"]),
        "seeds": tuple(plain["seeds"]),
        "variants": tuple(VariantRecord(**variant) for variant in plain["variants"]),
        "runs": tuple(
            StudyRunRecord(**{**run, "curve": tuple(CurvePoint(**point) for point in run["curve"])})
            for run in plain["runs"]
        ),
        "verdicts": tuple(PairVerdict(**pair) for pair in plain["verdicts"]),
        "disagreements": tuple(
            Disagreement(
                **{**item, "answers": tuple(item["answers"]), "right": tuple(item["right"])}
            )
            for item in plain["disagreements"]
        ),
        "pictures": tuple(
            SharedPicture(
                source=picture["source"],
                alignments={
                    variant: AlignmentRecord.from_json(json.dumps(held))
                    for variant, held in picture["alignments"].items()
                },
            )
            for picture in plain["pictures"]
        ),
    }
    return StudyRecord(**{**plain, **nested})
