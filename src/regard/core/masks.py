"""Attention masks as values: causal mask, padding mask, local window, boolean mask.

A mask is a conjunction of up to four rules, so that a mechanism can lower it to the form its kernel is
fastest with instead of receiving an n × n tensor. In the boolean form *True = may attend*.

    Causal()            a query attends to the keys up to its own position
    Window(r)           a query attends to the keys at most r positions away
    Padding(lengths)    only the first lengths[b] keys of row b are real
    Allowed(matrix)     anything else, spelled out as a boolean tensor

They combine with `&`: `Causal() & Padding(lengths)`. Positions are aligned at the end: the last query
has the position of the last key, so query i of n_q is at position i + n_k - n_q.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.core.errors import RegardError, described

Rule = TypeVar("Rule", int, Tensor)

MASK_KINDS = ("causal", "padding", "window", "allowed")


@dataclass(frozen=True, repr=False, eq=False)
class Mask:
    """The conjunction of the rules that are set; `Mask()` forbids nothing."""

    causal: bool = False
    radius: int | None = None
    lengths: Int[Tensor, " batch"] | None = None
    allowed: Bool[Tensor, "..."] | None = None

    def __and__(self, other: Mask) -> Mask:
        return Mask(
            causal=self.causal or other.causal,
            radius=_merge(self.radius, other.radius, min),
            lengths=_merge(self.lengths, other.lengths, torch.minimum),
            allowed=_merge(self.allowed, other.allowed, torch.logical_and),
        )

    def __repr__(self) -> str:
        parts = []
        if self.causal:
            parts.append("Causal()")
        if self.radius is not None:
            parts.append(f"Window({self.radius})")
        if self.lengths is not None:
            parts.append(f"Padding({self.lengths.tolist()})")
        if self.allowed is not None:
            parts.append(f"Allowed({'×'.join(map(str, self.allowed.shape))})")
        return " & ".join(parts) or "Mask()"

    @property
    def kinds(self) -> frozenset[str]:
        """Which rules are set, by the names in `MASK_KINDS`."""
        is_set = {
            "causal": self.causal,
            "window": self.radius is not None,
            "padding": self.lengths is not None,
            "allowed": self.allowed is not None,
        }
        return frozenset(kind for kind, present in is_set.items() if present)

    def boolean(
        self, query_length: int, key_length: int, *, device: torch.device | None = None
    ) -> Bool[Tensor, "_batch _heads _queries _keys"] | None:
        """The whole mask as a tensor, True = may attend; None when nothing is forbidden.

        It broadcasts to (batch, heads, query_length, key_length).
        """
        query_positions = torch.arange(query_length, device=device) + key_length - query_length
        key_positions = torch.arange(key_length, device=device)
        distance = query_positions[:, None] - key_positions[None, :]
        rule: Tensor | None = None
        if self.causal:
            rule = _merge(rule, (distance >= 0)[None, None], torch.logical_and)
        if self.radius is not None:
            rule = _merge(rule, (distance.abs() <= self.radius)[None, None], torch.logical_and)
        if self.lengths is not None:
            real = self.keep(key_length)[:, None, None, :].expand(-1, 1, query_length, -1)
            rule = _merge(rule, real, torch.logical_and)
        if self.allowed is not None:
            rule = _merge(rule, self.allowed, torch.logical_and)
        return rule

    def keep(self, key_length: int) -> Bool[Tensor, "batch {key_length}"]:
        """Which keys are real, from `lengths` (which must be set)."""
        assert self.lengths is not None
        return torch.arange(key_length, device=self.lengths.device) < self.lengths[:, None]

    def without(self, *names: str) -> Mask:
        """The same mask with the named fields unset."""
        kept = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in names}
        return Mask(**kept)


NO_MASK = Mask()


def validate_mask(mask: object) -> None:
    """Raise an error unless `mask` is a `Mask` instance."""
    if isinstance(mask, Mask):
        return
    if isinstance(mask, type) and issubclass(mask, Mask):
        raise RegardError(
            f"mask is the class {mask.__name__}; it must be an instance: "
            f"{mask.__name__}{'()' if mask.__name__ in ('Causal', 'Mask') else '(…)'}."
        )
    raise RegardError(
        f"mask is {described(mask)}; it must be a Mask, such as Causal(), Padding(lengths) or "
        "Allowed(boolean tensor), True where a query may attend. For no mask, omit the argument."
    )


def _merge(first: Rule | None, second: Rule | None, both: Callable[..., Rule]) -> Rule | None:
    if first is None or second is None:
        return second if first is None else first
    return both(first, second)


class Causal(Mask):
    """A query attends to the keys up to its own position."""

    def __init__(self) -> None:
        super().__init__(causal=True)


class Window(Mask):
    """A query attends to the keys at most `radius` positions before or after its own."""

    def __init__(self, radius: object) -> None:
        if not isinstance(radius, int) or radius < 0:
            raise RegardError(f"Window radius is {radius}; it must be a whole number, 0 or more.")
        super().__init__(radius=radius)


class Padding(Mask):
    """Only the first `lengths[b]` keys of row b are real; a list, array or tensor of integers."""

    def __init__(self, lengths: object) -> None:
        if not isinstance(lengths, Tensor):
            lengths = _length_tensor(lengths)
        if lengths.dim() != 1:
            raise RegardError(
                f"Padding lengths have shape {tuple(lengths.shape)}; give one length per row, "
                "shape (batch,). For any other pattern use Allowed(boolean tensor)."
            )
        if lengths.is_floating_point() or lengths.dtype == torch.bool:
            raise RegardError(f"Padding lengths have dtype {lengths.dtype}; they must be integers.")
        if lengths.numel() and int(lengths.min()) < 0:
            raise RegardError(
                f"Padding has a length of {int(lengths.min())}; lengths must be 0 or more."
            )
        super().__init__(lengths=lengths)


def _length_tensor(lengths: object) -> Tensor:
    """A list, tuple or array of whole numbers as a tensor."""
    given = lengths.tolist() if isinstance(lengths, np.ndarray) else lengths
    if not isinstance(given, list | tuple):
        raise RegardError(
            f"Padding lengths are {described(given)}; give integers, one per row: a list such as [17, 3], "
            "an array or a tensor."
        )
    for length in given:
        if isinstance(length, bool) or not isinstance(length, int | np.integer):
            raise RegardError(
                f"Padding has the length {described(length)}; lengths must be whole numbers, one per row."
            )
    return torch.tensor([int(length) for length in given], dtype=torch.int64)


class Allowed(Mask):
    """Any pattern: a boolean tensor that broadcasts to (batch, heads, n_q, n_k), True = may attend."""

    def __init__(self, allowed: Tensor) -> None:
        if allowed.dtype != torch.bool:
            raise RegardError(
                f"Allowed mask has dtype {allowed.dtype}; it must be torch.bool with True = may "
                "attend. An additive float mask m is Allowed(m == 0)."
            )
        if allowed.dim() not in (2, 4):
            raise RegardError(
                f"Allowed mask has shape {tuple(allowed.shape)}; it must be (n_q, n_k) or "
                "broadcast to (batch, heads, n_q, n_k)."
            )
        super().__init__(allowed=allowed if allowed.dim() == 4 else allowed[None, None])
