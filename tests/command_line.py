"""The `regard` command inside this process."""

from __future__ import annotations

from regard.cli.main import main


def exit_code(arguments: list[str]) -> int | str | None:
    """What the command leaves with."""
    try:
        main(arguments)
    except SystemExit as stop:
        return stop.code
    return 0
