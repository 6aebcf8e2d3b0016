"""What a recurrent encoder–decoder may be built of, and the errors when it is something else."""

from __future__ import annotations

from typing import Any

from regard.core.errors import RegardError
from regard.core.mechanism import Mechanism
from regard.core.names import look_up
from regard.mechanisms import MECHANISMS, build_mechanism, is_plugged_in
from regard.models.recurrent_cell import CELL_STEPS

WIRINGS = {
    "before": "the source is read with the last state, before the cell's update",
    "after": "the source is read with the new state, after the cell's update",
}
TIES = {
    "target": "the target embedding is the output matrix",
    "none": "the output matrix is one of its own",
}
SCORES = ("dot", "scaled_dot", "general", "additive", "location")
WITHOUT = "none"


def require_choices(
    *, cell: str, wiring: str, mechanism: str | None, input_feeding: bool, tie: str
) -> None:
    """Refuse names that are not in the tables and choices that do not go together."""
    look_up("recurrent cell", cell, CELL_STEPS)
    look_up("wiring", wiring, WIRINGS)
    look_up("tie", tie, TIES)
    if not input_feeding:
        return
    if mechanism is None or mechanism == WITHOUT:
        raise RegardError(
            "RecurrentEncoderDecoder has input_feeding=True and no attention: what is fed back is "
            "what was attended to. Choose a mechanism, or input_feeding=False."
        )
    if wiring == "before":
        raise RegardError(
            "RecurrentEncoderDecoder has input_feeding=True with wiring='before', whose cell reads "
            "the context already. Choose wiring='after', or input_feeding=False."
        )


def source_mechanism(
    mechanism: str | None, *, width: int, max_length: int, options: dict[str, Any]
) -> Mechanism | None:
    """The score by which the decoder reads the source, for one head; None without attention."""
    if mechanism is None or mechanism == WITHOUT:
        if options:
            raise RegardError(
                f"RecurrentEncoderDecoder has mechanism_options={options} and no mechanism. "
                f"Choose one of: {', '.join(SCORES)}; or leave the options out."
            )
        return None
    if mechanism not in SCORES and not is_plugged_in(mechanism):
        if mechanism in MECHANISMS:
            raise RegardError(
                f"Mechanism '{mechanism}' does not fit a recurrent decoder, which scores the source "
                f"with one query at a time. Choose one of: {', '.join(SCORES)}; or {WITHOUT}."
            )
        look_up("mechanism", mechanism, dict.fromkeys((*SCORES, WITHOUT)))
    return build_mechanism(
        mechanism, query_dim=width, key_dim=width, max_length=max_length, **options
    )
