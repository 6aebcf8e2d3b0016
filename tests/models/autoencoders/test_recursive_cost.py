"""Recursive autoencoder: its declared cost equals the counted one, at random shapes."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
import torch
from tests.factories.declared_costs import assert_declared_cost
from torch import Tensor

from regard.core.counter import Counter
from regard.core.errors import RegardError
from regard.models.autoencoders.recursive import RecursiveAutoencoder

# Counting a long text is slow: it has many operators.
SHAPES = 6
CASES: dict[str, dict[str, Any]] = {
    "root": {},
    "nodes": {"classify_at": "nodes"},
    "weighted": {"weighted_by_words": True},
    "not normalised": {"normalise": False},
}


@pytest.mark.parametrize("case", CASES)
def test_cost_equals_count(case: str) -> None:
    random = Random(case)
    for _ in range(SHAPES):
        model = random_model(random, **CASES[case])
        batch, length = random.randint(1, 5), random.randint(2, 30)
        tokens = torch.randint(0, 50, (batch, length))
        lengths = torch.full((batch,), length)

        def forward(
            model: RecursiveAutoencoder = model,
            inputs: tuple[Tensor, Tensor] = (tokens, lengths),
        ) -> Tensor:
            output = model.classify(*inputs)
            return torch.cat([output.logits.flatten(), output.penalty])

        cost = model.cost(batch_size=batch, length=length, masked_tokens=0)
        assert_declared_cost(
            cost,
            parameters=sum(parameter.numel() for parameter in model.parameters()),
            forward=forward,
            where=f"{case}, {batch} × {length}",
        )
        assert cost.state == 0
        assert cost.sequential_steps == length


def test_peak_memory() -> None:
    model = random_model(Random(0))
    tokens, lengths = torch.randint(0, 50, (8, 25)), torch.full((8,), 25)
    with torch.no_grad(), Counter() as counter:
        model.classify(tokens, lengths)
    assert model.cost(batch_size=8, length=25).memory == pytest.approx(
        counter.peak_memory, rel=0.15
    )


def test_single_word_has_no_merge() -> None:
    model = random_model(Random(0))
    width, classes = model.pair.model_dim, model.class_head.out_features
    cost = model.cost(batch_size=3, length=1)
    assert cost.matmul_flops == 3 * 2 * width * classes
    assert cost.sequential_steps == 1


def test_invalid_length() -> None:
    with pytest.raises(RegardError, match="length=0"):
        random_model(Random(0)).cost(batch_size=3, length=0)


def random_model(random: Random, **options: Any) -> RecursiveAutoencoder:
    """A model of random sizes."""
    width, classes = random.choice((16, 32, 48)), random.randint(2, 5)
    return RecursiveAutoencoder(vocabulary=50, classes=classes, model_dim=width, **options)
