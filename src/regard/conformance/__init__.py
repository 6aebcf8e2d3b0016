"""The checks that any mechanism, ours or a user's, must pass.

    from regard.conformance import CHECKS, check_mechanism

    report = check_mechanism(MyAttention)
    print(report.as_text())

Names arrive on first use, so that neither the table of checks nor the pytest plug-in imports torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.conformance.parametrize import parametrize_checks
    from regard.conformance.report import Record, Report
    from regard.conformance.suite import check_mechanism
    from regard.conformance.table import CHECKS
    from regard.conformance.verdict import CheckFailed, NotApplicable

__all__ = [
    "CHECKS",
    "CheckFailed",
    "NotApplicable",
    "Record",
    "Report",
    "check_mechanism",
    "parametrize_checks",
]

_MODULE_OF = {
    "CHECKS": "regard.conformance.table",
    "CheckFailed": "regard.conformance.verdict",
    "NotApplicable": "regard.conformance.verdict",
    "Record": "regard.conformance.report",
    "Report": "regard.conformance.report",
    "check_mechanism": "regard.conformance.suite",
    "parametrize_checks": "regard.conformance.parametrize",
}


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(
            f"module '{__name__}' has no attribute '{name}'. It exports: {', '.join(__all__)}."
        )
    return getattr(import_module(_MODULE_OF[name]), name)
