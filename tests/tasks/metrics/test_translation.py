"""BLEU and chrF: values by hand, corpus scores and signatures of sacrebleu."""

from __future__ import annotations

import logging
import math
import random
from typing import Any

import pytest
from sacrebleu.metrics.bleu import BLEU as SACRE_BLEU
from sacrebleu.metrics.chrf import CHRF as SACRE_CHRF

from regard.core.errors import RegardError
from regard.tasks.metrics import BLEU, ChrF, Metric

METRICS: list[Metric] = [BLEU(), ChrF()]


def score(metric: Metric, predictions: list[str], references: list[str]) -> float:
    return metric(predictions, [(reference,) for reference in references])


@pytest.mark.parametrize("metric", METRICS)
def test_the_same_text_scores_a_hundred(metric: Metric) -> None:
    text = ["Two men sit on a bench.", "A dog runs, and barks, in the snow."]
    assert score(metric, text, text) == pytest.approx(100.0)
    assert score(metric, ["a man in a red hat"], ["A Man In A Red Hat"]) == pytest.approx(100.0)


@pytest.mark.parametrize("metric", METRICS)
def test_texts_with_nothing_in_common_score_nothing(metric: Metric) -> None:
    assert score(metric, ["aaaa bbbb cccc dddd"], ["xxxx yyyy zzzz wwww"]) == 0.0
    assert score(metric, [""], ["a man"]) == 0.0
    assert score(metric, ["a man"], [""]) == 0.0


def test_brevity_penalty() -> None:
    # All its n-grams are right, so only the penalty is left: 7 words for 10 gives e^(1 - 10/7).
    found = score(BLEU(), ["a b c d e f g"], ["a b c d e f g h i j"])
    assert found == pytest.approx(100 * math.exp(1 - 10 / 7))


def test_bleu_is_the_geometric_mean_of_four_precisions() -> None:
    # 6 words each, the last differs: 5 of 6, 4 of 5, 3 of 4, 2 of 3 are right; their product is 1/3.
    found = score(BLEU(), ["a b c d e f"], ["a b c d e x"])
    assert found == pytest.approx(100 * (1 / 3) ** 0.25)


def test_bleu_counts_over_the_corpus_and_not_by_sentence() -> None:
    # Right: 8 of 8 words, 6 of 6 pairs, 4 of 4, 2 of 2; together one word short of 9.
    found = score(BLEU(), ["a b c d", "e f g h"], ["a b c d", "e f g h i"])
    assert found == pytest.approx(100 * math.exp(1 - 9 / 8))


def test_punctuation_is_a_word_of_its_own() -> None:
    assert score(BLEU(), ["a b c d."], ["a b c d ."]) == pytest.approx(100.0)


def test_chrf_is_an_f_score_of_characters() -> None:
    # "abc" for "abd": 2 of 3 letters, 1 of 2 pairs, 0 of 1 triple, the same both ways: their mean.
    assert score(ChrF(), ["abc"], ["abd"]) == pytest.approx(100 * (2 / 3 + 1 / 2 + 0) / 3)


def test_chrf_weights_recall_twice_as_much_as_precision() -> None:
    # "a" for "ab": precision 1, recall 1/2 of letters, and no pair of its own: F2 = 5·½ / (4 + ½).
    assert score(ChrF(), ["a"], ["ab"]) == pytest.approx(100 * 2.5 / 4.5)


@pytest.mark.parametrize("num_references", [1, 3])
@pytest.mark.parametrize("seed", range(8))
def test_scores_of_a_corpus_are_those_of_sacrebleu(num_references: int, seed: int) -> None:
    rng = random.Random(seed)
    words = ["A", "b", "the", "cat.", "ñ", "sat", "on", "mat"]

    def text() -> str:
        return " ".join(rng.choices(words, k=rng.randint(1, 12)))

    references = [
        tuple(text() for _ in range(rng.randint(1, num_references))) for _ in range(1 + 4 * seed)
    ]
    predictions = [rng.choice([text(), choices[-1], choices[0][:9], ""]) for choices in references]
    most = max(map(len, references))
    # sacrebleu marks a missing reference by None.
    streams: Any = [
        [choices[number] if number < len(choices) else None for choices in references]
        for number in range(most)
    ]
    bleu = SACRE_BLEU(lowercase=True, force=True).corpus_score(predictions, streams).score
    assert BLEU()(predictions, references) == pytest.approx(bleu, abs=1e-9)
    chrf = SACRE_CHRF(lowercase=True).corpus_score(predictions, streams).score
    assert ChrF()(predictions, references) == pytest.approx(chrf, abs=1e-9)


def test_signature() -> None:
    words = set(BLEU().signature.split("|"))
    assert {"nrefs:1", "case:lc", "tok:13a", "smooth:exp", "eff:no"} <= words
    assert {"nrefs:1", "case:lc", "nc:6", "nw:0", "space:no"} <= set(ChrF().signature.split("|"))


@pytest.mark.parametrize("metric", METRICS)
def test_item_without_references_raises(metric: Metric) -> None:
    with pytest.raises(RegardError, match="Item 2"):
        metric(["a", "b"], [("a",), ()])


def test_no_warning_about_tokenised_text(caplog: pytest.LogCaptureFixture) -> None:
    text = ["a man sits ."] * 200
    with caplog.at_level(logging.WARNING):
        score(BLEU(), text, text)
    assert caplog.records == []
