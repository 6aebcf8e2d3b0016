"""The record of one run, from its folder: curves, scores with intervals, items, attention, reproducibility.

A finished run has the results of its best checkpoint. A run that is training, or was stopped, has learning
curves and settings only; it is read while the training process writes, without disturbing it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from regard.core.atomic_write import TEMPORARY_PREFIX
from regard.core.errors import RegardError
from regard.core.formatting import counted, duration_text, flops_text, integer_text
from regard.core.records.run import (
    EvaluationRecord,
    FileRecord,
    RunRecord,
    TrainingPoint,
)
from regard.runs.command import training_command
from regard.runs.folder import (
    EXTENDED_FROM,
    EXTENDING,
    Logs,
    RunFolder,
    evaluations,
    read_logs,
    read_predictions,
)
from regard.runs.plugins import registered_plugins
from regard.runs.spec import RunSpec
from regard.runs.train import read_spec
from regard.studies.comparison import finite_scores, metric_record
from regard.studies.prepare import count_parameters
from regard.studies.run_results import show_attention, show_items, split_record
from regard.studies.run_selection import scored_metrics, total_cost
from regard.studies.summary import describe_data, describe_limits
from regard.tasks import task_class
from regard.tasks.metrics import Metric
from regard.training.process import is_locked
from regard.training.schedule import Usage


def run_record(
    folder: RunFolder, *, command: str = "", log: Callable[[str], None] = lambda _: None
) -> RunRecord:
    """The record of a run, finished or not.

    `command` is the command that trained it; by default one that trains it again. The model is loaded on
    torch's default device. `log` receives lines about what a finished run lacks.
    """
    # The lock first: a run that finishes meanwhile is then seen as finished.
    is_training = is_locked(folder.path)
    facts = folder.manifest.read().facts
    spec = read_spec(folder, changed_plugins="warn")
    is_finished = folder.record.is_file() and EXTENDING not in facts
    if is_finished:
        folder.verify()
    record = folder.read_record() if is_finished else {}
    logs = read_logs(folder)
    described = _described(folder, spec, logs, record, command=command)
    if not is_finished:
        return replace(described, state="training" if is_training else "stopped")
    kind = task_class(spec.task)
    scored = {name for scores in record["scores"].values() for name in scores}
    metrics = scored_metrics(kind, spec.task_options, scored)
    names: list[Any] = sorted(record["scores"])  # test, validation
    predictions = {name: read_predictions(folder, name) for name in names}
    items = show_items(predictions[names[0]], metrics, is_generative=kind.is_generative)
    attention = show_attention(folder, spec, items.examples, split=names[0])
    outcome = record["outcome"]
    return replace(
        described,
        metrics=tuple(map(metric_record, metrics)),
        splits=tuple(
            split_record(folder, name, record, metrics, predictions[name], log=log)
            for name in names
        ),
        item_split=names[0],
        item_metric=items.metric,
        examples=items.examples,
        best_items=items.best,
        worst_items=items.worst,
        num_best=items.num_best,
        num_worst=items.num_worst,
        alignments=attention.alignments,
        documents=attention.documents,
        trees=attention.trees,
        images=attention.images,
        parameters=int(outcome["parameters"]),
        steps=int(outcome["steps"]),
        tokens=int(total_cost(record, "tokens")),
        flops=int(total_cost(record, "flops")),
        seconds=float(total_cost(record, "seconds")),
        evaluation_seconds=float(total_cost(record, "evaluation_seconds")),
        notes=(*described.notes, *attention.notes),
    )


def _described(
    folder: RunFolder, spec: RunSpec, logs: Logs, record: Mapping[str, Any], *, command: str
) -> RunRecord:
    """The record without results; `record` is empty unless the run is finished."""
    kind, data = task_class(spec.task), _read_if_any(folder, "data")
    curve = tuple(
        EvaluationRecord(**{**point._asdict(), "scores": finite_scores(point.scores)})
        for point in evaluations(folder, logs)
    )
    metrics = scored_metrics(
        kind, spec.task_options, {name for each in curve for name in each.scores}
    )
    training = _training(folder, logs)
    last = training[-1] if training else None
    used = Usage(*((last.step, last.tokens, last.seconds, last.flops) if last else (0, 0, 0.0, 0)))
    timing = logs.timing[-1] if logs.timing else {}
    before = _pretraining_used(folder, spec)
    peaks = [row["peak_bytes"] for row in logs.timing if row.get("peak_bytes") is not None]
    return RunRecord(
        name=folder.path.absolute().name,
        state="finished",
        progress=1.0 if record else spec.training.budget.progress(used),
        budget=describe_limits(spec),
        task=spec.task,
        model=spec.model,
        seed=spec.seed,
        metrics=tuple(map(metric_record, metrics)),
        training=training,
        evaluations=curve,
        best_step=_best_step(curve, metrics[0], keep=spec.training.keep),
        splits=(),
        item_split="",
        item_metric="",
        examples=(),
        best_items=(),
        worst_items=(),
        num_best=0,
        num_worst=0,
        alignments=(),
        documents=(),
        trees=(),
        settings=json.loads(json.dumps(spec.as_sections())),
        parameters=_count_parameters(folder, spec),
        steps=used.steps,
        tokens=before.get("tokens", 0) + used.tokens,
        flops=before.get("flops", 0) + used.flops,
        seconds=before.get("seconds", 0.0) + used.seconds,
        evaluation_seconds=before.get("evaluation_seconds", 0.0)
        + float(timing.get("evaluation_seconds", 0.0)),
        peak_bytes=max(peaks, default=None),
        stages=_stages(folder, spec, before),
        notes=tuple(_notes(folder, spec, record, data)),
        reproducibility=_reproducibility(folder, spec, record, data, command=command),
        files=_files(folder),
    )


def _read_if_any(folder: RunFolder, name: str) -> Any:
    """The content of a JSON file that a run does not have from the start; {} before."""
    path = getattr(folder, name)
    return folder.read_json(path) if path.is_file() else {}


def _training(folder: RunFolder, logs: Logs) -> tuple[TrainingPoint, ...]:
    try:
        seconds = {row["step"]: row["seconds"] for row in logs.timing}
        names = ("step", "tokens", "flops", "loss", "learning_rate", "gradient_norm")
        return tuple(
            TrainingPoint(
                seconds=seconds[row["step"]],
                epoch=row["epoch"] + 1,
                **{name: row[name] for name in names},
            )
            for row in logs.metrics
            if "loss" in row
        )
    except (KeyError, TypeError) as error:
        raise RegardError(
            f"'{folder.metrics}' and '{folder.timing}' do not match, or rows are missing ({error}). "
            "Restore them, or start a new run."
        ) from error


def _best_step(curve: Sequence[EvaluationRecord], metric: Metric, *, keep: str) -> int | None:
    """The step of the saved checkpoint: the first of the best scores, or the last evaluation."""
    scored = [each for each in curve if metric.name in each.scores]
    if keep == "last" or not scored:
        return curve[-1].step if curve else None
    sign = 1 if metric.lower_is_better else -1
    return min(scored, key=lambda each: sign * each.scores[metric.name]).step


def _count_parameters(folder: RunFolder, spec: RunSpec) -> int:
    """The parameter count; 0 before the data is read."""
    stored = _read_if_any(folder, "preprocessor")
    if not stored:
        return 0
    kind = task_class(spec.task).preprocessor_class
    return count_parameters(spec, kind.from_json(stored, spec.task_options))


def _pretraining_used(folder: RunFolder, spec: RunSpec) -> dict[str, Any]:
    """What the pre-training used, or has used so far; {} without one."""
    before = folder.pretraining
    if spec.pretraining is None or not before.spec.is_file():
        return {}
    if before.record.is_file():
        outcome: dict[str, Any] = before.read_record()["outcome"]
        return outcome
    logs = read_logs(before)
    rows, timing = _training(before, logs), logs.timing[-1] if logs.timing else {}
    return {**timing, **asdict(rows[-1])} if rows else {}


def _stages(folder: RunFolder, spec: RunSpec, used: Mapping[str, Any]) -> dict[str, str]:
    if spec.init_from is not None:
        return {"warm start": f"initialised from {spec.init_from}"}
    if spec.pretraining is None:
        return {}
    before, text = folder.pretraining, "not started"
    if "steps" in used:
        text = ", ".join(
            [
                counted(used["steps"], "step"),
                counted(used["tokens"], "token"),
                flops_text(used["flops"]),
                duration_text(used["seconds"]),
            ]
        )
        text += "; part of tokens, FLOPs and time"
    elif before.spec.is_file():
        limits = describe_limits(spec.pretraining)
        text = f"step {integer_text(used.get('step', 0))}, of a budget of {limits}"
    return {"pre-training": f"{spec.pretraining.task}: {text}"}


def _notes(
    folder: RunFolder, spec: RunSpec, record: Mapping[str, Any], data: Mapping[str, Any]
) -> list[str]:
    """Caveats, one sentence each."""
    found = []
    if data.get("validation_is_train"):
        found.append("There is no validation split: validation scores are on training texts.")
    for where, counts in (
        ("training", data.get("leakage", {})),
        ("training of the initial runs", record.get("pretraining_leakage", {})),
    ):
        found += [
            f"Leakage: {count:,} {split} inputs also occur in {where}."
            for split, count in counts.items()
            if count
        ]
    for split, count in data.get("truncated_texts", {}).items():
        if count:
            found.append(f"{count:,} texts of the {split} split were truncated.")
    if data.get("row_errors"):
        found.append(f"{data['row_errors']:,} malformed rows were left out; see row_errors.txt.")
    steps = [each["steps"] for each in folder.manifest.read().facts.get(EXTENDED_FROM, [])]
    if steps:
        budgets = " to ".join(f"{each:,}" for each in (*steps, spec.training.steps))
        found.append(f"Extended from {budgets} steps, so its learning rates are not those of one.")
    if record and record["outcome"].get("stop_reason") == "patience":
        found.append(
            f"Ended by early stopping: {spec.training.patience} evaluations without improvement."
        )
    if spec.training.keep == "last":
        found.append("The last checkpoint was kept, not the best one (training.keep=last).")
    loaded = dict(registered_plugins())
    for name, plugin in folder.read_json(folder.spec).get("plugins", {}).items():
        if name in loaded and loaded[name].sha256 != plugin["sha256"]:
            found.append(f"The plug-in '{name}' has changed since the run was trained.")
    return found


def _reproducibility(
    folder: RunFolder,
    spec: RunSpec,
    record: Mapping[str, Any],
    data: Mapping[str, Any],
    *,
    command: str,
) -> dict[str, str]:
    threads = record.get("threads", spec.threads)
    extended = folder.manifest.read().facts.get(EXTENDED_FROM, [])
    steps = [each["steps"] for each in extended]
    found = {
        "command": command or training_command(spec, threads=threads, extended_from=steps),
        "seed": str(spec.seed),
        "threads": "all cores" if threads is None else str(threads),
        "device": spec.training.device,
    }
    plugins = folder.read_json(folder.spec).get("plugins", {})
    tables = {
        "versions": record.get("versions", {}),
        "data": {},
        "metrics": record.get("signatures", {}),
        "plug-ins": {each["target"]: f"SHA-256 {each['sha256']}" for each in plugins.values()},
    }
    texts = {
        name: ", ".join(f"{key} {value}" for key, value in table.items())
        for name, table in tables.items()
    }
    texts |= {"data": describe_data(data)}
    return found | {name: text for name, text in texts.items() if text}


def _files(folder: RunFolder) -> tuple[FileRecord, ...]:
    """Files by name, with the hash of the manifest where it is of the file as it is now."""
    content = folder.manifest.read()
    inner = folder.pretraining.manifest.path
    paths = [path for path in folder.path.iterdir() if path.is_file()]
    found = []
    for path in sorted([*paths, *([inner] if inner.is_file() else [])]):
        name = path.relative_to(folder.path).as_posix()
        if name == folder.page.name or name.startswith(TEMPORARY_PREFIX):
            continue
        try:
            size = path.stat().st_size
        except FileNotFoundError:  # replaced meanwhile
            continue
        states = [*content.files.get(name, ()), *content.logs.get(name, ())]
        known = [state["sha256"] for state in states if state and state["size"] == size]
        found.append(FileRecord(name=name, size=size, sha256=known[-1] if known else ""))
    return tuple(found)
