"""Source and target of every row as one sequence, without a gap between them.

    source   w h o END PAD      given   START m e        joined   w h o START m e
    source   w h e r e END      given   START            joined   w h e r e START   (cut at the longest)

The END of the source is left out: START says the same. Padding stands at the end only.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn import functional as F

from regard.core.special_tokens import PAD
from regard.models.padded_rows import require_lengths


class JoinedSequence(NamedTuple):
    """The tokens, and where those of the target stand; `source_lengths` without END."""

    tokens: Int[Tensor, "batch length"]
    source_lengths: Int[Tensor, " batch"]
    source_width: int
    target_width: int

    @classmethod
    def of(
        cls,
        source: Int[Tensor, "batch source_length"],
        source_lengths: Int[Tensor, " batch"],
        given: Int[Tensor, "batch target_length"],
    ) -> Self:
        """Join them; a row of `given` ends where its padding begins."""
        require_lengths(source, source_lengths, name="source")
        before = source_lengths - 1
        widths = {"source_width": source.shape[1], "target_width": given.shape[1]}
        if not before.numel() or not int(before.max()):
            return cls(given, before, **widths)
        length = int((before + (given != PAD).sum(dim=1)).max())
        places = torch.arange(length, device=source.device)[None]
        after = source.shape[1] + places - before[:, None]
        # Past the end of a row stands the padding that was put after all columns.
        columns = F.pad(torch.cat([source, given], dim=1), (0, 1), value=PAD)
        index = torch.where(places < before[:, None], places, after)
        tokens = columns.gather(1, index.clamp(max=columns.shape[1] - 1))
        return cls(tokens, before, **widths)

    def of_target(self, x: Tensor, *, dim: int = 1) -> Tensor:
        """The part of `x` that stands at the places of the target; what is past a row's end repeats."""
        if self.tokens.shape[1] == self.target_width and not int(self.source_lengths.sum()):
            return x
        places = self.source_lengths[:, None] + torch.arange(self.target_width, device=x.device)
        return _picked(x, places.clamp(max=self.tokens.shape[1] - 1), dim)

    def of_source(self, x: Tensor, *, dim: int = 1) -> Tensor:
        """The part of `x` that stands at the places of the source; zeros at its END and padding."""
        places = torch.arange(self.source_width, device=x.device)
        real = places < self.source_lengths[:, None]
        picked = _picked(x, torch.where(real, places, 0), dim)
        return picked * _along(real, picked, dim)


def _picked(x: Tensor, places: Int[Tensor, "batch picked"], dim: int) -> Tensor:
    index = _along(places, x, dim)
    shape = list(x.shape)
    shape[dim] = places.shape[1]
    return x.gather(dim, index.expand(shape))


def _along(rows: Tensor, x: Tensor, dim: int) -> Tensor:
    """(batch, n) as a tensor with the dimensions of x: batch first, n at `dim`."""
    shape = [1] * x.ndim
    shape[0], shape[dim] = rows.shape
    return rows.view(shape)
