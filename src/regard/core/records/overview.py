"""What was found out about mechanisms, as plain values: made by one room, drawn by another.

A record holds no tensor and no module, so a page can be drawn again, elsewhere and later, from its
JSON alone. `Survey.as_json` and `Survey.from_json` are each other's inverse.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from regard.core.cost import Cost
from regard.core.errors import RegardError

Outcome = Literal["passed", "failed", "not_applicable"]


@dataclass(frozen=True, kw_only=True)
class CheckRecord:
    """What one conformance check demands and what it found.

    `detail` is the failure, or why the check does not apply.
    """

    name: str
    demands: str
    outcome: Outcome
    detail: str


@dataclass(frozen=True, kw_only=True)
class CostRecord:
    """The declared cost of a call with `length` queries and keys.

    `form` names the way the computation goes at this length, for mechanisms that have several.
    """

    length: int
    cost: Cost
    form: str | None = None


@dataclass(frozen=True, kw_only=True)
class MechanismRecord:
    """Everything found out about one mechanism.

    `weights[i][j]` is how much token i reads of token j, one head, under a causal mask if `causal`,
    with the options in `weights_options`. `signed` says that weights may be negative. `costs` are
    for heads of width `cost_width`, with lengths ascending.
    """

    name: str
    family: str
    summary: str
    reference: str
    capabilities: tuple[str, ...]
    causal: bool
    signed: bool
    weights_options: str
    weights: tuple[tuple[float, ...], ...]
    checks: tuple[CheckRecord, ...]
    cost_width: int
    costs: tuple[CostRecord, ...]

    def count(self, outcome: Outcome) -> int:
        """How many checks ended so."""
        return sum(check.outcome == outcome for check in self.checks)


@dataclass(frozen=True, kw_only=True)
class Survey:
    """The records of several mechanisms, all looked at with the same tokens, sizes and seed."""

    version: str
    seed: int
    tokens: tuple[str, ...]
    num_heads: int
    mechanisms: tuple[MechanismRecord, ...]

    @property
    def families(self) -> tuple[str, ...]:
        """The families of the mechanisms, each once, in the order they come."""
        return tuple(dict.fromkeys(record.family for record in self.mechanisms))

    @property
    def usual_width(self) -> int:
        """The width of heads at which mechanisms are priced, unless they are priced narrower."""
        return max((record.cost_width for record in self.mechanisms), default=0)

    def totals(self) -> Counter[Outcome]:
        """How many checks of all mechanisms passed, failed, and do not apply."""
        return Counter(check.outcome for record in self.mechanisms for check in record.checks)

    def as_json(self) -> str:
        """The survey as JSON text."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Survey:
        """The survey that `as_json` wrote."""
        try:
            plain = json.loads(text)
            mechanisms = tuple(_mechanism(record) for record in plain.pop("mechanisms"))
            tokens = tuple(plain.pop("tokens"))
            return cls(tokens=tokens, mechanisms=mechanisms, **plain)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise RegardError(
                f"The text is not a survey ({type(error).__name__}: {error}). "
                "Make one with `regard survey --json`."
            ) from error


def _mechanism(plain: Mapping[str, Any]) -> MechanismRecord:
    nested = {
        "capabilities": tuple(plain["capabilities"]),
        "weights": tuple(tuple(row) for row in plain["weights"]),
        "checks": tuple(CheckRecord(**check) for check in plain["checks"]),
        "costs": tuple(
            CostRecord(**{**record, "cost": Cost(**record["cost"])}) for record in plain["costs"]
        ),
    }
    return MechanismRecord(**{**plain, **nested})
