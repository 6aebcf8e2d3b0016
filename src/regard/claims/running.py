"""Running claims: many, of which none keeps the others from being run, or one with settings of one's own.

Three things may keep a claim from a verdict, and are told apart: it trains and was not asked to; it lacks
something, such as a package; or it fails to run, a mistake that must not look like one of the others.
"""

from __future__ import annotations

import textwrap
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from regard.claims.claim import Claim
from regard.core.claim_record import ClaimRecord
from regard.core.errors import LackingError, RegardError

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
