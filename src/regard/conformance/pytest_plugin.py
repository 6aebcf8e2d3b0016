"""Pytest plug-in: `pytest --regard-check my.py:MyAttention` runs the conformance suite.

pytest imports this module in every project that has regard installed, so torch and the rest of regard
are imported inside functions only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--regard-check` and `--regard-seed`."""
    group = parser.getgroup("regard", "regard: conformance suite for attention mechanisms")
    group.addoption(
        "--regard-check",
        action="append",
        default=[],
        metavar="TARGET",
        help="Run every check of a mechanism as a test: a name, or FILE.py:CLASS. May be repeated.",
    )
    group.addoption("--regard-seed", type=int, default=0, help="Random seed of the checks.")


@pytest.hookimpl(tryfirst=True)  # before -k and -m choose among the items
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Add one test item per check and target."""
    targets = config.getoption("--regard-check")
    if not targets:
        return
    from regard.conformance.subject import find_subjects
    from regard.conformance.suite import BoundCheck
    from regard.conformance.table import CHECKS
    from regard.core.errors import RegardError

    seed = config.getoption("--regard-seed")
    try:
        subjects = [subject for target in targets for subject in find_subjects(target)]
    except RegardError as error:
        raise pytest.UsageError(str(error)) from error
    items += [
        CheckItem.from_parent(
            session, name=f"{subject.name}[{check}]", run=BoundCheck(subject, check, seed)
        )
        for subject in subjects
        for check in CHECKS
    ]


class CheckItem(pytest.Item):
    """One check of one mechanism."""

    def __init__(self, *, run: Callable[[], None], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run = run

    def runtest(self) -> None:
        """Run the check."""
        self.run()

    def reportinfo(self) -> tuple[Any, int | None, str]:
        """Location shown by pytest."""
        return self.path, None, self.name
