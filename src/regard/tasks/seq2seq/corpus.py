"""The files of a task on pairs, read and cut into what is learned from and what is held out.

What is learned from is streamed from its file: once for each vocabulary, once for the tokens. Only the
tokens are kept, in a compact store. Held-out texts are kept as texts, since they are scored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

from regard.core.errors import RegardError
from regard.core.registry import look_up
from regard.data.readers.formats import EXTENSIONS, PairRow
from regard.data.readers.pairs import PairSource
from regard.data.readers.text_file import BadRows
from regard.data.splits import (
    HeldOut,
    LearnedToo,
    as_read,
    held_out_facts,
    held_out_shares,
    learned_too_words,
    part_of,
)
from regard.data.token_store import TokenStore
from regard.data.tokenizers.vocabulary import Vocabulary, build_vocabulary, load_vocabulary

# What a task on pairs of texts can be told.


LOWERCASE = ("no", "source", "both")


@dataclass(frozen=True, kw_only=True)
class PairOptions:
    """Every file is FILE, or SOURCE,TARGET for two files with a text a line.

    pairs               what is learned from; each task has a default, or asks for one
    validation, test           held-out files; without them, parts of `pairs`, chosen by a hash of the source
    validation_share           the part of `pairs` held out where `validation` is not given
    test_share          the part of `pairs` held out for testing where neither `validation` nor `test` is given
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
    validation: str | None = None
    test: str | None = None
    validation_share: float = 0.05
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


# The two vocabularies of a task on pairs, which may be one and the same.


@dataclass(frozen=True, kw_only=True)
class PairVocabularies:
    """How texts become token numbers on either side."""

    source: Vocabulary
    target: Vocabulary

    @classmethod
    def build(cls, options: PairOptions, *, sources: Iterable[str], targets: Iterable[str]) -> Self:
        """The vocabularies of these texts; each side is read once."""
        if options.shared_vocabulary:
            both = (text for side in (sources, targets) for text in side)
            shared = _vocabulary(options, options.source_tokens, both, options.lowercase == "both")
            return cls(source=shared, target=shared)
        return cls(
            source=_vocabulary(options, options.source_tokens, sources, options.lowercase != "no"),
            target=_vocabulary(
                options, options.target_tokens, targets, options.lowercase == "both"
            ),
        )

    def to_start_with(self) -> Self:
        """What another task takes over of them: both."""
        return self

    def sizes(self) -> dict[str, int]:
        """The sizes a model is built with."""
        return {"source_vocabulary": self.source.size, "target_vocabulary": self.target.size}

    def as_json(self) -> dict[str, Any]:
        """Both as JSON values; a shared one is written once."""
        if self.source is self.target:
            return {"shared": self.source.as_json()}
        return {"source": self.source.as_json(), "target": self.target.as_json()}

    @classmethod
    def from_json(cls, record: object) -> Self:
        """The vocabularies that `as_json` wrote."""
        match record:
            case {"shared": shared}:
                vocabulary = load_vocabulary(shared)
                return cls(source=vocabulary, target=vocabulary)
            case {"source": source, "target": target}:
                return cls(source=load_vocabulary(source), target=load_vocabulary(target))
        raise RegardError(
            "The vocabulary file has neither 'shared' nor 'source' and 'target' in it. Restore it as "
            "it was written, or train anew."
        )


def _vocabulary(
    options: PairOptions, kind: str, texts: Iterable[str], lowercase: bool
) -> Vocabulary:
    size = {"size": options.vocabulary_size} if kind == "subwords" else {}
    return build_vocabulary(kind, texts, lowercase=lowercase, **size)


ROWS_AT_A_TIME = 4096  # enough for the tokenizer to work in parallel


@runtime_checkable
class PairRows(Protocol):
    """Where pairs come from: a `PairSource`, or what is embedded."""

    @property
    def path(self) -> Path:
        """The file they are in, for messages."""
        ...

    def rows(self, *, bad: BadRows) -> Iterator[PairRow]:
        """Every pair, in order, as often as asked for."""
        ...


