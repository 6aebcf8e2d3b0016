"""How well each run's attention agrees with known letter–sound alignments, where there are any.

They are known for English words, so this is of the task `pronounce` only, and of letters and phones as its
tokens. What was found for a run is kept, since it takes about a second a run.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from regard.core.batches import END, PAD, START
from regard.core.errors import RegardError
from regard.core.records.attention import AlignmentRecord, Map
from regard.core.records.study import SharedPicture
from regard.data.datasets.cmudict import LetterSounds, letter_sounds, lexicon_name
from regard.runs.folder import Predictions, read_predictions
from regard.runs.load import TrainedRun, load
from regard.studies.folder import StudyFolder
from regard.studies.run_selection import KnownRun
from regard.studies.statistics.paired import seed_interval

# How often a model looks at the right letters: its attention against known letter–sound alignments.
#
# share = phones whose largest weight lies on a letter of their known group / all phones
#
# The model is given the right phones, so that every variant is scored on the same symbols, whatever it
# would have written itself. Two figures that need no model say what a share is worth: reading all
# places alike, and reading along the diagonal.
#
# A model may read its source in several maps, each with several heads. The one whose share is best
# on words of the validation part is named, and scored on words of the test part.


WORDS = 1000
WORDS_AT_A_TIME = 250


@dataclass(frozen=True, kw_only=True)
class KnownWords:
    """Words to score an attention on: drawn among the `covered` of all `items` of a part.

    A word is covered if it has a known alignment whose phones are one of its right answers.
    """

    words: tuple[LetterSounds, ...]
    covered: int
    items: int

    def in_words(self) -> str:
        """Where the alignments come from, how many there are, and what a share is worth."""
        if not self.words:
            return f"{lexicon_name()} has alignments for none of {self.items:,} words"
        return (
            f"{lexicon_name()}, aligned by a program; {len(self.words):,} words drawn from "
            f"{self.covered:,}, since {self.covered / self.items:.0%} of {self.items:,} have an "
            "alignment with a right pronunciation; reading all places alike would give "
            f"{uniform_share(self.words):.0%}, reading along the diagonal "
            f"{diagonal_share(self.words):.0%}"
        )


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Shares from 0 to 1, of the phones of the test words.

    `uniform` is what reading all places alike comes to, the end mark among them; `diagonal` is reading the
    letter that lies as far along the word as the phone along its phones.
    """

    share: float
    read_in: str
    uniform: float
    diagonal: float
    words: int
    phones: int


def known_words(
    part: Predictions, *, count: int = WORDS, seed: int = 0, lexicon: Path | None = None
) -> KnownWords:
    """At most `count` words of a part, drawn by the seed, in their order.

    `lexicon` is a file of alignments other than the installed one.
    """
    # The lexicon is in small letters; the model is given a word as its own data spells it.
    spelled = [source.strip() for source in part.sources]
    known = letter_sounds((word.lower() for word in spelled), path=lexicon)
    covered = [
        sounds._replace(word=word)
        for word, answers in zip(spelled, part.answers, strict=True)
        if (sounds := known.get(word.lower())) is not None
        and sounds.phones in {tuple(text.split()) for text in answers}
    ]
    drawn = random.Random(seed).sample(range(len(covered)), min(count, len(covered)))
    return KnownWords(
        words=tuple(covered[place] for place in sorted(drawn)),
        covered=len(covered),
        items=len(part),
    )


def attention_agreement(
    run: TrainedRun, *, validation: Sequence[LetterSounds], test: Sequence[LetterSounds]
) -> Agreement | None:
    """The share of the run's best map and head; None of a model without attention over its source."""
    if not run.reads_source:
        return None
    for part, words in (("validation", validation), ("test", test)):
        if not words:
            raise RegardError(
                f"There are no {part} words with a known alignment. Hold out more words, or leave the "
                "agreement out."
            )
    on_validation = {where: hits.mean() for where, hits in _hits(run, validation).items()}
    best = max(on_validation, key=lambda where: on_validation[where])
    hits = _hits(run, test)[best]
    return Agreement(
        share=float(hits.mean()),
        read_in=best,
        uniform=uniform_share(test),
        diagonal=diagonal_share(test),
        words=len(test),
        phones=len(hits),
    )


