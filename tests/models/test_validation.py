"""Invalid model options raise an error with CLASS.NAME=VALUE."""

from __future__ import annotations

import math
from typing import Any

import pytest

from regard.core.errors import RegardError
from regard.models import build_model

WORD_MODELS = ("structured", "hierarchical", "bag_of_words", "bilstm", "convolutional")


def assert_invalid(name: str, message: str, **options: Any) -> None:
    with pytest.raises(RegardError, match=message):
        build_model(name, source=9, outputs=2, **options)


@pytest.mark.parametrize("name", WORD_MODELS)
def test_options_of_word_embeddings(name: str) -> None:
    assert_invalid(name, r"^\w+\.word_dropout=-1\.0:", word_dropout=-1.0)
    assert_invalid(name, r"^\w+\.input_dropout=2\.0:", input_dropout=2.0)
    assert_invalid(name, r"^\w+\.dropout=nan:", dropout=math.nan)
    assert_invalid(name, r"^\w+\.bigram_buckets=-5:", bigram_buckets=-5)
    assert_invalid(name, r"^\w+\.bigram_buckets=True:", bigram_buckets=True)
    assert_invalid(name, r"^\w+\.model_dim=0:", model_dim=0)
    build_model(name, source=9, outputs=2, bigram_buckets=0, input_dropout=None, word_dropout=0.0)


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("structured", "attention_dim"),
        ("structured", "hops"),
        ("hierarchical", "attention_dim"),
        ("hierarchical", "hidden_dim"),
        ("bilstm", "hidden_dim"),
        ("convolutional", "filters"),
    ],
)
@pytest.mark.parametrize("size", [0, -1, True])
def test_sizes(name: str, option: str, size: Any) -> None:
    assert_invalid(name, rf"^\w+\.{option}={size}:", **{option: size})


@pytest.mark.parametrize("option", ["hidden_dim", "feed_forward_dim"])
def test_optional_layers(option: str) -> None:
    assert_invalid("structured", rf"^\w+\.{option}=-1:", **{option: -1})
    build_model("structured", source=9, outputs=2, **{option: 0})


@pytest.mark.parametrize("weight", [math.nan, math.inf, -math.inf, -0.1])
def test_loss_weights(weight: float) -> None:
    assert_invalid("structured", rf"^\w+\.penalty_weight={weight}:", penalty_weight=weight)
    assert_invalid(
        "recursive_autoencoder",
        rf"^\w+\.reconstruction_weight={weight}:",
        reconstruction_weight=weight,
    )


@pytest.mark.parametrize(
    "widths", [[], (), 2, 3, [3, "x"], "[3,x]", [4], [1], [-3], [True], [3.0], None], ids=repr
)
def test_widths(widths: object) -> None:
    assert_invalid("convolutional", r"^\w+\.widths=", widths=widths)
