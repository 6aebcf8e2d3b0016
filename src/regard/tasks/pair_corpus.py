"""The files of a task on pairs, read and cut into what is learned from and what is held out.

What is learned from is streamed from its file: once for each vocabulary, once for the tokens. Only the
tokens are kept, in a compact store. Held-out texts are kept as texts, since they are scored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

from regard.core.errors import RegardError
from regard.data.bad_rows import BadRows
from regard.data.pair_rows import PairRow, PairSource
from regard.data.row_formats import EXTENSIONS
from regard.data.split import part_of
from regard.data.token_store import TokenStore
from regard.tasks.held_out import HeldOut, as_read, held_out_facts, held_out_shares
from regard.tasks.learned_too import LearnedToo, learned_too_words
from regard.tasks.pair_options import PairOptions
from regard.tasks.pair_vocabularies import PairVocabularies

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
    dev: HeldOut
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
            for part in ("dev", "test")
        }
        seen = LearnedToo[PairRow](
            held_out, lowercase=options.lowercase != "no", text_of=lambda row: row.source
        )
        fitting = within_limit(seen.watch(rows), vocabularies, options, pairs.path, bad)
        train = TokenStore.build((source, target) for _, source, target in fitting)
        if not len(train):
            raise RegardError(
                f"'{pairs.path}' leaves no pairs to learn from. Give more rows, or lower "
                f"task.dev_share={options.dev_share} and task.test_share={options.test_share}."
            )
        return cls(
            vocabularies=vocabularies,
            train=train,
            dev=held_out["dev"],
            test=held_out["test"],
            learned_too=seen.counts(),
            bad=bad,
        )

    def describe(self) -> str:
        """How much there is, in one line for a reader."""
        return (
            f"{len(self.train):,} pairs to learn from, {len(self.dev):,} to develop on, "
            f"{len(self.test):,} to test on; vocabularies of {self.vocabularies.source.size:,} and "
            f"{self.vocabularies.target.size:,}" + learned_too_words(self.learned_too, "sources")
        )

    def facts(self) -> dict[str, Any]:
        """How much there is of each part, and a fingerprint that shows any later change."""
        return {
            "train_pairs": len(self.train),
            "train_fingerprint": self.train.fingerprint(),
            **held_out_facts(self.dev, self.test),
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
    dev, test = held_out_shares(options)
    if not (dev or test):
        if part == "train":
            yield from pairs.rows(bad=bad)
        return
    for row in pairs.rows(bad=bad):
        source = as_read(row.source, lowercase=options.lowercase != "no")
        if part_of(source, dev=dev, test=test) == part:
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
