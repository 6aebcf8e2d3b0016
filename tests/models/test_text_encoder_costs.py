"""Text encoder: its declared cost equals the counted one, at random shapes."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
import torch
from tests.factories.declared_costs import NUM_SHAPES, assert_declared_cost
from torch import Tensor

from regard.models.text_encoder import TextEncoder

CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "norm first": {"norm_first": True, "activation": "gelu_tanh"},
    "rotary": {"position": "rotary", "num_kv_heads": 1, "bias": False},
    "scaled": {"position": "sinusoidal", "embedding_scaled": True, "activation": "relu"},
    "window": {"mechanism": "window", "mechanism_options": {"radius": 5}},
    "kernel": {"mechanism": "elu", "position": "none"},
}


@pytest.mark.parametrize("case", CASES)
def test_encoder(case: str) -> None:
    random = Random(case)
    for _ in range(NUM_SHAPES):
        model, tokens = random_model(random, pretraining_heads=False, **CASES[case])
        batch, length = tokens.shape
        lengths, segments = torch.full((batch,), length), torch.zeros_like(tokens)

        def forward(
            model: TextEncoder = model,
            inputs: tuple[Tensor, Tensor, Tensor] = (tokens, lengths, segments),
        ) -> Tensor:
            return model.pooled(model.hidden(*inputs))

        cost = model.cost(batch_size=batch, length=length)
        assert_declared_cost(
            cost,
            parameters=sum(parameter.numel() for parameter in model.parameters()),
            forward=forward,
            where=f"{case}, {batch} × {length}",
        )
        assert cost.state == 0


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "relu"])
def test_heads(activation: str) -> None:
    random = Random(activation)
    for _ in range(NUM_SHAPES):
        masked, classes = random.randint(1, 9), random.randint(2, 7)
        model, tokens = random_model(random, activation=activation, classes=classes)
        batch, width = len(tokens), model.pooler.in_features
        hidden, pooled = (torch.randn(rows, width, requires_grad=True) for rows in (masked, batch))

        def forward(
            model: TextEncoder = model, hidden: Tensor = hidden, pooled: Tensor = pooled
        ) -> Tensor:
            outputs = (
                model.pair_logits(pooled),
                model.class_logits(pooled),
                model.token_logits(hidden),
            )
            return torch.cat([logits.flatten() for logits in outputs])

        encoder = model.cost(batch_size=1, length=1).parameters
        assert_declared_cost(
            model.head_cost(batch_size=batch, masked_tokens=masked),
            parameters=sum(parameter.numel() for parameter in model.parameters()) - encoder,
            forward=forward,
            where=f"{activation}, {batch} rows, {masked} masked tokens",
        )


def random_model(random: Random, **options: Any) -> tuple[TextEncoder, Tensor]:
    """A model of random sizes, and tokens for it."""
    heads = random.choice((2, 4))
    vocabulary = random.randint(50, 200)
    model = TextEncoder(
        vocabulary=vocabulary,
        model_dim=heads * random.choice((16, 32)),
        num_heads=heads,
        num_layers=random.choice((1, 2)),
        **options,
    ).eval()
    return model, torch.randint(0, vocabulary, (random.randint(1, 4), random.randint(2, 60)))
