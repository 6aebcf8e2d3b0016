"""Closed-book question answering: answer from text memorised in pre-training (Roberts et al. 2020).

    Where was Khatchig Mouradian born?  →  Lebanon

The facts of the evaluation questions occur only in the pre-training text, so a model without pre-training
can hardly beat the majority baseline. The metric is exact match, in percent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from regard.data.datasets.films import FilmQuestions
from regard.data.splits import EvalSplit
from regard.tasks.metrics.accuracy import exact_match, exact_matches
from regard.tasks.metrics.metric import CorpusMetric, percentage
from regard.tasks.seq2seq.corpus import PairRows, Seq2SeqOptions, pair_source
from regard.tasks.seq2seq.task import Seq2SeqTask


@dataclass(frozen=True, kw_only=True)
class ClosedBookQAOptions(Seq2SeqOptions):
    """As `Seq2SeqOptions`; without `train_file`, questions about `films` of the embedded films."""

    shared_vocabulary: bool = True
    label_smoothing: float = 0.0
    beam_size: int = 1
    films: int = 2000


class ClosedBookQA(Seq2SeqTask):
    """Closed-book question answering; the default metric is exact match."""

    options_class = ClosedBookQAOptions
    metrics: ClassVar[dict[str, bool]] = {"exact_match": False, "loss": True}
    corpus_metrics: ClassVar[dict[str, CorpusMetric]] = {
        "exact_match": CorpusMetric(exact_matches, percentage)
    }
    groups_references = True

    @classmethod
    def train_source(cls, options: Seq2SeqOptions) -> PairRows:
        if options.train_file is None and isinstance(options, ClosedBookQAOptions):
            return FilmQuestions(count=options.films)
        return pair_source(options, str(options.train_file))

    @classmethod
    def scores(
        cls, predictions: Sequence[str], references: Sequence[Sequence[str]]
    ) -> dict[str, float]:
        return {"exact_match": exact_match(predictions, references)}

    def baselines(self, split: EvalSplit) -> dict[str, float]:
        """The majority baseline: always the most frequent training answer."""
        store, vocabulary = self.corpus.train, self.corpus.vocabularies.target
        counts = Counter(tuple(store.target(row).tolist()) for row in range(len(store)))
        answer = vocabulary.decode(counts.most_common(1)[0][0])
        score = self.scores([answer] * len(split), split.references)["exact_match"]
        return {f"majority baseline {answer!r}": score}
