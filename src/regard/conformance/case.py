"""What a check is given: a freshly built mechanism, sizes that all differ, and a generator.

The mechanism is in double precision and evaluation mode. Building it and drawing its inputs depend
on the seed alone, so that a failure can be had again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from regard.conformance.inputs import Inputs
from regard.conformance.subjects import Subject
from regard.conformance.verdict import NotApplicable
from regard.core.masks import NO_MASK, Allowed, Causal, Mask, Padding, Window
from regard.core.mechanism import Capabilities, Mechanism

BATCH, HEADS, KV_HEADS, QUERIES, KEYS, KEY_DIM, VALUE_DIM = 3, 4, 2, 7, 11, 5, 6
# Longer than the chunks and blocks in which mechanisms usually work, and a multiple of none.
LONG = 131


class DistanceBias:
    """A score bias that falls with the distance, at its own slope in every head."""

    def __init__(self, slopes: Tensor) -> None:
        self.slopes = slopes

    def values(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        """−slope × distance for every pair; positions are (length,) or (rows, length)."""
        distance = query_positions[..., :, None] - key_positions[..., None, :]
        return -self.slopes[:, None, None] * distance.abs()[..., None, :, :]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One subject, built once in these sizes."""

    subject: Subject
    seed: int = 0
    num_heads: int = HEADS
    key_dim: int = KEY_DIM
    query_dim: int = KEY_DIM
    value_dim: int = VALUE_DIM
    max_length: int = LONG
    mechanism: Mechanism = field(init=False)
    generator: torch.Generator = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "generator", torch.Generator().manual_seed(self.seed))
        object.__setattr__(self, "mechanism", self.build())

    def build(self, *, seed: int | None = None) -> Mechanism:
        """Another instance; its parameters differ from the case's if the seed does."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed if seed is None else seed)
            mechanism = self.subject.build(
                query_dim=self.query_dim,
                key_dim=self.key_dim,
                num_heads=self.num_heads,
                max_length=self.max_length,
            )
        return mechanism.double().eval()

    def sized(self, **sizes: int) -> Case:
        """The same subject built in other sizes."""
        changes: dict[str, Any] = dict(sizes)
        return replace(self, **changes)

    @property
    def promised(self) -> Capabilities:
        return self.mechanism.capabilities

    @property
    def open_mask(self) -> Mask:
        """The mask that forbids least."""
        return Causal() if self.promised.requires_causal else NO_MASK

    def takes(self, mask: Mask) -> bool:
        """Whether the mechanism has promised to answer under this mask."""
        return mask.kinds <= self.promised.masks and (mask.causal or self.open_mask is NO_MASK)

    @property
    def plain_masks(self) -> list[Mask]:
        """No mask and the causal one, as far as they are taken."""
        return [mask for mask in (NO_MASK, Causal()) if self.takes(mask)]

    def need_mask(self, kind: str) -> None:
        """The check is about a mask kind: it does not apply where that is not taken."""
        if kind not in self.promised.masks:
            raise NotApplicable(f"it does not take {kind} masks")

    def fits(self, length: int) -> bool:
        """Whether there may be so many keys."""
        return self.promised.max_length is None or length <= self.promised.max_length

    def draw(
        self,
        *,
        batch_size: int = BATCH,
        num_kv_heads: int | None = None,
        query_length: int = QUERIES,
        key_length: int = KEYS,
        scale: float = 1.0,
    ) -> Inputs:
        """Random inputs; queries and keys are multiplied by `scale`."""
        kv_heads = num_kv_heads or self.num_heads

        def normal(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=self.generator, dtype=torch.float64)

        widths = {"one": 1, "key_dim": self.key_dim}
        return Inputs(
            query=normal(batch_size, self.num_heads, query_length, self.query_dim) * scale,
            key=normal(batch_size, kv_heads, key_length, self.key_dim) * scale,
            value=normal(batch_size, kv_heads, key_length, self.value_dim),
            extras={
                extra.name: extra.squash(
                    normal(batch_size, kv_heads, key_length, widths[extra.width])
                )
                for extra in self.mechanism.extras
            },
        )

    def draw_tokens(self, length: int = KEYS, **words: int) -> Inputs:
        """Random inputs with as many queries as keys, as in self-attention."""
        return self.draw(query_length=length, key_length=length, **words)

    def like(self, inputs: Inputs, *, scale: float = 1.0) -> Inputs:
        """Other random inputs of the same sizes."""
        return self.draw(
            batch_size=inputs.key.shape[0],
            num_kv_heads=inputs.key.shape[1],
            query_length=inputs.query_length,
            key_length=inputs.key_length,
            scale=scale,
        )

    def lengths(self, inputs: Inputs) -> Tensor:
        """For each row of the batch how many keys are real: all, some, few, then all again."""
        total = inputs.key_length
        choices = [total, total // 2, min(2, total)]
        rows = inputs.key.shape[0]
        return torch.tensor([choices[row % len(choices)] for row in range(rows)])

    def masks(self, inputs: Inputs) -> list[Mask]:
        """The masks of every kind that the mechanism takes, alone and together."""
        batch, heads, queries = inputs.query.shape[:3]
        size = (batch, heads, queries, inputs.key_length)
        pattern = torch.rand(size, generator=self.generator) < 0.6
        padding, any_pattern = Padding(self.lengths(inputs)), Allowed(pattern)
        # The last row has no real key at all.
        nothing = Padding(self.lengths(inputs).index_fill(0, torch.tensor([batch - 1]), 0))
        every: list[Mask] = [
            NO_MASK,
            Causal(),
            padding,
            nothing,
            Window(2),
            any_pattern,
            Allowed(pattern[0, 0]),
            Causal() & padding,
            Causal() & Window(3),
            Window(1) & padding,
            Causal() & Window(2) & padding & any_pattern,
        ]
        return [mask for mask in every if self.takes(mask)]

    def bias(self) -> DistanceBias:
        """A score bias, for mechanisms that take one."""
        slopes = torch.rand(self.num_heads, generator=self.generator, dtype=torch.float64)
        return DistanceBias(slopes)
