"""Validation of training options."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from regard.core.errors import RegardError
from regard.training.averaging import AVERAGINGS
from regard.training.optimizers import OPTIMIZERS
from regard.training.options import TrainingOptions
from regard.training.schedule import SCHEDULES


@pytest.mark.parametrize(
    ("option", "table"),
    [("optimizer", OPTIMIZERS), ("averaging", AVERAGINGS), ("schedule", SCHEDULES)],
)
def test_choices_are_the_names_of_the_tables(option: str, table: dict[str, Any]) -> None:
    assert get_args(TrainingOptions.model_fields[option].annotation) == tuple(table)


def test_missing_budget_is_refused() -> None:
    with pytest.raises(RegardError, match="steps, tokens, seconds, flops"):
        TrainingOptions()


@pytest.mark.parametrize(
    ("option", "value", "rule"),
    [
        ("steps", 0, "greater than or equal to 1"),
        ("steps", 2.5, "an integer"),
        ("steps", True, "an integer"),
        ("steps", "9", "an integer"),
        ("tokens", -5, "greater than or equal to 1"),
        ("seconds", 0.0, "greater than 0"),
        ("flops", float("inf"), "finite"),
        ("learning_rate", 0.0, "greater than 0"),
        ("muon_learning_rate", float("nan"), "finite"),
        ("weight_decay", -0.1, "greater than or equal to 0"),
        ("beta1", 1.0, "less than 1"),
        ("beta2", -0.1, "greater than or equal to 0"),
        ("epsilon", 0.0, "greater than 0"),
        ("warmup_steps", -1, "greater than or equal to 0"),
        ("final_fraction", 1.5, "less than or equal to 1"),
        ("clip_norm", 0.0, "greater than 0"),
        ("accumulate", 0, "greater than or equal to 1"),
        ("average_decay", 1.0, "less than 1"),
        ("average_last", 0, "greater than or equal to 1"),
        ("evaluate_every", 0, "greater than or equal to 1"),
        ("checkpoint_seconds", -1.0, "greater than or equal to 0"),
        ("checkpoint_every", 0, "greater than or equal to 1"),
        ("patience", 0, "greater than or equal to 1"),
        ("log_every", 0, "greater than or equal to 1"),
        ("optimizer", "adam", "'adamw', 'muon' or 'sgd'"),
        ("schedule", "cosin", "'cosine'"),
        ("averaging", "ema", "'exponential'"),
        ("keep", "first", "'best' or 'last'"),
        ("device", "tpu", "cpu, cuda, cuda:N, mps or auto"),
    ],
)
def test_invalid_value_is_named_with_its_rule(option: str, value: Any, rule: str) -> None:
    with pytest.raises(RegardError, match=f"training.{option}={value}: .*{rule}"):
        TrainingOptions(**{"steps": 1, option: value})
