"""Agreement with known alignments: an attention made by hand, real models, and chance."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.factories.toy_language import PHONES, spoken
from tests.factories.untrained_runs import untrained_run
from torch import Tensor

from regard.core.batches import END, PAD, START
from regard.core.errors import RegardError
from regard.data.datasets.cmudict import LetterSounds
from regard.runs.folder import Predictions
from regard.runs.load import TrainedRun
from regard.studies import attention as module
from regard.studies.attention import attention_agreement, diagonal_share, known_words, uniform_share

IPA = {"a": "ə", "b": "b", "c": "k", "d": "d", "e": "ɛ", "f": "f"}


def letter_by_letter(word: str) -> LetterSounds:
    """The alignment of a word of the made-up language."""
    return LetterSounds(
        word,
        tuple(PHONES[letter] for letter in word),
        tuple((place,) for place in range(len(word))),
    )


@pytest.fixture
def run() -> TrainedRun:
    return untrained_run()


def reads(monkeypatch: pytest.MonkeyPatch, run: TrainedRun, maps: dict[str, Any]) -> None:
    """Let the run read, in each head of each map, what a function of (row, last place) says."""

    def weights(source: Tensor, lengths: Tensor, given: Tensor) -> dict[str, Tensor]:
        assert (source.gather(1, lengths[:, None] - 1) == END).all()
        assert (given[:, 0] == START).all()
        found = {}
        for name, heads in maps.items():
            # Padding weighs nothing, and all else less: it must not be taken for what is read.
            values = torch.zeros(len(source), len(heads), given.shape[1], source.shape[1])
            for number, head in enumerate(heads):
                for word, length in enumerate(lengths.tolist()):
                    values[word, number, :, :length] = -1.0
                    for row in range(int((given[word] != PAD).sum())):
                        values[word, number, row, min(head(row, length - 1), length - 1)] = -0.5
            found[name] = values
        return found

    monkeypatch.setattr(run, "source_weights", weights)


def same(row: int, last: int) -> int:
    return row


def after(row: int, last: int) -> int:
    return row + 1


WORDS = [letter_by_letter(word) for word in ("abc", "fade", "be", "deaf", "cab")]


@pytest.mark.parametrize(("reader", "expected"), [(same, 1.0), (after, 0.0)])
def test_the_row_of_a_phone_is_held_against_its_letters(
    run: TrainedRun,
    monkeypatch: pytest.MonkeyPatch,
    reader: Callable[[int, int], int],
    expected: float,
) -> None:
    monkeypatch.setattr(module, "WORDS_AT_A_TIME", 2)
    reads(monkeypatch, run, {"cross/0": [reader]})
    found = attention_agreement(run, validation=WORDS, test=WORDS)
    assert found is not None
    assert (found.share, found.read_in) == (expected, "cross/0")
    assert (found.words, found.phones) == (5, 16)


def test_every_letter_of_a_group_will_do(run: TrainedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    # "dead" as D, EH (written "ea"), D: rows 0 and 1 read as they should, row 2 reads "a".
    word = LetterSounds("dead", ("D", "EH", "D"), ((0,), (1, 2), (3,)))
    reads(monkeypatch, run, {"cross/0": [same]})
    found = attention_agreement(run, validation=[word], test=[word])
    assert found is not None
    assert found.share == pytest.approx(2 / 3)


def test_the_best_head_is_chosen_on_validation_and_scored_on_test(
    run: TrainedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One head is right about words of three letters only, and the other about all others.
    def short(row: int, last: int) -> int:
        return row if last == 3 else last

    def rest(row: int, last: int) -> int:
        return row if last != 3 else last

    reads(monkeypatch, run, {"cross/0": [after, rest], "cross/1": [after, short]})
    three = [word for word in WORDS if len(word.word) == 3]
    others = [word for word in WORDS if len(word.word) != 3]
    found = attention_agreement(run, validation=others, test=WORDS)
    assert found is not None
    assert found.read_in == "cross/0, head 2"
    assert found.share == pytest.approx(10 / 16)
    found = attention_agreement(run, validation=three, test=others)
    assert found is not None
    assert (found.read_in, found.share) == ("cross/1, head 2", 0.0)


def test_chance_can_be_worked_out_by_hand() -> None:
    # "dead" as D, EH, D: groups of 1, 2, 1 letters in 5 places; the diagonal reads letters 0, 2, 3.
    word = LetterSounds("dead", ("D", "EH", "D"), ((0,), (1, 2), (3,)))
    assert uniform_share([word]) == pytest.approx((1 + 2 + 1) / 5 / 3)
    assert diagonal_share([word]) == 1.0
    # "knob" as N (written "kn"), AA, B: the diagonal reads 0, 2, 3; "eight" as EY (eigh), T: 1, 3.
    knob = LetterSounds("knob", ("N", "AA", "B"), ((0, 1), (2,), (3,)))
    eight = LetterSounds("eight", ("EY", "T"), ((0, 1, 2, 3), (4,)))
    assert diagonal_share([knob, eight]) == pytest.approx(4 / 5)


def test_a_model_without_attention_has_no_agreement(
    run: TrainedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads(monkeypatch, run, {})
    assert attention_agreement(run, validation=WORDS, test=WORDS) is None


def test_words_that_the_model_cuts_otherwise_are_refused(run: TrainedRun) -> None:
    # A capital that is two characters in small letters.
    strange = LetterSounds("İa", ("AH", "AH"), ((0,), (1,)))
    with pytest.raises(RegardError, match=r"task\.source_tokens=characters"):
        attention_agreement(run, validation=[strange], test=WORDS)
    with pytest.raises(RegardError, match="no test words with a known alignment"):
        attention_agreement(run, validation=WORDS, test=[])


@pytest.mark.parametrize(
    ("options", "heads"),
    [
        ({"wiring": "before"}, {"cross/0"}),
        ({"wiring": "after"}, {"cross/0"}),
        (
            {
                "name": "transformer",
                "model_dim": 8,
                "num_heads": 2,
                "num_layers": 2,
                "tie": "target",
            },
            {f"cross/{layer}, head {head}" for layer in (0, 1) for head in (1, 2)},
        ),
    ],
)
def test_every_model_is_scored_word_by_word_as_in_batches(
    options: dict[str, Any], heads: set[str]
) -> None:
    run = untrained_run(**options)
    together = attention_agreement(run, validation=WORDS, test=WORDS)
    assert together is not None
    assert together.read_in in heads
    alone = [attention_agreement(run, validation=WORDS, test=[word]) for word in WORDS]
    right = sum(round(one.share * one.phones) for one in alone if one is not None)
    assert together.share == pytest.approx(right / together.phones)


def test_words_are_known_if_a_right_answer_is_aligned(tmp_path: Path) -> None:
    words = ["abc", "fade", "bead", "deaf", "face"]
    path = tmp_path / "lexicon.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE g2p_alignments (id INTEGER, word TEXT, alignment TEXT)")
        for word in words[:4]:
            alignment = " ".join(f"{letter}}}{IPA[letter]}" for letter in word)
            database.execute("INSERT INTO g2p_alignments VALUES (0, ?, ?)", (word, alignment))
        database.commit()
    # "abc" is right by its second answer, "fade" is said otherwise, "face" is not in the lexicon.
    answers = [("K", spoken("abc")), ("F EY D",), *((spoken(word),) for word in words[2:])]
    part = Predictions(sources=tuple(words), predicted=tuple(words), answers=tuple(answers))
    found = known_words(part, lexicon=path)
    assert found.words == tuple(map(letter_by_letter, ("abc", "bead", "deaf")))
    assert (found.covered, found.items) == (3, 5)
    assert "3 words drawn from 3, since 60% of 5" in found.in_words()
    assert (
        "has alignments for none of 5 words" in known_words(part, count=0, lexicon=path).in_words()
    )
    drawn = [known_words(part, count=1, seed=seed, lexicon=path) for seed in range(10)]
    assert {known.words[0].word for known in drawn} == {"abc", "bead", "deaf"}
    assert all(known.covered == 3 for known in drawn)


def test_capitals_are_read_as_the_data_spells_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        module,
        "letter_sounds",
        lambda words, **_: {word: letter_by_letter(word) for word in words},
    )
    part = Predictions(sources=(" FADE",), predicted=("",), answers=((spoken("fade"),),))
    (known,) = known_words(part).words
    assert known == letter_by_letter("fade")._replace(word="FADE")
    run = untrained_run()
    assert attention_agreement(run, validation=[known], test=[known]) == attention_agreement(
        run, validation=[letter_by_letter("fade")], test=[letter_by_letter("fade")]
    )
