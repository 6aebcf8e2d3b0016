"""Recall: a question to its answer, out of what a model has read before.

    Where was Khatchig Mouradian born?  →  Lebanon

The questions that are held out are about things of which only the texts of the pre-training tell, so
that a model without pre-training can do little better than the commonest answer, which is the baseline.
An answer counts if it is right to the letter: exact match, in percent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from regard.data.datasets.films import FilmQuestions
from regard.data.splits import HeldOut
from regard.tasks.metrics.metric import SummedMetric, percentage
from regard.tasks.seq2seq.corpus import PairOptions, PairRows, source_of
from regard.tasks.seq2seq.task import PairTask


@dataclass(frozen=True, kw_only=True)
class RecallOptions(PairOptions):
    """As `PairOptions`; without `pairs`, questions about `films` of the embedded films are learned from."""

    shared_vocabulary: bool = True
    label_smoothing: float = 0.0
    beam_size: int = 1
    films: int = 2000


class Recall(PairTask):
    """The score that decides is the share of exact matches."""

    options_class = RecallOptions
    metrics: ClassVar[dict[str, bool]] = {"exact_match": False, "loss": True}
    groups_answers = True

    @classmethod
    def training_pairs(cls, options: PairOptions) -> PairRows:
        if options.pairs is None and isinstance(options, RecallOptions):
            return FilmQuestions(count=options.films)
        return source_of(options, str(options.pairs))

    @classmethod
    def scores(cls, predicted: Sequence[str], answers: Sequence[Sequence[str]]) -> dict[str, float]:
        matched = _matched(predicted, answers)
        return {"exact_match": 100.0 * sum(hit for hit, _ in matched) / max(1, len(matched))}

    def baselines(self, part: HeldOut) -> dict[str, float]:
        """Always the answer that is commonest among those learned from."""
        store, vocabulary = self.corpus.train, self.corpus.vocabularies.target
        counts = Counter(tuple(store.target(row).tolist()) for row in range(len(store)))
        commonest = vocabulary.decode(counts.most_common(1)[0][0])
        return {
            f"always {commonest!r}": self.scores([commonest] * len(part), part.answers)[
                "exact_match"
            ]
        }


def _matched(
    predicted: Sequence[str], answers: Sequence[Sequence[str]]
) -> list[tuple[float, float]]:
    """For every item, whether it is right, and one."""
    return [(float(text in choices), 1.0) for text, choices in zip(predicted, answers, strict=True)]


Recall.summed = {"exact_match": SummedMetric(_matched, percentage)}
