"""Explanations of text classifiers, on small untrained models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from regard.core.errors import RegardError
from regard.data.item_preprocessor import ItemPreprocessor
from regard.data.readers.text_file import Row
from regard.explain import explain_text, find_phrases, parse_tree
from regard.runs.build import build_spec_model
from regard.runs.folder import RunFolder
from regard.runs.load import TrainedRun
from regard.runs.spec import RunSpec

TEXTS = ["a fine film . i liked it .", "a dull film . i left ."]


def classifier(name: str, **model: Any) -> TrainedRun:
    task = {"name": "classify", "train_file": "texts.tsv", "tokens": "words", "min_count": 1}
    spec = RunSpec.from_sections(
        {"task": task, "model": {"name": name, "model_dim": 8, **model}, "training": {"steps": 1}}
    )
    rows = [Row(text, label, 1) for text, label in zip(TEXTS, ("good", "bad"), strict=True)]
    preprocessor = ItemPreprocessor.fit(spec.task_options, lambda: iter(rows), path=Path())
    torch.manual_seed(0)
    return TrainedRun(
        folder=RunFolder(Path("untrained")),
        spec=spec,
        model=build_spec_model(spec, preprocessor).eval(),
        preprocessor=preprocessor,
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
