"""The texts of language modelling, read, cut into rows, and parted into what is learned and held out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Self

import numpy as np
from jaxtyping import Int64

from regard.core.errors import RegardError
from regard.core.registry import look_up
from regard.data.datasets.films import FilmQuestions, fact_texts, some_films
from regard.data.readers.pairs import PairSource
from regard.data.readers.text_file import BadRows
from regard.data.splits import HeldOut, as_read, held_out_facts, held_out_shares, part_of
from regard.data.text_dataset import DocumentFile
from regard.data.token_store import TokenStore
from regard.data.tokenizers.vocabulary import Vocabulary, build_vocabulary
from regard.tasks.seq2seq.corpus import PairVocabularies

# What language modelling can be told.


TOKEN_KINDS = ("characters", "words", "subwords")
GAPS = ("one", "several")


@dataclass(frozen=True, kw_only=True)
class LmOptions:
    """Texts, how they are cut into tokens, and what is asked of them.

    text                a file with a text a line; without it, sentences about films that are embedded
    films               how many of the embedded films are read
    validation, test           held-out files; without them, parts of `text`, chosen by a hash
    validation_share           the part held out where `validation` is not given; 0 develops on texts that are learned too
    test_share          the part held out for testing where neither `validation` nor `test` is given
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
    pairs_validation_share     the part of the pairs that is left out, because they are scored later;
                        `pairs_test_share` likewise
    pairs_lowercase     whether the task that scores the pairs takes sources that differ in capitals for one
    format              of the file of pairs, where its name does not say it
    source_column       where a question stands: a number from 0, or a name; `target_column` likewise
    header              whether the first row of the pairs names the columns
    metric              the score that decides which weights are kept
    """

    text: str | None = None
    films: int = 2000
    validation: str | None = None
    test: str | None = None
    validation_share: float = 0.05
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
    pairs_validation_share: float = 0.0
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
        shares = ("validation_share", "test_share", "pairs_validation_share", "pairs_test_share")
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
    validation, test = held_out_shares(task_options)
    return {
        **{name: getattr(task_options, name) for name in AS_THE_TASK},
        "pairs_lowercase": task_options.lowercase != "no",
        "pairs_validation_share": validation,
        "pairs_test_share": test,
    }


# Without held-out texts, so many of those that are learned are evaluated on.
LEARNED_AND_EVALUATED = 200
# A text that runs on is scored in pieces of so many characters; of a short one, in at least so many pieces.
PIECE_CHARACTERS = 2000
FEWEST_PIECES = 40


@dataclass(frozen=True, kw_only=True)
class LmCorpus:
    """Rows of `train` have no source; `pairs` are questions and answers to be mixed in."""

    vocabularies: PairVocabularies
    train: TokenStore
    pairs: TokenStore | None
    validation: HeldOut
    test: HeldOut
    validation_is_learned: bool
    cut_texts: int
    max_length: int
    bad: BadRows

    @classmethod
    def read(cls, options: LmOptions, *, vocabularies: PairVocabularies | None = None) -> Self:
        """Read the files; known `vocabularies` are used again."""
        bad = BadRows(skip=options.skip_bad_rows)
        texts = _parts(options, bad)
        pairs = list(mixed_pairs(options, bad))
        if vocabularies is None:
            sides = chain.from_iterable(pairs)
            one = _vocabulary(options, chain(texts["train"], sides))
            vocabularies = PairVocabularies(source=one, target=one)
        vocabulary = vocabularies.target
        encoded = vocabulary.encode_all(texts["train"])
        cut = partial(_pieces, max_length=options.max_length)
        train = TokenStore.build(((), row) for row in chain.from_iterable(map(cut, encoded)))
        if not len(train):
            raise RegardError(
                "There are no texts to learn from. Give more, or lower "
                f"task.validation_share={options.validation_share} and task.test_share={options.test_share}."
            )
        validation_is_learned = not (
            texts["validation"] or options.validation or options.validation_share
        )
        if validation_is_learned:
            texts["validation"] = texts["train"][:LEARNED_AND_EVALUATED]
            if options.stream:
                texts["validation"] = [texts["train"][0][-PIECE_CHARACTERS:]]
        return cls(
            vocabularies=vocabularies,
            train=train,
            pairs=_pair_store(pairs if options.pair_share else [], vocabulary),
            validation=_held_out(texts["validation"]),
            test=_held_out(texts["test"]),
            validation_is_learned=validation_is_learned,
            cut_texts=sum(len(ids) > options.max_length for ids in encoded),
            max_length=options.max_length,
            bad=bad,
        )

    def describe(self) -> str:
        """How much there is, in one line for a reader."""
        pairs = f", {len(self.pairs):,} pairs among them" if self.pairs is not None else ""
        held_out = (
            "evaluated on texts that are learned, since none are held out"
            if self.validation_is_learned
            else f"{len(self.validation):,} texts to develop on"
        )
        cut = (
            f"; {self.cut_texts:,} texts cut at {self.max_length} tokens" if self.cut_texts else ""
        )
        return (
            f"{len(self.train):,} texts to learn from ({len(self.train.target_tokens):,} tokens)"
            f"{pairs}, {held_out}; a vocabulary of {self.vocabularies.target.size:,}{cut}"
        )

    def facts(self) -> dict[str, Any]:
        """How much there is of each part, and fingerprints that show any later change."""
        return {
            "train_texts": len(self.train),
            "train_tokens": len(self.train.target_tokens),
            "train_fingerprint": self.train.fingerprint(),
            "pairs": 0 if self.pairs is None else len(self.pairs),
            "pairs_fingerprint": "" if self.pairs is None else self.pairs.fingerprint(),
            **held_out_facts(self.validation, self.test),
            "validation_is_learned": self.validation_is_learned,
            "cut_texts": self.cut_texts,
            "bad_rows": self.bad.count,
        }


def held_out_texts(path: str, *, bad: BadRows) -> HeldOut:
    """The texts of a file, to be scored."""
    return _held_out(_file_texts(path, bad))


def text_pieces(
    texts: Sequence[str], vocabulary: Vocabulary, *, max_length: int
) -> tuple[TokenStore, Int64[np.ndarray, " rows"]]:
    """The rows of texts, cut as those learned from are, and to which text each belongs."""
    rows = [
        (owner, piece)
        for owner, ids in enumerate(vocabulary.encode_all(texts))
        for piece in _pieces(ids, max_length)
    ]
    store = TokenStore.build(((), piece) for _, piece in rows)
    return store, np.array([owner for owner, _ in rows], dtype=np.int64)


def _parts(options: LmOptions, bad: BadRows) -> dict[str, list[str]]:
    """The texts of each part; a part that has its own file takes nothing from the main one."""
    all_texts = (
        [" ".join(fact_texts(film)) for film in some_films(options.films)]
        if options.text is None
        else list(_file_texts(options.text, bad))
    )
    validation, test = held_out_shares(options)
    texts: dict[str, list[str]] = {"train": [], "validation": [], "test": []}
    if options.stream:
        # A text that runs on is held out at its end, in pieces that do not lie among what is learned.
        pieces = _joined(all_texts)
        ends = [round(len(pieces) * share) for share in (1 - validation - test, 1 - test)]
        texts["train"] = [" ".join(pieces[: ends[0]])] if ends[0] else []
        texts["validation"], texts["test"] = pieces[ends[0] : ends[1]], pieces[ends[1] :]
    else:
        for text in all_texts:
            part = part_of(
                as_read(text, lowercase=options.lowercase), validation=validation, test=test
            )
            texts[part].append(text)
    for name in ("validation", "test"):
        if file := getattr(options, name):
            held_out = list(_file_texts(file, bad))
            texts[name] = _joined(held_out) if options.stream else held_out
    return texts


def _file_texts(path: str, bad: BadRows) -> Iterator[str]:
    return (row.text for row in DocumentFile(path=Path(path)).rows(bad=bad))


def _joined(lines: Sequence[str]) -> list[str]:
    """Lines put together with spaces into pieces of some length, so that few tokens lack what is before."""
    pieces, held, size = list[str](), list[str](), 0
    wanted = min(PIECE_CHARACTERS, sum(map(len, lines)) // FEWEST_PIECES)
    for line in lines:
        held.append(line)
        size += len(line) + 1
        if size >= wanted:
            pieces.append(" ".join(held))
            held, size = [], 0
    return [*pieces, " ".join(held)] if held else pieces


def mixed_pairs(options: LmOptions, bad: BadRows) -> Iterator[tuple[str, str]]:
    """Questions and answers, but for those that are held out to be scored."""
    if options.pairs is not None:
        source: Any = PairSource.from_text(
            options.pairs,
            format=options.format,
            source_column=options.source_column,
            target_column=options.target_column,
            header=options.header,
        )
    elif options.text is None:
        source = FilmQuestions(count=options.films)
    else:
        return
    validation, test = options.pairs_validation_share, options.pairs_test_share
    for row in source.rows(bad=bad):
        question = as_read(row.source, lowercase=options.pairs_lowercase)
        if part_of(question, validation=validation, test=test) == "train":
            yield row.source, row.target


def _pair_store(pairs: Sequence[tuple[str, str]], vocabulary: Vocabulary) -> TokenStore | None:
    if not pairs:
        return None
    questions = vocabulary.encode_all(question for question, _ in pairs)
    answers = vocabulary.encode_all(answer for _, answer in pairs)
    return TokenStore.build(zip(questions, answers, strict=True))


def _vocabulary(options: LmOptions, texts: Iterable[str]) -> Vocabulary:
    size = {"size": options.vocabulary_size} if options.tokens == "subwords" else {}
    return build_vocabulary(options.tokens, texts, lowercase=options.lowercase, **size)


def _held_out(texts: Iterable[str]) -> HeldOut:
    return HeldOut.of((("", text) for text in texts), group=False)


def _pieces(ids: Sequence[int], max_length: int) -> Iterator[Sequence[int]]:
    """A text in pieces; one without tokens is a piece without tokens."""
    for first in range(0, max(1, len(ids)), max_length):
        yield ids[first : first + max_length]
