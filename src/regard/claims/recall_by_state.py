"""How many pairs attention gives back when each is asked for by its key, with nothing learned.

Keys are random unit vectors and values random signs. Each key asks, and counts as recalled if what is read
is nearest to its own value. How sharply is asked is chosen anew for each number of pairs, in favour of each
mechanism.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from regard.core.errors import RegardError
from regard.mechanisms import build_mechanism

SHARPNESS = (0.5, 2.0, 8.0, 32.0, 128.0)  # of q·k for a key asked for by itself


@dataclass(frozen=True)
class Memory:
    """A mechanism of the table with its options, by the name it has in the picture."""

    label: str
    mechanism: str
    options: dict[str, Any] = field(default_factory=dict)

    def build(self, width: int) -> Any:
        """The mechanism for keys of this width."""
        return build_mechanism(self.mechanism, query_dim=width, key_dim=width, **self.options)

    def features(self, width: int) -> int:
        """The rows of its state; none where every pair is kept."""
        kernel = getattr(self.build(width), "kernel", None)
        return 0 if kernel is None else int(kernel.num_features(width))


EVERYTHING = Memory("softmax", "dot")
KERNELS = (
    Memory("elu + 1", "elu"),
    Memory("Taylor, 2 terms", "taylor", {"num_terms": 2, "scale": 1.0}),
    Memory("Taylor, 3 terms", "taylor", {"num_terms": 3, "scale": 1.0}),
)


def recalled_share(
    memory: Memory, *, pairs: int, width: int, value_width: int, seed: int, draws: int = 3
) -> float:
    """The share of pairs that are given back, in the mean over `draws` sets of pairs."""
    mechanism = memory.build(width)
    generator = torch.Generator().manual_seed(seed)
    shares = torch.zeros(draws, len(SHARPNESS), dtype=torch.float64)
    for draw in range(draws):
        keys = torch.randn(pairs, width, generator=generator, dtype=torch.float64)
        keys = keys / keys.norm(dim=-1, keepdim=True)
        signs = torch.randint(0, 2, (pairs, value_width), generator=generator)
        values = 2.0 * signs.double() - 1.0
        for place, sharpness in enumerate(SHARPNESS):
            asked = (sharpness**0.5 * keys)[None, None]
            read = mechanism(asked, asked, values[None, None])[0, 0]
            nearest = (read @ values.T).argmax(dim=-1)
            shares[draw, place] = (nearest == torch.arange(pairs)).double().mean()
    return float(shares.mean(dim=0).max())


def require_room(full: Mapping[str, int], *, most: int) -> None:
    """Refuse to stop before the state of every kernel is full."""
    label, pairs = max(full.items(), key=lambda entry: entry[1])
    if pairs > most:
        raise RegardError(
            f"most={most}: {label} is asked for {pairs} pairs. Use most={pairs}, or a smaller width."
        )
