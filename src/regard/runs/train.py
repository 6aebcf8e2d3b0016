"""Training a run: read the data, build the model, train, evaluate the best checkpoint, write the record."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

import torch
from torch import nn

from regard.core.atomic_write import atomic_write, remove_temporary_files
from regard.core.errors import RegardError
from regard.core.manifest import content_state
from regard.runs.build import build_decoding, build_spec_model, build_task, flops_counter
from regard.runs.folder import (
    EXTENDED_FROM,
    EXTENDING,
    RunFolder,
    as_json_text,
    write_predictions,
)
from regard.runs.spec import RunSpec, spec_key
from regard.runs.warm_start import (
    initial_preprocessor,
    initial_specs,
    load_initial_parameters,
    pretraining_leakage,
    warm_start_facts,
)
from regard.tasks import task_class
from regard.tasks.task import Task
from regard.training.callbacks import Callback, Outcome
from regard.training.checkpoint import load_parameters, read_checkpoint
from regard.training.loop import train
from regard.training.options import BUDGETS

Record = dict[str, Any]


def read_spec(folder: RunFolder, **changed_plugins: Any) -> RunSpec:
    """The spec of an existing run; `changed_plugins` as for `RunSpec.from_sections`.

    Its key must be that of the manifest.
    """
    spec = RunSpec.read(folder.spec, folder.read_json(folder.spec), **changed_plugins)
    if (key := spec_key(spec)) not in (keys := folder.manifest.read().keys):
        raise RegardError(
            f"'{folder.spec}' is not the spec of this run: its key is {key}, that of the run "
            f"{', '.join(keys)}. Restore the folder from a copy, or train the run again in another folder."
        )
    return spec


def begin_run(
    spec: RunSpec,
    folder: RunFolder,
    *,
    dataset: Any = None,
    callbacks: Sequence[Callback] = (),
    log: Callable[[str], None] = lambda _: None,
) -> Record | None:
    """Train a new run; returns its record, or None if interrupted.

    The folder is created after the data was read and the model built, and removed again if an error occurs
    before the first checkpoint. `dataset` and `log` as for `resume_run`.
    """
    folder.validate_new()
    initial_specs(spec, folder)  # raises if the runs to initialise from lead back here
    if spec.pretraining is not None:
        _validate_pretraining(spec.pretraining, folder)
    log("reading the data")
    if dataset is None:
        # Before any pre-training, so that errors in the data are found early.
        dataset = build_task(spec, preprocessor=initial_preprocessor(spec)).dataset
    with torch.device("meta"):  # errors in the model options are found early
        build_spec_model(spec, dataset.preprocessor)
    folder.make()
    with folder.lock():
        folder.validate_new()  # again: another process may have started a run there
        remove_temporary_files(folder.path)
        folder.manifest.create(key=spec_key(spec))
        folder.write_json(folder.spec, spec.as_sections())
        try:
            return _continue_run(spec, folder, dataset=dataset, callbacks=callbacks, log=log)
        except RegardError:
            # Some errors occur at the first batch only, such as texts longer than the model's maximum.
            if not folder.checkpoint.exists() and not folder.pretraining.checkpoint.exists():
                folder.clear()
            raise


def resume_run(
    folder: RunFolder,
    *,
    extend: int | None = None,
    dataset: Any = None,
    callbacks: Sequence[Callback] = (),
    log: Callable[[str], None] = lambda _: None,
) -> Record | None:
    """Resume a run from its last checkpoint; returns its record, or None if interrupted.

    With `extend`, the budget of a finished run is raised by as many steps first. A `dataset` that was
    already read with the same task options is reused if its preprocessor is that of the run. `log` receives
    a line of text about each stage.
    """
    with folder.lock():
        remove_temporary_files(folder.path)
        folder.manifest.hold()
        before = folder.verify(checkpoint=True, is_resumed=True)
        spec = read_spec(folder)
        extension = before.facts.get(EXTENDING)  # of a process that was killed at the start of one
        if extend is not None:
            _validate_extension(spec, folder, extend, is_pending=extension is not None)
            steps = spec.training.steps or 0
            earlier = {"key": spec_key(spec), "steps": steps}
            extension = {"steps": steps + extend, "from": earlier}
            # Before the results of the finished run are removed.
            initial_specs(spec, folder)
            dataset = _same_dataset(spec, folder, dataset, log=log)
        if extension is not None:
            log(
                f"extending the run from {extension['from']['steps']:,} to {extension['steps']:,} steps"
            )
            spec = _extend(spec, folder, extension)
        if folder.record.is_file():
            raise RegardError(
                f"The run '{folder.path}' is finished: its scores are in {folder.record}. To train longer: "
                f"regard train --resume {folder.path} --extend STEPS"
            )
        return _continue_run(spec, folder, dataset=dataset, callbacks=callbacks, log=log)


def _validate_extension(spec: RunSpec, folder: RunFolder, steps: int, *, is_pending: bool) -> None:
    if steps < 1:
        raise RegardError(f"--extend {steps}: the number of further steps must be 1 or more.")
    if is_pending or not folder.record.is_file():
        raise RegardError(
            f"--extend {steps}: the run '{folder.path}' is not finished. Finish it first, with its own "
            f"budget: regard train --resume {folder.path}"
        )
    others = [
        name for name in BUDGETS if name != "steps" and getattr(spec.training, name) is not None
    ]
    if spec.training.steps is None or others:
        raise RegardError(
            f"--extend {steps}: the run '{folder.path}' has the budget {', '.join(others)}. Only a run "
            "whose one budget is training.steps can be extended. Start a new run with a larger budget."
        )
    if folder.checkpoint.is_file():
        finished = read_checkpoint(folder.checkpoint).metadata["state"]["finished"]
        if finished == "patience":
            raise RegardError(
                f"--extend {steps}: the run '{folder.path}' was ended by early stopping (training.patience="
                f"{spec.training.patience}), not by its budget. Start a new run with a larger patience."
            )


def _extend(spec: RunSpec, folder: RunFolder, extension: dict[str, Any]) -> RunSpec:
    """Raise the budget in spec.json, and remove the results of the finished run; can be repeated."""
    extended = replace(spec, training=spec.training.replace(steps=extension["steps"]))
    text, content = as_json_text(extended.as_sections()), folder.manifest.read()
    logs = [path.name for path in (folder.metrics, folder.timing) if path.name in content.files]
    results = [folder.record, *folder.predictions.values()]
    with folder.manifest.changing(
        {
            folder.spec.name: content_state(text.encode()),
            **dict.fromkeys([*(path.name for path in results), *logs]),
        },
        logs={name: next(filter(None, content.files[name])) for name in logs},
        key=spec_key(extended),
        facts={EXTENDED_FROM: [*content.facts.get(EXTENDED_FROM, []), extension["from"]]},
        meanwhile={EXTENDING: extension},
    ):
        atomic_write(folder.spec, text)
        for path in results:
            path.unlink(missing_ok=True)
    return extended


def _continue_run(
    spec: RunSpec,
    folder: RunFolder,
    *,
    dataset: Any,
    callbacks: Sequence[Callback],
    log: Callable[[str], None],
) -> Record | None:
    """Do what is left of a run: pre-training, training, evaluation."""
    if spec.pretraining is not None:
        before = folder.pretraining
        if before.exists:
            before.verify(key=spec_key(spec.pretraining), checkpoint=True, is_resumed=True)
        if not before.record.is_file():
            log("pre-training")
            if _pretrain(spec.pretraining, before, callbacks=callbacks, log=log) is None:
                return None
            log("training")
        folder.manifest.add(before.manifest.path)
    is_new = not folder.preprocessor.is_file()
    dataset = _same_dataset(spec, folder, dataset, log=log)
    task = build_task(spec, dataset=dataset)
    model = build_spec_model(spec, task.dataset.preprocessor)
    if is_new:
        facts = {**task.dataset.facts(), **warm_start_facts(spec, folder)}
        folder.write_json(folder.data, facts)
        folder.write_json(folder.preprocessor, task.dataset.preprocessor.as_json())
    if not folder.checkpoint.is_file():
        load_initial_parameters(spec, folder, model, log=log)
        task.validate_metric(model)
    return _train_and_evaluate(spec, task, model, folder, callbacks=callbacks, log=log)


def _validate_pretraining(spec: RunSpec, folder: RunFolder) -> None:
    """Raise if the folder has a pre-training of another run."""
    existing = folder.pretraining
    if existing.spec.is_file() and read_spec(existing) != spec:
        raise RegardError(
            f"'{existing.path}' contains the pre-training of another run. Remove it, or choose another "
            "folder with --out."
        )


def _pretrain(
    spec: RunSpec,
    folder: RunFolder,
    *,
    callbacks: Sequence[Callback],
    log: Callable[[str], None],
) -> Record | None:
    """Start or resume the pre-training, a run folder inside the run folder."""
    if folder.spec.is_file():
        return resume_run(folder, callbacks=callbacks, log=log)
    return begin_run(spec, folder, callbacks=callbacks, log=log)


def _same_dataset(
    spec: RunSpec, folder: RunFolder, dataset: Any, *, log: Callable[[str], None]
) -> Any:
    """The dataset of the run, read unless it is given; raises if it is not that of the run to resume."""
    is_new = not folder.preprocessor.is_file()
    if is_new:
        known = initial_preprocessor(spec, folder)
        stored = None if known is None else known.as_json()
    else:
        stored = folder.read_json(folder.preprocessor)
    if dataset is None or (stored is not None and dataset.preprocessor.as_json() != stored):
        log("reading the data")
        kind = task_class(spec.task).preprocessor_class
        known = None if stored is None else kind.from_json(stored, spec.task_options)
        dataset = build_task(spec, preprocessor=known).dataset
    if not is_new:
        _validate_same_data(spec, dataset, folder)
    return dataset


def _validate_same_data(spec: RunSpec, dataset: Any, folder: RunFolder) -> None:
    """Raise if the data, or the run to initialise from, is not that of the run to resume."""
    before, now = folder.read_json(folder.data), dataset.facts()
    if not folder.checkpoint.is_file():  # the initial parameters are yet to be loaded
        now |= warm_start_facts(spec, folder)
    # A fact that the run was recorded without is not compared.
    changed = [
        key for key in now if not isinstance(before, dict) or before.get(key, now[key]) != now[key]
    ]
    if changed:
        raise RegardError(
            f"The data changed since the run '{folder.path}' began ({', '.join(changed)}; see "
            f"{folder.data}). Restore the files, or start a new run."
        )


def _train_and_evaluate(
    spec: RunSpec,
    task: Task,
    model: nn.Module,
    folder: RunFolder,
    *,
    callbacks: Sequence[Callback] = (),
    log: Callable[[str], None] = lambda _: None,
) -> Record | None:
    if task.dataset.errors.count:
        # Sorted in file order: several passes over the files collect them.
        lines = [str(row) for row in sorted(task.dataset.errors.rows)]
        if task.dataset.errors.count > len(lines):
            lines.append(f"… and {task.dataset.errors.count - len(lines):,} more")
        folder.write(folder.row_errors, "\n".join(lines) + "\n")
        log(f"{task.dataset.errors.summary()}\n  listed in {folder.row_errors}")
    log(_description(spec, task, model))
    leakage = pretraining_leakage(spec, task.dataset, folder)
    for split, count in leakage.items():
        if count:
            log(f"{count:,} {split} inputs occurred in training of the initial runs (leakage)")
    outcome = train(
        model=model,
        task=task,
        options=spec.training,
        folder=folder.path,
        seed=spec.seed,
        flops=flops_counter(model, task),
        callbacks=callbacks,
        resume=folder.checkpoint.is_file(),
        is_locked=True,
    )
    if outcome.stop_reason == "interrupted":
        return None
    log("evaluating the best checkpoint")
    record = {
        **_record(spec, task, model, outcome, folder),
        "pretraining_leakage": leakage,
    }
    folder.write_record(record)
    return record


def _description(spec: RunSpec, task: Task, model: nn.Module) -> str:
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return f"{task.dataset.describe()}; {spec.model} with {parameters:,} parameters"


def _record(
    spec: RunSpec, task: Task, model: nn.Module, outcome: Outcome, folder: RunFolder
) -> Record:
    """Evaluate the best checkpoint with the final decoding, write its predictions, and make the record."""
    from regard import __version__

    load_parameters(model, folder.model)
    model.eval()
    task.decode = build_decoding(spec)
    scores, baselines, details = {}, {}, {}
    with torch.inference_mode():
        for name in folder.predictions:
            split = getattr(task.dataset, name)
            predictions: list[Any] = []
            if len(split):
                result = task.evaluate_on(model, split)
                scores[name], predictions = result.scores, result.predictions
                baselines[name] = task.baselines(split)
                details[name] = task.details(model, split, result)
            write_predictions(
                folder,
                name,
                inputs=split.names,
                predictions=predictions,
                references=split.references,
            )
    pretraining = (
        {} if spec.pretraining is None else folder.pretraining.read_json(folder.pretraining.record)
    )
    extended_from = folder.manifest.read().facts.get(EXTENDED_FROM)
    return {
        "spec": spec.as_sections(),
        **({"pretraining": pretraining["outcome"]} if pretraining else {}),
        "scores": scores,
        "baselines": baselines,
        "details": {name: found for name, found in details.items() if found},
        "signatures": task.signatures(task.options),
        "outcome": asdict(outcome),
        **({EXTENDED_FROM: extended_from} if extended_from else {}),
        "data": folder.read_json(folder.data),
        "versions": {
            "regard": __version__,
            "torch": str(torch.__version__),
            "python": platform.python_version(),
        },
        "threads": torch.get_num_threads(),
    }
