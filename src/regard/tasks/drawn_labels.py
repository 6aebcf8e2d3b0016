"""A task on drawn strings that have a label: classification without any file.

What is asked is a `Rule` of `data/strings`; training, loss and scores are those of `classify`. The test
part has lengths of its own, and a run can be scored at any others: `load(RUN).score("80-100")`.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from regard.core.sequence_model import Decode
from regard.data.bad_rows import BadRows
from regard.data.labelled_rows import LabelledRow
from regard.data.strings.drawing import DrawnLabels, Rule, length_range
from regard.tasks.classify import Classify
from regard.tasks.classify_corpus import ClassifyCorpus, held_out_cuts, held_out_texts
from regard.tasks.classify_labels import require_labels
from regard.tasks.classify_options import ClassifyOptions
from regard.tasks.classify_rows import FRAME, training_rows
from regard.tasks.drawn_strings import DrawnStrings, require_drawn, require_room
from regard.tasks.held_out import HeldOut
from regard.tasks.learned_too import LearnedToo
from regard.tasks.text_parts import part_rows
from regard.tasks.text_vocabularies import TextVocabularies


@dataclass(frozen=True, kw_only=True)
class DrawnLabelOptions(DrawnStrings, ClassifyOptions):
    """As `DrawnStrings` and, but for files, as `ClassifyOptions`."""

    tokens: str = "characters"
    lowercase: bool = False
    test_share: float = 0.0
    max_length: int = 512

    def __post_init__(self) -> None:
        super().__post_init__()
        require_drawn(self, ("labels", "dev", "test"))


class DrawnLabelTask(Classify):
    """A kind of task says by its options what the rule is."""

    options_class: ClassVar[type[DrawnLabelOptions]]

    @classmethod
    @abstractmethod
    def rule(cls, options: Any) -> Rule:
        """What is drawn."""

    @classmethod
    def from_options(
        cls,
        options: ClassifyOptions,
        *,
        seed: int,
        decode: Decode,
        vocabularies: TextVocabularies | None = None,
    ) -> Self:
        """Draw the strings that the options describe."""
        assert isinstance(options, DrawnLabelOptions)
        rule = cls.rule(options)
        require_room(rule, options, frame=FRAME)
        corpus = drawn_corpus(rule, options, vocabularies=vocabularies)
        return cls(corpus=corpus, options=options, seed=seed, decode=decode)

    @classmethod
    def held_out(
        cls, text: str, options: Any, *, vocabularies: Any = None, bad: BadRows
    ) -> HeldOut:
        """Strings of a length or of a range of lengths, such as "80-100"; else a labelled file."""
        lengths = length_range(text)
        if lengths is None:
            return super().held_out(text, options, vocabularies=vocabularies, bad=bad)
        drawn = DrawnLabels(rule=cls.rule(options), **options.to_test(*lengths))
        return held_out_texts(drawn.rows(bad=bad))


def drawn_corpus(
    rule: Rule, options: DrawnLabelOptions, *, vocabularies: TextVocabularies | None = None
) -> ClassifyCorpus:
    """The parts, as those of a file are; known `vocabularies` are used again."""
    bad = BadRows()
    drawn = DrawnLabels(rule=rule, **options.to_learn())
    rows = list(part_rows(drawn, options, "train", bad))
    if vocabularies is None:
        vocabularies = TextVocabularies.build(
            options, kind=options.tokens, texts=(row.text for row in rows)
        )
    if not vocabularies.labels:
        labels = tuple(sorted({row.label for row in rows}))
        vocabularies = TextVocabularies(text=vocabularies.text, labels=labels)
    require_labels(vocabularies.labels, drawn.path)
    longer = DrawnLabels(rule=rule, **options.to_test())
    held_out = {
        "dev": held_out_texts(part_rows(drawn, options, "dev", bad)),
        "test": held_out_texts(longer.rows(bad=bad)),
    }
    seen = LearnedToo[LabelledRow](
        held_out, lowercase=options.lowercase, text_of=lambda row: row.text
    )
    train, cut = training_rows(seen.watch(rows), options, vocabularies)
    return ClassifyCorpus(
        vocabularies=vocabularies,
        train=train,
        dev=held_out["dev"],
        test=held_out["test"],
        learned_too=seen.counts(),
        notice="",
        cuts={"train": cut} | held_out_cuts(held_out, vocabularies, options),
        max_length=options.max_length,
        bad=bad,
    )
