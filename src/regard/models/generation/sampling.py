"""Going on with a text: the next token drawn again and again from what the model expects.

    temperature   logits are divided by it: below 1 safer, above 1 bolder; 0 takes the likeliest
    top_k         only the k likeliest tokens may be drawn
    top_p         only the fewest tokens that have together this probability (Holtzman et al. 2020)

Tokens come one at a time, from the model's memory of all before (cached, or a state of constant size).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.core.batches import END, PAD, START, UNKNOWN
from regard.core.errors import RegardError

COLDEST = 0.01  # what is divided by less overflows
NEVER_SAID = (PAD, START, UNKNOWN)
NO_LIMIT = None  # of `top_k` and `top_p`


def sample(
    model: Any,
    prompt: Sequence[int],
    *,
    max_tokens: int,
    temperature: float = 1.0,
    top_k: int | None = NO_LIMIT,
    top_p: float | None = NO_LIMIT,
    generator: torch.Generator | None = None,
) -> Iterator[int]:
    """The tokens that follow `prompt`, until END or `max_tokens`; END itself is not said.

    `prompt` is read as the beginning of what the model writes itself, after START.
    """
    require_sampling(max_tokens=max_tokens, temperature=temperature, top_k=top_k, top_p=top_p)
    if model.training:
        raise RegardError(
            "sample was given a model in training mode, whose dropout would disturb the result. Call "
            "model.eval() first."
        )
    device = next(iter(model.parameters())).device
    # All but the last token are taken in at once; a source ends in END, which is not read.
    *before, last = START, *prompt
    source = torch.tensor([[*before, END]], device=device)
    left = max_tokens
    with torch.inference_mode():
        most = model.target_limits(torch.tensor([len(before) + 1], device=device))
        if most is not None:
            left = min(left, int(most))
        if left < 1:
            raise RegardError(
                f"The beginning has {len(prompt)} tokens, which fill all places that the model has "
                "(max_length). Give a shorter one, or train a model with a larger max_length."
            )
        state = model.start(source, torch.tensor([source.shape[1]], device=device))
    token = last
    for _ in range(left):
        # Entered anew for every token: between two of them the caller's own code runs.
        with torch.inference_mode():
            logits, state = model.step(state, torch.tensor([token], device=device))
            logits[:, NEVER_SAID] = -torch.inf
            chances = next_chances(logits, temperature=temperature, top_k=top_k, top_p=top_p)
            token = int(torch.multinomial(chances, 1, generator=generator))
        if token == END:
            return
        yield token


def next_chances(
    logits: Float[Tensor, "rows vocabulary"],
    *,
    temperature: float,
    top_k: int | None = NO_LIMIT,
    top_p: float | None = NO_LIMIT,
) -> Float[Tensor, "rows vocabulary"]:
    """The probabilities that the next token is drawn from.

    >>> next_chances(torch.tensor([[2.0, 0.0, 1.0]]), temperature=0.0)
    tensor([[1., 0., 0.]])
    >>> next_chances(torch.tensor([[0.0, 0.0, -9.0]]), temperature=1.0, top_k=2)
    tensor([[0.5000, 0.5000, 0.0000]])
    """
    if temperature == 0:
        return torch.zeros_like(logits).scatter(1, logits.argmax(dim=1, keepdim=True), 1.0)
    logits = logits / temperature
    if top_k is not None and top_k < logits.shape[1]:
        least = logits.topk(top_k, dim=1).values[:, -1:]
        logits = logits.masked_fill(logits < least, -torch.inf)
    chances = logits.softmax(dim=1)
    if top_p is not None and top_p < 1:
        ordered, order = chances.sort(dim=1, descending=True)
        # A token stays if those before it do not yet have the wanted probability: the first always does.
        stays = ordered.cumsum(dim=1) - ordered < top_p
        chances = torch.zeros_like(chances).scatter(1, order, ordered * stays)
        chances = chances / chances.sum(dim=1, keepdim=True)
    return chances


def _is_temperature(value: float) -> bool:
    return value == 0 or COLDEST <= value < float("inf")


def require_sampling(
    *, max_tokens: int, temperature: float, top_k: int | None, top_p: float | None
) -> None:
    """Refuse settings with which nothing could be drawn."""
    rules: list[tuple[str, Any, bool, str]] = [
        ("max_tokens", max_tokens, max_tokens >= 1, "1 or more"),
        ("temperature", temperature, _is_temperature(temperature), f"0, or {COLDEST} or more"),
        ("top_k", top_k, top_k is None or top_k >= 1, "1 or more"),
        ("top_p", top_p, top_p is None or 0 < top_p <= 1, "above 0 and at most 1"),
    ]
    for name, value, holds, rule in rules:
        if not holds:
            raise RegardError(f"{name}={value}: it must be {rule}.")
