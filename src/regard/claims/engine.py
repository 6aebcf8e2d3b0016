"""Claims about attention that can be run: the `claim` decorator, running, verdicts, timing, counting.

    @claim(
        statement="Rows of attention weights sum to one.",
        formula="Σⱼ A[i, j] = 1",
        source="Bahdanau et al. 2015, eq. 6",
        proof="numeric",
    )
    def rows_sum_to_one(*, n: int = 32, seed: int = 0) -> Finding: ...

The keyword arguments of the function, with their defaults, are the settings a user can change. Integers
are limited to 1 … `MAX_VALUE`, seeds to 0 … `MAX_VALUE`, floats must be finite;
`ranges={"n": (2, 4096)}` overrides these limits.

A common mistake is a claim with `known_false=True`, next to the correct statement. Its verdict must be
"fails".
"""

from __future__ import annotations

import inspect
import math
import statistics
import textwrap
import time
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, SupportsFloat

import torch
from scipy.stats import binom
from torch import nn

from regard.core.counter import Counter
from regard.core.errors import MissingDependencyError, RegardError
from regard.core.records.claim import (
    ClaimRecord,
    Curve,
    CurveFigure,
    Finding,
    MatrixFigure,
    Value,
    Verdict,
)
from regard.core.registry import unknown_name
from regard.mechanisms import build_mechanism

# Strongest first: symbolic proof; float64 on random and adversarial inputs, with a tolerance; operations
# counted; measured, with a confidence interval.
Proof = Literal["symbolic", "numeric", "counted", "measured"]

Decide = Callable[..., Finding]
Range = tuple[int | float, int | float]  # minimum and maximum, inclusive