@dataclass(frozen=True, kw_only=True)
class PairCorpus:
    """Everything read from the files of a task."""

    vocabularies: PairVocabularies
    train: TokenStore
    validation: HeldOut
    test: HeldOut
    # How many sources of each held-out part stand in the training part too.
    learned_too: dict[str, int]
    bad: BadRows

    @classmethod
    def read(
        cls,
        options: PairOptions,
        *,
        pairs: PairRows,
        group: bool,
        default_format: str | None = None,
        vocabularies: PairVocabularies | None = None,
    ) -> Self:
        """Read the files; known `vocabularies` are used again, as when a run is resumed.

        `group` as for `HeldOut.of`; `default_format` as for `source_of`.
        """
        bad = BadRows(skip=options.skip_bad_rows)
        unheard = BadRows(skip=True)  # every later pass meets the same bad rows again
        if vocabularies is None:
            vocabularies = PairVocabularies.build(
                options,
                sources=(row.source for row in rows_of_part(options, pairs, "train", bad)),
                targets=(row.target for row in rows_of_part(options, pairs, "train", unheard)),
            )
            rows = rows_of_part(options, pairs, "train", unheard)
        else:
            rows = rows_of_part(options, pairs, "train", bad)
        held_out = {
            part: _held_out(
                options, pairs, part, vocabularies, bad, group=group, default_format=default_format
            )
            for part in ("validation", "test")
        }
        seen = LearnedToo[PairRow](
            held_out, lowercase=options.lowercase != "no", text_of=lambda row: row.source
        )
        fitting = within_limit(seen.watch(rows), vocabularies, options, pairs.path, bad)
        train = TokenStore.build((source, target) for _, source, target in fitting)
        if not len(train):
            raise RegardError(
                f"'{pairs.path}' leaves no pairs to learn from. Give more rows, or lower "
                f"task.validation_share={options.validation_share} and task.test_share={options.test_share}."
            )
        return cls(
            vocabularies=vocabularies,
            train=train,
            validation=held_out["validation"],
            test=held_out["test"],
            learned_too=seen.counts(),
            bad=bad,
        )

    def describe(self) -> str:
        """How much there is, in one line for a reader."""
        return (
            f"{len(self.train):,} pairs to learn from, {len(self.validation):,} to develop on, "
            f"{len(self.test):,} to test on; vocabularies of {self.vocabularies.source.size:,} and "
            f"{self.vocabularies.target.size:,}" + learned_too_words(self.learned_too, "sources")
        )

    def facts(self) -> dict[str, Any]:
        """How much there is of each part, and a fingerprint that shows any later change."""
        return {
            "train_pairs": len(self.train),
            "train_fingerprint": self.train.fingerprint(),
            **held_out_facts(self.validation, self.test),
            "held_out_sources_in_train": self.learned_too,
            "bad_rows": self.bad.count,
        }


def source_of(options: PairOptions, text: str, *, default_format: str | None = None) -> PairSource:
    """The file or files that an option names, with the columns of the task.

    `default_format` is that of one file whose name does not say its format.
    """
    source = PairSource.from_text(
        text,
        format=options.format,
        source_column=options.source_column,
        target_column=options.target_column,
        header=options.header,
    )
    suffix = Path(source.path.name.lower().removesuffix(".gz")).suffix
    if source.format is None and source.target_path is None and suffix not in EXTENSIONS:
        return replace(source, format=default_format)
    return source


def rows_of_part(
    options: PairOptions, pairs: PairRows, part: str, bad: BadRows
) -> Iterator[PairRow]:
    """The rows of the main file that belong to one part."""
    validation, test = held_out_shares(options)
    if not (validation or test):
        if part == "train":
            yield from pairs.rows(bad=bad)
        return
    for row in pairs.rows(bad=bad):
        source = as_read(row.source, lowercase=options.lowercase != "no")
        if part_of(source, validation=validation, test=test) == part:
            yield row


def _held_out(
    options: PairOptions,
    pairs: PairRows,
    part: str,
    vocabularies: PairVocabularies,
    bad: BadRows,
    *,
    group: bool,
    default_format: str | None,
) -> HeldOut:
    own: str | None = getattr(options, part)
    if own:
        pairs = source_of(options, own, default_format=default_format)
        rows = pairs.rows(bad=bad)
    else:
        rows = rows_of_part(options, pairs, part, BadRows(skip=True))
    fitting = within_limit(rows, vocabularies, options, pairs.path, bad)
    return HeldOut.of(
        ((row.source, row.target) for row, _, _ in fitting),
        group=group,
        lowercase=options.lowercase,
    )


def within_limit(
    rows: Iterator[PairRow],
    vocabularies: PairVocabularies,
    options: PairOptions,
    path: Path,
    bad: BadRows,
) -> Iterator[tuple[PairRow, Sequence[int], Sequence[int]]]:
    """Rows with their token numbers; a text that is too long is a bad row."""
    while block := list(islice(rows, ROWS_AT_A_TIME)):
        sources = vocabularies.source.encode_all(row.source for row in block)
        targets = vocabularies.target.encode_all(row.target for row in block)
        for row, source, target in zip(block, sources, targets, strict=True):
            longest = max(len(source), len(target))
            if longest > options.max_length:
                reason = f"too long: {longest} tokens, but task.max_length is {options.max_length}"
                bad.report(path=path, line=row.line, reason=reason)
            else:
                yield row, source, target
