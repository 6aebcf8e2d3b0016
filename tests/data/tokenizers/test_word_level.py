"""The word_punct tokenizer, and characters in the other case."""

from __future__ import annotations

from hypothesis import given, strategies as st

from regard.data.tokenizers.vocabulary import UnknownTokens, build_vocabulary, load_vocabulary
from regard.data.tokenizers.word_level import WordPunctVocabulary


def test_words_and_punctuation() -> None:
    tokenize = WordPunctVocabulary.tokenize
    assert tokenize("It's good, isn't it?") == ["It's", "good", ",", "isn't", "it", "?"]
    assert tokenize("well<br /><br />no_way 3.5") == ["well", "no", "_", "way", "3", ".", "5"]
    assert tokenize("l’été: naïve") == ["l’été", ":", "naïve"]


@given(st.text(alphabet="ab'_ .<>é\n"))
def test_only_white_space_is_lost(text: str) -> None:
    assert "".join(WordPunctVocabulary.tokenize(text)) == "".join(text.split())


def test_json_round_trip() -> None:
    texts = ["A good, good film.", "A bad film!"]
    vocabulary = build_vocabulary("word_punct", texts, lowercase=True, min_count=2)
    assert set(vocabulary.tokens) == {"a", "film", "good"}
    again = load_vocabulary(vocabulary.as_json())
    assert again.encode("A GOOD one") == vocabulary.encode("a good one")
    assert again.decode(again.encode("Good film!")) == "good film"


def test_character_in_the_other_case() -> None:
    """A model of a lower-case dictionary reads upper-case words, and the other way round."""
    lower = load_vocabulary(build_vocabulary("characters", ["cat"]).as_json())
    assert lower.encode("Cat") == lower.encode("CAT") == lower.encode("cat")
    assert lower.encode("dog") == [3, 3, 3]
    assert lower.size == 7
    both = build_vocabulary("characters", ["cC"])
    assert both.encode("c") != both.encode("C")


def test_tags_are_whole_tokens() -> None:
    vocabulary = load_vocabulary(
        build_vocabulary("characters_and_tags", ["Vi\tV;PST", "give up\tV 3;SG"]).as_json()
    )
    ids = vocabulary.encode("VipV\tV;PST;3\tnew")
    assert vocabulary.tokens_of(ids) == [*"VipV", "<V>", "<PST>", "<3>", "<unknown>"]
    assert vocabulary.encode("V") != vocabulary.encode("\tV")


def test_unknown_tags_of_typed_texts() -> None:
    """Typed without a tab, the last word has the tags, which are not unknown characters."""
    vocabulary = build_vocabulary("characters_and_tags", ["trick\tV;PST"])
    known, other = UnknownTokens(vocabulary), UnknownTokens(vocabulary)
    known.add(["trick V;PST", "trick\tV;PST"])
    assert known.describe() == ""
    other.add(["trick V;FUT"])
    assert "has characters or tags that are not" in other.describe()
    assert other.describe().endswith(": '<FUT>'")