MAX_VALUE = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A statement and the function that decides it."""

    name: str
    topic: str
    statement: str
    formula: str
    source: str
    proof: Proof
    decide: Decide
    known_false: bool = False
    trained: bool = False
    ranges: Mapping[str, Range] = field(default_factory=dict)

    @property
    def defaults(self) -> dict[str, Value]:
        """Default value of every setting."""
        parameters = inspect.signature(self.decide).parameters.values()
        return {parameter.name: parameter.default for parameter in parameters}

    @property
    def code(self) -> str:
        """Source code of the deciding function, without the decorator."""
        source = inspect.getsource(self.decide)
        return source[source.index("def ") :]

    def run(self, **changes: Any) -> ClaimRecord:
        """Decide the claim. Changed settings must have the type of their default."""
        settings = {**self.defaults, **self._validated(changes)}
        start = time.perf_counter()
        finding = self.decide(**settings)
        return self.as_record(settings, time.perf_counter() - start, finding=finding)

    def as_record(
        self,
        settings: Mapping[str, Value],
        seconds: float,
        *,
        finding: Finding | None = None,
        skip_reason: str = "",
        error: str = "",
    ) -> ClaimRecord:
        """The record of a run, or of a claim that was skipped or raised an error."""
        return ClaimRecord(
            name=self.name,
            topic=self.topic,
            statement=self.statement,
            formula=self.formula,
            source=self.source,
            proof=self.proof,
            known_false=self.known_false,
            trained=self.trained,
            settings=settings,
            code=self.code,
            seconds=seconds,
            finding=finding,
            skip_reason=skip_reason,
            error=error,
        )

    def _validated(self, changes: dict[str, Any]) -> dict[str, Value]:
        validated: dict[str, Value] = {}
        for name, value in changes.items():
            if name not in self.defaults:
                raise unknown_name(f"setting of the claim '{self.name}'", name, self.defaults)
            kind = type(self.defaults[name])
            int_as_float = kind is float and type(value) is int
            if type(value) is not kind and not int_as_float:
                raise RegardError(
                    f"{name}={value!r}: setting of the claim '{self.name}', must have the type "
                    f"{kind.__name__} of its default {self.defaults[name]!r}."
                )
            validated[name] = float(value) if int_as_float else value
            self._validate_range(name, validated[name])
        return validated

    def _validate_range(self, name: str, value: Value) -> None:
        if isinstance(value, str | bool):
            return
        default = (
            (0 if name == "seed" else 1, MAX_VALUE)
            if isinstance(value, int)
            else (-math.inf, math.inf)
        )
        low, high = self.ranges.get(name, default)
        if not math.isfinite(value) or not low <= value <= high:
            rule = "finite" if math.isinf(high) else f"from {low:,} to {high:,}"
            raise RegardError(
                f"{name}={value!r}: setting of the claim '{self.name}', must be {rule}."
            )


def claim(
    *,
    statement: str,
    formula: str,
    source: str,
    proof: Proof,
    known_false: bool = False,
    trained: bool = False,
    ranges: Mapping[str, Range] | None = None,
) -> Callable[[Decide], Claim]:
    """Turn a function into a claim, named after the function; its topic is the name of its module."""

    def decorate(decide: Decide) -> Claim:
        return Claim(
            name=decide.__name__.replace("_", "-"),
            topic=decide.__module__.rsplit(".", 1)[-1].replace("_", " "),
            statement=statement,
            formula=formula,
            source=source,
            proof=proof,
            decide=decide,
            known_false=known_false,
            trained=trained,
            ranges=ranges or {},
        )

    return decorate


TRAINING_SKIPPED = "it trains models, which takes minutes; add --trained"
# Errors that settings far from the defaults can cause.
SETTING_ERRORS = (ValueError, RuntimeError, ArithmeticError, LookupError, TypeError, MemoryError)
MAX_ERROR_LENGTH = 240


def run_claims(
    claims: Iterable[Claim],
    *,
    trained: bool = False,
    on_start: Callable[[Claim], None] = lambda _: None,
    on_done: Callable[[ClaimRecord], None] = lambda _: None,
) -> list[ClaimRecord]:
    """Run claims in order and return one record each; those that train models only with `trained`.

    A record without a finding has either a `skip_reason` (training not requested, missing dependency) or
    an `error`. An error in one claim does not stop the others.
    """
    records = []
    for claim in claims:
        on_start(claim)
        if trained or not claim.trained:
            record = _run_or_explain(claim)
        else:
            record = claim.as_record(claim.defaults, 0.0, skip_reason=TRAINING_SKIPPED)
        records.append(record)
        on_done(record)
    return records


def run_with_settings(claim: Claim, **changes: Any) -> ClaimRecord:
    """Run a claim with changed settings; an error that they cause becomes a one-line `RegardError`."""
    try:
        return claim.run(**changes)
    except RegardError:
        raise
    except SETTING_ERRORS as error:
        if not changes:
            raise  # not caused by settings
        changed = ", ".join(f"{name}={value!r}" for name, value in changes.items())
        defaults = ", ".join(f"{name}={claim.defaults[name]!r}" for name in changes)
        raise RegardError(
            f"The claim '{claim.name}' cannot be decided with {changed} ({_one_line(error)}). Use values "
            f"closer to the defaults: {defaults}."
        ) from error


def _run_or_explain(claim: Claim) -> ClaimRecord:
    start = time.perf_counter()
    try:
        return claim.run()
    except Exception as error:
        seconds = time.perf_counter() - start
        if _is_missing_dependency(error):
            return claim.as_record(claim.defaults, seconds, skip_reason=str(error))
        known = isinstance(error, RegardError)
        message = str(error) if known else f"{_one_line(error)}{_location(error)}"
        return claim.as_record(claim.defaults, seconds, error=message)


def _is_missing_dependency(error: BaseException | None) -> bool:
    """Whether this error, or one of its causes, is a missing dependency or data file."""
    while error is not None and not isinstance(error, MissingDependencyError):
        error = error.__cause__
    return error is not None


def _one_line(error: Exception) -> str:
    message = textwrap.shorten(str(error), MAX_ERROR_LENGTH)
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def _location(error: Exception) -> str:
    """File and line of the error, since no traceback is shown."""
    frames = traceback.extract_tb(error.__traceback__)
    return f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""


def verdict_over(satisfied: Collection[str], cases: Collection[str]) -> Verdict:
    """The verdict of a statement about several cases: holds for all, for some, or for none.

    An inconclusive case counts as not satisfied.

    >>> verdict_over(["dot"], ["dot", "general"])
    'holds if'
    """
    if len(satisfied) == len(cases):
        return "holds"
    return "holds if" if satisfied else "fails"


BISECTIONS = 50


def bisect_last_true(
    predicate: Callable[[float], bool], *, low: float, high: float, bisections: int = BISECTIONS
) -> float | None:
    """The largest number in [low, high] at which a monotone predicate is true, by bisection.

    None if it is false at `low`; `high` if it is true there.

    >>> round(bisect_last_true(lambda x: x * x <= 2, low=0.0, high=2.0), 9)
    1.414213562
    >>> bisect_last_true(lambda x: x * x <= 2, low=0.0, high=1.0)
    1.0
    """
    if not predicate(low):
        return None
    if predicate(high):
        return high
    for _ in range(bisections):
        middle = (low + high) / 2
        low, high = (middle, high) if predicate(middle) else (low, middle)
    return low


Numbers = Iterable[SupportsFloat]


def line(
    label: str, x: Numbers, y: Numbers, *, low: Numbers = (), high: Numbers = (), **options: Any
) -> Curve:
    """A `Curve` from any numbers; `options` are its other fields.

    >>> line("n²", [1, 2], [1, 4]).y
    (1.0, 4.0)
    """
    x, y, low, high = (tuple(map(float, numbers)) for numbers in (x, y, low, high))
    return Curve(label=label, x=x, y=y, low=low, high=high, **options)


def lines(x: Numbers, curves: Mapping[str, Numbers], **options: Any) -> list[Curve]:
    """One `line` per label over the same x."""
    x = list(x)
    return [line(label, x, y, **options) for label, y in curves.items()]


def curve_figure(
    title: str,
    axes: tuple[str, str],
    *curves: Curve,
    log: Literal["", "x", "y", "xy"] = "",
    marks: Iterable[tuple[SupportsFloat, str]] = (),
) -> CurveFigure:
    """Curves over axes with these two labels; `log` names the logarithmic ones."""
    return CurveFigure(
        title=title,
        x_label=axes[0],
        y_label=axes[1],
        curves=curves,
        x_scale="log" if "x" in log else "linear",
        y_scale="log" if "y" in log else "linear",
        marks=tuple((float(x), label) for x, label in marks),
    )


def matrix_figure(
    title: str, values: Iterable[Numbers], *, rows: Iterable[str] = (), columns: Iterable[str] = ()
) -> MatrixFigure:
    """A heatmap of any numbers with these labels of rows and columns."""
    numbers = tuple(tuple(map(float, row)) for row in values)
    return MatrixFigure(
        title=title, values=numbers, row_labels=tuple(rows), column_labels=tuple(columns)
    )


Times = dict[str, list[float]]


class MedianInterval(NamedTuple):
    """A median with its distribution-free 95 % confidence interval, from order statistics."""

    median: float
    low: float
    high: float


def interleaved_seconds(calls: Mapping[str, Callable[[], object]], *, rounds: int) -> Times:
    """CPU seconds of every call in every round, on one thread, after a warm-up call of each.

    Calls are interleaved, so that a slow period of the machine affects all of them.
    """
    times: Times = {name: [] for name in calls}
    with num_threads(1):
        for call in calls.values():
            call()
        for _ in range(rounds):
            for name, call in calls.items():
                start = time.process_time()
                call()
                times[name].append(time.process_time() - start)
    return times


@contextmanager
def num_threads(count: int = 1) -> Iterator[None]:
    """Run torch on this many threads inside the context."""
    if count < 1:
        raise RegardError(f"--threads {count}: use 1 or more.")
    threads = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def ratio_interval(numerators: Sequence[float], denominators: Sequence[float]) -> MedianInterval:
    """Median and interval of the ratio per round."""
    return median_interval([a / b for a, b in zip(numerators, denominators, strict=True)])


def median_interval(values: Sequence[float]) -> MedianInterval:
    """The median with its 95 % interval; minimum to maximum for fewer than six values.

    >>> median_interval([3.0, 1.0, 2.0])
    MedianInterval(median=2.0, low=1.0, high=3.0)
    """
    ordered = sorted(values)
    # With probability 97.5 % or more, at least `outside` values lie on each side of the true median.
    outside = int(binom.ppf(0.025, len(ordered), 0.5))
    index = max(0, outside - 1)
    return MedianInterval(statistics.median(ordered), ordered[index], ordered[-1 - index])


def count_ops(call: Callable[[], object]) -> Counter:
    """Operations of one call without gradients."""
    with torch.no_grad(), Counter() as counter:
        call()
    return counter


def count_parameters(model: nn.Module) -> int:
    """Number of parameters; tied ones count once."""
    return sum(parameter.numel() for parameter in model.parameters())


def layer_call(layer: nn.Module, *, n: int, d: int) -> Callable[[], object]:
    """A call of a layer on one random sequence."""
    x = torch.randn(1, n, d, generator=torch.Generator().manual_seed(0))
    return lambda: layer(x)


def mechanism_call(mechanism: str, *, n: int, d: int) -> Callable[[], object]:
    """A call of a mechanism, without projections, on random queries, keys and values."""
    built: Any = build_mechanism(mechanism, query_dim=d, key_dim=d, max_length=n)
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(1, 1, n, d, generator=generator) for _ in range(3))
    return lambda: built(query, key, value)
