"""What a check is given: a freshly built mechanism, sizes that all differ, and a generator.

The mechanism is in double precision and evaluation mode. Building it and drawing its inputs depend
on the seed alone, so that a failure can be had again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from regard.conformance.subject import Subject
from regard.core.masks import NO_MASK, Allowed, Causal, Mask, Padding, Window
from regard.core.mechanism import Capabilities, Mechanism, ScoreBias

# The tensors of one call, kept together so that a check can cut and change them at once.


Positions = slice | Tensor


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """Query, key, value, and the extras that the mechanism declares.

    Each is (batch, heads, length, width).
    """

    query: Tensor
    key: Tensor
    value: Tensor
    extras: Mapping[str, Tensor]

    @property
    def key_length(self) -> int:
        return self.key.shape[2]

    @property
    def query_length(self) -> int:
        return self.query.shape[2]

    def tensors(self) -> dict[str, Tensor]:
        """Every tensor by its name."""
        return {"query": self.query, "key": self.key, "value": self.value, **self.extras}

    def with_tensors(self, tensors: Mapping[str, Tensor]) -> Inputs:
        """The same with the named tensors exchanged."""
        every = {**self.tensors(), **tensors}
        extras = {name: every[name] for name in self.extras}
        return Inputs(query=every["query"], key=every["key"], value=every["value"], extras=extras)

    def each(self, change: Callable[[Tensor], Tensor]) -> Inputs:
        """The same with every tensor changed in the same way."""
        return self.with_tensors({name: change(t) for name, t in self.tensors().items()})

    def rows(self, index: Positions) -> Inputs:
        """Some rows of the batch."""
        return self.each(lambda tensor: tensor[index])

    def queries(self, index: Positions) -> Inputs:
        """Some queries, and every key."""
        return replace(self, query=self.query[:, :, index])

    def keys(self, index: Positions) -> Inputs:
        """Some keys with what they bring, and every query."""
        brought = {n: t[:, :, index] for n, t in self.tensors().items() if n != "query"}
        return self.with_tensors(brought)

    def tokens(self, index: Positions) -> Inputs:
        """Some positions, where there are as many queries as keys."""
        return self.keys(index).queries(index)

    def changed(self, other: Inputs, where: Tensor, *, queries: bool) -> Inputs:
        """Key positions taken from `other` where the boolean `where` (broadcast) is True."""
        others = other.tensors()
        chosen = {
            name: torch.where(where, others[name], tensor)
            for name, tensor in self.tensors().items()
            if queries or name != "query"
        }
        return self.with_tensors(chosen)

    def leaves(self) -> Inputs:
        """Copies that gather gradients."""
        return self.each(lambda tensor: tensor.detach().clone().requires_grad_())


def words(bias: ScoreBias | None) -> dict[str, Any]:
    """The keyword for a score bias, where there is one."""
    return {} if bias is None else {"bias": bias}


def forward(
    mechanism: Mechanism, inputs: Inputs, mask: Mask = NO_MASK, bias: ScoreBias | None = None
) -> Tensor:
    """The mechanism's `forward`."""
    output: Tensor = mechanism(
        inputs.query, inputs.key, inputs.value, mask, **inputs.extras, **words(bias)
    )
    return output


def weights(
    mechanism: Mechanism, inputs: Inputs, mask: Mask = NO_MASK, bias: ScoreBias | None = None
) -> Tensor:
    """The mechanism's `weights`."""
    return mechanism.weights(inputs.query, inputs.key, mask, **inputs.extras, **words(bias))


def start(mechanism: Mechanism, inputs: Inputs) -> Any:
    """An empty state for such inputs."""
    return mechanism.start(
        batch_size=inputs.key.shape[0],
        num_kv_heads=inputs.key.shape[1],
        key_dim=inputs.key.shape[3],
        value_dim=inputs.value.shape[3],
        dtype=inputs.value.dtype,
        device=inputs.value.device,
    )


def extend(mechanism: Mechanism, state: Any, inputs: Inputs, mask: Mask = NO_MASK) -> Any:
    """The state after the inputs' keys."""
    return mechanism.extend(state, inputs.key, inputs.value, mask, **inputs.extras)


def step(
    mechanism: Mechanism, state: Any, inputs: Inputs, bias: ScoreBias | None = None
) -> tuple[Tensor, Any]:
    """The outputs for the inputs' tokens, and the state after them."""
    output, after = mechanism.step(
        state, inputs.query, inputs.key, inputs.value, bias=bias, **inputs.extras
    )
    return output, after


# What a check says: it returns, or raises one of these two; and how numbers are compared.
#
# A check compares through `same` and `close`, so that every failure names its worst element.


# The same arithmetic on the same numbers, give or take how a library blocks its loops.
SAME = 1e-12
# The same numbers by another order of arithmetic, in double precision.
CLOSE = 1e-9


@dataclass(frozen=True)
class Worst:
    """The element that is farthest from what it should be."""

    index: tuple[int, ...]
    expected: float
    got: float

    def __str__(self) -> str:
        said = f"element {list(self.index)} should be {self.expected:.9g} and is {self.got:.9g}"
        # Numbers that differ only beyond the digits shown would look equal.
        return f"{said} ({abs(self.got - self.expected):.2g} away)"


class CheckFailed(AssertionError):  # noqa: N818 (it reads as what happened)
    """The mechanism breaks the rule; the message says how, `worst` says where most."""

    def __init__(self, detail: str, *, worst: Worst | None = None) -> None:
        super().__init__(detail)
        self.worst = worst


class NotApplicable(Exception):  # noqa: N818 (it is not an error)
    """The rule does not concern the mechanism, for the reason given."""


def same(got: Tensor, expected: Tensor, what: str) -> None:
    """Demand equality up to `SAME`."""
    close(got, expected, what, tolerance=SAME)


def close(got: Tensor, expected: Tensor, what: str, *, tolerance: float = CLOSE) -> None:
    """Demand equality up to `tolerance` times the largest number expected, or times one."""
    if got.shape != expected.shape:
        raise CheckFailed(
            f"{what}: the shape should be {tuple(expected.shape)} and is {tuple(got.shape)}"
        )
    if got.numel() == 0:
        return
    wanted, found = expected.detach().double(), got.detach().double()
    error = (found - wanted).abs()
    # Not a number compares false with everything: call it infinitely far from what it should be.
    error = error.masked_fill(error.isnan(), float("inf"))
    largest = wanted.abs().nan_to_num(nan=0.0, posinf=0.0).max().clamp(min=1.0)
    if bool((error <= tolerance * largest).all()):
        return
    place = int(error.argmax())
    index = tuple(int(part) for part in torch.unravel_index(torch.tensor(place), error.shape))
    worst = Worst(index, float(wanted.flatten()[place]), float(found.flatten()[place]))
    raise CheckFailed(f"{what}: {worst}", worst=worst)


def zero(got: Tensor, what: str) -> None:
    """Demand exact zeros."""
    close(got, torch.zeros_like(got), what, tolerance=0.0)


def finite(got: Tensor, what: str) -> None:
    """Demand that nothing is infinite and nothing is not a number."""
    close(torch.where(got.isfinite(), torch.zeros_like(got), got), torch.zeros_like(got), what)


def demand(holds: bool, detail: str) -> None:
    """Fail with `detail` unless the condition holds."""
    if not holds:
        raise CheckFailed(detail)


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
