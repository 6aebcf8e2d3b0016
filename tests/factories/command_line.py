"""Run the `regard` command in this process."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple

from regard.cli.main import main


class CommandResult(NamedTuple):
    """Exit code and output of a command."""

    returncode: int | str | None
    stdout: str
    stderr: str


def exit_code(arguments: list[str]) -> int | str | None:
    """The exit code of a command."""
    try:
        main(arguments)
    except SystemExit as stop:
        return stop.code
    return 0


def regard(*arguments: object) -> CommandResult:
    """Run a command and capture its output."""
    stdout, stderr = io.StringIO(), io.StringIO()
    with redirect_stdout(stdout), redirect_stderr(stderr):
        code = exit_code([str(argument) for argument in arguments])
    return CommandResult(code or 0, stdout.getvalue(), stderr.getvalue())
