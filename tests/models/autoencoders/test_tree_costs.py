"""What a recursive autoencoder declares is what is counted, at random shapes, choosing trees included."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
import torch
from tests.factories.declared_costs import require_declared
from torch import Tensor

from regard.core.counter import Counter
from regard.core.errors import RegardError
from regard.models.autoencoders.recursive import RecursiveAutoencoder

# A long text has many operators, each of which the counter looks at.
SHAPES = 6
CASES: dict[str, dict[str, Any]] = {
    "root": {},
    "nodes": {"classify_at": "nodes"},
    "weighted": {"weighted_by_words": True},
    "not normalised": {"normalise": False},
}


@pytest.mark.parametrize("case", CASES)
def test_declared_and_counted(case: str) -> None:
    random = Random(case)
    for _ in range(SHAPES):
        model = drawn(random, **CASES[case])
        batch, length = random.randint(1, 5), random.randint(2, 30)
        tokens = torch.randint(0, 50, (batch, length))
        lengths = torch.full((batch,), length)

        def forward(
            model: RecursiveAutoencoder = model,
            inputs: tuple[Tensor, Tensor] = (tokens, lengths),
        ) -> Tensor:
            said = model.classified(*inputs)
            return torch.cat([said.logits.flatten(), said.penalty])

        cost = model.cost(batch_size=batch, length=length, places=0)
        require_declared(
            cost,
            parameters=sum(parameter.numel() for parameter in model.parameters()),
            forward=forward,
            where=f"{case}, {batch} × {length}",
        )
        assert cost.state == 0
        assert cost.sequential_steps == length


def test_memory_at_the_peak() -> None:
    model = drawn(Random(0))
    tokens, lengths = torch.randint(0, 50, (8, 25)), torch.full((8,), 25)
    with torch.no_grad(), Counter() as counter:
        model.classified(tokens, lengths)
    assert model.cost(batch_size=8, length=25).memory == pytest.approx(
        counter.peak_memory, rel=0.15
    )


def test_a_word_alone_takes_no_join() -> None:
    model = drawn(Random(0))
    width, classes = model.pair.model_dim, model.class_head.out_features
    cost = model.cost(batch_size=3, length=1)
    assert cost.products == 3 * 2 * width * classes
    assert cost.sequential_steps == 1


def test_sizes_that_are_none() -> None:
    with pytest.raises(RegardError, match="length=0"):
        drawn(Random(0)).cost(batch_size=3, length=0)


def drawn(random: Random, **options: Any) -> RecursiveAutoencoder:
    """A model of random sizes."""
    width, classes = random.choice((16, 32, 48)), random.randint(2, 5)
    return RecursiveAutoencoder(vocabulary=50, classes=classes, model_dim=width, **options)
