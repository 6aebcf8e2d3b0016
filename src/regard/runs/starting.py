"""What a run starts from: the vocabularies and weights of a run before it, if there is one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.core.errors import RegardError
from regard.runs.build import build_task
from regard.runs.run_folder import RunFolder
from regard.runs.spec import RunSpec
from regard.tasks import task_class
from regard.training.weights import model_tensors, unpack

NAMED_AT_MOST = 3


def run_before(spec: RunSpec, folder: RunFolder | None = None) -> RunFolder | None:
    """The run that this one starts from: one that is named, or its own pre-training in `folder`."""
    if spec.start is not None:
        before = RunFolder.existing(Path(spec.start))
        if not before.model.is_file():
            raise RegardError(
                f"The run '{spec.start}' has no weights yet. Finish it first: regard train --resume "
                f"{spec.start}"
            )
        return before
    if spec.pretraining is not None and folder is not None:
        return folder.pretraining
    return None


def start_vocabularies(spec: RunSpec, folder: RunFolder | None = None) -> Any:
    """The vocabularies that a run starts with, as its task needs them; None where it builds its own.

    Those of a pre-training that has not begun are built from its texts. Labels are a task's own: they are
    found in its data if the run before has none.
    """
    before = run_before(spec, folder)
    if before is not None:
        record: object = before.read_json(before.vocabulary)
        where = f"The run '{before.path}'"
    elif spec.pretraining is not None:
        record = build_task(spec.pretraining).corpus.vocabularies.as_json()
        where = f"The pre-training '{spec.pretraining.task}'"
    else:
        return None
    try:
        return task_class(spec.task).vocabularies_class.from_json(record)
    except RegardError as error:
        raise RegardError(
            f"{where} cannot be the start of the task '{spec.task}': {error}"
        ) from error


def take_start_weights(
    spec: RunSpec, folder: RunFolder, model: nn.Module, *, tell: Callable[[str], None]
) -> None:
    """Give a model the weights of the run before: all tensors that both have, which must fit."""
    before = run_before(spec, folder)
    if before is None:
        return
    way_out = f"Restore it, or finish that run: regard train --resume {before.path}"
    tensors, _ = unpack(before.model, way_out=way_out)
    own = model_tensors(model)
    shared = [name for name in own if name in tensors]
    for name in shared:
        was, now = tuple(tensors[name].shape), tuple(own[name].shape)
        if was != now:
            raise RegardError(
                f"The run '{before.path}' cannot be the start of this one: '{name}' has the shape {was} "
                f"there and {now} here. Use the model options of that run (its spec.json)."
            )
    if not shared:
        raise RegardError(
            f"The run '{before.path}' cannot be the start of this one: its model shares no part with "
            f"'{spec.model}'. Set model.name to that of its spec.json."
        )
    with torch.no_grad():
        for name in shared:
            own[name].copy_(tensors[name])
    new = [name for name in own if name not in tensors]
    told = f"; new: {', '.join(new[:NAMED_AT_MOST])}" if new else ""
    more = f" and {len(new) - NAMED_AT_MOST} more" if len(new) > NAMED_AT_MOST else ""
    tell(f"{len(shared)} tensors start from {before.path}{told}{more}")
