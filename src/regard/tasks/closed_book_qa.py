"""Closed-book question answering: answer from text memorised in pre-training (Roberts et al. 2020).

    Where was Khatchig Mouradian born?  →  Lebanon

The facts of the evaluation questions occur only in the pre-training text, so a model without pre-training
can hardly beat the majority baseline. The metric is exact match, in percent.
"""

from __future__ import annotations

from regard.core.options import PositiveInt, Probability
from regard.data.datasets.films import FilmQuestions
from regard.data.preprocessor import GroupedPairPreprocessor
from regard.data.splits import EvalSplit
from regard.tasks.metrics import ExactMatch, Loss
from regard.tasks.sequence import SequenceOptions, SequenceTask
from regard.tasks.task import Baselines


class ClosedBookQAOptions(SequenceOptions):
    """As `SequenceOptions`.

    Args:
        films: Number of embedded films that questions are about, without `train_file`.
    """

    shared_vocabulary: bool = True
    label_smoothing: Probability = 0.0
    beam_size: PositiveInt = 1
    films: PositiveInt = 2000


class ClosedBookQA(SequenceTask):
    """Closed-book question answering."""

    options_class = ClosedBookQAOptions
    preprocessor_class = GroupedPairPreprocessor
    metrics = (ExactMatch(), Loss())
    datasets = {"film-questions": lambda options: FilmQuestions(count=options.films)}  # noqa: RUF012

    def baselines(self, split: EvalSplit) -> Baselines:
        """The majority baseline: always the most frequent training answer."""
        return self.majority_baseline(split)
