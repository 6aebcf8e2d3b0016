"""Whether the parts a block is given belong together."""

from __future__ import annotations

from regard.core.errors import RegardError
from regard.layers.feed_forward import FeedForward
from regard.layers.multi_head import MultiHead


def require_attention(block: str, part: str, attention: object, *, role: str) -> None:
    """Refuse an attention that is no `MultiHead`, or one of another role."""
    if not isinstance(attention, MultiHead):
        raise RegardError(
            f"{block} was given a {type(attention).__name__} as {part}; it must be a MultiHead. "
            f"Build it as MultiHead(role='{role}', …)."
        )
    if attention.role != role:
        raise RegardError(
            f"{block} was given {part} of role '{attention.role}'; it must be '{role}'. "
            f"Build it as MultiHead(role='{role}', …)."
        )


def require_feed_forward(block: str, feed_forward: object) -> None:
    """Refuse a feed-forward that is none."""
    if not isinstance(feed_forward, FeedForward):
        raise RegardError(
            f"{block} was given a {type(feed_forward).__name__} as feed_forward; it must be a "
            "FeedForward. Build it as FeedForward(model_dim=…)."
        )


def require_one_width(block: str, **model_dims: int) -> None:
    """Refuse parts of different widths: each adds to what the one before it gave."""
    if len(set(model_dims.values())) > 1:
        listed = ", ".join(f"{part} {model_dim}" for part, model_dim in model_dims.items())
        raise RegardError(
            f"{block} was given parts of different model_dim ({listed}): they must be equal. "
            "Build all of them with the same model_dim."
        )
