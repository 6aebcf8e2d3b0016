"""A spec becomes a run folder: the data is read, the model trained, the kept weights scored."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import torch
from torch import nn

from regard.core.atomic_write import write_whole
from regard.core.errors import RegardError
from regard.runs.build import best_decoding, build_spec_model, build_task, operations_counter
from regard.runs.folder import RunFolder, write_predictions
from regard.runs.spec import RunSpec, Sections, require_sections
from regard.runs.warm_start import (
    held_out_learned_before,
    start_facts,
    start_vocabularies,
    take_start_weights,
)
from regard.tasks import task_class
from regard.tasks.task import RunTask
from regard.training.callbacks import Outcome, Watcher
from regard.training.checkpoint import load_weights
from regard.training.loop import train
from regard.training.process import folder_locked

Record = dict[str, Any]


def spec_of(folder: RunFolder) -> RunSpec:
    """The spec of a run that was begun before."""
    sections: Sections = folder.read_json(folder.spec)
    require_sections(sections)
    return RunSpec.from_sections(sections)


def begin_run(
    spec: RunSpec,
    folder: RunFolder,
    *,
    corpus: Any = None,
    watchers: Sequence[Watcher] = (),
    tell: Callable[[str], None] = lambda _: None,
) -> Record | None:
    """Train a new run to its end; the record, or None if interrupted.

    `corpus` and `tell` as for `resume_run`.

    Its folder is written only once the data was read and the model built, and removed if there is
    an error before the first checkpoint, so that a mistake in what was asked leaves nothing behind.
    """
    folder.require_new()
    if spec.pretraining is not None:
        _require_own_pretraining(spec.pretraining, folder)
    tell("reading the data")
    if corpus is None:
        # Of a pre-training too: what is wrong with the data is found now, and not when that is over.
        corpus = build_task(spec, vocabularies=start_vocabularies(spec)).corpus
    with torch.device("meta"):  # what cannot be built is found now
        build_spec_model(spec, corpus.vocabularies)
    folder.require_new()  # again: another run may have begun there meanwhile
    folder.make()
    folder.write_json(folder.spec, spec.as_sections())
    try:
        return _go_on(spec, folder, corpus=corpus, watchers=watchers, tell=tell)
    except RegardError:
        # Some mistakes show at the first batch only, such as texts longer than the model takes.
        if not folder.checkpoint.exists() and not folder.pretraining.checkpoint.exists():
            with folder_locked(folder.path):  # not from under another process
                folder.clear()
        raise


def resume_run(
    folder: RunFolder,
    *,
    corpus: Any = None,
    watchers: Sequence[Watcher] = (),
    tell: Callable[[str], None] = lambda _: None,
) -> Record | None:
    """Train a run to its end from where it stopped; the record, or None if interrupted.

    A `corpus` that was read before, for equal options of the task, is used if its vocabularies
    are the run's own. `tell` is given a line of text about each stage.
    """
    if folder.record.is_file():
        raise RegardError(
            f"The run '{folder.path}' is finished: its scores are in {folder.record}. To train longer, "
            "begin a run with a larger budget."
        )
    return _go_on(spec_of(folder), folder, corpus=corpus, watchers=watchers, tell=tell)


def _go_on(
    spec: RunSpec,
    folder: RunFolder,
    *,
    corpus: Any,
    watchers: Sequence[Watcher],
    tell: Callable[[str], None],
) -> Record | None:
    """Whatever is left of a run: its pre-training, its training, its scores."""
    if spec.pretraining is not None and not folder.pretraining.record.is_file():
        tell("pre-training")
        if _pretrained(spec.pretraining, folder.pretraining, watchers=watchers, tell=tell) is None:
            return None
        tell("training")
    begun = folder.vocabulary.is_file()
    if begun:
        written = folder.read_json(folder.vocabulary)
    else:
        known = start_vocabularies(spec, folder)
        written = None if known is None else known.as_json()
    if corpus is None or (written is not None and corpus.vocabularies.as_json() != written):
        tell("reading the data")
        kind = task_class(spec.task).vocabularies_class
        known = None if written is None else kind.from_json(written)
        corpus = build_task(spec, vocabularies=known).corpus
    task = build_task(spec, corpus=corpus)
    model = build_spec_model(spec, task.corpus.vocabularies)
    if begun:
        _require_same_data(task, folder)
    else:
        folder.write_json(folder.data, task.corpus.facts())
        folder.write_json(folder.vocabulary, task.corpus.vocabularies.as_json())
    if not folder.checkpoint.is_file():
        take_start_weights(spec, folder, model, tell=tell)
        task.require_metric(model)
    return _trained(spec, task, model, folder, watchers=watchers, tell=tell)


def _require_own_pretraining(spec: RunSpec, folder: RunFolder) -> None:
    """Refuse a pre-training that was left there by another run."""
    left = folder.pretraining
    if left.spec.is_file() and spec_of(left) != spec:
        raise RegardError(
            f"'{left.path}' holds another pre-training than this run asks for. Remove it, or choose "
            "another folder with --out."
        )


def _pretrained(
    spec: RunSpec,
    folder: RunFolder,
    *,
    watchers: Sequence[Watcher],
    tell: Callable[[str], None],
) -> Record | None:
    """The pre-training of a run is a run of its own, inside its folder."""
    if folder.spec.is_file():
        return resume_run(folder, watchers=watchers, tell=tell)
    return begin_run(spec, folder, watchers=watchers, tell=tell)


def _require_same_data(task: RunTask, folder: RunFolder) -> None:
    """Refuse to go on with other data: the run would end as neither of the two."""
    if not folder.data.is_file():
        return
    before, now = folder.read_json(folder.data), task.corpus.facts()
    if before != now:
        changed = [
            key for key in now if not isinstance(before, dict) or before.get(key) != now[key]
        ]
        raise RegardError(
            f"The data changed since the run '{folder.path}' began ({', '.join(changed)}; see "
            f"{folder.data}). Restore the files as they were, or begin a new run."
        )


def _trained(
    spec: RunSpec,
    task: RunTask,
    model: nn.Module,
    folder: RunFolder,
    *,
    watchers: Sequence[Watcher] = (),
    tell: Callable[[str], None] = lambda _: None,
) -> Record | None:
    if task.corpus.bad.count:
        # In the order of the files, whichever pass over them found a row bad.
        lines = [str(row) for row in sorted(task.corpus.bad.rows)]
        if task.corpus.bad.count > len(lines):
            lines.append(f"… and {task.corpus.bad.count - len(lines):,} more")
        write_whole(folder.bad_rows, "\n".join(lines) + "\n")
        tell(f"{task.corpus.bad.summary()}\n  listed in {folder.bad_rows}")
    tell(_description(spec, task, model))
    learned_before = held_out_learned_before(spec, task.corpus)
    for part, count in learned_before.items():
        if count:
            tell(
                f"{count:,} {part} sources were learned by the runs before: their scores say little"
            )
    outcome = train(
        model=model,
        task=task,
        options=spec.training,
        folder=folder.path,
        seed=spec.seed,
        operations=operations_counter(model, task),
        watchers=watchers,
        resume=folder.checkpoint.is_file(),
    )
    if outcome.stopped == "interrupted":
        return None
    tell("scoring the kept weights")
    record = {
        **_record(spec, task, model, outcome, folder),
        "held_out_learned_before": learned_before,
    }
    folder.write_json(folder.record, record)
    return record


def _description(spec: RunSpec, task: RunTask, model: nn.Module) -> str:
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return f"{task.corpus.describe()}; {spec.model} with {parameters:,} parameters"


def _record(
    spec: RunSpec, task: RunTask, model: nn.Module, outcome: Outcome, folder: RunFolder
) -> Record:
    """Scores of the kept weights, decoded as well as the task's options ask, and how they came about.

    What the weights wrote is left in the folder.
    """
    from regard import __version__

    load_weights(model, folder.model)
    model.eval()
    task.decode = best_decoding(spec)
    scores, baselines, details = {}, {}, {}
    with torch.inference_mode():
        for part in folder.predictions:
            held_out = getattr(task.corpus, part)
            predicted: list[str] = []
            if len(held_out):
                assessed = task.assess_on(model, held_out)
                scores[part], predicted = assessed.scores, assessed.predicted
                baselines[part] = task.baselines(held_out)
                details[part] = task.details(model, held_out, assessed)
            write_predictions(
                folder,
                part,
                sources=held_out.sources,
                predicted=predicted,
                answers=held_out.answers,
            )
    before = (
        {} if spec.pretraining is None else folder.pretraining.read_json(folder.pretraining.record)
    )
    return {
        "spec": spec.as_sections(),
        **({"pretraining": before["outcome"]} if before else {}),
        "scores": scores,
        "baselines": baselines,
        "details": {part: found for part, found in details.items() if found},
        "signatures": task.signatures(),
        "outcome": asdict(outcome),
        "data": {**task.corpus.facts(), **start_facts(spec, folder)},
        "versions": {
            "regard": __version__,
            "torch": str(torch.__version__),
            "python": platform.python_version(),
        },
        "threads": torch.get_num_threads(),
    }
