"""Comparing existing runs of one task side by side, with the statistics of studies.

Runs that differ in the seed alone are one variant with several seeds. A study makes conditions equal; runs
that were trained one by one may differ in more than what is compared, so all differences are listed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from regard.core.errors import RegardError
from regard.core.records.study import StudyRecord
from regard.runs.folder import EXTENDED_FROM, RunFolder, read_logs
from regard.runs.spec import RunSpec, Sections
from regard.runs.train import read_spec
from regard.studies.comparison import VariantFacts, compare_variants
from regard.studies.run_selection import CollectedRun
from regard.studies.spec import StudyRun
from regard.studies.summary import describe_limits
from regard.tasks import task_class
from regard.training.options import BUDGETS

MAX_NAME = 48
# Conditions of a run, which name a variant only if nothing else does.
CONDITIONS = {
    "threads",
    *(f"task.{name}" for name in ("train_file", "validation_file", "test_file")),
    *(f"training.{name}" for name in (*BUDGETS, "device", "log_every", "evaluate_every")),
    *(f"training.{name}" for name in ("checkpoint_seconds", "checkpoint_every")),
}


@dataclass(frozen=True, kw_only=True)
class _Run:
    """A finished run that is compared."""

    folder: RunFolder
    spec: RunSpec
    record: dict[str, Any]
    peak_bytes: int
    evaluations: int

    @property
    def options(self) -> dict[str, Any]:
        """All options but the seed by name, such as model.num_layers."""
        return _flat(json.loads(json.dumps({**self.spec.as_sections(), "seed": None})))

    @property
    def data(self) -> dict[str, Any]:
        """Sizes and fingerprints of the data."""
        data: dict[str, Any] = self.record["data"]
        return data


_Groups = Mapping[str, Sequence[_Run]]  # by variant


def compare_runs(
    folders: Sequence[RunFolder],
    *,
    names: Sequence[str] = (),
    command: str = "",
    log: Callable[[str], None] = lambda _: None,
) -> StudyRecord:
    """Compare finished runs of one task.

    A variant is named after the settings that distinguish it, or after its run folder; `names` has a name
    per run instead, the same one for the seeds of a variant. The first variant is the baseline.
    """
    if len(folders) < 2:
        raise RegardError(f"{len(folders)} run: a comparison needs at least 2. Give more runs.")
    _validate_different(folders)
    _validate_finished(folders)
    log("reading the runs")
    runs = [_read(folder) for folder in folders]
    _validate_comparable(runs)
    groups = _named_groups(runs, names) if names else _groups(runs)
    different = _different_options([group[0] for group in groups.values()])
    compared = [
        CollectedRun(
            run=StudyRun(variant=name, seed=run.spec.seed, learning_rate=None, spec=run.spec),
            folder=run.folder,
            state="finished",
            reason="",
            record=run.record,
        )
        for name, group in groups.items()
        for run in group
    ]
    facts = {
        name: VariantFacts(
            settings=_sections({key: group[0].options.get(key) for key in different}),
            parameters=int(group[0].record["outcome"]["parameters"]),
            peak_bytes=int(np.mean([run.peak_bytes for run in group])),
        )
        for name, group in groups.items()
    }
    record = compare_variants(
        compared, facts, name="comparison", baseline=next(iter(groups)), command=command, log=log
    )
    return _with_differences(record, groups)


def _validate_different(folders: Sequence[RunFolder]) -> None:
    counts = Counter(folder.path.resolve() for folder in folders)
    for folder in folders:
        if counts[folder.path.resolve()] > 1:
            raise RegardError(f"The run '{folder.path}' is given twice. Remove one of them.")


def _validate_finished(folders: Sequence[RunFolder]) -> None:
    unfinished = [folder.path for folder in folders if not folder.record.is_file()]
    if unfinished:
        listed = ", ".join(f"'{path}'" for path in unfinished)
        ways = "; ".join(f"regard train --resume {path}" for path in unfinished)
        verb = "is" if len(unfinished) == 1 else "are"
        raise RegardError(
            f"{listed} {verb} not finished, and only finished runs are compared. Leave out what is not "
            f"finished, or finish it: {ways}"
        )


def _read(folder: RunFolder) -> _Run:
    folder.verify()
    logs = read_logs(folder)
    return _Run(
        folder=folder,
        spec=read_spec(folder, changed_plugins="warn"),
        record=folder.read_record(),
        peak_bytes=max((row.get("peak_bytes") or 0 for row in logs.timing), default=0),
        evaluations=sum("validation" in row for row in logs.metrics),
    )


def _validate_comparable(runs: Sequence[_Run]) -> None:
    """Raise unless all runs have the same task and primary metric."""
    first = runs[0]
    for run in runs[1:]:
        if run.spec.task != first.spec.task:
            raise RegardError(
                f"The run '{first.folder.path}' has the task '{first.spec.task}', '{run.folder.path}' the "
                f"task '{run.spec.task}'. Compare runs of one task."
            )
        ours, theirs = (
            task_class(each.spec.task).metric_named(
                each.spec.task_options.metric, each.spec.task_options
            )
            for each in (first, run)
        )
        if ours.name != theirs.name:
            raise RegardError(
                f"The best checkpoint of '{first.folder.path}' was selected by {ours.name}, that of "
                f"'{run.folder.path}' by {theirs.name} (task.metric). Compare runs with one metric."
            )


def _groups(runs: Sequence[_Run]) -> dict[str, list[_Run]]:
    """Variants by name: runs with the same options and data, and different seeds."""
    groups: dict[tuple[Any, ...], list[_Run]] = {}
    seen: Counter[tuple[Any, ...]] = Counter()
    for run in runs:
        key = (json.dumps(run.options, sort_keys=True), json.dumps(run.data, sort_keys=True))
        # A run that was repeated with the same seed is another variant.
        groups.setdefault((*key, seen[*key, run.spec.seed]), []).append(run)
        seen[*key, run.spec.seed] += 1
    return dict(zip(_variant_names(list(groups.values())), groups.values(), strict=True))


def _named_groups(runs: Sequence[_Run], names: Sequence[str]) -> dict[str, list[_Run]]:
    if len(names) != len(runs):
        raise RegardError(f"{len(names)} names for {len(runs)} runs. Give one name per run.")
    groups: dict[str, list[_Run]] = {}
    for name, run in zip(names, runs, strict=True):
        for other in groups.setdefault(name, []):
            different = _different_options([other, run])
            if different or other.spec.seed == run.spec.seed:
                why = ", ".join(different) or "nothing, not even in the seed"
                raise RegardError(
                    f"'{other.folder.path}' and '{run.folder.path}' are both named '{name}', but differ in "
                    f"{why}. A variant has runs that differ in the seed alone."
                )
        groups[name].append(run)
    return groups


def _variant_names(groups: Sequence[Sequence[_Run]]) -> list[str]:
    """What distinguishes the variants: their settings, or else their folders."""
    first = [group[0] for group in groups]
    different = _different_options(first)
    design = [name for name in different if name not in CONDITIONS]
    for chosen in ([name for name in design if name == "model.name"], design, different):
        names = [_settings_text(run, chosen) for run in first]
        if len(set(names)) == len(names) and all(0 < len(name) <= MAX_NAME for name in names):
            return names
    paths = [run.folder.path.absolute() for run in first]
    for parts in range(1, 1 + max(len(path.parts) for path in paths)):
        names = ["/".join(path.parts[-parts:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    raise AssertionError("folders are different")


def _settings_text(run: _Run, names: Iterable[str]) -> str:
    """Settings in one line; of a file, its name alone."""
    found = []
    for name in names:
        value = run.options.get(name)
        if name in ("task.train_file", "task.validation_file", "task.test_file") and value:
            value = Path(value).name
        shown = json.dumps(value, ensure_ascii=False)
        if value is None or isinstance(value, str):
            shown = value or "none"
        found.append(shown if name == "model.name" else f"{name.rpartition('.')[2]}={shown}")
    return ", ".join(found)


def _different_options(runs: Sequence[_Run]) -> list[str]:
    """The options that have not the same value in all runs, in the order of the spec.

    Of another model or task, the name alone: its other options are its own.
    """
    found: list[str] = []
    all_options = [run.options for run in runs]
    for name in dict.fromkeys(name for options in all_options for name in options):
        values = {json.dumps(options.get(name), sort_keys=True) for options in all_options}
        section = name.rpartition(".")[0]
        has_own = any(name not in options for options in all_options)
        if len(values) > 1 and not (has_own and f"{section}.name" in found):
            found.append(name)
    return found


def _flat(sections: Mapping[str, Any]) -> dict[str, Any]:
    """Options by name; plug-ins are no options."""
    found: dict[str, Any] = {}
    for section, values in sections.items():
        if section == "pretraining" and isinstance(values, dict):
            inner = _flat(values)
            found |= {f"{section}.{name}": value for name, value in inner.items()}
        elif isinstance(values, dict) and section != "plugins":
            found |= {f"{section}.{name}": value for name, value in values.items()}
        elif section != "plugins":
            found[section] = values
    return found


def _sections(options: Mapping[str, Any]) -> Sections:
    """The inverse of `_flat`."""
    found: Sections = {}
    for name, value in options.items():
        *path, option = name.split(".")
        inner = found
        for section in path:
            inner = inner.setdefault(section, {})
        inner[option] = value
    return found


def _with_differences(record: StudyRecord, groups: _Groups) -> StudyRecord:
    """The record with what is not equal between the runs, and a sentence that says so."""
    found = differences(groups)
    itemwise = [metric.name for metric in record.metrics if metric.is_itemwise]
    scored = [variant for variant in record.variants if variant.mean is not None]
    if len(scored) > 1 and itemwise and not record.verdicts_of("models", itemwise[0]):
        where = found.get(f"{record.split} data", "the predictions cannot be compared item by item")
        found["items"] = f"Trained models are not compared on items: {where}"
    if not found:
        return record
    first, *others = record.headline
    unequal = f"Not on equal terms: {', '.join(found)}."
    return replace(record, differences=found, headline=(first, unequal, *others))


def differences(groups: _Groups) -> dict[str, str]:
    """What is not equal between the runs of variants: a sentence by subject that has all values."""

    def data_of(split: str) -> Callable[[_Run], str]:
        return lambda run: _data_text(run, split)

    def version_of(name: str) -> Callable[[_Run], str]:
        return lambda run: str(run.record.get("versions", {}).get(name, "unknown"))

    values: dict[str, Callable[[_Run], str]] = {
        "evaluations": lambda run: str(run.evaluations),
        "training data": data_of("train"),
        "validation data": data_of("validation"),
        "test data": data_of("test"),
        "device": lambda run: run.spec.training.device,
        "threads": lambda run: str(run.record.get("threads", "unknown")),
        **{f"{name} version": version_of(name) for name in ("regard", "torch", "python")},
        "metric definitions": lambda run: ", ".join(run.record.get("signatures", {}).values()),
        "extended runs": lambda run: _extended_text(run.record.get(EXTENDED_FROM, [])),
    }
    found = {"budget": _budget(groups), "seeds": _seeds(groups)}
    found |= {subject: _by_variant(groups, value_of) for subject, value_of in values.items()}
    return {subject: text for subject, text in found.items() if text}


def _by_variant(groups: _Groups, value_of: Callable[[_Run], str]) -> str:
    """The values of every variant; empty if all runs have the same one."""
    values = {name: list(dict.fromkeys(map(value_of, group))) for name, group in groups.items()}
    if len({value for of_variant in values.values() for value in of_variant}) == 1:
        return ""
    by_values: dict[str, list[str]] = {}
    for name, of_variant in values.items():
        by_values.setdefault(" and ".join(of_variant), []).append(name)
    return _sentence({", ".join(names): value for value, names in by_values.items()})


def _sentence(values: Mapping[str, str]) -> str:
    return f"{'; '.join(f'{name}: {value}' for name, value in values.items())}."


def _budget(groups: _Groups) -> str:
    """What was used, the mean over seeds, unless all runs used up the same budget."""
    runs = [run for group in groups.values() for run in group]
    has_one = len({describe_limits(run.spec) for run in runs}) == 1
    if has_one and {run.record["outcome"]["stop_reason"] for run in runs} == {"budget"}:
        return ""
    texts = {}
    for name, group in groups.items():
        steps, tokens, flops = (
            np.mean([run.record["outcome"][used] for run in group])
            for used in ("steps", "tokens", "flops")
        )
        texts[name] = f"{steps:,.0f} steps, {tokens:,.0f} tokens, {flops:.3g} FLOPs"
    return _sentence(texts)


def _extended_text(earlier: Sequence[Mapping[str, Any]]) -> str:
    steps = ", ".join(f"{each['steps']:,}" for each in earlier)
    return f"from {steps} steps" if steps else "not extended"


def _seeds(groups: _Groups) -> str:
    seeds = {name: sorted(run.spec.seed for run in group) for name, group in groups.items()}
    if len({tuple(of_variant) for of_variant in seeds.values()}) == 1:
        return ""
    common = set.intersection(*map(set, seeds.values()))
    paired = f"only {', '.join(map(str, sorted(common)))} paired" if common else "none paired"
    texts = {name: ", ".join(map(str, of_variant)) for name, of_variant in seeds.items()}
    return f"{_sentence(texts).rstrip('.')}; {paired}."


def _data_text(run: _Run, split: str) -> str:
    """The size and fingerprint of a split."""
    sizes = [
        f"{value:,} {name.removeprefix(f'{split}_')}"
        for name, value in run.data.items()
        if name.startswith(f"{split}_") and isinstance(value, int)
    ]
    return f"{', '.join(sizes)} ({run.data.get(f'{split}_fingerprint', 'unknown')})"
