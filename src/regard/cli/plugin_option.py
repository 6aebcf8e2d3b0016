"""The option `--plugin`, the same for every verb that builds models."""

from __future__ import annotations

from typing import Annotated

import typer

Plugins = Annotated[
    list[str] | None,
    typer.Option(
        "--plugin",
        metavar="FILE.py:CLASS",
        help="A mechanism of your own, then known by its class's name. May be repeated.",
    ),
]


def plug_in_all(plugins: list[str] | None) -> None:
    """Make the mechanisms that were named known. Their files are run: name only what you trust."""
    if not plugins:
        return
    from regard.conformance.subjects import class_at
    from regard.mechanisms import plug_in

    for target in plugins:
        plug_in(class_at(target))
