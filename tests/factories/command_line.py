"""The `regard` command inside this process."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple

from regard.cli.main import main


class Ran(NamedTuple):
    """What a command left with, and what it wrote."""

    returncode: int | str | None
    stdout: str
    stderr: str


def exit_code(arguments: list[str]) -> int | str | None:
    """What the command leaves with."""
    try:
        main(arguments)
    except SystemExit as stop:
        return stop.code
    return 0


def regard(*arguments: object) -> Ran:
    """Run the command; arguments are written as they would be typed."""
    stdout, stderr = io.StringIO(), io.StringIO()
    with redirect_stdout(stdout), redirect_stderr(stderr):
        code = exit_code([str(argument) for argument in arguments])
    return Ran(code or 0, stdout.getvalue(), stderr.getvalue())
