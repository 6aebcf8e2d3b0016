"""Explanations of text classifiers, on small untrained models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.core.errors import RegardError
from regard.explain import explain_text, find_phrases, parse_tree
from regard.runs.build import build_spec_model
from regard.runs.folder import RunFolder
from regard.runs.load import TrainedRun
from regard.runs.spec import RunSpec
from regard.tasks.text_task import TextVocabularies

TEXTS = ["a fine film . i liked it .", "a dull film . i left ."]


def classifier(name: str, **model: Any) -> TrainedRun:
    task = {"name": "classify", "train_file": "texts.tsv", "tokens": "words", "min_count": 1}
    spec = RunSpec.from_sections(
        {"task": task, "model": {"name": name, "model_dim": 8, **model}, "training": {"steps": 1}}
    )
    built = TextVocabularies.build(spec.task_options, kind="words", texts=TEXTS)
    vocabularies = replace(built, labels=("bad", "good"))
    torch.manual_seed(0)
    return TrainedRun(
        folder=RunFolder(Path("untrained")),
        spec=spec,
        model=build_spec_model(spec, vocabularies).eval(),
        vocabularies=vocabularies,
    )


def test_weights_of_words() -> None:
    record = explain_text(classifier("structured", hidden_dim=4, hops=2), TEXTS[0])
    assert [token for token in record.tokens if token.isalpha()] == TEXTS[0].replace(
        ".", ""
    ).split()
    assert [sum(hop) for hop in record.hops] == pytest.approx([1, 1], abs=1e-5)
    assert record.truncated_tokens == 0


def test_tree_has_one_merge_fewer_than_words() -> None:
    run = classifier("recursive_autoencoder")
    record = parse_tree(run, TEXTS[0])
    assert len(record.merges) == len(record.leaves) - 1


def test_nearest_phrases_are_sorted_by_cosine() -> None:
    phrases = find_phrases(classifier("recursive_autoencoder"), TEXTS)
    nearest = phrases.nearest("film")
    assert "film" not in [neighbour.text for neighbour in nearest]
    cosines = [neighbour.cosine for neighbour in nearest]
    assert cosines == sorted(cosines, reverse=True)


def test_model_without_trees() -> None:
    with pytest.raises(RegardError, match="structured"):
        parse_tree(classifier("structured", hidden_dim=4), TEXTS[0])
