"""Attention of study runs: agreement with known alignments, and examples."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.factories.toy_pronunciation import PHONES, pronunciation
from tests.factories.untrained_runs import untrained_run
from torch import Tensor

from regard.core.batches import END, PAD, START, TokenInput
from regard.core.errors import RegardError
from regard.core.records.attention import AlignmentRecord
from regard.data.datasets.cmudict import G2PAlignment
from regard.runs.folder import Predictions
from regard.runs.load import TrainedRun
from regard.studies import attention as module
from regard.studies.attention import (
    aligned_words,
    attention_agreement,
    attention_examples,
    compact,
    diagonal_agreement,
    median_length_sample,
    uniform_agreement,
)

IPA = {"a": "ə", "b": "b", "c": "k", "d": "d", "e": "ɛ", "f": "f"}


def letter_by_letter(word: str) -> G2PAlignment:
    """The alignment of a word of the toy language."""
    return G2PAlignment(
        word,
        tuple(PHONES[letter] for letter in word),
        tuple((index,) for index in range(len(word))),
    )


@pytest.fixture
def run() -> TrainedRun:
    return untrained_run()


def set_attention(monkeypatch: pytest.MonkeyPatch, run: TrainedRun, maps: dict[str, Any]) -> None:
    """Replace the attention: for each head of each map a function of (row, last position)."""

    def weights(given: TokenInput, decoder_input: Tensor) -> dict[str, Tensor]:
        source, lengths = given.tokens, given.lengths
        assert (source.gather(1, lengths[:, None] - 1) == END).all()
        assert (decoder_input[:, 0] == START).all()
        found = {}
        for name, heads in maps.items():
            # Padding weighs nothing, and all else less: it must not be taken for what is read.
            values = torch.zeros(len(source), len(heads), decoder_input.shape[1], source.shape[1])
            for number, head in enumerate(heads):
                for word, length in enumerate(lengths.tolist()):
                    values[word, number, :, :length] = -1.0
                    for row in range(int((decoder_input[word] != PAD).sum())):
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
def test_rows_are_compared_with_aligned_letters(
    run: TrainedRun,
    monkeypatch: pytest.MonkeyPatch,
    reader: Callable[[int, int], int],
    expected: float,
) -> None:
    monkeypatch.setattr(module, "BATCH_WORDS", 2)
    set_attention(monkeypatch, run, {"cross/0": [reader]})
    found = attention_agreement(run, validation=WORDS, test=WORDS)
    assert found is not None
    assert (found.agreement, found.attention) == (expected, "cross/0")
    assert (found.words, found.phones) == (5, 16)


def test_any_letter_of_a_group_counts(run: TrainedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    # "dead" as D, EH (written "ea"), D: rows 0 and 1 read as they should, row 2 reads "a".
    word = G2PAlignment("dead", ("D", "EH", "D"), ((0,), (1, 2), (3,)))
    set_attention(monkeypatch, run, {"cross/0": [same]})
    found = attention_agreement(run, validation=[word], test=[word])
    assert found is not None
    assert found.agreement == pytest.approx(2 / 3)


def test_ctc_aligns_all_reference_phones() -> None:
    run = untrained_run(name="ctc", model_dim=8, num_heads=2, num_layers=1)
    found = attention_agreement(run, validation=WORDS, test=WORDS)
    assert found is not None
    assert (found.attention, found.phones) == ("cross/ctc", 16)
    hits = []
    for word in WORDS:
        letters, phones = (
            vocabulary.encode(text)
            for vocabulary, text in (
                (run.preprocessor.input, word.word),
                (run.preprocessor.target, " ".join(word.phones)),
            )
        )
        source = TokenInput(torch.tensor([[*letters, END]]), torch.tensor([len(letters) + 1]))
        model: Any = run.model
        weights = model.weights(source, torch.tensor([[START, *phones, END]]))["cross/ctc"][0, 0]
        hits += [int(row.argmax()) == index for index, row in enumerate(weights[: len(phones)])]
    assert found.agreement == sum(hits) / 16


def test_best_head_is_selected_on_validation(
    run: TrainedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One head is right about words of three letters only, and the other about all others.
    def short(row: int, last: int) -> int:
        return row if last == 3 else last

    def rest(row: int, last: int) -> int:
        return row if last != 3 else last

    set_attention(monkeypatch, run, {"cross/0": [after, rest], "cross/1": [after, short]})
    three = [word for word in WORDS if len(word.word) == 3]
    others = [word for word in WORDS if len(word.word) != 3]
    found = attention_agreement(run, validation=others, test=WORDS)
    assert found is not None
    assert found.attention == "cross/0, head 2"
    assert found.agreement == pytest.approx(10 / 16)
    found = attention_agreement(run, validation=three, test=others)
    assert found is not None
    assert (found.attention, found.agreement) == ("cross/1, head 2", 0.0)


def test_baselines_by_hand() -> None:
    # "dead" as D, EH, D: groups of 1, 2, 1 letters in 5 places; the diagonal reads letters 0, 2, 3.
    word = G2PAlignment("dead", ("D", "EH", "D"), ((0,), (1, 2), (3,)))
    assert uniform_agreement([word]) == pytest.approx((1 + 2 + 1) / 5 / 3)
    assert diagonal_agreement([word]) == 1.0
    # "knob" as N (written "kn"), AA, B: the diagonal reads 0, 2, 3; "eight" as EY (eigh), T: 1, 3.
    knob = G2PAlignment("knob", ("N", "AA", "B"), ((0, 1), (2,), (3,)))
    eight = G2PAlignment("eight", ("EY", "T"), ((0, 1, 2, 3), (4,)))
    assert diagonal_agreement([knob, eight]) == pytest.approx(4 / 5)


def test_model_without_attention_has_no_agreement(
    run: TrainedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_attention(monkeypatch, run, {})
    assert attention_agreement(run, validation=WORDS, test=WORDS) is None


def test_other_tokenization_is_refused(run: TrainedRun) -> None:
    # A letter and its accent, which normalisation makes one character.
    strange = G2PAlignment("e\u0301a", ("AH", "AH"), ((0,), (1,)))
    with pytest.raises(RegardError, match=r"task\.source_tokens=characters"):
        attention_agreement(run, validation=[strange], test=WORDS)
    with pytest.raises(RegardError, match="No test words"):
        attention_agreement(run, validation=WORDS, test=[])


@pytest.mark.parametrize(
    ("options", "heads"),
    [
        ({"attention_style": "bahdanau"}, {"cross/0"}),
        ({"attention_style": "luong"}, {"cross/0"}),
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
def test_batches_agree_with_single_words(options: dict[str, Any], heads: set[str]) -> None:
    run = untrained_run(**options)
    together = attention_agreement(run, validation=WORDS, test=WORDS)
    assert together is not None
    assert together.attention in heads
    alone = [attention_agreement(run, validation=WORDS, test=[word]) for word in WORDS]
    right = sum(round(one.agreement * one.phones) for one in alone if one is not None)
    assert together.agreement == pytest.approx(right / together.phones)


def test_words_with_an_aligned_reference_are_covered(tmp_path: Path) -> None:
    words = ["abc", "fade", "bead", "deaf", "face"]
    path = tmp_path / "lexicon.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE g2p_alignments (id INTEGER, word TEXT, alignment TEXT)")
        for word in words[:4]:
            alignment = " ".join(f"{letter}}}{IPA[letter]}" for letter in word)
            database.execute("INSERT INTO g2p_alignments VALUES (0, ?, ?)", (word, alignment))
        database.commit()
    # "abc" matches its second reference, "fade" has another pronunciation, "face" is not in the lexicon.
    answers = [
        ("K", pronunciation("abc")),
        ("F EY D",),
        *((pronunciation(word),) for word in words[2:]),
    ]
    predictions = Predictions(
        inputs=tuple(words), predictions=tuple(words), references=tuple(answers)
    )
    found = aligned_words(predictions, lexicon=path)
    assert found.words == tuple(map(letter_by_letter, ("abc", "bead", "deaf")))
    assert (found.covered, found.items) == (3, 5)
    assert "a sample of 3 of 3 words (60% of 5" in found.sentence()
    assert (
        "has alignments for none of 5 words"
        in aligned_words(predictions, count=0, lexicon=path).sentence()
    )
    drawn = [aligned_words(predictions, count=1, seed=seed, lexicon=path) for seed in range(10)]
    assert {known.words[0].word for known in drawn} == {"abc", "bead", "deaf"}
    assert all(known.covered == 3 for known in drawn)


def test_spelling_of_the_data_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        module,
        "g2p_alignments",
        lambda words, **_: {word: letter_by_letter(word) for word in words},
    )
    predictions = Predictions(
        inputs=(" FADE",), predictions=("",), references=((pronunciation("fade"),),)
    )
    (word,) = aligned_words(predictions).words
    assert word == letter_by_letter("fade")._replace(word="FADE")
    run = untrained_run()
    assert attention_agreement(run, validation=[word], test=[word]) == attention_agreement(
        run, validation=[letter_by_letter("fade")], test=[letter_by_letter("fade")]
    )


INPUTS = [*("a" * length for length in (1, 2, 2)), "cat", "dog", "cats", "dogs", "b" * 20, "c" * 30]

MODELS: dict[str, dict[str, Any]] = {
    "before": {"mechanism": "additive", "attention_style": "bahdanau"},
    "none": {"mechanism": "none"},
    "transformer": {
        "name": "transformer",
        "model_dim": 8,
        "num_heads": 4,
        "num_layers": 2,
        "feed_forward_dim": 8,
        "tie": "target",
    },
    "ctc": {"name": "ctc", "model_dim": 8, "num_heads": 2, "num_layers": 1},
}


@pytest.fixture(scope="module")
def variants() -> dict[str, TrainedRun]:
    return {name: untrained_run(**model) for name, model in MODELS.items()}


def test_variants_without_attention_are_excluded(variants: dict[str, TrainedRun]) -> None:
    examples = attention_examples(variants, ["abc", "fade", "bead", "cafe"], count=2)
    with_attention = {"before", "transformer", "ctc"}
    assert [set(example.alignments) for example in examples] == [with_attention] * 2
    for example in examples:
        for alignment in example.alignments.values():
            assert alignment.source_tokens == (*example.input, "<end>")
    assert attention_examples({"none": variants["none"]}, ["abc"]) == ()


def test_example_is_the_rounded_alignment(variants: dict[str, TrainedRun]) -> None:
    (example,) = attention_examples(variants, ["fade"])
    full, stored = variants["before"].alignment("fade"), example.alignments["before"]
    assert stored.title == full.title
    assert stored.maps["cross/0"][0][0] == pytest.approx(full.maps["cross/0"][0][0], abs=5e-5)
    assert list(example.alignments["transformer"].maps) == [
        "cross/0, mean of 4 heads",
        "cross/1, mean of 4 heads",
    ]
    digits = [text for text in json.dumps(asdict(example)).split() if text.startswith("0.")]
    assert digits
    assert max(len(text.strip("],}")) for text in digits) <= len("0.1234")


def test_many_heads_are_averaged() -> None:
    head = ((0.0, 1.0),)
    other = ((0.5, 0.123456),)
    few = AlignmentRecord(
        title="", source_tokens=("a", "b"), output_tokens=("A",), maps={"cross/0": (head, other)}
    )
    assert compact(few).maps == {"cross/0": (head, ((0.5, 0.1235),))}
    many = AlignmentRecord(
        title="",
        source_tokens=("a", "b"),
        output_tokens=("A",),
        maps={"cross/0": (head, other, head, other), "cross/1": (head,)},
    )
    assert compact(many).maps == {
        "cross/0, mean of 4 heads": (((0.25, 0.5617),),),
        "cross/1": (head,),
    }


def test_inputs_are_of_median_length() -> None:
    drawn = [median_length_sample(INPUTS, count=3, seed=seed) for seed in range(20)]
    assert {sources[0] for sources in drawn} == {"cat"}
    assert {source for sources in drawn for source in sources} == {
        "aa",
        "cat",
        "dog",
        "cats",
        "dogs",
    }
    assert all(len(set(sources)) == 3 for sources in drawn)
    assert median_length_sample(INPUTS, count=3, seed=4) == drawn[4]


def test_fewer_inputs_than_requested() -> None:
    assert set(median_length_sample(["ab", "cd", " ", "ab"], count=4, seed=0)) == {"ab", "cd"}
    assert median_length_sample([], count=4, seed=0) == ()
