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
from regard.core.errors import LackingError, RegardError
from regard.core.records.claim import ClaimRecord, Curve, Finding, Value, Verdict
from regard.core.registry import unknown_name
from regard.mechanisms import build_mechanism

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


# Running claims: many, of which none keeps the others from being run, or one with settings of one's
# own.
#
# Three things may keep a claim from a verdict, and are told apart: it trains and was not asked to;
# it lacks something, such as a package; or it fails to run, a mistake that must not look like one
# of the others.


TRAINS = "it trains models, which takes longer than the others together; add --trained"
# What numbers far from the usual ones end in, wherever they end.
UNFIT = (ValueError, RuntimeError, ArithmeticError, LookupError, TypeError, MemoryError)
LONGEST_REASON = 240


def run_claims(
    claims: Iterable[Claim],
    *,
    trained: bool = False,
    begin: Callable[[Claim], None] = lambda _: None,
    done: Callable[[ClaimRecord], None] = lambda _: None,
) -> list[ClaimRecord]:
    """A record for every claim, in their order; of those that train only with `trained`.

    A claim that was not run has a record without a finding that says what it waits for, and one that failed
    to run a record that says what happened.
    """
    records = []
    for claim in claims:
        begin(claim)
        runs = trained or not claim.trained
        record = _record(claim) if runs else _undecided(claim, waits=TRAINS)
        records.append(record)
        done(record)
    return records


def run_changed(claim: Claim, **changes: Any) -> ClaimRecord:
    """The claim with other settings; one that cannot be decided with them says so in one line."""
    try:
        return claim.run(**changes)
    except RegardError:
        raise  # it has its own words
    except UNFIT as error:
        if not changes:
            raise  # a mistake of ours
        asked = ", ".join(f"{name}={value!r}" for name, value in changes.items())
        usual = ", ".join(f"{name}={claim.defaults[name]!r}" for name in changes)
        raise RegardError(
            f"The claim '{claim.name}' cannot be decided with {asked} ({_in_one_line(error)}). Use values "
            f"nearer the usual ones: {usual}."
        ) from error


def _record(claim: Claim) -> ClaimRecord:
    begun = time.perf_counter()
    try:
        return claim.run()
    except Exception as error:
        seconds = time.perf_counter() - begun
        if _lacks(error):
            return _undecided(claim, waits=str(error), seconds=seconds)
        if isinstance(error, RegardError):
            return _undecided(claim, trouble=str(error), seconds=seconds)
        return _undecided(claim, trouble=f"{_in_one_line(error)}{_place(error)}", seconds=seconds)


def _undecided(
    claim: Claim, *, waits: str = "", trouble: str = "", seconds: float = 0.0
) -> ClaimRecord:
    return ClaimRecord(
        name=claim.name,
        topic=claim.topic,
        statement=claim.statement,
        formula=claim.formula,
        source=claim.source,
        proof=claim.proof,
        marked_wrong=claim.marked_wrong,
        trained=claim.trained,
        settings=claim.defaults,
        code=claim.code,
        seconds=seconds,
        finding=None,
        waits=waits,
        trouble=trouble,
    )


def _lacks(error: BaseException | None) -> bool:
    """Whether something is not here; a study says so in words of its own, and gives that as the cause."""
    while error is not None and not isinstance(error, LackingError):
        error = error.__cause__
    return error is not None


def _in_one_line(error: Exception) -> str:
    told = textwrap.shorten(str(error), LONGEST_REASON)
    return f"{type(error).__name__}: {told}" if told else type(error).__name__


def _place(error: Exception) -> str:
    """The last line that was reached, since no traceback is shown."""
    frames = traceback.extract_tb(error.__traceback__)
    return f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""


# The verdict of a statement about several things: of all of them, of some, or of none.
#
# What is not shown of a thing does not count for it, be it that the contrary was shown or nothing:
# a comparison that stays open does not make a statement hold.


