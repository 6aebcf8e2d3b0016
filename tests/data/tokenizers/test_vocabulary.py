"""Vocabularies: the common contract, and each kind of its own."""

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
from regard.data.readers.text_file import RowErrors
from regard.data.readers.text_reader import TextReader
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
# The others do not keep white space.
LOSSLESS_KINDS = [kind for kind in KINDS if kind not in ("wordpiece", "word_punct")]


def built(kind: str, texts: list[str] = TEXTS, **options: Any) -> Vocabulary:
    more = {"size": 120} if kind == "subwords" else {}
    return build_vocabulary(kind, iter(texts), **more, **options)


def through_json(vocabulary: Vocabulary) -> Vocabulary:
    return load_vocabulary(json.loads(json.dumps(vocabulary.as_json())))


@pytest.mark.parametrize("kind", LOSSLESS_KINDS)
def test_round_trip_in_nfc(kind: str) -> None:
    vocabulary = built(kind)
    assert vocabulary.kind == kind
    for text in TEXTS:
        assert vocabulary.decode(vocabulary.encode(text)) == unicodedata.normalize("NFC", text)


@pytest.mark.parametrize("kind", LOSSLESS_KINDS)
def test_lowercase_is_stored(kind: str) -> None:
    vocabulary = through_json(built(kind, lowercase=True))
    for text in TEXTS:
        expected = unicodedata.normalize("NFC", text.lower())
        assert vocabulary.decode(vocabulary.encode(text.upper())) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_no_text_encodes_to_special_tokens(kind: str) -> None:
    vocabulary = built(kind)
    for text in (*TEXTS, "<pad>", "<unknown>", "<start> <end>", ""):
        assert not {PAD, START, END} & set(vocabulary.encode(text))
    assert vocabulary.encode("<pad>").count(UNKNOWN) == 0
    assert vocabulary.encode("") == []


@pytest.mark.parametrize("kind", KINDS)
def test_unknown_and_special_tokens(kind: str) -> None:
    vocabulary = built(kind)
    assert UNKNOWN in vocabulary.encode("日")
    ids = vocabulary.encode("dog")
    assert vocabulary.decode([START, *ids, UNKNOWN, END, PAD, PAD]) == "dog"
    labels = vocabulary.tokens_of([START, *ids, UNKNOWN, END, PAD])
    assert labels[0] == "<start>"
    assert labels[-3:] == ["<unknown>", "<end>", "<pad>"]
    assert len(labels) == len(ids) + 4
    assert not any(" " in label for label in vocabulary.tokens_of(range(vocabulary.size)))


@pytest.mark.parametrize("kind", KINDS)
def test_encode_all(kind: str) -> None:
    vocabulary = built(kind)
    assert vocabulary.encode_all(iter(TEXTS)) == [vocabulary.encode(text) for text in TEXTS]
    assert vocabulary.encode_all([]) == []


@pytest.mark.parametrize("kind", KINDS)
def test_ids_are_below_the_size(kind: str) -> None:
    vocabulary = built(kind)
    ids = {each for text in TEXTS for each in vocabulary.encode(text)}
    assert min(ids) >= FIRST_TOKEN
    assert max(ids) < vocabulary.size
    for wrong in (vocabulary.size, -1):
        with pytest.raises(RegardError, match=f"There is no token {wrong}"):
            vocabulary.decode([wrong])
        with pytest.raises(RegardError, match="There is no token"):
            vocabulary.tokens_of([wrong])


@pytest.mark.parametrize("kind", KINDS)
def test_order_of_texts(kind: str) -> None:
    shuffled = random.Random(0).sample(TEXTS, k=len(TEXTS))
    assert built(kind, shuffled).as_json() == built(kind).as_json()


@pytest.mark.parametrize("kind", KINDS)
def test_json_round_trip(kind: str) -> None:
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
def test_changed_record(kind: str, change: dict[str, Any]) -> None:
    record = built(kind).as_json()
    changed = {**record, **change}
    if changed != record:
        with pytest.raises(RegardError, match="Invalid vocabulary: "):
            load_vocabulary(changed)


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"kind": "words", "lowercase": False}, "'tokens' is not a list"),
        ({"kind": "words", "lowercase": False, "tokens": [1]}, "'tokens' is not a list"),
        ({"kind": "words", "lowercase": 0, "tokens": ["a"]}, "'lowercase'"),
        ({"kind": "words", "lowercase": False, "tokens": ["a", "a"]}, "twice"),
        (
            {"kind": "words", "lowercase": False, "tokens": ["a b"]},
            "is not a token of kind 'words'",
        ),
        ({"kind": "words", "lowercase": True, "tokens": ["A"]}, "is not a token of kind 'words'"),
        ({"kind": "characters", "lowercase": False, "tokens": ["ab"]}, "kind 'characters'"),
        ({"kind": "subwords", "lowercase": False, "tokens": ["a"]}, "'merges' is not a list"),
        (
            {"kind": "subwords", "lowercase": False, "tokens": ["a", "b"], "merges": [["a", "b"]]},
            "is not a merge",
        ),
        (
            {"kind": "subwords", "lowercase": False, "tokens": ["a"], "merges": ["aa"]},
            "is not a merge",
        ),
        (
            {"kind": "subwords", "lowercase": False, "tokens": ["<pad>"], "merges": []},
            "a special token",
        ),
    ],
)
def test_invalid_record(record: dict[str, Any], reason: str) -> None:
    with pytest.raises(RegardError, match=reason):
        load_vocabulary({**record, "fingerprint": fingerprint_of(record)})


