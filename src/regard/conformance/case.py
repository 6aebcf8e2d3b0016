"""Test case of a conformance check: a mechanism, random inputs, masks, and assertions.

The mechanism is built in float64 and evaluation mode, with sizes that all differ. It and its inputs
depend on the seed alone, so that failures are reproducible. A check returns, or raises `CheckFailed` or
`NotApplicable`; it compares tensors with `assert_equal` and `assert_close`, which report the worst element.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from regard.conformance.subject import Subject
from regard.core.masks import NO_MASK, Allowed, Causal, Mask, Padding, Window
from regard.core.mechanism import Capabilities, Mechanism, ScoreBias, Step

Positions = slice | Tensor


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """Query, key, value, and the gates that the mechanism declares.

    Each is (batch, heads, length, width).
    """

    query: Tensor
    key: Tensor
    value: Tensor
    gates: Mapping[str, Tensor]

    @property
    def key_length(self) -> int:
        return self.key.shape[2]

    @property
    def query_length(self) -> int:
        return self.query.shape[2]

    def tensors(self) -> dict[str, Tensor]:
        """All tensors by name."""
        return {"query": self.query, "key": self.key, "value": self.value, **self.gates}

    def with_tensors(self, tensors: Mapping[str, Tensor]) -> Inputs:
        """A copy with these tensors replaced."""
        merged = {**self.tensors(), **tensors}
        gates = {name: merged[name] for name in self.gates}
        return Inputs(query=merged["query"], key=merged["key"], value=merged["value"], gates=gates)

    def map(self, function: Callable[[Tensor], Tensor]) -> Inputs:
        """Apply a function to every tensor."""
        return self.with_tensors({name: function(t) for name, t in self.tensors().items()})

    def examples(self, index: Positions) -> Inputs:
        """Select examples of the batch."""
        return self.map(lambda tensor: tensor[index])

    def queries(self, index: Positions) -> Inputs:
        """Select queries; all keys remain."""
        return replace(self, query=self.query[:, :, index])

    def keys(self, index: Positions) -> Inputs:
        """Select keys with their values and gates; all queries remain."""
        selected = {n: t[:, :, index] for n, t in self.tensors().items() if n != "query"}
        return self.with_tensors(selected)

    def tokens(self, index: Positions) -> Inputs:
        """Select positions of both queries and keys, as in self-attention."""
        return self.keys(index).queries(index)

    def replaced(self, other: Inputs, where: Tensor, *, queries: bool) -> Inputs:
        """Take elements from `other` where the boolean `where` is True; queries only if `queries`."""
        others = other.tensors()
        selected = {
            name: torch.where(where, others[name], tensor)
            for name, tensor in self.tensors().items()
            if queries or name != "query"
        }
        return self.with_tensors(selected)

    def float(self) -> Inputs:
        """The inputs in float32."""
        return self.map(lambda tensor: tensor.float())

    def leaves(self) -> Inputs:
        """Detached copies that require gradients."""
        return self.map(lambda tensor: tensor.detach().clone().requires_grad_())


# Relative tolerance for identical arithmetic, except for how a library blocks its loops.
SAME = 1e-12
# Relative tolerance for another order of arithmetic, in float64.
CLOSE = 1e-9


@dataclass(frozen=True)
class Worst:
    """The element with the largest error."""

    index: tuple[int, ...]
    expected: float
    got: float

    def __str__(self) -> str:
        text = f"element {list(self.index)} should be {self.expected:.9g} and is {self.got:.9g}"
        # The error, because numbers may be equal in the digits shown.
        return f"{text} (error {abs(self.got - self.expected):.2g})"


class CheckFailed(AssertionError):  # noqa: N818 (it reads as what happened)
    """The mechanism fails the check; `worst` is the element with the largest error."""

    def __init__(self, detail: str, *, worst: Worst | None = None) -> None:
        super().__init__(detail)
        self.worst = worst


class NotApplicable(Exception):  # noqa: N818 (it is not an error)
    """The check does not apply to the mechanism; the message is the reason."""


def assert_equal(got: Tensor, expected: Tensor, what: str) -> None:
    """Assert equality up to `SAME`."""
    assert_close(got, expected, what, tolerance=SAME)


def assert_close(got: Tensor, expected: Tensor, what: str, *, tolerance: float = CLOSE) -> None:
    """Assert equality up to `tolerance` times max(1, largest expected element)."""
    if got.shape != expected.shape:
        raise CheckFailed(
            f"{what}: the shape should be {tuple(expected.shape)} and is {tuple(got.shape)}"
        )
    if got.numel() == 0:
        return
    target, found = expected.detach().double(), got.detach().double()
    error = (found - target).abs()
    # NaN compares false with everything: count it as infinite error.
    error = error.masked_fill(error.isnan(), float("inf"))
    largest = target.abs().nan_to_num(nan=0.0, posinf=0.0).max().clamp(min=1.0)
    if bool((error <= tolerance * largest).all()):
        return
    flat = int(error.argmax())
    index = tuple(int(i) for i in torch.unravel_index(torch.tensor(flat), error.shape))
    worst = Worst(index, float(target.flatten()[flat]), float(found.flatten()[flat]))
    raise CheckFailed(f"{what}: {worst}", worst=worst)


def assert_zero(got: Tensor, what: str) -> None:
    """Assert exact zeros."""
    assert_close(got, torch.zeros_like(got), what, tolerance=0.0)


def assert_finite(got: Tensor, what: str) -> None:
    """Assert that no element is infinite or NaN."""
    assert_close(
        torch.where(got.isfinite(), torch.zeros_like(got), got), torch.zeros_like(got), what
    )


def require(holds: bool, detail: str) -> None:
    """Fail with `detail` unless the condition holds."""
    if not holds:
        raise CheckFailed(detail)


BATCH, HEADS, KV_HEADS, QUERIES, KEYS, KEY_DIM, VALUE_DIM = 3, 4, 2, 7, 11, 5, 6
# Longer than the usual chunk sizes, and a multiple of none.
LONG = 131


class DistanceBias:
    """A linear distance bias with one slope per head, as ALiBi."""

    def __init__(self, slopes: Tensor) -> None:
        self.slopes = slopes

    def values(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        """−slope × distance for every pair; positions are (length,) or (batch, length)."""
        distance = query_positions[..., :, None] - key_positions[..., None, :]
        return -self.slopes[:, None, None] * distance.abs()[..., None, :, :]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One mechanism, built in these sizes."""

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
        """A new instance, initialised with `seed`."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed if seed is None else seed)
            mechanism = self.subject.build(
                query_dim=self.query_dim,
                key_dim=self.key_dim,
                num_heads=self.num_heads,
                max_length=self.max_length,
            )
        mechanism.validate = True
        return mechanism.double().eval()

    def with_mechanism(self, mechanism: Mechanism) -> Case:
        """The same case and random generator with another instance, such as a float32 copy."""
        other = copy.copy(self)
        object.__setattr__(other, "mechanism", mechanism)
        return other

    def sized(self, **sizes: int) -> Case:
        """The same mechanism built in other sizes."""
        changes: dict[str, Any] = dict(sizes)
        return replace(self, **changes)

    def forward(
        self, inputs: Inputs, mask: Mask = NO_MASK, bias: ScoreBias | None = None
    ) -> Tensor:
        output: Tensor = self.mechanism(
            inputs.query, inputs.key, inputs.value, mask, **_kwargs(inputs, bias)
        )
        return output

    def weights(
        self, inputs: Inputs, mask: Mask = NO_MASK, bias: ScoreBias | None = None
    ) -> Tensor:
        return self.mechanism.weights(inputs.query, inputs.key, mask, **_kwargs(inputs, bias))

    def start(self, inputs: Inputs) -> Any:
        """An empty state for inputs of these sizes."""
        return self.mechanism.start(
            batch_size=inputs.key.shape[0],
            num_kv_heads=inputs.key.shape[1],
            key_dim=inputs.key.shape[3],
            value_dim=inputs.value.shape[3],
            dtype=inputs.value.dtype,
            device=inputs.value.device,
        )

    def extend(self, state: Any, inputs: Inputs, mask: Mask = NO_MASK) -> Any:
        return self.mechanism.extend(state, inputs.key, inputs.value, mask, **inputs.gates)

    def step(self, state: Any, inputs: Inputs, bias: ScoreBias | None = None) -> Step:
        return self.mechanism.step(
            state, inputs.query, inputs.key, inputs.value, bias=bias, **inputs.gates
        )

    def gradients(self, output: Tensor, inputs: Inputs) -> dict[str, Tensor]:
        """Gradients of the sum of an output with respect to inputs and parameters that it depends on."""
        named = {**inputs.tensors(), **dict(self.mechanism.named_parameters())}
        trainable = {name: tensor for name, tensor in named.items() if tensor.requires_grad}
        found: tuple[Tensor | None, ...] = torch.autograd.grad(
            output.sum(), list(trainable.values()), allow_unused=True
        )
        named_gradients = zip(trainable, found, strict=True)
        return {name: gradient for name, gradient in named_gradients if gradient is not None}

    @property
    def capabilities(self) -> Capabilities:
        return self.mechanism.capabilities

    @property
    def open_mask(self) -> Mask:
        """The least restrictive mask that the mechanism supports."""
        return Causal() if self.capabilities.requires_causal else NO_MASK

    def supports(self, mask: Mask) -> bool:
        """Whether the mechanism declares support for this mask."""
        return mask.kinds <= self.capabilities.masks and (mask.causal or self.open_mask is NO_MASK)

    @property
    def plain_masks(self) -> list[Mask]:
        """No mask and the causal mask, as far as supported."""
        return [mask for mask in (NO_MASK, Causal()) if self.supports(mask)]

    def need_mask(self, kind: str) -> None:
        """Raise NotApplicable unless the mechanism supports this kind of mask."""
        if kind not in self.capabilities.masks:
            raise NotApplicable(f"it does not support {kind} masks")

    def need_score_bias(self) -> None:
        """Raise NotApplicable unless the mechanism supports a score bias."""
        if not self.capabilities.score_bias:
            raise NotApplicable("it supports no score bias")

    def fits(self, length: int) -> bool:
        """Whether `length` keys are within `max_length`."""
        return self.capabilities.max_length is None or length <= self.capabilities.max_length

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
            gates={
                gate.name: gate.activation(
                    normal(batch_size, kv_heads, key_length, widths[gate.width])
                )
                for gate in self.mechanism.gates
            },
        )

    def draw_tokens(self, length: int = KEYS, **sizes: int) -> Inputs:
        """Random inputs with equal query and key length, as in self-attention."""
        return self.draw(query_length=length, key_length=length, **sizes)

    def like(self, inputs: Inputs, *, scale: float = 1.0) -> Inputs:
        """New random inputs of the same sizes."""
        return self.draw(
            batch_size=inputs.key.shape[0],
            num_kv_heads=inputs.key.shape[1],
            query_length=inputs.query_length,
            key_length=inputs.key_length,
            scale=scale,
        )

    def lengths(self, inputs: Inputs) -> Tensor:
        """Padding lengths per example: all keys, half, two, then all again."""
        total = inputs.key_length
        choices = [total, total // 2, min(2, total)]
        batch = inputs.key.shape[0]
        return torch.tensor([choices[i % len(choices)] for i in range(batch)])

    def masks(self, inputs: Inputs) -> list[Mask]:
        """Masks of every supported kind, alone and combined."""
        batch, heads, queries = inputs.query.shape[:3]
        size = (batch, heads, queries, inputs.key_length)
        pattern = torch.rand(size, generator=self.generator) < 0.6
        padding, any_pattern = Padding(self.lengths(inputs)), Allowed(pattern)
        # The last example is all padding.
        all_padding = Padding(self.lengths(inputs).index_fill(0, torch.tensor([batch - 1]), 0))
        every: list[Mask] = [
            NO_MASK,
            Causal(),
            padding,
            all_padding,
            Window(2),
            any_pattern,
            Allowed(pattern[0, 0]),
            Causal() & padding,
            Causal() & Window(3),
            Window(1) & padding,
            Causal() & Window(2) & padding & any_pattern,
        ]
        return [mask for mask in every if self.supports(mask)]

    def bias(self) -> DistanceBias:
        """A random score bias."""
        slopes = torch.rand(self.num_heads, generator=self.generator, dtype=torch.float64)
        return DistanceBias(slopes)


def _kwargs(inputs: Inputs, bias: ScoreBias | None) -> dict[str, Any]:
    return {**inputs.gates, **({} if bias is None else {"bias": bias})}
