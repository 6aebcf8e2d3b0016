"""What language modelling can be told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from regard.core.errors import RegardError
from regard.core.names import look_up
from regard.tasks.held_out import held_out_shares

TOKEN_KINDS = ("characters", "words", "subwords")
GAPS = ("one", "several")


@dataclass(frozen=True, kw_only=True)
class LmOptions:
    """Texts, how they are cut into tokens, and what is asked of them.

    text                a file with a text a line; without it, sentences about films that are embedded
    films               how many of the embedded films are read
    dev, test           held-out files; without them, parts of `text`, chosen by a hash
    dev_share           the part held out where `dev` is not given; 0 develops on texts that are learned too
    test_share          the part held out for testing where neither `dev` nor `test` is given
    skip_bad_rows       leave bad rows out, and list them, instead of stopping at the first
    tokens              characters, words or subwords
    vocabulary_size     of a vocabulary of subwords
    lowercase           whether all texts are put into lower case
    max_length          a longer text is cut into pieces of so many tokens
    stream              the lines are one text that runs on, as in a book; its end is held out
    batch_tokens        places in a batch, padding included
    label_smoothing     the share of the probability that is spread over all tokens
    span_share          the share of texts with a gap to be filled; the others are written from the start
    gaps                one, or several, which take `masked_share` of the tokens, `mean_gap` each on average
    longest_gap         a gap takes at most this share of a text
    keep_whole          how often a text with a gap is not cut short first
    shortest_kept       what is left of a text that is cut short, at least
    pairs               a file of questions and answers, to be mixed in; they enter the vocabulary too
    pair_share          the share of pairs among all examples
    pairs_dev_share     the part of the pairs that is left out, because they are scored later;
                        `pairs_test_share` likewise
    pairs_lowercase     whether the task that scores the pairs takes sources that differ in capitals for one
    format              of the file of pairs, where its name does not say it
    source_column       where a question stands: a number from 0, or a name; `target_column` likewise
    header              whether the first row of the pairs names the columns
    metric              the score that decides which weights are kept
    """

    text: str | None = None
    films: int = 2000
    dev: str | None = None
    test: str | None = None
    dev_share: float = 0.05
    test_share: float = 0.0
    skip_bad_rows: bool = False
    tokens: str = "subwords"
    vocabulary_size: int = 4000
    lowercase: bool = False
    max_length: int = 256
    stream: bool = False
    batch_tokens: int = 2048
    label_smoothing: float = 0.0
    span_share: float = 0.0
    gaps: str = "one"
    masked_share: float = 0.15
    mean_gap: float = 3.0
    longest_gap: float = 0.5
    keep_whole: float = 0.3
    shortest_kept: float = 0.25
    pairs: str | None = None
    pair_share: float = 0.0
    pairs_dev_share: float = 0.0
    pairs_test_share: float = 0.0
    pairs_lowercase: bool = False
    format: str | None = None
    source_column: int | str = 0
    target_column: int | str = 1
    header: bool = False
    metric: str = ""

    def __post_init__(self) -> None:
        for name in ("films", "vocabulary_size", "max_length", "batch_tokens"):
            if getattr(self, name) < 1:
                raise RegardError(f"task.{name}={getattr(self, name)}: it must be 1 or more.")
        for name in ("span_share", "keep_whole"):
            if not 0 <= getattr(self, name) <= 1:
                raise RegardError(f"task.{name}={getattr(self, name)}: it must be from 0 to 1.")
        for name in ("longest_gap", "shortest_kept", "masked_share"):
            if not 0 < getattr(self, name) <= 1:
                raise RegardError(
                    f"task.{name}={getattr(self, name)}: it must be above 0 and at most 1."
                )
        shares = ("dev_share", "test_share", "pairs_dev_share", "pairs_test_share")
        for name in ("label_smoothing", "pair_share", *shares):
            if not 0 <= getattr(self, name) < 1:
                raise RegardError(
                    f"task.{name}={getattr(self, name)}: it must be from 0 to below 1."
                )
        if self.mean_gap < 1:
            raise RegardError(f"task.mean_gap={self.mean_gap}: it must be 1 or more.")
        look_up("kind of task.tokens", self.tokens, dict.fromkeys(TOKEN_KINDS))
        look_up("choice for task.gaps", self.gaps, dict.fromkeys(GAPS))
        if self.stream and self.span_share:
            raise RegardError(
                f"task.stream=true does not go with task.span_share={self.span_share}: a gap is in a text "
                "that has an end. Set one of them to 0 or false."
            )
        if self.pair_share and self.pairs is None and self.text is not None:
            raise RegardError(
                f"task.pair_share={self.pair_share} mixes in pairs, but there is no file of them. Name one "
                "with task.pairs=FILE."
            )


# What a pre-training takes over from the task that it is for, to read the same pairs.
AS_THE_TASK = ("pairs", "format", "source_column", "target_column", "header", "skip_bad_rows")


def mixing_options(task_options: Any) -> dict[str, Any]:
    """The pairs that the task after a pre-training learns from, as options of the pre-training.

    What that task holds out, the pre-training leaves out too: else the scores would be of what was learned.
    """
    dev, test = held_out_shares(task_options)
    return {
        **{name: getattr(task_options, name) for name in AS_THE_TASK},
        "pairs_lowercase": task_options.lowercase != "no",
        "pairs_dev_share": dev,
        "pairs_test_share": test,
    }
