"""The option `--seed`, the same for every verb that draws at random."""

from __future__ import annotations

from typing import Annotated

import typer

from regard.core.errors import RegardError

GREATEST_SEED = 2**63 - 1


def whole_number(given: str | int) -> str | int:
    """The number that a text spells; the text itself where it spells none.

    The default comes through here too, as the number it is. A text is for `require_seed` to refuse:
    an error that is raised here would be reworded by Typer, and lose the value.
    """
    try:
        return int(given)
    except ValueError:
        return given


def require_seed(seed: str | int) -> int:
    """The seed itself, which is refused unless the generator of torch takes it as it is."""
    if isinstance(seed, str) or not 0 <= seed <= GREATEST_SEED:
        raise RegardError(
            f"--seed {seed}: a seed is a whole number from 0 to {GREATEST_SEED} (2**63 - 1). "
            "Choose one of those."
        )
    return seed


Seed = Annotated[
    int,
    typer.Option(
        "--seed",
        metavar="NUMBER",
        help="What the inputs and parameters are drawn from; 0 or more.",
        parser=whole_number,
        callback=require_seed,
    ),
]
