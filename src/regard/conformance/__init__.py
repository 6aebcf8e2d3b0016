"""The conformance suite: checks that every attention mechanism, built in or a user's, must pass.

from regard.conformance import CHECKS, check_mechanism

report = check_mechanism(MyAttention)
print(report.as_text())
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.core.exports import lazy_exports

if TYPE_CHECKING:
    from regard.conformance.case import CheckFailed as CheckFailed, NotApplicable as NotApplicable
    from regard.conformance.overview import build_overview as build_overview
    from regard.conformance.suite import (
        CheckResult as CheckResult,
        Report as Report,
        check_mechanism as check_mechanism,
        parametrize_checks as parametrize_checks,
    )
    from regard.conformance.table import CHECKS as CHECKS

__all__, __getattr__, __dir__ = lazy_exports(__name__)
