"""A statement about attention that can be run: what is said, by whom, and the function that decides it.

    @claim(
        statement="Rows of attention weights sum to one.",
        formula="Σⱼ A[i, j] = 1",
        source="seed 000; Bahdanau et al. 2015, eq. 6",
        proof="numeric",
    )
    def rows_sum_to_one(*, n: int = 32, seed: int = 0) -> Finding: ...

The parameters of the function, with their defaults, are what a user can change. Whole numbers lie between
1 and `MOST`, a seed between 0 and `MOST`, others are finite; `ranges={"n": (2, 4096)}` says otherwise.

A statement that is known to be wrong stands beside the right one with `marked_wrong=True`: it must come
out as "fails".
"""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from regard.core.claim_record import ClaimRecord, Finding, Value
from regard.core.errors import RegardError
from regard.core.names import unknown_name

# In order of strength: proved in symbols; computed in float64 over random and adversarial inputs with a
# stated tolerance; counted by the counter of operations; measured, with an interval.
Proof = Literal["symbolic", "numeric", "counted", "measured"]

Decide = Callable[..., Finding]
Range = tuple[int | float, int | float]  # the least and the most

MOST = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A statement with the function that decides it."""

    name: str
    topic: str
    statement: str
    formula: str
    source: str
    proof: Proof
    decide: Decide
    marked_wrong: bool = False
    trained: bool = False
    ranges: Mapping[str, Range] = field(default_factory=dict)

    @property
    def defaults(self) -> dict[str, Value]:
        """Every parameter with the value it has unless told."""
        parameters = inspect.signature(self.decide).parameters.values()
        return {parameter.name: parameter.default for parameter in parameters}

    @property
    def code(self) -> str:
        """The lines that decide, without the decorator."""
        source = inspect.getsource(self.decide)
        return source[source.index("def ") :]

    def run(self, **changes: Any) -> ClaimRecord:
        """Decide, with some parameters changed; each must have the type of its default."""
        settings = {**self.defaults, **self._checked(changes)}
        begun = time.perf_counter()
        finding = self.decide(**settings)
        return ClaimRecord(
            name=self.name,
            topic=self.topic,
            statement=self.statement,
            formula=self.formula,
            source=self.source,
            proof=self.proof,
            marked_wrong=self.marked_wrong,
            trained=self.trained,
            settings=settings,
            code=self.code,
            seconds=time.perf_counter() - begun,
            finding=finding,
        )

    def _checked(self, changes: dict[str, Any]) -> dict[str, Value]:
        found: dict[str, Value] = {}
        for name, value in changes.items():
            if name not in self.defaults:
                raise unknown_name(f"parameter of the claim '{self.name}'", name, self.defaults)
            kind = type(self.defaults[name])
            whole_as_float = kind is float and type(value) is int
            if type(value) is not kind and not whole_as_float:
                raise RegardError(
                    f"{name}={value!r}: of the claim '{self.name}' it must be of the kind of "
                    f"{self.defaults[name]!r}, its usual value."
                )
            found[name] = float(value) if whole_as_float else value
            self._require_in_range(name, found[name])
        return found

    def _require_in_range(self, name: str, value: Value) -> None:
        if isinstance(value, str | bool):
            return
        usual = (
            (0 if name == "seed" else 1, MOST) if isinstance(value, int) else (-math.inf, math.inf)
        )
        least, most = self.ranges.get(name, usual)
        if not math.isfinite(value) or not least <= value <= most:
            rule = "finite" if math.isinf(most) else f"from {least:,} to {most:,}"
            raise RegardError(f"{name}={value!r}: of the claim '{self.name}' it must be {rule}.")


def claim(
    *,
    statement: str,
    formula: str,
    source: str,
    proof: Proof,
    marked_wrong: bool = False,
    trained: bool = False,
    ranges: Mapping[str, Range] | None = None,
) -> Callable[[Decide], Claim]:
    """Make the claim that a function decides; its name is the function's, its topic the file's."""

    def made(decide: Decide) -> Claim:
        return Claim(
            name=decide.__name__.replace("_", "-"),
            topic=decide.__module__.rsplit(".", 1)[-1].replace("_", " "),
            statement=statement,
            formula=formula,
            source=source,
            proof=proof,
            decide=decide,
            marked_wrong=marked_wrong,
            trained=trained,
            ranges=ranges or {},
        )

    return made
