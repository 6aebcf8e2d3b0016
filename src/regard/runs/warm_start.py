"""Warm start: initialising a run from a finished run (`init_from`) or its own pre-training (fine-tuning).

Also the leakage this causes: evaluation inputs of the run that occurred in training of the initial runs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.core.errors import RegardError
from regard.data.readers.text_file import RowErrors
from regard.data.splits import dedup_key
from regard.runs.build import build_task
from regard.runs.folder import RunFolder
from regard.runs.spec import RunSpec
from regard.tasks import task_class
from regard.tasks.language_model.corpus import LMOptions, qa_pairs
from regard.tasks.seq2seq.corpus import Seq2SeqOptions, split_rows
from regard.tasks.seq2seq.task import Seq2SeqTask
from regard.training.checkpoint import model_state, read_safetensors

MAX_LISTED = 3
CLASS_HEAD = "class_head"  # re-initialised for other labels


def initial_run(spec: RunSpec, folder: RunFolder | None = None) -> RunFolder | None:
    """The run to initialise from: `init_from`, or the pre-training in `folder`; None without either."""
    if spec.init_from is not None:
        before = RunFolder.existing(Path(spec.init_from))
        if not before.model.is_file():
            raise RegardError(
                f"The run '{spec.init_from}' has no trained model yet. Finish it first: regard train "
                f"--resume {spec.init_from}"
            )
        return before
    if spec.pretraining is not None and folder is not None:
        return folder.pretraining
    return None


def initial_vocabularies(spec: RunSpec, folder: RunFolder | None = None) -> Any:
    """The vocabularies of the initial run, as this task needs them; None without a warm start.

    Those of a pre-training that has not started are built from its data. Labels that the initial run does
    not have are collected from the task's own data.
    """
    before = initial_run(spec, folder)
    if before is not None:
        record: object = before.read_json(before.vocabulary)
        origin = f"The run '{before.path}'"
    elif spec.pretraining is not None:
        record = build_task(spec.pretraining).corpus.vocabularies.as_json()
        origin = f"The pre-training '{spec.pretraining.task}'"
    else:
        return None
    try:
        return task_class(spec.task).vocabularies_class.from_json(record).for_warm_start()
    except RegardError as error:
        raise RegardError(f"{origin} cannot initialise the task '{spec.task}': {error}") from error


def warm_start_facts(spec: RunSpec, folder: RunFolder | None = None) -> dict[str, Any]:
    """A fingerprint of the initial model, or the data facts of the pre-training.

    With `folder`, those of a finished pre-training are read from there.
    """
    if spec.pretraining is not None and folder is not None:
        return {"pretraining": folder.pretraining.read_json(folder.pretraining.data)}
    before = initial_run(spec)
    if before is not None:
        digest = hashlib.blake2b(before.model.read_bytes(), digest_size=16).hexdigest()
        return {"init_fingerprint": digest}
    if spec.pretraining is not None:
        return {"pretraining": build_task(spec.pretraining).corpus.facts()}
    return {}


def pretraining_inputs(spec: RunSpec) -> set[str]:
    """The normalised training inputs of all initial runs, back to the first."""
    found: set[str] = set()
    before = None if spec.init_from is None else RunFolder.existing(Path(spec.init_from))
    while before is not None:
        earlier = RunSpec.from_sections(before.read_json(before.spec))
        found |= _training_inputs(earlier)
        if earlier.pretraining is not None:
            found |= _training_inputs(earlier.pretraining)
        before = None if earlier.init_from is None else RunFolder.existing(Path(earlier.init_from))
    return found


def pretraining_leakage(spec: RunSpec, corpus: Any) -> dict[str, int]:
    """How many inputs of each evaluation split occurred in training of the initial runs."""
    seen = pretraining_inputs(spec)
    splits = {"validation": corpus.validation, "test": corpus.test}
    return {
        name: sum(dedup_key(source, lowercase=True) in seen for source in split.inputs)
        for name, split in splits.items()
    }


def _training_inputs(spec: RunSpec) -> set[str]:
    """The normalised inputs of the training split."""
    options, ignored = spec.task_options, RowErrors(skip=True)
    if isinstance(options, LMOptions):
        pairs = qa_pairs(options, ignored) if options.qa_fraction else iter(())
        return {dedup_key(question, lowercase=True) for question, _ in pairs}
    kind = task_class(spec.task)
    if isinstance(options, Seq2SeqOptions) and issubclass(kind, Seq2SeqTask):
        rows = split_rows(options, kind.train_source(options), "train", ignored)
        return {dedup_key(row.source, lowercase=True) for row in rows}
    return set()


def load_initial_parameters(
    spec: RunSpec, folder: RunFolder, model: nn.Module, *, log: Callable[[str], None]
) -> None:
    """Copy the parameters of the initial run: all tensors that both models have; shapes must match."""
    before = initial_run(spec, folder)
    if before is None:
        return
    way_out = f"Restore it, or finish that run: regard train --resume {before.path}"
    tensors, _ = read_safetensors(before.model, way_out=way_out)
    own = model_state(model)
    shared = [name for name in own if name in tensors]
    for name in list(shared):
        was, now = tuple(tensors[name].shape), tuple(own[name].shape)
        if was != now and name.startswith(CLASS_HEAD):
            shared.remove(name)
        elif was != now:
            raise RegardError(
                f"The run '{before.path}' cannot initialise this one: '{name}' has shape {was} there and "
                f"{now} here. Use the model options of that run (its spec.json)."
            )
    if not shared:
        raise RegardError(
            f"The run '{before.path}' cannot initialise this one: its model has no parameters in common "
            f"with '{spec.model}'. Use the model.name of its spec.json."
        )
    with torch.no_grad():
        for name in shared:
            own[name].copy_(tensors[name])
    new = [name for name in own if name not in shared]
    listed = f"; new: {', '.join(new[:MAX_LISTED])}" if new else ""
    more = f" and {len(new) - MAX_LISTED} more" if len(new) > MAX_LISTED else ""
    log(f"{len(shared)} tensors initialised from {before.path}{listed}{more}")