@pytest.mark.parametrize("record", [None, [], "words", {}, {"kind": 3}])
def test_record_of_another_type(record: object) -> None:
    with pytest.raises(RegardError, match="not a JSON object with a 'kind'"):
        load_vocabulary(record)


def test_unknown_kind_and_option() -> None:
    with pytest.raises(RegardError, match=r"Unknown vocabulary 'word'\. Did you mean 'words'"):
        build_vocabulary("word", TEXTS)
    with pytest.raises(RegardError, match=r"Did you mean 'lowercase'\? .*: lowercase, size\.$"):
        build_vocabulary("subwords", TEXTS, lower_case=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("texts", [[], ["", " \n"]])
def test_empty_texts(kind: str, texts: list[str]) -> None:
    if kind.startswith("characters") and texts:
        texts = [""]
    with pytest.raises(RegardError, match=f"A vocabulary of {kind} has no tokens"):
        build_vocabulary(kind, texts)


def test_order_by_frequency_then_code_point() -> None:
    texts = ["b a c", "c b", "d c é"]
    vocabulary = build_vocabulary("words", texts)
    assert vocabulary.tokens_of(range(4, vocabulary.size)) == ["c", "b", "a", "d", "é"]
    assert vocabulary.encode("c a x b") == [4, 6, UNKNOWN, 5]


def test_min_count_and_max_size() -> None:
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


def test_subwords_split_off_punctuation() -> None:
    vocabulary = build_vocabulary("subwords", ["The dog runs. The dog, the dog ."] * 5, size=60)
    assert vocabulary.tokens_of(vocabulary.encode("The dog. The dog .")) == [
        *("▁The", "▁dog", "."),
        *("▁The", "▁dog", "▁."),
    ]
    assert vocabulary.decode(vocabulary.encode("The dog. dog , the")) == "The dog. dog , the"


def test_subwords_collapse_white_space() -> None:
    vocabulary = built("subwords")
    assert vocabulary.decode(vocabulary.encode("  dog \t\n dog▁dog ")) == "dog dog dog"


def test_subword_size() -> None:
    texts = [f"word{number} other{number % 7}" for number in range(300)]
    assert build_vocabulary("subwords", texts, size=77).size == 77
    assert build_vocabulary("subwords", ["ab"], size=500).size == FIRST_TOKEN + 5  # ▁ a b ▁a ▁ab
    with pytest.raises(RegardError, match=r"size=10 .* 18 "):
        build_vocabulary("subwords", texts, size=10)
    with pytest.raises(RegardError, match="size=-1 "):
        build_vocabulary("subwords", texts, size=-1)


def test_training_is_deterministic_across_processes() -> None:
    """With many ties in frequency."""
    letters = "abcdefghijklmnop"
    texts = [" ".join(a + b + c for c in letters) for a in letters for b in letters]
    script = (
        "import json, sys\n"
        "from regard.data.tokenizers.vocabulary import build_vocabulary\n"
        "texts = json.load(sys.stdin)\n"
        "for kind in ('subwords', 'wordpiece'):\n"
        "    print(build_vocabulary(kind, texts, size=200).as_json()['fingerprint'])\n"
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
        for seed, parallel in (("1", "true"), ("2", "false"))
    }
    assert len(prints) == 1


@pytest.mark.data
def test_multi30k_round_trip(data_folder: Path) -> None:
    folder = data_folder / "multi30k"
    source = TextReader.from_text(f"{folder}/val.de.gz,{folder}/val.en.gz")
    texts = [text for row in source.rows(errors=RowErrors()) for text in row[:2]]
    vocabulary = build_vocabulary("subwords", texts, size=2000)
    assert vocabulary.size == 2000
    decoded = [vocabulary.decode(ids) for ids in vocabulary.encode_all(texts)]
    assert decoded == [" ".join(text.split()) for text in texts]
