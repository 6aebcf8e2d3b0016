"""Whether positions that act inside the attention fit the attention they are given to."""

from __future__ import annotations

from regard.core.errors import RegardError
from regard.core.mechanism import Role, ScoreBias
from regard.layers.alibi import Alibi
from regard.layers.rotary import Rotary


def require_position_fit(
    position: Rotary | ScoreBias, *, role: Role, num_heads: int, head_dim: int
) -> None:
    """Refuse positions across two sequences, and positions of other sizes than the heads'."""
    if role == "cross":
        raise RegardError(
            f"MultiHead has role 'cross' and a position ({type(position).__name__}): positions of "
            "two different sequences have no distance. Leave position out, or add sinusoidal or "
            "learned positions to the tokens of both."
        )
    if isinstance(position, Rotary) and position.head_dim != head_dim:
        raise RegardError(
            f"MultiHead has heads of width {head_dim} and Rotary positions of "
            f"head_dim={position.head_dim}: they must be equal. Build Rotary(head_dim={head_dim})."
        )
    if isinstance(position, Alibi) and len(position.slopes) != num_heads:
        raise RegardError(
            f"MultiHead has num_heads={num_heads} and Alibi positions of "
            f"num_heads={len(position.slopes)}: they must be equal. "
            f"Build Alibi(num_heads={num_heads})."
        )
