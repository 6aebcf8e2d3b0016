"""Backward passes that are written out, and cannot themselves be differentiated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from regard.core.errors import RegardError


def first_order(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a backward pass: asking for a derivative of it is an error, never a wrong number."""

    def checked(ctx: Any, *gradients: Any) -> Any:
        # Gradients are recorded during a backward pass only when it is to be differentiated again.
        if torch.is_grad_enabled():
            raise RegardError(
                "Second derivatives were asked of an attention whose backward pass is written out "
                "(create_graph=True). Use weights(query, key, mask) @ value, which has them."
            )
        return backward(ctx, *gradients)

    return checked
