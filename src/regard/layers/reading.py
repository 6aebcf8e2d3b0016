"""Which row of a context each row reads, where several may read the same.

While beam search follows several beginnings of one sentence, all of them read the same source. Its keys
and values are then kept once, and the queries of a sentence stand side by side:

    rows      A0 A1 A2 B0 C0 C1                reader  0 0 0 1 2 2
    gathered  A0 A1 A2 | B0 –  –  | C0 C1 –    one line a context row, `width` wide
"""

from __future__ import annotations

from typing import NamedTuple, Self

import torch
from jaxtyping import Float, Int
from torch import Tensor

# A context is made smaller, which takes a copy, once a part as large as this has no reader.
UNREAD_SHARE = 0.25


class Narrowed(NamedTuple):
    """What becomes of the readers, and which rows of the context stay (None: all)."""

    reading: Reading
    kept: Int[Tensor, " kept"] | None


class Reading(NamedTuple):
    """`place` is where each row stands among the gathered; None where all stand in order."""

    reader: Int[Tensor, " batch"]
    num_contexts: int
    width: int
    place: Int[Tensor, " batch"] | None

    @classmethod
    def one_each(cls, batch_size: int, *, device: torch.device) -> Self:
        """Every row reads its own row of the context."""
        return cls(torch.arange(batch_size, device=device), batch_size, 1, None)

    @classmethod
    def of(cls, reader: Int[Tensor, " batch"], num_contexts: int) -> Self:
        """Row r reads row reader[r] of a context."""
        counts = torch.bincount(reader, minlength=num_contexts)
        width = int(counts.max())
        order = reader.argsort(stable=True)
        in_order = torch.arange(len(reader), device=reader.device)
        first = counts.cumsum(0) - counts
        place = torch.empty_like(reader)
        place[order] = (
            in_order
            + (torch.arange(num_contexts, device=reader.device) * width - first)[reader[order]]
        )
        whole = len(reader) == num_contexts * width and torch.equal(place, in_order)
        return cls(reader, num_contexts, width, None if whole else place)

    def select(self, index: Int[Tensor, " rows"]) -> Narrowed:
        """The readers of the rows index[r], and the context they need."""
        reader = self.reader[index]
        read = torch.zeros(self.num_contexts, dtype=torch.bool, device=index.device)
        read[reader] = True
        kept = read.nonzero()[:, 0]
        if len(kept) > (1 - UNREAD_SHARE) * self.num_contexts:
            return Narrowed(Reading.of(reader, self.num_contexts), None)
        return Narrowed(Reading.of((read.cumsum(0) - 1)[reader], len(kept)), kept)

    def gather(self, x: Float[Tensor, "batch 1 dim"]) -> Float[Tensor, "contexts width dim"]:
        """The rows, one line a row of the context; zeros where a line is shorter."""
        flat = x[:, 0]
        if self.place is not None:
            empty = x.new_zeros(self.num_contexts * self.width, x.shape[2])
            flat = empty.index_copy(0, self.place, flat)
        return flat.view(self.num_contexts, self.width, x.shape[2])

    def scatter(
        self, gathered: Float[Tensor, "contexts width dim"]
    ) -> Float[Tensor, "batch 1 dim"]:
        """The rows back in their own order."""
        flat = gathered.flatten(0, 1)
        return (flat if self.place is None else flat.index_select(0, self.place))[:, None]
