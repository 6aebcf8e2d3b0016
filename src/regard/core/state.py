"""What a mechanism remembers while decoding: a named tuple of batch-first tensors.

Every state has a field `position`, the number of tokens each row has taken in, and `select(index)`,
which reorders or repeats its rows, as beam search does between steps.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, Self, TypeVar, runtime_checkable

from jaxtyping import Int
from torch import Tensor


@runtime_checkable
class State(Protocol):
    """The part of a state that a model may rely on."""

    @property
    def position(self) -> Int[Tensor, " batch"]:
        """How many tokens each row has taken in."""
        ...

    def select(self, index: Int[Tensor, " rows"]) -> Self:
        """The state whose row r is this state's row index[r]."""
        ...


class Step(NamedTuple):
    """What one decoding step gives back."""

    output: Tensor
    state: Any


Rows = TypeVar("Rows", bound=tuple[Any, ...])


def select_rows(state: Rows, index: Int[Tensor, " rows"]) -> Rows:
    """Every tensor of a named tuple, its first dimension indexed by `index`."""
    return type(state)(*(tensor.index_select(0, index) for tensor in state))


def state_size(state: tuple[Any, ...]) -> int:
    """How many floating-point numbers a state holds (positions and flags not counted)."""
    return sum(tensor.numel() for tensor in state if tensor.is_floating_point())
