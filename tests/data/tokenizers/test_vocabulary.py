"""What every kind of vocabulary must do, and what each does in its own way."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from regard.core.batches import END, PAD, START, UNKNOWN
from regard.core.errors import RegardError
from regard.data.readers.pairs import PairSource
from regard.data.readers.text_file import BadRows
from regard.data.tokenizers.vocabulary import (
    FIRST_TOKEN,
    VOCABULARIES,
    Vocabulary,
    build_vocabulary,
    fingerprint_of,
    load_vocabulary,
)

TEXTS = [
    "A man's dog, a big one, runs.",
    "Two dogs run over the bridge!",
    "Über die Brücke (schnell) laufen 12 Hunde.",
    "Cafe\u0301 <pad> <unknown> <start> a_b",
    "dog . dog , dog",
]
KINDS = list(VOCABULARIES)
# Word pieces do not keep where spaces stood: test_wordpiece.py says what they do keep.
EXACT_KINDS = [kind for kind in KINDS if kind not in ("wordpiece", "running_words")]


def built(kind: str, texts: list[str] = TEXTS, **options: Any) -> Vocabulary:
    more = {"size": 120} if kind == "subwords" else {}
    return build_vocabulary(kind, iter(texts), **more, **options)


def through_json(vocabulary: Vocabulary) -> Vocabulary:
    return load_vocabulary(json.loads(json.dumps(vocabulary.as_json())))


@pytest.mark.parametrize("kind", EXACT_KINDS)
def test_known_text_comes_back_in_composed_form(kind: str) -> None:
    vocabulary = built(kind)
    assert vocabulary.kind == kind
    for text in TEXTS:
        assert vocabulary.decode(vocabulary.encode(text)) == unicodedata.normalize("NFC", text)


@pytest.mark.parametrize("kind", EXACT_KINDS)
def test_small_letters_are_remembered(kind: str) -> None:
    vocabulary = through_json(built(kind, lowercase=True))
    for text in TEXTS:
        wanted = unicodedata.normalize("NFC", text.lower())
        assert vocabulary.decode(vocabulary.encode(text.upper())) == wanted


@pytest.mark.parametrize("kind", KINDS)
def test_no_text_encodes_to_a_special_token(kind: str) -> None:
    vocabulary = built(kind)
    for text in (*TEXTS, "<pad>", "<unknown>", "<start> <end>", ""):
        assert not {PAD, START, END} & set(vocabulary.encode(text))
    assert vocabulary.encode("<pad>").count(UNKNOWN) == 0
    assert vocabulary.encode("") == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_unknown_is_unknown_and_special_tokens_are_dropped(kind: str) -> None:
    vocabulary = built(kind)
    assert UNKNOWN in vocabulary.encode("日")
    numbers = vocabulary.encode("dog")
    assert vocabulary.decode([START, *numbers, UNKNOWN, END, PAD, PAD]) == "dog"
    labels = vocabulary.tokens_of([START, *numbers, UNKNOWN, END, PAD])
    assert labels[0] == "<start>"
    assert labels[-3:] == ["<unknown>", "<end>", "<pad>"]
    assert len(labels) == len(numbers) + 4
    assert not any(" " in label for label in vocabulary.tokens_of(range(vocabulary.size)))


@pytest.mark.parametrize("kind", KINDS)
def test_many_texts_at_once_are_the_same(kind: str) -> None:
    vocabulary = built(kind)
    assert vocabulary.encode_all(iter(TEXTS)) == [vocabulary.encode(text) for text in TEXTS]
    assert vocabulary.encode_all([]) == []


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_lie_within_the_size(kind: str) -> None:
    vocabulary = built(kind)
    numbers = {number for text in TEXTS for number in vocabulary.encode(text)}
    assert min(numbers) >= FIRST_TOKEN
    assert max(numbers) < vocabulary.size
    for wrong in (vocabulary.size, -1):
        with pytest.raises(RegardError, match=f"There is no token {wrong}: this vocabulary has"):
            vocabulary.decode([wrong])
        with pytest.raises(RegardError, match="There is no token"):
            vocabulary.tokens_of([wrong])


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_texts_in_any_order_give_the_same_vocabulary(kind: str) -> None:
    shuffled = random.Random(0).sample(TEXTS, k=len(TEXTS))
    assert built(kind, shuffled).as_json() == built(kind).as_json()


@pytest.mark.parametrize("kind", KINDS)
def test_json_brings_it_back(kind: str) -> None:
    vocabulary = built(kind)
    again = through_json(vocabulary)
    assert again.as_json() == vocabulary.as_json()
    assert again.encode_all(TEXTS) == vocabulary.encode_all(TEXTS)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "change",
    [
        {"tokens": ["x"]},
        {"lowercase": True},
        {"kind": "words"},
        {"kind": "characters"},
        {"fingerprint": "0" * 32},
        {"fingerprint": None},
    ],
)
def test_a_changed_record_is_refused(kind: str, change: dict[str, Any]) -> None:
    record = built(kind).as_json()
    changed = {**record, **change}
    if changed != record:
        with pytest.raises(RegardError, match="This vocabulary cannot be used: "):
            load_vocabulary(changed)


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"kind": "words", "lowercase": False}, "'tokens' is not a list of texts"),
        ({"kind": "words", "lowercase": False, "tokens": [1]}, "'tokens' is not a list of texts"),
        ({"kind": "words", "lowercase": 0, "tokens": ["a"]}, "'lowercase' is neither"),
        ({"kind": "words", "lowercase": False, "tokens": ["a", "a"]}, "stands there twice"),
        ({"kind": "words", "lowercase": False, "tokens": ["a b"]}, "is not one of the words"),
        ({"kind": "words", "lowercase": True, "tokens": ["A"]}, "is not one of the words"),
        ({"kind": "characters", "lowercase": False, "tokens": ["ab"]}, "one of the characters"),
        ({"kind": "subwords", "lowercase": False, "tokens": ["a"]}, "'merges' is not a list"),
        (
            {"kind": "subwords", "lowercase": False, "tokens": ["a", "b"], "merges": [["a", "b"]]},
            "is not a join of two of its tokens",
        ),
        (
            {"kind": "subwords", "lowercase": False, "tokens": ["a"], "merges": ["aa"]},
            "is not a join of two of its tokens",
        ),
        (
            {"kind": "subwords", "lowercase": False, "tokens": ["<pad>"], "merges": []},
            "a special token stands among its tokens",
        ),
    ],
)
def test_a_record_that_never_was_a_vocabulary_is_refused(
    record: dict[str, Any], reason: str
) -> None:
    with pytest.raises(RegardError, match=reason):
        load_vocabulary({**record, "fingerprint": fingerprint_of(record)})


@pytest.mark.parametrize("record", [None, [], "words", {}, {"kind": 3}])
def test_what_is_no_record_is_refused(record: object) -> None:
    with pytest.raises(RegardError, match="not a JSON object with a 'kind'"):
        load_vocabulary(record)


def test_unknown_kinds_and_options_are_told_the_known_ones() -> None:
    with pytest.raises(RegardError, match=r"Unknown vocabulary 'word'\. Did you mean 'words'"):
        build_vocabulary("word", TEXTS)
    with pytest.raises(RegardError, match=r"Did you mean 'lowercase'\? .*: lowercase, size\.$"):
        build_vocabulary("subwords", TEXTS, lower_case=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("texts", [[], ["", " \n"]])
def test_no_text_gives_no_vocabulary(kind: str, texts: list[str]) -> None:
    if kind == "characters" and texts:
        texts = [""]
    with pytest.raises(RegardError, match=f"A vocabulary of {kind} has no tokens"):
        build_vocabulary(kind, texts)


def test_words_stand_by_frequency_then_by_code_point() -> None:
    texts = ["b a c", "c b", "d c é"]
    vocabulary = build_vocabulary("words", texts)
    assert vocabulary.tokens_of(range(4, vocabulary.size)) == ["c", "b", "a", "d", "é"]
    assert vocabulary.encode("c a x b") == [4, 6, UNKNOWN, 5]


def test_rare_words_are_left_out() -> None:
    texts = ["b a c", "c b", "d c"]
    assert build_vocabulary("words", texts, min_count=2).tokens == ("c", "b")
    assert build_vocabulary("words", texts, max_size=7).tokens == ("c", "b", "a")
    for options in ({"min_count": 0}, {"max_size": 4}):
        with pytest.raises(RegardError, match="or more"):
            build_vocabulary("words", texts, **options)
    with pytest.raises(RegardError, match="lower min_count"):
        build_vocabulary("words", texts, min_count=9)


def test_characters_keep_white_space() -> None:
    vocabulary = build_vocabulary("characters", ["a  b\tc"])
    assert vocabulary.decode(vocabulary.encode("c  a\tb")) == "c  a\tb"
    assert vocabulary.tokens_of(vocabulary.encode("a b")) == ["a", "␣", "b"]


def test_subwords_part_punctuation_from_words_and_put_it_back() -> None:
    vocabulary = build_vocabulary("subwords", ["The dog runs. The dog, the dog ."] * 5, size=60)
    assert vocabulary.tokens_of(vocabulary.encode("The dog. The dog .")) == [
        *("▁The", "▁dog", "."),
        *("▁The", "▁dog", "▁."),
    ]
    assert vocabulary.decode(vocabulary.encode("The dog. dog , the")) == "The dog. dog , the"


def test_subwords_take_white_space_as_one_space() -> None:
    vocabulary = built("subwords")
    assert vocabulary.decode(vocabulary.encode("  dog \t\n dog▁dog ")) == "dog dog dog"


def test_subwords_fill_the_size_that_was_asked() -> None:
    texts = [f"word{number} other{number % 7}" for number in range(300)]
    assert build_vocabulary("subwords", texts, size=77).size == 77
    assert build_vocabulary("subwords", ["ab"], size=500).size == FIRST_TOKEN + 5  # ▁ a b ▁a ▁ab
    with pytest.raises(RegardError, match="size=10 is too small for subwords: the texts have 18"):
        build_vocabulary("subwords", texts, size=10)
    with pytest.raises(RegardError, match="size=-1 is too small for subwords: 4 numbers are"):
        build_vocabulary("subwords", texts, size=-1)


def test_subwords_are_the_same_in_another_process(tmp_path: Path) -> None:
    """Many equal counts, so that every choice among pairs is a tie to be broken."""
    letters = "abcdefghijklmnop"
    texts = [" ".join(a + b + c for c in letters) for a in letters for b in letters]
    script = (
        "import json, sys\n"
        "from regard.data.tokenizers.vocabulary import build_vocabulary\n"
        "texts = json.load(sys.stdin)\n"
        "print(build_vocabulary('subwords', texts, size=200).as_json()['fingerprint'])\n"
    )
    prints = {
        subprocess.run(
            [sys.executable, "-c", script],
            input=json.dumps(texts),
            env={**os.environ, "PYTHONHASHSEED": seed, "TOKENIZERS_PARALLELISM": parallel},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed, parallel in (("1", "true"), ("2", "false"), ("3", "true"))
    }
    assert len(prints) == 1


@pytest.mark.data
def test_captions_come_back_exactly(data_folder: Path) -> None:
    folder = data_folder / "multi30k"
    source = PairSource.from_text(f"{folder}/val.de.gz,{folder}/val.en.gz")
    texts = [text for row in source.rows(bad=BadRows()) for text in row[:2]]
    vocabulary = build_vocabulary("subwords", texts, size=2000)
    assert vocabulary.size == 2000
    decoded = [vocabulary.decode(numbers) for numbers in vocabulary.encode_all(texts)]
    assert decoded == [" ".join(text.split()) for text in texts]
