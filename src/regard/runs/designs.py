"""Other models for the same task: each model and mechanism that can take the place of a spec's own."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from regard.mechanisms.fitting import fitting_mechanisms
from regard.models import model_class
from regard.models.recurrent_choices import SCORES, WITHOUT
from regard.runs.spec import RunSpec

PLACES = ("encoder", "decoder", "cross")
# What belongs to the mechanism that is replaced.
OF_THE_MECHANISM = {
    *("mechanism", "mechanism_options"),
    *(f"{place}_{what}" for place in PLACES for what in ("mechanism", "options")),
}
HEADS = 4
# The width of a head is even, for positions that turn pairs of numbers.
WIDTH_OF_A_HEAD = 2


def designs(spec: RunSpec) -> Iterator[RunSpec]:
    """The spec with every mechanism in its model's place, then those of the other model, as wide.

    A decoder-only model stands for itself: what it has read before is in its one stack.
    """
    models = {"recurrent": [WITHOUT, *SCORES], "transformer": mechanisms_for_all_places()}
    if spec.model == "decoder_only":
        causal = fitting_mechanisms(role="self", causal=True, masks=frozenset({"causal"}))
        models = {"decoder_only": causal}
    for model, others in models.items():
        options = spec.model_options if model == spec.model else _as_wide(spec)
        kept = {name: value for name, value in options.items() if name not in OF_THE_MECHANISM}
        for mechanism in others:
            yield replace(spec, model=model, model_options={**kept, "mechanism": mechanism})


def mechanisms_for_all_places() -> list[str]:
    """Those that can be the encoder's, the decoder's and what reads the source in a Transformer."""
    encoder = fitting_mechanisms(role="self", causal=False, masks=frozenset({"padding"}))
    decoder = fitting_mechanisms(role="self", causal=True, masks=frozenset({"causal"}))
    cross = fitting_mechanisms(role="cross", causal=False, masks=frozenset({"padding"}))
    return [name for name in encoder if name in decoder and name in cross]


def option_of(spec: RunSpec, name: str) -> Any:
    """An option of the spec's model, as given or as it is else."""
    default = inspect.signature(model_class(spec.model)).parameters[name].default
    return spec.model_options.get(name, default)


def _as_wide(spec: RunSpec) -> dict[str, Any]:
    """The other model in the width of this one; its depth is its own."""
    dropout = {"dropout": option_of(spec, "dropout")}
    if spec.model == "transformer":
        width = option_of(spec, "model_dim")
        return {"embedding_dim": width, "hidden_dim": width, "wiring": "after", **dropout}
    unit = HEADS * WIDTH_OF_A_HEAD
    width = max(1, round(option_of(spec, "hidden_dim") / unit)) * unit
    tie = "all" if spec.task_options.shared_vocabulary else "target"
    return {"model_dim": width, "num_heads": HEADS, "tie": tie, **dropout}
