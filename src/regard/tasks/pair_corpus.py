"""The files of a task on pairs, read and cut into what is learned from and what is held out.

What is learned from is streamed from its file: once for each vocabulary, once for the tokens. Only the
tokens are kept, in a compact store. Held-out texts are kept as texts, since they are scored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Self

from regard.core.errors import RegardError
from regard.data.bad_rows import BadRows
from regard.data.pair_rows import PairRow, PairSource
from regard.data.split import part_of
from regard.data.token_store import TokenStore
from regard.tasks.pair_options import PairOptions
from regard.tasks.pair_vocabularies import PairVocabularies

ROWS_AT_A_TIME = 4096  # enough for the tokenizer to work in parallel


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """Texts to be scored; `answers[i]` are the right outputs for `sources[i]`, one or several."""

    sources: tuple[str, ...]
    answers: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, rows: Iterable[tuple[str, str]], *, group: bool) -> Self:
        """Rows of (source, answer); with `group`, rows of one source are one item."""
        items: list[tuple[str, tuple[str, ...]]]
        if not group:
            items = [(source, (answer,)) for source, answer in rows]
        else:
            grouped: dict[str, dict[str, None]] = {}
            for source, answer in rows:
                grouped.setdefault(source, {})[answer] = None
            items = [(source, tuple(answers)) for source, answers in grouped.items()]
        return cls(
            sources=tuple(source for source, _ in items),
            answers=tuple(answers for _, answers in items),
        )

    def __len__(self) -> int:
        return len(self.sources)


@dataclass(frozen=True, kw_only=True)
class PairCorpus:
    """Everything read from the files of a task."""

    vocabularies: PairVocabularies
    train: TokenStore
    dev: HeldOut
    test: HeldOut
    bad: BadRows

    @classmethod
    def read(
        cls,
        options: PairOptions,
        *,
        pairs: PairSource,
        group: bool,
        vocabularies: PairVocabularies | None = None,
    ) -> Self:
        """Read the files; known `vocabularies` are used again, as when a run is resumed."""
        bad = BadRows(skip=options.skip_bad_rows)
        unheard = BadRows(skip=True)  # every later pass meets the same bad rows again
        if vocabularies is None:
            vocabularies = PairVocabularies.build(
                options,
                sources=(row.source for row in _part(options, pairs, "train", bad)),
                targets=(row.target for row in _part(options, pairs, "train", unheard)),
            )
            rows = _part(options, pairs, "train", unheard)
        else:
            rows = _part(options, pairs, "train", bad)
        train = TokenStore.build(_encoded(rows, vocabularies, options, pairs, bad))
        if not len(train):
            raise RegardError(
                f"'{pairs.path}' leaves no pairs to learn from. Give more rows, or lower "
                f"task.dev_share={options.dev_share} and task.test_share={options.test_share}."
            )
        return cls(
            vocabularies=vocabularies,
            train=train,
            dev=_held_out(options, pairs, "dev", bad, group=group),
            test=_held_out(options, pairs, "test", bad, group=group),
            bad=bad,
        )


def source_of(options: PairOptions, text: str, *, default_format: str | None = None) -> PairSource:
    """The file or files that an option names, with the columns of the task."""
    return PairSource.from_text(
        text,
        format=options.format or default_format,
        source_column=options.source_column,
        target_column=options.target_column,
    )


def _part(options: PairOptions, pairs: PairSource, part: str, bad: BadRows) -> Iterator[PairRow]:
    """The rows of the main file that belong to one part."""
    # A part that has its own file takes nothing from the main one.
    dev = 0.0 if options.dev else options.dev_share
    test = 0.0 if options.test or options.dev else options.test_share
    if not (dev or test):
        if part == "train":
            yield from pairs.rows(bad=bad)
        return
    for row in pairs.rows(bad=bad):
        if part_of(row.source, dev=dev, test=test) == part:
            yield row


def _held_out(
    options: PairOptions, pairs: PairSource, part: str, bad: BadRows, *, group: bool
) -> HeldOut:
    own: str | None = getattr(options, part)
    if own:
        given = source_of(options, own, default_format=pairs.format)
        rows = given.rows(bad=bad)
    else:
        rows = _part(options, pairs, part, BadRows(skip=True))
    return HeldOut.of(((row.source, row.target) for row in rows), group=group)


def _encoded(
    rows: Iterator[PairRow],
    vocabularies: PairVocabularies,
    options: PairOptions,
    pairs: PairSource,
    bad: BadRows,
) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
    """Rows as token numbers; a text that is too long is a bad row."""
    while block := list(islice(rows, ROWS_AT_A_TIME)):
        sources = vocabularies.source.encode_all(row.source for row in block)
        targets = vocabularies.target.encode_all(row.target for row in block)
        for row, source, target in zip(block, sources, targets, strict=True):
            longest = max(len(source), len(target))
            if longest > options.max_length:
                reason = f"too long: {longest} tokens, but task.max_length is {options.max_length}"
                bad.report(path=pairs.path, line=row.line, reason=reason)
            else:
                yield source, target
