"""The widths of multi-head attention, what is left out filled in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self, cast, get_args

from regard.core.errors import RegardError
from regard.core.mechanism import Role
from regard.layers.size_rules import require_positive


@dataclass(frozen=True, kw_only=True)
class HeadSizes:
    """How a layer's features are dealt out to heads."""

    model_dim: int
    context_dim: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    value_dim: int

    @classmethod
    def of(
        cls,
        *,
        role: Role,
        model_dim: int,
        context_dim: int | None,
        num_heads: int,
        num_kv_heads: int | None,
        head_dim: int | None,
        value_dim: int | None,
    ) -> Self:
        """Sizes that fit one another; None stands for the common choice."""
        require_positive("MultiHead", model_dim=model_dim, num_heads=num_heads)
        if head_dim is None and model_dim % num_heads:
            raise RegardError(
                f"MultiHead has model_dim={model_dim} and num_heads={num_heads}: the heads must "
                "divide the width. Choose a divisor, or give head_dim."
            )
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        require_positive("MultiHead", num_kv_heads=num_kv_heads)
        if num_heads % num_kv_heads:
            raise RegardError(
                f"MultiHead has num_heads={num_heads} and num_kv_heads={num_kv_heads}: key/value "
                "heads must divide query heads. Choose a divisor."
            )
        context_dim = model_dim if context_dim is None else context_dim
        require_positive("MultiHead", context_dim=context_dim)
        if role == "self" and context_dim != model_dim:
            raise RegardError(
                f"MultiHead has context_dim={context_dim} and role 'self', where the context is x "
                f"itself (model_dim={model_dim}). Leave context_dim out, or choose role 'cross'."
            )
        head_dim = model_dim // num_heads if head_dim is None else head_dim
        value_dim = head_dim if value_dim is None else value_dim
        require_positive("MultiHead", head_dim=head_dim, value_dim=value_dim)
        return cls(
            model_dim=model_dim,
            context_dim=context_dim,
            num_heads=num_heads,
            num_kv_heads=num_kv_heads,
            head_dim=head_dim,
            value_dim=value_dim,
        )

    @property
    def query_width(self) -> int:
        """The queries of all heads."""
        return self.num_heads * self.head_dim

    @property
    def key_width(self) -> int:
        """The keys of all key/value heads."""
        return self.num_kv_heads * self.head_dim

    @property
    def value_width(self) -> int:
        """The values of all key/value heads."""
        return self.num_kv_heads * self.value_dim


def given_role(role: str) -> Role:
    """The role of this name."""
    for known in get_args(Role):
        if role == known:
            return cast(Role, known)
    raise RegardError(
        f"MultiHead has role={role!r}; it must be 'self', where x reads itself, or 'cross', where "
        "x reads another sequence."
    )
