"""Options that cannot be used are refused in the user's words: model.NAME=VALUE, the rule, the way out."""

from __future__ import annotations

import math
from typing import Any

import pytest

from regard.core.errors import RegardError
from regard.models import build_model

OF_WORDS = ("structured", "hierarchical", "mean_words", "recurrent_text", "convolutional")
SHARE = r"it must be a number from 0 \(none\) to below 1 \(all\)\."
SIZE = r"it must be a whole number, 1 or more\."
SIZE_OR_NONE = r"it must be 0, for none, or a whole number above\."
WEIGHT = r"it must be a number, 0 \(for none\) or more, and not infinite\."
WIDTHS = r"it must be a list of one or more odd whole numbers, each 3 or more, such as \[3,5,7\]\."


def refused(name: str, message: str, **options: Any) -> None:
    with pytest.raises(RegardError, match=message):
        build_model(name, vocabulary=9, classes=2, **options)


@pytest.mark.parametrize("name", OF_WORDS)
def test_options_of_words_have_one_name_in_all_models(name: str) -> None:
    refused(name, rf"^model\.word_dropout=-1\.0: {SHARE}", word_dropout=-1.0)
    refused(name, rf"^model\.input_dropout=2\.0: {SHARE}", input_dropout=2.0)
    refused(name, rf"^model\.dropout=nan: {SHARE}", dropout=math.nan)
    refused(name, rf"^model\.pair_table=-5: {SIZE_OR_NONE}", pair_table=-5)
    refused(name, rf"^model\.pair_table=True: {SIZE_OR_NONE}", pair_table=True)
    refused(name, rf"^model\.model_dim=0: {SIZE}", model_dim=0)
    build_model(name, vocabulary=9, classes=2, pair_table=0, input_dropout=None, word_dropout=0.0)


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("structured", "attention_dim"),
        ("structured", "hops"),
        ("hierarchical", "attention_dim"),
        ("hierarchical", "hidden_dim"),
        ("recurrent_text", "hidden_dim"),
        ("convolutional", "filters"),
    ],
)
@pytest.mark.parametrize("size", [0, -1, True])
def test_sizes_are_called_what_the_user_calls_them(name: str, option: str, size: Any) -> None:
    refused(name, rf"^model\.{option}={size}: {SIZE}", **{option: size})


@pytest.mark.parametrize("option", ["hidden_dim", "feed_forward_dim"])
def test_layers_that_may_be_left_out(option: str) -> None:
    refused("structured", rf"^model\.{option}=-1: {SIZE_OR_NONE}", **{option: -1})
    build_model("structured", vocabulary=9, classes=2, **{option: 0})


@pytest.mark.parametrize("weight", [math.nan, math.inf, -math.inf, -0.1])
def test_weights_of_a_loss_are_finite(weight: float) -> None:
    refused("structured", rf"^model\.penalty_weight={weight}: {WEIGHT}", penalty_weight=weight)
    refused(
        "recursive_autoencoder",
        rf"^model\.reconstruction_weight={weight}: {WEIGHT}",
        reconstruction_weight=weight,
    )


@pytest.mark.parametrize(
    "widths", [[], (), 2, 3, [3, "x"], "[3,x]", [4], [1], [-3], [True], [3.0], None], ids=repr
)
def test_widths_that_are_no_list_of_odd_numbers(widths: object) -> None:
    refused("convolutional", rf"^model\.widths=.*: {WIDTHS}", widths=widths)
