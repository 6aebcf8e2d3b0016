"""Running checks: each gets a case of its own, and whatever it does becomes a record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

import torch

from regard.conformance.case import Case
from regard.conformance.report import Record, Report
from regard.conformance.subjects import Subject, subject_of
from regard.conformance.table import CHECKS
from regard.conformance.verdict import CheckFailed, NotApplicable
from regard.core.mechanism import Mechanism
from regard.core.names import look_up
from regard.core.records import Outcome


def check_mechanism(
    build: type[Mechanism] | Callable[..., Mechanism],
    *,
    name: str | None = None,
    options: Mapping[str, Any] | None = None,
    only: Iterable[str] = (),
    seed: int = 0,
) -> Report:
    """Run the checks, or only those named, on a mechanism.

    `build` is a subclass of `Mechanism`, with `options` for its constructor, or a factory that
    takes the keywords query_dim, key_dim, num_heads and max_length.
    """
    return check_subject(subject_of(build, name=name, options=options), only=only, seed=seed)


def check_subject(subject: Subject, *, only: Iterable[str] = (), seed: int = 0) -> Report:
    """The same for what `find_subjects` found."""
    names = tuple(only) or tuple(CHECKS)
    for name in names:
        look_up("check", name, CHECKS)
    return Report(tuple(run_check(subject, name, seed=seed) for name in names))


def run_check(subject: Subject, check: str, *, seed: int = 0) -> Record:
    """One check of one mechanism. An exception inside the mechanism is a failure, not a crash."""
    entry = look_up("check", check, CHECKS)
    function = getattr(import_module(f"regard.conformance.{entry.module}"), check)
    outcome: Outcome = "passed"
    detail, worst = "", None
    try:
        # A mechanism that draws from the global generator fails in the same way every time.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            function(Case(subject=subject, seed=seed))
    except NotApplicable as reason:
        outcome, detail = "not_applicable", str(reason)
    except CheckFailed as failure:
        outcome, detail, worst = "failed", str(failure), failure.worst
    except Exception as error:
        outcome, detail = "failed", f"it raised {type(error).__name__}: {_first_line(error)}"
    return Record(
        mechanism=subject.name,
        check=check,
        outcome=outcome,
        detail=detail,
        worst=worst,
        seed=seed,
        again=subject.again(check, seed),
    )


def _first_line(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), "(no message)")
