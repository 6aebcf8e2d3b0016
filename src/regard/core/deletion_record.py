"""What leaving words out does to what a classifier says, as plain values: measured once, drawn later.

Words are left out in three orders: those with most weight first (`top`), as they come (`random`), those
with least weight first (`least`).

    fall    the probability of the label said of the whole text, minus that of the same label without the
            words; negative where leaving them out makes the label surer
    flip    whether another label is said without them
    area    the mean fall over all shares from none to the largest, by straight lines between the points

`as_plain` and `from_plain` are each other's inverse.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from regard.core.errors import RegardError


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A mean and how far it may be trusted; no ends where nothing varies.

    Over several texts `low` and `high` are the ends of the 95 % interval of the mean; of a single text
    they are the least and the most of its random draws.
    """

    mean: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, kw_only=True)
class OrderRecord:
    """What one order of leaving out does: a fall and a share of flips for each share of words."""

    falls: tuple[Estimate, ...]
    flips: tuple[Estimate, ...]
    area: Estimate


@dataclass(frozen=True, kw_only=True)
class DeletionRecord:
    """The three orders, and by how much the fall of `top` exceeds that of `random`.

    `shares` go up, each above 0 and at most 1; `removed` is how many words that was, in the mean. Of the
    `texts` every one has two words or more: `left_out` is how many had not, and so had none to spare.
    """

    shares: tuple[float, ...]
    removed: tuple[float, ...]
    texts: int
    left_out: int
    draws: int
    probability: float
    top: OrderRecord
    random: OrderRecord
    least: OrderRecord
    differences: tuple[Estimate, ...]
    area_difference: Estimate

    def __post_init__(self) -> None:
        require_shares(self.shares)
        columns = {"removed": self.removed, "differences": self.differences}
        for name, order in self.orders().items():
            columns |= {f"falls of '{name}'": order.falls, f"flips of '{name}'": order.flips}
        for name, column in columns.items():
            if len(column) != len(self.shares):
                raise RegardError(
                    f"The deletion result has {len(column)} {name} for {len(self.shares)} shares. "
                    "Give one a share."
                )
        if self.texts < 1:
            raise RegardError(
                f"The deletion result is of {self.texts} texts. Give at least one text of two words."
            )

    def orders(self) -> dict[str, OrderRecord]:
        """The three by name, as they are told."""
        return {"top": self.top, "random": self.random, "least": self.least}

    def place_of(self, share: float) -> int:
        """Which of the shares is nearest."""
        return min(range(len(self.shares)), key=lambda place: abs(self.shares[place] - share))

    def as_plain(self) -> dict[str, Any]:
        """Lists, numbers and names, for JSON."""
        return asdict(self)

    @classmethod
    def from_plain(cls, plain: Any) -> DeletionRecord:
        """The record that `as_plain` gave, from JSON or not."""
        try:
            orders = {name: _order(plain[name]) for name in ("top", "random", "least")}
            return cls(
                **plain
                | orders
                | {
                    "shares": tuple(map(_number, plain["shares"])),
                    "removed": tuple(map(_number, plain["removed"])),
                    "probability": _number(plain["probability"]),
                    "differences": tuple(map(_estimate, plain["differences"])),
                    "area_difference": _estimate(plain["area_difference"]),
                }
            )
        except RegardError:
            raise  # it is a deletion result, with a fault that has its own words
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise RegardError(
                f"The values are not a deletion result ({type(error).__name__}: {error}). "
                "Give what `DeletionRecord.as_plain` gave."
            ) from error


def require_shares(shares: tuple[float, ...]) -> None:
    """Refuse shares that do not go up from above 0 to at most 1."""
    ends = (0.0, *shares)
    rising = all(low < high <= 1 for low, high in zip(ends, shares, strict=False))
    if not shares or not rising:
        raise RegardError(
            f"The shares of words to leave out are {list(shares)}, and they go up, each above 0 and at "
            "most 1. Give for example 0.01, 0.1, 0.5."
        )


def _number(plain: Any) -> float:
    number = float(plain)
    if not math.isfinite(number):
        raise ValueError(f"{plain!r} stands where a finite number should")
    return number


def _estimate(plain: Any) -> Estimate:
    ends = [None if plain[end] is None else _number(plain[end]) for end in ("low", "high")]
    return Estimate(mean=_number(plain["mean"]), low=ends[0], high=ends[1])


def _order(plain: Any) -> OrderRecord:
    return OrderRecord(
        falls=tuple(map(_estimate, plain["falls"])),
        flips=tuple(map(_estimate, plain["flips"])),
        area=_estimate(plain["area"]),
    )
