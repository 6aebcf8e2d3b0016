"""Word pieces: cut at marks, joined inside words, [MASK] as a token, the same every time."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from typing import Any

import pytest

from regard.core.batches import END, START, UNKNOWN
from regard.core.errors import RegardError
from regard.data.tokenizers.subword import MASK, MASK_NUMBER, WordPieceVocabulary
from regard.data.tokenizers.vocabulary import build_vocabulary, fingerprint_of, load_vocabulary

TEXTS = ["The dog runs. The dogs run!", "A man's dog, a big one, runs.", "Über Cafe\u0301 12"]


def built(
    *, texts: list[str] = TEXTS, size: int = 90, lowercase: bool = False
) -> WordPieceVocabulary:
    return WordPieceVocabulary.build(iter(texts), size=size, lowercase=lowercase)


def test_words_are_cut_at_marks_and_into_known_pieces() -> None:
    texts = ["the dog runs ."] * 9 + ["the dogs run ."] * 9
    vocabulary = built(texts=texts, size=40)
    assert vocabulary.tokens_of(vocabulary.encode("the dogs run.")) == [
        *("the", "dogs", "run", "."),
    ]
    assert vocabulary.tokens_of(vocabulary.encode("dogsun")) == ["dogs", "##u", "##n"]
    assert vocabulary.decode(vocabulary.encode("dogsun.the")) == "dogsun . the"


def test_texts_come_back_with_spaces_around_marks() -> None:
    vocabulary = built()
    back = vocabulary.decode(vocabulary.encode("A man's  Café, dogs!"))
    assert back == "A man ' s Café , dogs !"
    small = built(lowercase=True)
    assert small.decode(small.encode("THE DOGS, ÜBER")) == "the dogs , über"


def test_the_mask_is_its_first_token_and_can_be_spelled() -> None:
    for lowercase in (False, True):
        vocabulary = built(lowercase=lowercase)
        assert vocabulary.tokens[0] == MASK
        numbers = vocabulary.encode(f"a {MASK} runs{MASK}.")
        assert numbers.count(MASK_NUMBER) == 2
        assert vocabulary.decode(numbers) == f"a {MASK} runs {MASK} ."
        assert vocabulary.encode_all([f"a {MASK}"]) == [vocabulary.encode(f"a {MASK}")]
        assert MASK_NUMBER not in vocabulary.encode("a [mask]")


def test_a_mask_in_the_texts_is_not_learned_as_letters() -> None:
    assert not {"[", "M", "]"} & set(built(texts=[f"a dog {MASK} a"], size=20).tokens)


def test_a_word_with_an_unknown_letter_is_unknown() -> None:
    vocabulary = built()
    numbers = vocabulary.encode("The doßg runs")
    assert numbers.count(UNKNOWN) == 1
    assert vocabulary.decode([START, *numbers, END]) == "The runs"


def test_a_piece_without_the_beginning_of_its_word_is_still_text() -> None:
    vocabulary = built()
    numbers = vocabulary.encode("aog")[1:]
    assert vocabulary.decode(numbers) == "og"


def test_sizes() -> None:
    texts = [f"word{number} other{number % 7}" for number in range(300)]
    assert built(texts=texts, size=77).size == 77
    with pytest.raises(RegardError, match="size=10 is too small for word pieces: 18 are needed"):
        built(texts=texts, size=10)


def test_the_order_of_texts_does_not_matter() -> None:
    texts = [f"word{number} other{number % 7}" for number in range(300)]
    shuffled = random.Random(0).sample(texts, k=len(texts))
    assert built(texts=texts).as_json() == built(texts=shuffled).as_json()


def test_json_brings_it_back() -> None:
    vocabulary = built(lowercase=True)
    again = load_vocabulary(json.loads(json.dumps(vocabulary.as_json())))
    assert isinstance(again, WordPieceVocabulary)
    assert again.as_json() == vocabulary.as_json()
    assert again.encode_all([*TEXTS, MASK]) == vocabulary.encode_all([*TEXTS, MASK])


@pytest.mark.parametrize(
    ("contents", "reason"),
    [
        ({"tokens": ["a"]}, "its first token is 'a', not"),
        ({"tokens": [MASK, "a", "a"]}, "stands there twice"),
        ({"tokens": [MASK, "<pad>"]}, "'<pad>' is not a piece of any word"),
        ({"tokens": [MASK, "a b"]}, "'a b' is not a piece of any word"),
        ({"tokens": [MASK, "##"]}, "'##' is not a piece of any word"),
        ({"tokens": [MASK, "A"], "lowercase": True}, "'A' is not a piece of any word"),
        ({"tokens": []}, "has no tokens"),
    ],
)
def test_a_record_that_never_was_one_is_refused(contents: dict[str, Any], reason: str) -> None:
    record = {"kind": "wordpiece", "lowercase": False, **contents}
    with pytest.raises(RegardError, match=reason):
        load_vocabulary({**record, "fingerprint": fingerprint_of(record)})


def test_it_is_known_by_name() -> None:
    assert isinstance(build_vocabulary("wordpiece", TEXTS, size=100), WordPieceVocabulary)
    with pytest.raises(RegardError, match="A vocabulary of wordpiece has no tokens"):
        build_vocabulary("wordpiece", ["", " \n"])


def test_pieces_are_the_same_in_another_process() -> None:
    letters = "abcdefghijklmnop"
    texts = [" ".join(a + b + c for c in letters) for a in letters for b in letters]
    script = (
        "import json, sys\n"
        "from regard.data.tokenizers.vocabulary import build_vocabulary\n"
        "texts = json.load(sys.stdin)\n"
        "print(build_vocabulary('wordpiece', texts, size=200).as_json()['fingerprint'])\n"
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
