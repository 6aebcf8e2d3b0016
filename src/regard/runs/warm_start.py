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
from regard.data.dataset import Dataset, train_rows
from regard.data.readers.text_file import RowErrors
from regard.data.splits import dedup_key
from regard.data.tokenizers.word_level import CharacterTagVocabulary, CharacterVocabulary
from regard.runs.build import build_task
from regard.runs.folder import RunFolder
from regard.runs.spec import RunSpec
from regard.tasks import task_class
from regard.tasks.language_model import LMOptions, qa_pairs
from regard.training.checkpoint import model_state, read_safetensors

MAX_LISTED = 3
CLASS_HEAD = "head."  # re-initialised for other labels


def initial_run(spec: RunSpec, folder: RunFolder | None = None) -> RunFolder | None:
    """The run to initialise from: `init_from`, or the pre-training in `folder`; None without either."""
    if spec.init_from is not None:
        before = RunFolder.existing(Path(spec.init_from))
        before.verify()
        if not before.record.is_file():
            raise RegardError(
                f"The run '{spec.init_from}' is not finished. Finish it first: regard train --resume "
                f"{spec.init_from}"
            )
        return before
    if spec.pretraining is not None and folder is not None:
        return folder.pretraining
    return None


def initial_preprocessor(spec: RunSpec, folder: RunFolder | None = None) -> Any:
    """The preprocessor of the initial run, as this task needs it; None without a warm start.

    That of a pre-training that has not started is fitted on its data. Labels that the initial run does
    not have are collected from the task's own data.
    """
    before = initial_run(spec, folder)
    if before is not None:
        record: object = before.read_json(before.preprocessor)
        origin = f"The run '{before.path}'"
    elif spec.pretraining is not None:
        record = build_task(spec.pretraining).dataset.preprocessor.as_json()
        origin = f"The pre-training '{spec.pretraining.task}'"
    else:
        return None
    try:
        kind = task_class(spec.task).preprocessor_class
        found = kind.from_json(record, spec.task_options).for_warm_start()
        _validate_tokens(spec, tokens_options(record))
        return found
    except RegardError as error:
        raise RegardError(f"{origin} cannot initialise the task '{spec.task}': {error}") from error


def tokens_options(record: Any) -> dict[str, str]:
    """The options of a task that name the tokenizers of a stored preprocessor."""
    source, target = record["input"], record["target"]
    sides = {"tokens": source, "source_tokens": source}
    sides["target_tokens"] = source if target == "input" else target
    kinds = {name: str(each["kind"]) for name, each in sides.items() if isinstance(each, dict)}
    characters = {CharacterTagVocabulary.kind: CharacterVocabulary.kind}
    return {name: characters.get(kind, kind) for name, kind in kinds.items()}


def _validate_tokens(spec: RunSpec, known: dict[str, str]) -> None:
    """Raise if the task asks for another tokenizer than that of the vocabulary it takes over."""
    for name, kind in known.items():
        own = getattr(spec.task_options, name, kind)
        if own != kind:
            raise RegardError(
                f"task.{name}={own}, but its vocabulary, which the task takes over, is of {kind}. Set "
                f"task.{name}={kind}, or choose another initial run."
            )


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
        return {"pretraining": build_task(spec.pretraining).dataset.facts()}
    return {}


def initial_specs(spec: RunSpec, folder: RunFolder) -> list[RunSpec]:
    """The specs of all initial runs of the run in `folder`, back to the first."""
    found: list[RunSpec] = []
    seen = {folder.path.resolve()}
    while spec.init_from is not None:
        before = RunFolder.existing(Path(spec.init_from))
        if before.path.resolve() in seen:
            raise RegardError(
                f"The run '{folder.path}' is initialised from '{before.path}', which leads back to itself. "
                "Restore the names of folders that were moved, or choose another --init-from."
            )
        seen.add(before.path.resolve())
        spec = RunSpec.read(before.spec, before.read_json(before.spec), changed_plugins="warn")
        found.append(spec)
    return found


def pretraining_leakage(spec: RunSpec, dataset: Dataset, folder: RunFolder) -> dict[str, int]:
    """How many inputs of each evaluation split occurred in training of the initial runs."""
    seen: set[str] = set()
    for earlier in initial_specs(spec, folder):
        seen |= _training_inputs(earlier)
        if earlier.pretraining is not None:
            seen |= _training_inputs(earlier.pretraining)
    splits = {"validation": dataset.validation, "test": dataset.test}
    return {
        name: sum(isinstance(each, str) and _key(each) in seen for each in split.inputs)
        for name, split in splits.items()
    }


def _key(text: str) -> str:
    return dedup_key(text, lowercase=True)


def _training_inputs(spec: RunSpec) -> set[str]:
    """The normalised inputs of the training split; of a language model, the questions mixed in."""
    options, ignored = spec.task_options, RowErrors(skip=True)
    if isinstance(options, LMOptions):
        pairs = qa_pairs(options, ignored) if options.qa_fraction else iter(())
        return {_key(question) for question, _ in pairs}
    kind = task_class(spec.task)
    if kind.input_kind != "tokens":
        return set()
    readers = kind.readers(options)
    rows = train_rows(kind.preprocessor_class, options, readers, ignored)
    return {_key(row.input) for row in rows}


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
    if spec.init_from is not None:
        log(f"model and vocabulary of {before.path}")
    with torch.no_grad():
        for name in shared:
            own[name].copy_(tensors[name])
    new = [name for name in own if name not in shared]
    listed = f"; new: {', '.join(new[:MAX_LISTED])}" if new else ""
    more = f" and {len(new) - MAX_LISTED} more" if len(new) > MAX_LISTED else ""
    log(f"{len(shared)} tensors initialised from {before.path}{listed}{more}")
