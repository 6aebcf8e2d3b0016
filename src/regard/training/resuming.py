"""Whether a run may go on from a checkpoint with the options at hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard.core.errors import RegardError
from regard.training.counters import Counters
from regard.training.options import BUDGETS, TrainingOptions


def counters_to_go_on(
    facts: dict[str, Any], *, options: TrainingOptions, seed: int, path: Path
) -> tuple[Counters, dict[str, int]]:
    """Where the run stands, and how long its files of rows were.

    Other options are refused: budgets may differ, as long as none of them is lowered; all else must be
    as it was. A run that had used up its budget is not finished any more if that was raised.
    """
    try:
        before = {**facts["options"], "seed": facts["seed"]}
        counters, lengths = Counters(**facts["counters"]), dict(facts["lengths"])
    except (KeyError, TypeError) as error:
        raise RegardError(
            f"'{path}' was written by another version of regard ({error}). Train anew in another "
            "folder."
        ) from error
    now = {**options.as_dict(), "seed": seed}
    folder = path.parent
    changed = [name for name in now if name not in BUDGETS and before.get(name) != now[name]]
    if changed:
        differences = ", ".join(
            f"{name} was {before.get(name)!r}, is {now[name]!r}" for name in changed
        )
        raise RegardError(
            f"The run in '{folder}' was begun with other options: {differences}. On resuming, only "
            f"the budgets may change ({', '.join(BUDGETS)}). Resume with the options as they were, or "
            "train anew in another folder."
        )
    for name in BUDGETS:
        old, new = before.get(name), now[name]
        if old is not None and new is not None and new < old:
            raise RegardError(
                f"The run in '{folder}' was begun with {name}={old}, and {name}={new} is less. On "
                "resuming, a budget may be raised, added or left away, not lowered."
            )
    if counters.finished == "budget" and not options.budget.is_used(counters.used):
        counters.finished = None
    return counters, lengths
