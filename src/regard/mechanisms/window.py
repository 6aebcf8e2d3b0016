"""Local window attention: scaled dot over the keys at most r positions away, in O(r·n·d).

The same numbers as scaled dot under `Window(r)`, as a mechanism of its own so that a model can ask for
it by name; its decoding state is the last r + 1 tokens instead of all of them.
"""

from __future__ import annotations

from regard.core.masks import Window
from regard.mechanisms.scaled_dot import ScaledDotAttention


class WindowAttention(ScaledDotAttention):
    """score = query · key / √key_dim within `radius`   (Beltagy et al. 2020, sliding window)."""

    def __init__(self, *, radius: int = 64) -> None:
        super().__init__()
        self.sight = Window(radius)
