"""Closed-book question answering: answer from text memorised in pre-training (Roberts et al. 2020).

    Where was Khatchig Mouradian born?  →  Lebanon

The facts of the evaluation questions occur only in the pre-training text, so a model without pre-training
can hardly beat the majority baseline. The metric is exact match, in percent.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from regard.data.datasets.films import FilmQuestions
from regard.data.splits import EvalSplit
from regard.tasks.seq2seq.corpus import PairRows, Seq2SeqOptions, pair_source
from regard.tasks.seq2seq.task import ExactMatchTask


@dataclass(frozen=True, kw_only=True)
class ClosedBookQAOptions(Seq2SeqOptions):
    """As `Seq2SeqOptions`; without `train_file`, questions about `films` of the embedded films."""

    shared_vocabulary: bool = True
    label_smoothing: float = 0.0
    beam_size: int = 1
    films: int = 2000


class ClosedBookQA(ExactMatchTask):
    """Closed-book question answering."""

    options_class = ClosedBookQAOptions
    groups_references = True

    @classmethod
    def train_source(cls, options: Seq2SeqOptions) -> PairRows:
        if options.train_file is None and isinstance(options, ClosedBookQAOptions):
            return FilmQuestions(count=options.films)
        return pair_source(options, str(options.train_file))

    def baselines(self, split: EvalSplit) -> dict[str, float]:
        """The majority baseline: always the most frequent training answer."""
        store, vocabulary = self.corpus.train, self.corpus.vocabularies.target
        counts = Counter(tuple(store.target(row).tolist()) for row in range(len(store)))
        answer = vocabulary.decode(counts.most_common(1)[0][0])
        score = self.scores([answer] * len(split), split.references)["exact_match"]
        return {f"majority baseline {answer!r}": score}