def of_all(fitting: Collection[str], things: Collection[str]) -> Verdict:
    """It holds of all things, holds if it is one of those that fit, or fails.

    >>> of_all(["dot"], ["dot", "general"])
    'holds if'
    """
    if len(fitting) == len(things):
        return "holds"
    return "holds if" if fitting else "fails"


# Where a statement stops to hold, found by halving: for statements that hold up to a bound, not
# beyond.
#
# Whether there is such a bound is for the claim to say: a statement that holds nowhere, or
# everywhere, is a finding as any other.


HALVINGS = 50


def last_that_holds(
    holds: Callable[[float], bool], *, low: float, high: float, halvings: int = HALVINGS
) -> float | None:
    """The largest number between `low` and `high` at which it holds; None if not even at `low`.

    If it holds at `high`, that is the answer: there is no bound within what was searched.

    >>> round(last_that_holds(lambda x: x * x <= 2, low=0.0, high=2.0), 9)
    1.414213562
    >>> last_that_holds(lambda x: x * x <= 2, low=0.0, high=1.0)
    1.0
    """
    if not holds(low):
        return None
    if holds(high):
        return high
    for _ in range(halvings):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


# Lines of a picture from whatever numbers were counted: the records hold floats alone.


def line(
    *, label: str, x: Iterable[SupportsFloat], y: Iterable[SupportsFloat], **words: Any
) -> Curve:
    """A curve; `words` are its other fields.

    >>> line(label="n²", x=[1, 2], y=[1, 4]).y
    (1.0, 4.0)
    """
    return Curve(label=label, x=tuple(map(float, x)), y=tuple(map(float, y)), **words)


# Times of rivals measured in turns, so that a slow spell of the machine falls on all of them alike.
#
# Work is done on one thread, and the processor's time for it counts: what other programs take does
# not.


Times = dict[str, list[float]]


class MedianInterval(NamedTuple):
    """A median and the order statistics that enclose the true one 19 times in 20, whatever the law."""

    median: float
    low: float
    high: float


def interleaved_seconds(rivals: Mapping[str, Callable[[], object]], *, rounds: int) -> Times:
    """Seconds of every rival in every round, after one call of each to warm up."""
    times: Times = {name: [] for name in rivals}
    with one_thread():
        for run in rivals.values():
            run()
        for _ in range(rounds):
            for name, run in rivals.items():
                began = time.process_time()
                run()
                times[name].append(time.process_time() - began)
    return times


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch computes on one thread meanwhile."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def quotient(above: Sequence[float], below: Sequence[float]) -> MedianInterval:
    """By how much the first took longer than the second, round by round."""
    return median_interval([first / second for first, second in zip(above, below, strict=True)])


def median_interval(values: Sequence[float]) -> MedianInterval:
    """The median with its 95 % interval; of fewer than six values, from the least to the greatest.

    >>> median_interval([3.0, 1.0, 2.0])
    MedianInterval(median=2.0, low=1.0, high=3.0)
    """
    ordered = sorted(values)
    # At most 2.5 % of the time do fewer than `outside` of them lie on one side of the true median.
    outside = int(binom.ppf(0.025, len(ordered), 0.5))
    place = max(0, outside - 1)
    return MedianInterval(statistics.median(ordered), ordered[place], ordered[-1 - place])


# Calls of layers and mechanisms on drawn numbers, and what the counter sees of them.


def counter_of(run: Callable[[], object]) -> Counter:
    """What the counter saw of one run without gradients."""
    with torch.no_grad(), Counter() as counter:
        run()
    return counter


def layer_run(layer: nn.Module, *, n: int, d: int) -> Callable[[], object]:
    """A call of a layer on one sequence."""
    x = torch.randn(1, n, d, generator=torch.Generator().manual_seed(0))
    return lambda: layer(x)


def mechanism_run(mechanism: str, *, n: int, d: int) -> Callable[[], object]:
    """A call of a mechanism alone, on queries, keys and values that are given."""
    built: Any = build_mechanism(mechanism, query_dim=d, key_dim=d, max_length=n)
    drawn = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(1, 1, n, d, generator=drawn) for _ in range(3))
    return lambda: built(query, key, value)
