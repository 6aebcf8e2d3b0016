"""`regard check`: run the conformance suite on a mechanism."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from regard.cli.options import Seed
from regard.core.errors import RegardError
from regard.core.registry import parse_value


def run(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="TARGET...",
            help="Name of a mechanism, FILE.py:CLASS, or regard.mechanisms for all.",
        ),
    ],
    *,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="CHECK", help="Name of a check to run. May be repeated."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="OPTION=VALUE", help="Constructor option. May be repeated."),
    ] = None,
    seed: Seed = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Run the conformance suite. Exit code 0: all passed; 1: some failed; 2: not a mechanism.

    A check that does not apply is listed with the reason, a failure with the worst element and the
    command that runs it again.
    """
    from regard.conformance.subject import find_subjects
    from regard.conformance.suite import Report, check_subject

    options = read_settings(settings or [])
    subjects = [subject for target in targets for subject in find_subjects(target, options=options)]
    report = Report(())
    for subject in subjects:
        report += check_subject(subject, only=only or (), seed=seed)
    print(report.as_json() if as_json else report.as_text())
    if not report.passed:
        raise typer.Exit(code=1)


def read_settings(settings: list[str]) -> dict[str, Any]:
    """Parse `option=value` strings to a dict; a value that is not a Python literal is a string.

    >>> read_settings(["radius=3", "form=linear"])
    {'radius': 3, 'form': 'linear'}
    """
    options: dict[str, Any] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not (equals and name.isidentifier()):
            raise RegardError(f"--set {setting}: use OPTION=VALUE, such as --set radius=3.")
        options[name] = parse_value(text)
    return options
