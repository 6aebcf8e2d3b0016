"""What a task on pairs of texts can be told."""

from __future__ import annotations

from dataclasses import dataclass

from regard.core.errors import RegardError
from regard.core.names import look_up

LOWERCASE = ("no", "source", "both")


@dataclass(frozen=True, kw_only=True)
class PairOptions:
    """Every file is FILE, or SOURCE,TARGET for two files with a text a line.

    pairs               what is learned from; each task has a default, or asks for one
    dev, test           held-out files; without them, parts of `pairs`, chosen by a hash of the source
    dev_share           the part of `pairs` held out where `dev` is not given
    test_share          the part of `pairs` held out for testing where neither `dev` nor `test` is given
    format              of the files, where their names do not say it: tsv, csv, jsonl, dictionary, lines
    header              whether the first row names the columns; a column given by name implies it
    source_column       where the source stands: a number from 0, or a name; `target_column` likewise
    skip_bad_rows       leave bad rows out, and list them, instead of stopping at the first
    source_tokens       characters, words or subwords; `target_tokens` likewise
    shared_vocabulary   one vocabulary for both sides
    vocabulary_size     of a vocabulary of subwords
    lowercase           which side is put into lower case: no, source or both
    max_length          a text of more tokens is a bad row
    batch_tokens        places in a batch, source and target, padding included
    label_smoothing     the share of the probability that is spread over all tokens (Szegedy et al. 2016)
    beam_size           hypotheses kept while decoding; 1 takes the best token each time
    length_penalty      finished hypotheses are ranked by log-probability / length**length_penalty
    metric              the score that decides which weights are kept
    """

    pairs: str | None = None
    dev: str | None = None
    test: str | None = None
    dev_share: float = 0.05
    test_share: float = 0.05
    format: str | None = None
    header: bool = False
    source_column: int | str = 0
    target_column: int | str = 1
    skip_bad_rows: bool = False
    source_tokens: str = "subwords"
    target_tokens: str = "subwords"
    shared_vocabulary: bool = False
    vocabulary_size: int = 8000
    lowercase: str = "no"
    max_length: int = 256
    batch_tokens: int = 2048
    label_smoothing: float = 0.1
    beam_size: int = 4
    length_penalty: float = 1.0
    metric: str = ""

    def __post_init__(self) -> None:
        for name in ("vocabulary_size", "max_length", "batch_tokens", "beam_size"):
            if getattr(self, name) < 1:
                raise RegardError(f"task.{name}={getattr(self, name)}: it must be 1 or more.")
        if not 0 <= self.label_smoothing < 1:
            raise RegardError(
                f"task.label_smoothing={self.label_smoothing}: it must be from 0 to below 1."
            )
        if not 0 <= self.length_penalty < float("inf"):
            raise RegardError(f"task.length_penalty={self.length_penalty}: it must be 0 or more.")
        look_up("choice for task.lowercase", self.lowercase, dict.fromkeys(LOWERCASE))
        if self.shared_vocabulary and self.lowercase == "source":
            raise RegardError(
                "task.lowercase='source' does not go with task.shared_vocabulary, which is one for "
                "both sides. Set lowercase to 'both' or 'no'."
            )
        if self.shared_vocabulary and self.source_tokens != self.target_tokens:
            raise RegardError(
                f"task.shared_vocabulary needs one kind of tokens, but source_tokens is "
                f"'{self.source_tokens}' and target_tokens is '{self.target_tokens}'. "
                "Set both alike, or shared_vocabulary to false."
            )