def uniform_share(words: Sequence[LetterSounds]) -> float:
    """What the share would be of an attention that reads all places alike, the end mark among them."""
    return float(
        np.mean([len(group) / (len(word.word) + 1) for word in words for group in word.letters])
    )


def diagonal_share(words: Sequence[LetterSounds]) -> float:
    """What the share would be of reading in step with writing: phone i of m in the middle of its m-th."""
    return float(
        np.mean(
            [
                int((place + 0.5) * len(word.word) / len(word.letters)) in group
                for word in words
                for place, group in enumerate(word.letters)
            ]
        )
    )


def _hits(run: TrainedRun, words: Sequence[LetterSounds]) -> dict[str, Bool[np.ndarray, " phones"]]:
    """For each map and head, whether the largest weight lay on the right letters, phone by phone."""
    found: dict[str, list[np.ndarray]] = {}
    for block in _blocks(words):
        source, lengths, given = _as_tensors(run, block)
        for name, weights in run.source_weights(source, lengths, given).items():
            for head in range(weights.shape[1]):
                where = name if weights.shape[1] == 1 else f"{name}, head {head + 1}"
                found.setdefault(where, []).append(_on_target(weights[:, head], block))
    return {where: np.concatenate(hits) for where, hits in found.items()}


def _blocks(words: Sequence[LetterSounds]) -> Iterator[list[LetterSounds]]:
    """Words of like length together, so that little is padded."""
    alike = sorted(words, key=lambda word: (len(word.word), word.word))
    for first in range(0, len(alike), WORDS_AT_A_TIME):
        yield alike[first : first + WORDS_AT_A_TIME]


def _as_tensors(run: TrainedRun, words: list[LetterSounds]) -> tuple[Tensor, Tensor, Tensor]:
    """Sources with their lengths, and the right phones; all but the last are given to write the next."""
    vocabularies = run.vocabularies
    sources = vocabularies.source.encode_all(word.word for word in words)
    phones = vocabularies.target.encode_all(" ".join(word.phones) for word in words)
    for word, letters, sounds in zip(words, sources, phones, strict=True):
        if len(letters) != len(word.word) or len(sounds) != len(word.phones):
            raise RegardError(
                f"To the run '{run.folder.path}' the word '{word.word}' is {len(letters)} tokens and its "
                f"pronunciation {len(sounds)}, but known alignments are of {len(word.word)} letters and "
                f"{len(word.phones)} phones. Train with task.source_tokens=characters and "
                "task.target_tokens=words, or leave the agreement out."
            )
    source = _padded([[*letters, END] for letters in sources])
    lengths = torch.tensor([len(letters) + 1 for letters in sources])
    return source, lengths, _padded([[START, *sounds[:-1]] for sounds in phones])


def _padded(rows: list[list[int]]) -> Tensor:
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)


def _on_target(
    weights: Float[Tensor, "words phones places"], words: list[LetterSounds]
) -> Bool[np.ndarray, " all_phones"]:
    hits = []
    for of_word, word in zip(weights.numpy(), words, strict=True):
        # Cut to what there is: the weight of padding is 0, which others may lie below.
        read = of_word[: len(word.phones), : len(word.word) + 1].argmax(axis=1)
        hits += [place in group for place, group in zip(read.tolist(), word.letters, strict=True)]
    return np.array(hits)


TASK = "pronounce"


class VariantAgreement(NamedTuple):
    """The mean share over seeds with its 95 % interval, which one seed does not have."""

    mean: float
    low: float | None
    high: float | None


class Agreements(NamedTuple):
    """By variant, and a sentence on where the known alignments come from, or why there are none."""

    variants: dict[str, VariantAgreement]
    source: str


