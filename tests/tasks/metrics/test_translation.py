"""BLEU and chrF: values by hand, and sacrebleu signatures."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable

import pytest

from regard.core.errors import RegardError
from regard.tasks.metrics.translation import TextScore, bleu, chrf

SCORES = [bleu, chrf]


@pytest.mark.parametrize("score", SCORES)
def test_the_same_text_scores_a_hundred(score: Callable[..., TextScore]) -> None:
    text = ["Two men sit on a bench.", "A dog runs, and barks, in the snow."]
    assert score(text, text).score == 100.0


@pytest.mark.parametrize("score", SCORES)
def test_texts_with_nothing_in_common_score_nothing(score: Callable[..., TextScore]) -> None:
    assert score(["aaaa bbbb cccc dddd"], ["xxxx yyyy zzzz wwww"]).score == 0.0


def test_brevity_penalty() -> None:
    # All its n-grams are right, so only the penalty is left: 7 words for 10 gives e^(1 - 10/7).
    found = bleu(["a b c d e f g"], ["a b c d e f g h i j"])
    assert found.score == pytest.approx(100 * math.exp(1 - 10 / 7))


def test_bleu_is_the_geometric_mean_of_four_precisions() -> None:
    # 6 words each, the last differs: 5 of 6, 4 of 5, 3 of 4, 2 of 3 are right; their product is 1/3.
    found = bleu(["a b c d e f"], ["a b c d e x"])
    assert found.score == pytest.approx(100 * (1 / 3) ** 0.25)


def test_bleu_counts_over_the_corpus_and_not_by_sentence() -> None:
    # Right: 8 of 8 words, 6 of 6 pairs, 4 of 4, 2 of 2; together one word short of 9.
    found = bleu(["a b c d", "e f g h"], ["a b c d", "e f g h i"])
    assert found.score == pytest.approx(100 * math.exp(1 - 9 / 8))


def test_punctuation_is_a_word_of_its_own() -> None:
    assert bleu(["a b c d."], ["a b c d ."]).score == 100.0


def test_chrf_is_an_f_score_of_characters() -> None:
    # "abc" for "abd": 2 of 3 letters, 1 of 2 pairs, 0 of 1 triple, the same both ways: their mean.
    assert chrf(["abc"], ["abd"]).score == pytest.approx(100 * (2 / 3 + 1 / 2 + 0) / 3)


def test_chrf_weights_recall_twice_as_much_as_precision() -> None:
    # "a" for "ab": precision 1, recall 1/2 of letters, and no pair of its own: F2 = 5·½ / (4 + ½).
    assert chrf(["a"], ["ab"]).score == pytest.approx(100 * 2.5 / 4.5)


@pytest.mark.parametrize("score", SCORES)
def test_lowercase(score: Callable[..., TextScore]) -> None:
    predictions, references = ["a man in a red hat"], ["A Man In A Red Hat"]
    assert score(predictions, references).score == 100.0
    assert score(predictions, references, lowercase=False).score < 80.0


@pytest.mark.parametrize("lowercase", [True, False])
def test_signature(lowercase: bool) -> None:
    text = ["a b c d"]
    case = "case:lc" if lowercase else "case:mixed"
    words = bleu(text, text, lowercase=lowercase).signature.split("|")
    assert {"nrefs:1", case, "tok:13a", "smooth:exp", "eff:no"} <= set(words)
    letters = chrf(text, text, lowercase=lowercase).signature.split("|")
    assert {"nrefs:1", case, "nc:6", "nw:0", "space:no"} <= set(letters)


@pytest.mark.parametrize("score", SCORES)
def test_empty_texts(score: Callable[..., TextScore]) -> None:
    assert score([""], ["a man"]).score == 0.0
    assert score(["a man"], [""]).score == 0.0


@pytest.mark.parametrize("score", SCORES)
def test_unequal_or_no_texts_raise(score: Callable[..., TextScore]) -> None:
    with pytest.raises(RegardError, match="2 predictions for 1 references"):
        score(["a", "b"], ["a"])
    with pytest.raises(RegardError, match="nothing to score"):
        score([], [])


def test_no_warning_about_tokenised_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    text = ["a man sits ."] * 200
    with caplog.at_level(logging.WARNING):
        bleu(text, text)
    assert caplog.records == []
