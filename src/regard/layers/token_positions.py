"""Where the tokens of a piece of sequence stand: counted on from where the piece starts."""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor


def token_positions(
    *, start: int | Int[Tensor, " batch"], length: int, device: torch.device
) -> Int[Tensor, "*batch {length}"]:
    """start, start + 1, …: one row, or a row for each example where `start` differs between them.

    >>> token_positions(start=torch.tensor([0, 4]), length=3, device=torch.device("cpu"))
    tensor([[0, 1, 2],
            [4, 5, 6]])
    """
    steps = torch.arange(length, device=device)
    if isinstance(start, int):
        return steps + start
    if start.numel():
        first, last = start.aminmax()
        if torch.equal(first, last):
            return steps + first
    return steps + start[:, None]
