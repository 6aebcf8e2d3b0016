"""Text generation by sampling: temperature, top-k and top-p (nucleus) sampling.

    temperature   divides the logits; 0 is greedy decoding
    top_k         sample from the k most probable tokens only
    top_p         sample from the smallest set of tokens with this total probability (Holtzman et al. 2020)

Decoding is incremental, from the model's KV cache or recurrent state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.core.batches import END, PAD, START, UNKNOWN, TokenInput
from regard.core.errors import RegardError

MIN_TEMPERATURE = 0.01  # a smaller divisor overflows
FORBIDDEN_TOKENS = (PAD, START, UNKNOWN)


def sample(
    model: Any,
    prompt: Sequence[int],
    *,
    max_tokens: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Iterator[int]:
    """Generate the tokens that follow `prompt`, until END (not included) or `max_tokens`.

    The prompt continues START, as if the model had generated it.
    """
    validate_sampling(max_tokens=max_tokens, temperature=temperature, top_k=top_k, top_p=top_p)
    if model.training:
        raise RegardError(
            "sample got a model in training mode, where dropout changes the result. Call model.eval() "
            "first."
        )
    device = next(iter(model.parameters())).device
    # All but the last token are prefilled as a source; its END is not processed.
    *before, last = START, *prompt
    tokens = torch.tensor([[*before, END]], device=device)
    source = TokenInput(tokens, torch.tensor([len(before) + 1], device=device))
    left = max_tokens
    with torch.inference_mode():
        most = model.target_limits(source)
        if most is not None:
            left = min(left, int(most))
        if left < 1:
            raise RegardError(
                f"The prompt has {len(prompt)} tokens and leaves no room within the model's max_length. "
                "Use a shorter prompt, or train a model with a larger max_length."
            )
        state = model.start(source)
    token = last
    for _ in range(left):
        # Entered for each token: the caller's code runs between two of them.
        with torch.inference_mode():
            logits, state = model.step(state, torch.tensor([token], device=device))
            for forbidden in FORBIDDEN_TOKENS:
                logits[:, forbidden] = -torch.inf
            probabilities = next_token_probabilities(
                logits, temperature=temperature, top_k=top_k, top_p=top_p
            )
            # On the CPU, whose generator it is: the same seed gives the same text on every device.
            token = int(torch.multinomial(probabilities.cpu(), 1, generator=generator))
        if token == END:
            return
        yield token


def next_token_probabilities(
    logits: Float[Tensor, "rows vocabulary"],
    *,
    temperature: float,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Float[Tensor, "rows vocabulary"]:
    """Next-token distribution after temperature, top-k and top-p.

    >>> next_token_probabilities(torch.tensor([[2.0, 0.0, 1.0]]), temperature=0.0)
    tensor([[1., 0., 0.]])
    >>> next_token_probabilities(torch.tensor([[0.0, 0.0, -9.0]]), temperature=1.0, top_k=2)
    tensor([[0.5000, 0.5000, 0.0000]])
    """
    if temperature == 0:
        return torch.zeros_like(logits).scatter(1, logits.argmax(dim=1, keepdim=True), 1.0)
    logits = logits / temperature
    if top_k is not None and top_k < logits.shape[1]:
        least = logits.topk(top_k, dim=1).values[:, -1:]
        logits = logits.masked_fill(logits < least, -torch.inf)
    probabilities = logits.softmax(dim=1)
    if top_p is not None and top_p < 1:
        ordered, order = probabilities.sort(dim=1, descending=True)
        # A token is kept if those before it have not reached top_p yet; the first always is.
        kept = ordered.cumsum(dim=1) - ordered < top_p
        kept[:, 0] = True  # a tiny top_p is zero in float32
        probabilities = torch.zeros_like(probabilities).scatter(1, order, ordered * kept)
        probabilities = probabilities / probabilities.sum(dim=1, keepdim=True)
    return probabilities


def _is_valid_temperature(value: float) -> bool:
    return value == 0 or MIN_TEMPERATURE <= value < float("inf")


def validate_sampling(
    *, max_tokens: int, temperature: float, top_k: int | None, top_p: float | None
) -> None:
    """Reject invalid sampling options."""
    rules: list[tuple[str, Any, bool, str]] = [
        ("max_tokens", max_tokens, max_tokens >= 1, "1 or more"),
        (
            "temperature",
            temperature,
            _is_valid_temperature(temperature),
            f"0 (greedy), or {MIN_TEMPERATURE} or more",
        ),
        ("top_k", top_k, top_k is None or top_k >= 1, "1 or more"),
        ("top_p", top_p, top_p is None or 0 < top_p <= 1, "above 0 and at most 1"),
    ]
    for name, value, holds, rule in rules:
        if not holds:
            raise RegardError(f"{name}={value}: it must be {rule}.")
