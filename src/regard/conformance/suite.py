"""Run conformance checks, collect results, and parametrize pytest tests with them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import torch

from regard.conformance.case import Case, CheckFailed, NotApplicable, Worst
from regard.conformance.subject import Subject, subject_of
from regard.conformance.table import CHECKS
from regard.core.mechanism import Mechanism
from regard.core.records.overview import Outcome
from regard.core.registry import lookup

if TYPE_CHECKING:
    import pytest

OUTCOME_LABELS: dict[Outcome, str] = {
    "passed": "passed",
    "failed": "FAILED",
    "not_applicable": "does not apply",
}


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """The result of one check on one mechanism; `command` runs it again."""

    mechanism: str
    check: str
    outcome: Outcome
    detail: str
    worst: Worst | None
    seed: int
    command: str

    def message(self) -> str:
        """The full failure message."""
        failure = f"{self.mechanism} fails {self.check} (seed {self.seed}): {self.detail}"
        return f"{failure}\n  {self.command}"


@dataclass(frozen=True)
class Report:
    """Results of one or more mechanisms."""

    records: tuple[CheckResult, ...]

    def __add__(self, other: Report) -> Report:
        return Report(self.records + other.records)

    @property
    def failures(self) -> tuple[CheckResult, ...]:
        """The failed checks."""
        return tuple(record for record in self.records if record.outcome == "failed")

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return not self.failures

    def as_records(self) -> list[dict[str, Any]]:
        """The results as dicts."""
        return [asdict(record) for record in self.records]

    def as_json(self) -> str:
        """The results as a JSON list."""
        return json.dumps(self.as_records(), indent=2, ensure_ascii=False)

    def as_text(self) -> str:
        """One block per mechanism; passed checks are listed for a single mechanism only."""
        names = list(dict.fromkeys(record.mechanism for record in self.records))
        blocks = [self._block(name, list_passed=len(names) == 1) for name in names]
        if len(names) > 1:
            total = Counter(record.outcome for record in self.records)
            blocks.append(f"{len(names)} mechanisms: {_tally(total)}")
        return "\n\n".join(blocks)

    def _block(self, name: str, *, list_passed: bool) -> str:
        own = [record for record in self.records if record.mechanism == name]
        lines = [f"{name}: {_tally(Counter(record.outcome for record in own))}"]
        shown = [record for record in own if list_passed or record.outcome != "passed"]
        width = max((len(record.check) for record in shown), default=0)
        for record in shown:
            line = (
                f"  {OUTCOME_LABELS[record.outcome]:<14}  {record.check:<{width}}  {record.detail}"
            )
            lines.append(line.rstrip())
            if record.outcome == "failed":
                lines.append(f"{'':<18}{record.command}")
        return "\n".join(lines)


def _tally(counts: Counter[Outcome]) -> str:
    return (
        f"{counts['passed']} passed, {counts['failed']} failed, "
        f"{counts['not_applicable']} do not apply"
    )


def check_mechanism(
    build: type[Mechanism] | Callable[..., Mechanism],
    *,
    name: str | None = None,
    options: Mapping[str, Any] | None = None,
    only: Iterable[str] = (),
    seed: int = 0,
) -> Report:
    """Run all checks, or those in `only`, on a mechanism.

    `build` is a subclass of `Mechanism`, with `options` for its constructor, or a factory that
    takes the keywords query_dim, key_dim, num_heads and max_length.
    """
    return check_subject(subject_of(build, name=name, options=options), only=only, seed=seed)


def check_subject(subject: Subject, *, only: Iterable[str] = (), seed: int = 0) -> Report:
    """Run all checks, or those in `only`, on a subject."""
    names = tuple(only) or tuple(CHECKS)
    for name in names:
        lookup("check", name, CHECKS)
    return Report(tuple(run_check(subject, name, seed=seed) for name in names))


def run_check(subject: Subject, check: str, *, seed: int = 0) -> CheckResult:
    """Run one check. An exception raised by the mechanism is a failure."""
    entry = lookup("check", check, CHECKS)
    function = getattr(import_module(f"regard.conformance.{entry.module}"), check)
    outcome: Outcome = "passed"
    detail, worst = "", None
    try:
        # Reproducible failures for mechanisms that use the global generator.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            function(Case(subject=subject, seed=seed))
    except NotApplicable as reason:
        outcome, detail = "not_applicable", str(reason)
    except CheckFailed as failure:
        outcome, detail, worst = "failed", str(failure), failure.worst
    except Exception as error:
        outcome, detail = "failed", f"raised {type(error).__name__}: {_first_line(error)}"
    return CheckResult(
        mechanism=subject.name,
        check=check,
        outcome=outcome,
        detail=detail,
        worst=worst,
        seed=seed,
        command=subject.command(check, seed),
    )


def _first_line(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), "(no message)")


@dataclass(frozen=True)
class BoundCheck:
    """A check bound to a mechanism; calling it passes, skips or fails the current test."""

    subject: Subject
    check: str
    seed: int

    def __call__(self) -> None:
        """Run the check."""
        import pytest

        __tracebackhide__ = True
        record = run_check(self.subject, self.check, seed=self.seed)
        if record.outcome == "not_applicable":
            pytest.skip(record.detail)
        if record.outcome == "failed":
            pytest.fail(record.message(), pytrace=False)


def parametrize_checks(
    build: type[Mechanism] | Callable[..., Mechanism],
    *,
    name: str | None = None,
    options: Mapping[str, Any] | None = None,
    only: Iterable[str] = (),
    seed: int = 0,
) -> pytest.MarkDecorator:
    """Run a test with argument `check` once per check. Arguments as for `check_mechanism`."""
    import pytest

    subject = subject_of(build, name=name, options=options)
    names = tuple(only) or tuple(CHECKS)
    for chosen in names:
        lookup("check", chosen, CHECKS)
    checks = [pytest.param(BoundCheck(subject, chosen, seed), id=chosen) for chosen in names]
    return pytest.mark.parametrize("check", checks)
