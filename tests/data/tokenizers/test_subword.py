"""WordPiece: splitting, [MASK] as a token, deterministic training."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from regard.core.batches import END, START, UNKNOWN
from regard.core.errors import RegardError
from regard.data.tokenizers.subword import MASK, MASK_ID, WordPieceVocabulary
from regard.data.tokenizers.vocabulary import build_vocabulary, fingerprint_of, load_vocabulary

TEXTS = ["The dog runs. The dogs run!", "A man's dog, a big one, runs.", "Über Cafe\u0301 12"]


def built(
    *, texts: list[str] = TEXTS, size: int = 90, lowercase: bool = False
) -> WordPieceVocabulary:
    return WordPieceVocabulary.build(iter(texts), size=size, lowercase=lowercase)


def test_words_are_split_at_punctuation_and_into_pieces() -> None:
    texts = ["the dog runs ."] * 9 + ["the dogs run ."] * 9
    vocabulary = built(texts=texts, size=40)
    assert vocabulary.tokens_of(vocabulary.encode("the dogs run.")) == [
        *("the", "dogs", "run", "."),
    ]
    assert vocabulary.tokens_of(vocabulary.encode("dogsun")) == ["dogs", "##u", "##n"]
    assert vocabulary.decode(vocabulary.encode("dogsun.the")) == "dogsun . the"


def test_decoding_puts_spaces_around_punctuation() -> None:
    vocabulary = built()
    back = vocabulary.decode(vocabulary.encode("A man's  Café, dogs!"))
    assert back == "A man ' s Café , dogs !"
    lowercase = built(lowercase=True)
    assert lowercase.decode(lowercase.encode("THE DOGS, ÜBER")) == "the dogs , über"


def test_mask_token() -> None:
    for lowercase in (False, True):
        vocabulary = built(lowercase=lowercase)
        assert vocabulary.tokens[0] == MASK
        ids = vocabulary.encode(f"a {MASK} runs{MASK}.")
        assert ids.count(MASK_ID) == 2
        assert vocabulary.decode(ids) == f"a {MASK} runs {MASK} ."
        assert vocabulary.encode_all([f"a {MASK}"]) == [vocabulary.encode(f"a {MASK}")]
        assert MASK_ID not in vocabulary.encode("a [mask]")


def test_mask_in_training_texts_is_ignored() -> None:
    assert not {"[", "M", "]"} & set(built(texts=[f"a dog {MASK} a"], size=20).tokens)


def test_word_with_an_unseen_character() -> None:
    vocabulary = built()
    ids = vocabulary.encode("The doßg runs")
    assert ids.count(UNKNOWN) == 1
    assert vocabulary.decode([START, *ids, END]) == "The runs"


def test_decoding_an_inner_piece_alone() -> None:
    vocabulary = built()
    ids = vocabulary.encode("aog")[1:]
    assert vocabulary.decode(ids) == "og"


def test_sizes() -> None:
    texts = [f"word{number} other{number % 7}" for number in range(300)]
    assert built(texts=texts, size=77).size == 77
    with pytest.raises(RegardError, match=r"size=10 .* 18 "):
        built(texts=texts, size=10)


def test_order_of_texts() -> None:
    texts = [f"word{number} other{number % 7}" for number in range(300)]
    shuffled = random.Random(0).sample(texts, k=len(texts))
    assert built(texts=texts).as_json() == built(texts=shuffled).as_json()


def test_json_round_trip() -> None:
    vocabulary = built(lowercase=True)
    again = load_vocabulary(json.loads(json.dumps(vocabulary.as_json())))
    assert isinstance(again, WordPieceVocabulary)
    assert again.as_json() == vocabulary.as_json()
    assert again.encode_all([*TEXTS, MASK]) == vocabulary.encode_all([*TEXTS, MASK])


@pytest.mark.parametrize(
    ("contents", "reason"),
    [
        ({"tokens": ["a"]}, "its first token is 'a', not"),
        ({"tokens": [MASK, "a", "a"]}, "twice"),
        ({"tokens": [MASK, "<pad>"]}, "'<pad>' is not a piece of any word"),
        ({"tokens": [MASK, "a b"]}, "'a b' is not a piece of any word"),
        ({"tokens": [MASK, "##"]}, "'##' is not a piece of any word"),
        ({"tokens": [MASK, "A"], "lowercase": True}, "'A' is not a piece of any word"),
        ({"tokens": []}, "has no tokens"),
    ],
)
def test_invalid_record(contents: dict[str, Any], reason: str) -> None:
    record = {"kind": "wordpiece", "lowercase": False, **contents}
    with pytest.raises(RegardError, match=reason):
        load_vocabulary({**record, "fingerprint": fingerprint_of(record)})


def test_build_by_name() -> None:
    assert isinstance(build_vocabulary("wordpiece", TEXTS, size=100), WordPieceVocabulary)
    with pytest.raises(RegardError, match="A vocabulary of wordpiece has no tokens"):
        build_vocabulary("wordpiece", ["", " \n"])
