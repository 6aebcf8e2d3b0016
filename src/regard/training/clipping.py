"""The norm of all gradients together, and its limit."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn


@torch.no_grad()
def clip_gradients(parameters: Iterable[nn.Parameter], *, limit: float | None) -> float:
    """The norm before clipping; gradients with a larger norm than `limit` are scaled down to it.

    As torch's clip_grad_norm_, but gradients within the limit are not touched.
    """
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if not gradients:
        return 0.0
    norm = float(torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients))))
    if limit is not None and norm > limit:
        torch._foreach_mul_(gradients, limit / (norm + 1e-6))
    return norm