def agreements(
    runs: Mapping[str, Sequence[KnownRun]], folder: StudyFolder, *, part: str
) -> Agreements:
    """Of every variant with attention, over those of its runs that are finished."""
    finished = {
        variant: [known for known in of_variant if known.state == "finished"]
        for variant, of_variant in runs.items()
    }
    some = next((known for of_variant in finished.values() for known in of_variant), None)
    if some is None or some.run.spec.task != TASK:
        return Agreements({}, "")
    try:
        validation = known_words(read_predictions(some.folder, "validation"))
        test = known_words(read_predictions(some.folder, part))
    except RegardError as error:
        return Agreements({}, str(error))
    if not (validation.words and test.words):
        return Agreements({}, "no held-out word has a known alignment.")
    kept: dict[str, float | None] = (
        folder.read(folder.agreements) if folder.agreements.is_file() else {}
    )
    found: dict[str, VariantAgreement] = {}
    reasons: list[str] = []
    for variant, of_variant in finished.items():
        try:
            shares = [
                _share(known, kept, part=part, validation=validation, test=test)
                for known in of_variant
            ]
        except RegardError as error:
            reasons.append(f"{variant}: {error}")
            continue
        if with_attention := [share for share in shares if share is not None]:
            found[variant] = _over_seeds(with_attention)
    folder.write(folder.agreements, kept)
    return Agreements(found, "; ".join([test.in_words(), *reasons]))


def _share(
    known: KnownRun,
    kept: dict[str, float | None],
    *,
    part: str,
    validation: KnownWords,
    test: KnownWords,
) -> float | None:
    key = f"{known.run.key} {part}"
    if key not in kept:
        agreed = attention_agreement(
            load(known.folder.path), validation=validation.words, test=test.words
        )
        kept[key] = None if agreed is None else agreed.share
    return kept[key]


def _over_seeds(shares: list[float]) -> VariantAgreement:
    interval = seed_interval(shares)
    low, high = interval if interval is not None else (None, None)
    return VariantAgreement(float(np.mean(shares)), low, high)


# What the variants of a study read while each wrote its output for one and the same source.
#
# Sources are of middling length, so that a picture has something to show and fits beside others.
# The first is the same whatever the seed; the others are drawn by it. Weights are rounded, and
# where a model has more than a few maps and heads, the heads of each map are averaged and its name
# says so: records stay small.


COUNT = 4
MOST_HEADS = 4
"""Over all maps of a model; beyond, the heads of each map are averaged."""
DECIMALS = 4


def shared_pictures(
    runs: Mapping[str, TrainedRun], sources: Sequence[str], *, count: int = COUNT, seed: int = 0
) -> tuple[SharedPicture, ...]:
    """Pictures of some of the sources, by variant; a variant without attention over its source is left out."""
    reading = {variant: run for variant, run in runs.items() if run.reads_source}
    if not reading:
        return ()
    return tuple(
        SharedPicture(
            source=source,
            alignments={variant: small(run.alignment(source)) for variant, run in reading.items()},
        )
        for source in middling(sources, count=count, seed=seed)
    )


def middling(sources: Sequence[str], *, count: int, seed: int) -> tuple[str, ...]:
    """Different sources from the middle half of all lengths; the first has the median length.

    >>> middling(["a", "cat", "cattle", "caterpillars"], count=1, seed=5)
    ('cat',)
    """
    different = list(dict.fromkeys(source for source in sources if source.strip()))
    if not different:
        return ()
    lengths = np.array([len(source) for source in different])
    low, median, high = np.quantile(lengths, [0.25, 0.5, 0.75], method="lower")
    first = different[int(np.argmax(lengths == median))]
    others = [
        source
        for source, length in zip(different, lengths, strict=True)
        if low <= length <= high and source != first
    ]
    drawn = random.Random(seed).sample(others, min(count - 1, len(others)))
    return (first, *drawn)


def small(alignment: AlignmentRecord) -> AlignmentRecord:
    """The alignment with rounded weights, and with its heads averaged if there are too many."""
    heads = sum(map(len, alignment.maps.values()))
    maps = alignment.maps if heads <= MOST_HEADS else dict(map(_averaged, alignment.maps.items()))
    return replace(alignment, maps={name: _rounded(values) for name, values in maps.items()})


def _averaged(named: tuple[str, Map]) -> tuple[str, Map]:
    name, heads = named
    if len(heads) == 1:
        return name, heads
    mean = np.mean(heads, axis=0).tolist()
    return f"{name}, mean of {len(heads)} heads", (tuple(map(tuple, mean)),)


def _rounded(heads: Map) -> Map:
    return tuple(
        tuple(tuple(round(weight, DECIMALS) for weight in row) for row in head) for head in heads
    )
