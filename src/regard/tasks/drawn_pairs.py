"""A task on drawn strings for which another string is to be written, without any file.

An answer counts if it is right to the last symbol: exact match, in percent. The test part has lengths of
its own, and a run can be scored at any others: `load(RUN).score("80-100")`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from regard.core.sequence_model import Decode
from regard.data.bad_rows import BadRows
from regard.data.row_formats import PairRow
from regard.data.strings.drawing import DrawnPairs, Rule, length_range
from regard.tasks.drawn_strings import DrawnStrings, require_drawn, require_room
from regard.tasks.held_out import HeldOut
from regard.tasks.pair_corpus import PairRows
from regard.tasks.pair_options import PairOptions
from regard.tasks.pair_task import PairTask
from regard.tasks.pair_vocabularies import PairVocabularies
from regard.tasks.right_scores import right_labels
from regard.tasks.summed_scores import SummedMetric, percentage


@dataclass(frozen=True, kw_only=True)
class DrawnPairOptions(DrawnStrings, PairOptions):
    """As `DrawnStrings` and, but for files, as `PairOptions`."""

    source_tokens: str = "characters"
    target_tokens: str = "characters"
    shared_vocabulary: bool = True
    label_smoothing: float = 0.0
    beam_size: int = 1
    test_share: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_drawn(self, ("pairs", "dev", "test"))


class DrawnPairTask(PairTask):
    """A kind of task says by its options what the rule is."""

    options_class: ClassVar[type[DrawnPairOptions]]
    metrics: ClassVar[dict[str, bool]] = {"exact_match": False, "loss": True}
    summed: ClassVar[dict[str, SummedMetric]] = {
        "exact_match": SummedMetric(right_labels, percentage)
    }
    groups_answers = False

    @classmethod
    @abstractmethod
    def rule(cls, options: Any) -> Rule:
        """What is drawn."""

    @classmethod
    def from_options(
        cls,
        options: PairOptions,
        *,
        seed: int,
        decode: Decode,
        vocabularies: PairVocabularies | None = None,
    ) -> Self:
        """Draw the strings that the options describe."""
        assert isinstance(options, DrawnPairOptions)
        rule = cls.rule(options)
        require_room(rule, options, frame=0)
        task = super().from_options(options, seed=seed, decode=decode, vocabularies=vocabularies)
        longer = DrawnPairs(rule=rule, **options.to_test())
        corpus = replace(task.corpus, test=_held_out(longer.rows(bad=BadRows())))
        return cls(corpus=corpus, options=options, seed=seed, decode=decode)

    @classmethod
    def training_pairs(cls, options: PairOptions) -> PairRows:
        assert isinstance(options, DrawnPairOptions)
        return DrawnPairs(rule=cls.rule(options), **options.to_learn())

    @classmethod
    def held_out(
        cls, text: str, options: Any, *, vocabularies: Any = None, bad: BadRows
    ) -> HeldOut:
        """Strings of a length or of a range of lengths, such as "80-100"; else a file of pairs."""
        lengths = length_range(text)
        if lengths is None:
            return super().held_out(text, options, vocabularies=vocabularies, bad=bad)
        drawn = DrawnPairs(rule=cls.rule(options), **options.to_test(*lengths))
        return _held_out(drawn.rows(bad=bad))

    @classmethod
    def scores(cls, predicted: Sequence[str], answers: Sequence[Sequence[str]]) -> dict[str, float]:
        """The share of exact matches."""
        right = [hit for hit, _ in right_labels(predicted, answers)]
        return {"exact_match": 100.0 * sum(right) / max(1, len(right))}


def _held_out(rows: Any) -> HeldOut:
    pairs: list[PairRow] = list(rows)
    return HeldOut.of(((row.source, row.target) for row in pairs), group=False)
