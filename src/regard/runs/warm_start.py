"""What a run starts from: the vocabularies and weights of a run before it, if there is one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.core.errors import RegardError
from regard.data.readers.text_file import BadRows
from regard.data.splits import as_read
from regard.runs.build import build_task
from regard.runs.folder import RunFolder
from regard.runs.spec import RunSpec
from regard.tasks import task_class
from regard.tasks.language_model.corpus import LmOptions, mixed_pairs
from regard.tasks.seq2seq.corpus import PairOptions, rows_of_part
from regard.tasks.seq2seq.task import PairTask
from regard.training.checkpoint import model_tensors, unpack

NAMED_AT_MOST = 3
OWN_LABELS = "class_head"  # what a classifier has for its labels


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
        return task_class(spec.task).vocabularies_class.from_json(record).to_start_with()
    except RegardError as error:
        raise RegardError(
            f"{where} cannot be the start of the task '{spec.task}': {error}"
        ) from error


def start_facts(spec: RunSpec, folder: RunFolder | None = None) -> dict[str, Any]:
    """What shows any later change in what a run starts from: the weights, or the texts read first.

    Those of a pre-training that is over are in its own `folder`.
    """
    if spec.pretraining is not None and folder is not None:
        return {"pretraining": folder.pretraining.read_json(folder.pretraining.data)}
    before = run_before(spec)
    if before is not None:
        digest = hashlib.blake2b(before.model.read_bytes(), digest_size=16).hexdigest()
        return {"start_fingerprint": digest}
    if spec.pretraining is not None:
        return {"pretraining": build_task(spec.pretraining).corpus.facts()}
    return {}


def learned_before(spec: RunSpec) -> set[str]:
    """The questions, as they are read, that the runs before this one have learned the answers to."""
    found: set[str] = set()
    before = None if spec.start is None else RunFolder.existing(Path(spec.start))
    while before is not None:
        earlier = RunSpec.from_sections(before.read_json(before.spec))
        found |= _questions(earlier)
        if earlier.pretraining is not None:
            found |= _questions(earlier.pretraining)
        before = None if earlier.start is None else RunFolder.existing(Path(earlier.start))
    return found


def held_out_learned_before(spec: RunSpec, corpus: Any) -> dict[str, int]:
    """How many sources of each held-out part the runs before have learned: their scores say little."""
    learned = learned_before(spec)
    parts = {"validation": corpus.validation, "test": corpus.test}
    return {
        name: sum(as_read(source, lowercase=True) in learned for source in part.sources)
        for name, part in parts.items()
    }


def _questions(spec: RunSpec) -> set[str]:
    """Those that a run learns from."""
    options, unheard = spec.task_options, BadRows(skip=True)
    if isinstance(options, LmOptions):
        pairs = mixed_pairs(options, unheard) if options.pair_share else iter(())
        return {as_read(question, lowercase=True) for question, _ in pairs}
    kind = task_class(spec.task)
    if isinstance(options, PairOptions) and issubclass(kind, PairTask):
        rows = rows_of_part(options, kind.training_pairs(options), "train", unheard)
        return {as_read(row.source, lowercase=True) for row in rows}
    return set()


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
    for name in list(shared):
        was, now = tuple(tensors[name].shape), tuple(own[name].shape)
        if was != now and name.startswith(OWN_LABELS):
            shared.remove(name)  # other labels need another head
        elif was != now:
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
    new = [name for name in own if name not in shared]
    told = f"; new: {', '.join(new[:NAMED_AT_MOST])}" if new else ""
    more = f" and {len(new) - NAMED_AT_MOST} more" if len(new) > NAMED_AT_MOST else ""
    tell(f"{len(shared)} tensors start from {before.path}{told}{more}")
