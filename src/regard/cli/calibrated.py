"""The calibration of this machine: the one that is kept, or one measured now."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from regard.core.errors import RegardError

if TYPE_CHECKING:
    from regard.costs.calibration import Calibration


def calibrated(*, anew: bool = False) -> Calibration:
    """Measured where none is kept for this machine, threads and torch, or if `anew`; then kept.

    Freed memory is kept while measuring, as it is while training.
    """
    from regard.core.allocator import keep_freed_memory
    from regard.costs.calibration import calibrate, calibration_path, keep, kept_calibration

    kept = None if anew else kept_calibration()
    if kept is not None:
        return kept
    keep_freed_memory()
    typer.echo("measuring this machine once, which takes about half a minute", err=True)
    measured = calibrate(_progress)
    _progress("done", 1.0)
    if sys.stderr.isatty():
        typer.echo("", err=True)
    try:
        keep(measured)
    except (OSError, RegardError) as error:
        # What was measured is good for now; only the next time it has to be measured again.
        typer.echo(f"it cannot be kept: {error} Name another folder in $REGARD_CACHE.", err=True)
    else:
        typer.echo(f"kept in {calibration_path()}", err=True)
    return measured


def _progress(what: str, share: float) -> None:
    if sys.stderr.isatty():
        typer.echo(f"\r{share:4.0%}  {what:<28}", err=True, nl=False)
