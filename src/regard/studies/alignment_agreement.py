"""How often a model looks at the right letters: its attention against known letter–sound alignments.

    share = phones whose largest weight lies on a letter of their known group / all phones

The model is given the right phones, so that every arm is scored on the same symbols, whatever it would
have written itself. Two figures that need no model say what a share is worth: reading all places
alike, and reading along the diagonal.

A model may read its source in several maps, each with several heads. The one whose share is best on words
of the dev part is named, and scored on words of the test part.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from regard.core.errors import RegardError
from regard.core.special_tokens import END, PAD, START
from regard.data.letter_sounds import LetterSounds, letter_sounds, lexicon_name
from regard.runs.predictions import Predictions
from regard.runs.trained import TrainedRun

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
    run: TrainedRun, *, dev: Sequence[LetterSounds], test: Sequence[LetterSounds]
) -> Agreement | None:
    """The share of the run's best map and head; None of a model without attention over its source."""
    if not run.reads_source:
        return None
    for part, words in (("dev", dev), ("test", test)):
        if not words:
            raise RegardError(
                f"There are no {part} words with a known alignment. Hold out more words, or leave the "
                "agreement out."
            )
    on_dev = {where: hits.mean() for where, hits in _hits(run, dev).items()}
    best = max(on_dev, key=lambda where: on_dev[where])
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
