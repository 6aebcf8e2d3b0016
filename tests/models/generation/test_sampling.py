"""Sampling: temperature, top-k, top-p, frequencies, and stopping."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch

from regard.core.batches import END, START, TokenInput
from regard.core.errors import RegardError
from regard.models.decoder_only import DecoderOnly
from regard.models.generation.sampling import FORBIDDEN_TOKENS, next_token_probabilities, sample

NO_SOURCE = TokenInput(torch.tensor([[END]]), torch.tensor([1]))
LOGITS = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()


def model(**options: Any) -> DecoderOnly:
    torch.manual_seed(0)
    return DecoderOnly(
        source=12,
        target_vocabulary=12,
        model_dim=16,
        num_heads=2,
        num_layers=2,
        **options,
    ).eval()


def test_next_token_probabilities() -> None:
    def rounded(**options: Any) -> list[float]:
        return [
            round(probability, 4)
            for probability in next_token_probabilities(LOGITS, **options)[0].tolist()
        ]

    assert rounded(temperature=1.0) == [0.5, 0.3, 0.15, 0.05]
    assert rounded(temperature=1.0, top_k=2) == [0.625, 0.375, 0, 0]
    assert rounded(temperature=1.0, top_k=9) == [0.5, 0.3, 0.15, 0.05]
    assert rounded(temperature=1.0, top_p=0.7) == [0.625, 0.375, 0, 0]
    assert rounded(temperature=1.0, top_p=0.81) == [0.5263, 0.3158, 0.1579, 0]
    for tiny in (1e-9, 5e-324):
        assert rounded(temperature=1.0, top_p=tiny) == [1, 0, 0, 0]
    squared = [0.25, 0.09, 0.0225, 0.0025]
    assert rounded(temperature=0.5) == [round(value / sum(squared), 4) for value in squared]
    assert rounded(temperature=0.0) == [1, 0, 0, 0]
    assert rounded(temperature=1.0, top_k=3, top_p=0.6) == [0.625, 0.375, 0, 0]


def test_frequencies_follow_the_model() -> None:
    """Counts of one sampled token against the probabilities of `forward`."""
    net = model()
    prompt = [5, 7, 6]
    decoder_input = torch.tensor([[START, *prompt]])
    with torch.no_grad():
        logits = net(NO_SOURCE, decoder_input)[0, -1]
    logits[list(FORBIDDEN_TOKENS)] = -torch.inf
    expected = logits.softmax(0)
    generator = torch.Generator().manual_seed(1)
    draws = 400
    counts = Counter(
        next(sample(net, prompt, max_tokens=1, generator=generator), END) for _ in range(draws)
    )
    for token in range(12):
        assert counts[token] / draws == pytest.approx(expected[token].item(), abs=0.07)


def test_temperature_zero_is_greedy() -> None:
    net = model()
    generated = list(sample(net, [5], max_tokens=6, temperature=0.0))
    tokens = [START, 5]
    for token in generated:
        with torch.no_grad():
            logits = net(NO_SOURCE, torch.tensor([tokens]))
        logits[:, :, list(FORBIDDEN_TOKENS)] = -torch.inf
        assert int(logits[0, -1].argmax()) == token
        tokens.append(token)


def test_same_seed_same_text() -> None:
    net = model()
    texts = [
        list(sample(net, [], max_tokens=20, generator=torch.Generator().manual_seed(seed)))
        for seed in (3, 3, 4)
    ]
    assert texts[0] == texts[1] != texts[2]


def test_generation_stops_at_max_length() -> None:
    net = model(position="learned", max_length=8)
    with torch.no_grad():
        net.output.table.weight[END] = 0
    generated = list(sample(net, [5, 6], max_tokens=50, top_k=3))
    assert len(generated) <= 6
    with pytest.raises(RegardError, match="8 tokens"):
        next(sample(net, [5] * 8, max_tokens=5))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": -1.0}, "temperature=-1.0:"),
        ({"top_k": 0}, "top_k=0:"),
        ({"top_p": 1.5}, "top_p=1.5:"),
        ({"max_tokens": 0}, "max_tokens=0:"),
    ],
)
def test_invalid_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RegardError, match=message):
        next(sample(model(), [5], **({"max_tokens": 5} | options)))


def test_model_in_training_mode() -> None:
    with pytest.raises(RegardError, match=r"model\.eval"):
        next(sample(model().train(), [5], max_tokens=5))
