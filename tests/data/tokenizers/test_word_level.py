"""Words of running text: cut by hand, kept by number."""

from __future__ import annotations

from hypothesis import given, strategies as st

from regard.data.tokenizers.vocabulary import build_vocabulary, load_vocabulary
from regard.data.tokenizers.word_level import RunningWordVocabulary


def test_words_and_marks_by_hand() -> None:
    cut = RunningWordVocabulary.cut
    assert cut("It's good, isn't it?") == ["It's", "good", ",", "isn't", "it", "?"]
    assert cut("well<br /><br />no_way 3.5") == ["well", "no", "_", "way", "3", ".", "5"]
    assert cut("l’été: naïve") == ["l’été", ":", "naïve"]


@given(st.text(alphabet="ab'_ .<>é\n"))
def test_nothing_but_white_space_is_lost(text: str) -> None:
    assert "".join(RunningWordVocabulary.cut(text)) == "".join(text.split())


def test_a_vocabulary_comes_back_from_its_record() -> None:
    texts = ["A good, good film.", "A bad film!"]
    vocabulary = build_vocabulary("running_words", texts, lowercase=True, min_count=2)
    assert set(vocabulary.tokens) == {"a", "film", "good"}
    again = load_vocabulary(vocabulary.as_json())
    assert again.encode("A GOOD one") == vocabulary.encode("a good one")
    assert again.decode(again.encode("Good film!")) == "good film"
