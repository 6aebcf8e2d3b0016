"""The files of a task on pairs, read and cut into what is learned from and what is held out.

What is learned from is streamed from its file: once for each vocabulary, once for the tokens. Only the
tokens are kept, in a compact store. Held-out texts are kept as texts, since they are scored.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Self

from regard.core.errors import RegardError
from regard.data.bad_rows import BadRows
from regard.data.normal_text import normal_text
from regard.data.pair_rows import PairRow, PairSource
from regard.data.row_formats import EXTENSIONS
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
    def of(cls, rows: Iterable[tuple[str, str]], *, group: bool, lowercase: str = "no") -> Self:
        """Rows of (source, answer); with `group`, rows of one source are one item.

        With `lowercase` "source" or "both", sources that differ in capitals only are one source, spelled
        as the first; with "both", answers are in lower case, as is all that the model can write.
        """
        if lowercase == "both":
            rows = ((source, normal_text(answer, lowercase=True)) for source, answer in rows)
        items: list[tuple[str, tuple[str, ...]]]
        if not group:
            items = [(source, (answer,)) for source, answer in rows]
        else:
            grouped: dict[str, tuple[str, dict[str, None]]] = {}
            for source, answer in rows:
                key = as_read(source, lowercase=lowercase != "no")
                grouped.setdefault(key, (source, {}))[1][answer] = None
            items = [(source, tuple(answers)) for source, answers in grouped.values()]
        return cls(
            sources=tuple(source for source, _ in items),
            answers=tuple(answers for _, answers in items),
        )

    def __len__(self) -> int:
        return len(self.sources)

    def fingerprint(self) -> str:
        """A hash of all texts in their order."""
        text = json.dumps([self.sources, self.answers])
        return hashlib.blake2b(text.encode("ascii"), digest_size=16).hexdigest()


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
        pairs: PairSource,
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
                sources=(row.source for row in _part(options, pairs, "train", bad)),
                targets=(row.target for row in _part(options, pairs, "train", unheard)),
            )
            rows = _part(options, pairs, "train", unheard)
        else:
            rows = _part(options, pairs, "train", bad)
        held_out = {
            part: _held_out(
                options, pairs, part, vocabularies, bad, group=group, default_format=default_format
            )
            for part in ("dev", "test")
        }
        seen = _Seen(held_out, lowercase=options.lowercase != "no")
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

    def facts(self) -> dict[str, Any]:
        """How much there is of each part, and a fingerprint that shows any later change."""
        return {
            "train_pairs": len(self.train),
            "train_fingerprint": self.train.fingerprint(),
            "dev_items": len(self.dev),
            "dev_fingerprint": self.dev.fingerprint(),
            "test_items": len(self.test),
            "test_fingerprint": self.test.fingerprint(),
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


def _part(options: PairOptions, pairs: PairSource, part: str, bad: BadRows) -> Iterator[PairRow]:
    """The rows of the main file that belong to one part."""
    # A part that has its own file takes nothing from the main one. Whoever holds out rows to develop
    # on has made the split, so that a test part is not cut from the rest.
    dev = 0.0 if options.dev else options.dev_share
    test = 0.0 if options.test or options.dev else options.test_share
    if not (dev or test):
        if part == "train":
            yield from pairs.rows(bad=bad)
        return
    for row in pairs.rows(bad=bad):
        source = as_read(row.source, lowercase=options.lowercase != "no")
        if part_of(source, dev=dev, test=test) == part:
            yield row


def as_read(source: str, *, lowercase: bool) -> str:
    """The source as a model reads it: what is one to it must not stand on both sides.

    >>> as_read("A  cat ", lowercase=True)
    'a cat'
    """
    return " ".join(normal_text(source, lowercase=lowercase).split())


def _held_out(
    options: PairOptions,
    pairs: PairSource,
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
        rows = _part(options, pairs, part, BadRows(skip=True))
    fitting = within_limit(rows, vocabularies, options, pairs.path, bad)
    return HeldOut.of(
        ((row.source, row.target) for row, _, _ in fitting),
        group=group,
        lowercase=options.lowercase,
    )


class _Seen:
    """Watches the training rows for sources that are held out: scores on those say less."""

    def __init__(self, held_out: dict[str, HeldOut], *, lowercase: bool) -> None:
        self.lowercase = lowercase
        self.sources = {
            part: {as_read(source, lowercase=lowercase) for source in texts.sources}
            for part, texts in held_out.items()
        }
        self.found: dict[str, set[str]] = {part: set() for part in held_out}

    def watch(self, rows: Iterator[PairRow]) -> Iterator[PairRow]:
        """The rows, unchanged."""
        for row in rows:
            source = as_read(row.source, lowercase=self.lowercase)
            for part, sources in self.sources.items():
                if source in sources:
                    self.found[part].add(source)
            yield row

    def counts(self) -> dict[str, int]:
        """How many different sources of each part were met."""
        return {part: len(sources) for part, sources in self.found.items()}


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
