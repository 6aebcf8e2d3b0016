"""What a check says: it returns, or raises one of these two; and how numbers are compared.

A check compares through `same` and `close`, so that every failure names its worst element.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

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
