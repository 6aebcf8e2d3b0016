"""Overview of all mechanisms: attention weights, declared costs and conformance results as plain values.

Records hold no tensors, so that a page can be rendered from JSON without torch.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar, Literal

from regard.core.cost import Cost
from regard.core.records.record import Record

Outcome = Literal["passed", "failed", "not_applicable"]


@dataclass(frozen=True, kw_only=True)
class CheckRecord:
    """Outcome of one conformance check; `detail` is the failure, or why the check does not apply."""

    name: str
    description: str
    outcome: Outcome
    detail: str


@dataclass(frozen=True, kw_only=True)
class CostRecord:
    """The declared cost of a call with `length` queries and keys.

    `form` is the computation chosen at this length, for mechanisms that have several.
    """

    length: int
    cost: Cost
    form: str | None = None


@dataclass(frozen=True, kw_only=True)
class MechanismRecord:
    """One mechanism.

    `weights[i][j]` is the attention of token i to token j in one head, under a causal mask if
    `causal`, with the options in `weights_options`. `signed`: weights may be negative. `costs` are
    for heads of width `cost_head_dim`, by ascending length.
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
    cost_head_dim: int
    costs: tuple[CostRecord, ...]

    def count(self, outcome: Outcome) -> int:
        """Number of checks with this outcome."""
        return sum(check.outcome == outcome for check in self.checks)


@dataclass(frozen=True, kw_only=True)
class Overview(Record):
    """Records of several mechanisms, all with the same tokens, sizes and seed."""

    INDENT: ClassVar[int | None] = 1
    HOW_TO_MAKE: ClassVar[str] = "Make one with `regard overview --json`."
    version: str
    seed: int
    tokens: tuple[str, ...]
    num_heads: int
    mechanisms: tuple[MechanismRecord, ...]

    @property
    def families(self) -> tuple[str, ...]:
        """Unique families, in order of appearance."""
        return tuple(dict.fromkeys(record.family for record in self.mechanisms))

    @property
    def max_head_dim(self) -> int:
        """The head width of most cost figures; some mechanisms use narrower heads."""
        return max((record.cost_head_dim for record in self.mechanisms), default=0)

    def totals(self) -> Counter[Outcome]:
        """Number of checks by outcome, over all mechanisms."""
        return Counter(check.outcome for record in self.mechanisms for check in record.checks)
