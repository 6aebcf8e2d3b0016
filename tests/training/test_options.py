"""Validation of training options."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from regard.core.errors import RegardError
from regard.training.averaging import AVERAGINGS
from regard.training.optimizers import OPTIMIZERS
from regard.training.options import (
    AVERAGING_NAMES,
    CHOICES,
    OPTIMIZER_NAMES,
    RULES,
    TrainingOptions,
)


def test_every_option_is_checked() -> None:
    assert {field.name for field in fields(TrainingOptions)} == {*RULES, *CHOICES}


def test_names_match_the_tables() -> None:
    assert tuple(OPTIMIZERS) == OPTIMIZER_NAMES
    assert tuple(AVERAGINGS) == AVERAGING_NAMES


def test_missing_budget_is_refused() -> None:
    with pytest.raises(RegardError, match="steps, tokens, seconds, flops"):
        TrainingOptions()


@pytest.mark.parametrize(
    ("option", "value", "rule"),
    [
        ("steps", 0, r"steps is 0; it must be a whole number of at least 1\. Omit steps"),
        ("tokens", -5, "tokens is -5; it must be a whole number of at least 1"),
        ("seconds", 0.0, "seconds is 0.0; it must be a number above 0"),
        ("flops", float("inf"), "flops is inf; it must be a number above 0"),
        ("learning_rate", 0.0, "learning_rate is 0.0; it must be a number above 0"),
        ("muon_learning_rate", float("nan"), "muon_learning_rate is nan; it must be a number"),
        ("weight_decay", -0.1, "weight_decay is -0.1; it must be a number of at least 0"),
        ("beta1", 1.0, "beta1 is 1.0; it must be a number from 0 up to, but not including, 1"),
        ("beta2", -0.1, "beta2 is -0.1"),
        ("epsilon", 0.0, "epsilon is 0.0"),
        ("warmup_steps", -1, "warmup_steps is -1; it must be a whole number of at least 0"),
        ("final_fraction", 1.5, "final_fraction is 1.5; it must be a number from 0 to 1"),
        ("clip_norm", 0.0, r"clip_norm is 0.0; it must be a number above 0\. Omit clip_norm"),
        ("accumulate", 0, "accumulate is 0"),
        ("average_decay", 1.0, "average_decay is 1.0"),
        ("average_last", 0, "average_last is 0"),
        ("evaluate_every", 0, "evaluate_every is 0"),
        ("checkpoint_seconds", -1.0, "checkpoint_seconds is -1.0"),
        ("checkpoint_every", 0, "checkpoint_every is 0"),
        ("patience", 0, "patience is 0"),
        ("log_every", 0, "log_every is 0"),
        (
            "optimizer",
            "adam",
            r"Unknown optimizer 'adam'\. Did you mean 'adamw'\? Choose from: adamw, m",
        ),
        ("schedule", "cosin", r"Unknown schedule 'cosin'\. Did you mean 'cosine'"),
        ("averaging", "ema", "Unknown averaging 'ema'. Choose from: exponential, last, none"),
        ("keep", "first", "Unknown keep 'first'"),
        ("device", "tpu", "Unknown device 'tpu'"),
    ],
)
def test_invalid_value_is_named_with_its_rule(option: str, value: Any, rule: str) -> None:
    with pytest.raises(RegardError, match=rule):
        TrainingOptions(**{"steps": 1, option: value})


def test_integer_options_refuse_floats() -> None:
    options = TrainingOptions(steps=1)
    object.__setattr__(options, "steps", 2.5)
    with pytest.raises(RegardError, match=r"steps is 2\.5; it must be a whole number"):
        options.__post_init__()
