"""The small study of decoders: hand-checked similarities, and a study of one step."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.claims.experiments import decoders as topic
from regard.claims.experiments.decoders import (
    SIMILARITIES,
    VARIANTS,
    cosine,
    damerau_levenshtein,
    error_rates,
    jaccard,
    mean_similarity,
    trained_decoders,
)
from regard.core.errors import RegardError
from regard.runs.spec import Sections


def test_similarities() -> None:
    """AB and BA: the same set, the same counts, one transposition of two tokens."""
    assert jaccard("AB", "BA") == cosine("AB", "BA") == 1.0
    assert damerau_levenshtein("AB", "BA") == 0.5
    assert jaccard("AAB", "BC") == pytest.approx(1 / 3)
    assert cosine("AAB", "BC") == pytest.approx(1 / 10**0.5)


@pytest.mark.parametrize("measure", SIMILARITIES.values(), ids=SIMILARITIES)
def test_similarities_of_empty_sequences(measure: object) -> None:
    assert callable(measure)
    assert measure([], []) == 1.0
    assert measure(["A"], []) == 0.0
    assert measure(["A", "B"], ["A", "B"]) == pytest.approx(1.0)


def test_the_most_similar_reference_counts() -> None:
    assert mean_similarity(jaccard, ["A B", "C"], [["A C", "A B"], ["D"]]) == 0.5


def test_every_variant_is_trained_with_every_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a dictionary of forty words instead of the built-in one."""
    words = tmp_path / "words.tsv"
    syllables = [first + second for first in "bdgkptmn" for second in "aeiou"]
    words.write_text("".join(f"{s}\t{' '.join(s.upper())}\n" for s in syllables))
    full = topic.sections_of

    def few_words(variant: str, *, seed: int, steps: int) -> Sections:
        sections = full(variant, seed=seed, steps=steps)
        sections["task"] |= {
            "train_file": str(words),
            "validation_fraction": 0.2,
            "test_fraction": 0.2,
        }
        return sections

    monkeypatch.setattr(topic, "sections_of", few_words)
    decoders = trained_decoders.__wrapped__(seeds=1, steps=1)
    assert [each.variant for each in decoders] == list(VARIANTS)
    assert {variant: list(rates) for variant, rates in error_rates(decoders).items()} == {
        variant: [0] for variant in VARIANTS
    }
    assert all(set(each.similarities) == set(SIMILARITIES) for each in decoders)


def test_error_without_seeds() -> None:
    with pytest.raises(RegardError, match="seeds=0, steps=1"):
        trained_decoders(seeds=0, steps=1)
