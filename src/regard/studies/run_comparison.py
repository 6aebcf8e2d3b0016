"""Comparing existing runs of one task side by side, with the statistics of studies.

Runs that differ in the seed alone are one variant with several seeds. A study makes conditions equal; runs
that were trained one by one may differ in more than what is compared, so all differences are listed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from regard.core.errors import RegardError
from regard.core.formatting import flops_text, truncate
from regard.core.records.study import PROCESS_MEMORY, StudyRecord
from regard.models import model_class
from regard.runs.folder import EXTENDED_FROM, EXTENDING, RunFolder, read_logs
from regard.runs.spec import RunSpec, Sections
from regard.runs.train import read_spec
from regard.studies.comparison import VariantFacts, compare_variants
from regard.studies.run_selection import CollectedRun
from regard.studies.spec import StudyRun
from regard.studies.summary import describe_limits
from regard.tasks import task_class
from regard.training.options import BUDGETS
from regard.training.process import is_locked

MAX_NAME = 48
MAX_SETTINGS = 6
MAX_VALUE = 24
PRETRAINING = "pretraining."
PRETRAINING_TASK = f"{PRETRAINING}task.name"
FILES = tuple(f"task.{name}" for name in ("train_file", "validation_file", "test_file"))
# Conditions of a run, which name a variant only if nothing else does; `differences` lists what they change.
CONDITIONS = {
    "threads",
    *FILES,
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
            run=StudyRun(
                variant=name,
                seed=run.spec.seed,
                learning_rate=run.spec.training.learning_rate,
                spec=run.spec,
            ),
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
    record = replace(
        record,
        is_study=False,
        memory_is=PROCESS_MEMORY,
        runs=tuple(
            replace(run, folder=str(collected.folder.path))
            for run, collected in zip(record.runs, compared, strict=True)
        ),
    )
    return _with_differences(record, groups)


def _validate_different(folders: Sequence[RunFolder]) -> None:
    counts = Counter(folder.path.resolve() for folder in folders)
    for folder in folders:
        if counts[folder.path.resolve()] > 1:
            raise RegardError(f"The run '{folder.path}' is given twice. Remove one of them.")


def _validate_finished(folders: Sequence[RunFolder]) -> None:
    unfinished = [
        folder.path
        for folder in folders
        if not folder.record.is_file() or EXTENDING in folder.manifest.read().facts
    ]
    if unfinished:
        listed = ", ".join(f"'{path}'" for path in unfinished)
        verb = "is" if len(unfinished) == 1 else "are"
        ways = "; ".join(
            f"'{path}' is training now: wait for it"
            if is_locked(path)
            else f"finish it: regard train --resume {path}"
            for path in unfinished
        )
        raise RegardError(
            f"{listed} {verb} not finished, and only finished runs are compared. Leave out what is not "
            f"finished, or {ways}"
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
    for chosen in _namings(first):
        names = [_settings_text(run, chosen) for run in first]
        if len(set(names)) == len(names) and all(0 < len(name) <= MAX_NAME for name in names):
            return names
    paths = [run.folder.path.absolute() for run in first]
    for parts in range(1, 1 + max(len(path.parts) for path in paths)):
        names = ["/".join(path.parts[-parts:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    raise AssertionError("folders are different")


def _namings(runs: Sequence[_Run]) -> list[list[str]]:
    """Options that variants may be named after, the first choice first."""
    different = _different_options(runs)
    design = [name for name in different if not _is_condition(name)]
    return [[name for name in design if name == "model.name"], design, different]


def _is_condition(name: str) -> bool:
    return name.removeprefix(PRETRAINING) in CONDITIONS


def _settings_text(run: _Run, names: Iterable[str]) -> str:
    """Settings in one line."""
    return ", ".join(
        _value_text(run, name)
        if name == "model.name"
        else f"{_label(name)}={_value_text(run, name)}"
        for name in names
    )


def _label(name: str) -> str:
    """An option without its section.

    >>> [_label(name) for name in ("model.cell", "pretraining.training.steps", PRETRAINING_TASK)]
    ['cell', 'pretraining.steps', 'pretraining']
    """
    if name == PRETRAINING_TASK:
        return "pretraining"
    prefix = PRETRAINING if name.startswith(PRETRAINING) else ""
    return f"{prefix}{name.rpartition('.')[2]}"


def _value_text(run: _Run, name: str) -> str:
    """The value of an option; of a file, its name alone."""
    value, (section, _, option) = run.options.get(name), name.rpartition(".")
    if section == "model" and value is None:
        # Left open, unless the model has another default; none would read as no cross-attention.
        declared = signature(model_class(run.spec.model)).parameters.get(option)
        return "none" if declared is None or declared.default is not None else "default"
    if value is None or value == "":
        return "none" if value is None else "default"
    if name.removeprefix(PRETRAINING) in FILES or name == "init_from":
        return Path(value).name
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _different_options(runs: Sequence[_Run]) -> list[str]:
    """The options that have not the same value in all runs, in the order of the spec.

    Of another model or task, the name alone: its other options are its own. So are those of a pre-training
    that not all runs have.
    """
    found: list[str] = []
    all_options = [run.options for run in runs]
    for name in dict.fromkeys(name for options in all_options for name in options):
        values = {json.dumps(options.get(name), sort_keys=True) for options in all_options}
        section = name.rpartition(".")[0]
        has_own = any(name not in options for options in all_options)
        of_other = f"{section}.name" in found or (
            name.startswith(PRETRAINING) and PRETRAINING_TASK in found
        )
        if len(values) > 1 and not (has_own and of_other):
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
    if data := found.get(f"{record.split} data"):
        found["items"] = f"Neither methods nor trained models are compared: {data}"
    elif len(scored) > 1 and itemwise and not record.verdicts_of("models", itemwise[0]):
        found["items"] = (
            "Trained models are not compared on items: the predictions cannot be compared item by item."
        )
    if not found:
        return record
    first, *others = record.headline
    unequal = f"Not on equal terms: {', '.join(found)}."
    return replace(record, differences=found, headline=(first, unequal, *others))


def differences(groups: _Groups) -> dict[str, str]:
    """What is not equal between the runs of variants: a sentence by subject that has all values."""

    runs = [run for group in groups.values() for run in group]

    def data_of(split: str) -> Callable[[_Run], str]:
        return lambda run: _data_text(run.data, split)

    def rows_of(stage: Callable[[_Run], Mapping[str, Any]]) -> Callable[[_Run], str]:
        # Records of before have the encoded rows only.
        known = all("train_rows_fingerprint" in stage(run) for run in runs if stage(run))
        return lambda run: _data_text(stage(run), "train", "rows_fingerprint" if known else "")

    def version_of(name: str) -> Callable[[_Run], str]:
        return lambda run: str(run.record.get("versions", {}).get(name, "unknown"))

    values: dict[str, Callable[[_Run], str]] = {
        "evaluations": lambda run: str(run.evaluations),
        "training data": rows_of(lambda run: run.data),
        "pre-training data": rows_of(lambda run: run.data.get("pretraining", {})),
        "validation data": data_of("validation"),
        "test data": data_of("test"),
        "device": lambda run: run.spec.training.device,
        "threads": lambda run: str(run.record.get("threads", "unknown")),
        **{f"{name} version": version_of(name) for name in ("regard", "torch", "python")},
        "metric definitions": lambda run: ", ".join(run.record.get("signatures", {}).values()),
        "extended runs": lambda run: _extended_text(run.record.get(EXTENDED_FROM, [])),
    }
    found = {"budget": _budget(groups), "settings": _settings(groups), "seeds": _seeds(groups)}
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
    """What every stage used, the mean over seeds, unless all runs used up the same budgets."""
    runs = [run for group in groups.values() for run in group]
    has_one = len({describe_limits(run.spec) for run in runs}) == 1
    stages = [stage for run in runs for stage in _stages(run).values()]
    if has_one and {stage["stop_reason"] for stage in stages} == {"budget"}:
        return ""
    texts = {}
    for name, group in groups.items():
        used = {}
        for stage in _stages(group[0]):
            steps, tokens, flops = (
                np.mean([_stages(run)[stage][cost] for run in group])
                for cost in ("steps", "tokens", "flops")
            )
            used[stage] = f"{steps:,.0f} steps, {tokens:,.0f} tokens, {flops_text(flops)}"
        texts[name] = " after pre-training of ".join(used.values())
    return _sentence(texts)


def _stages(run: _Run) -> dict[str, Any]:
    """The outcome of every stage, the last one first."""
    return {name: run.record[name] for name in ("outcome", "pretraining") if name in run.record}


def _settings(groups: _Groups) -> str:
    """Options that differ and do not name the variants, with their values in the order of the variants.

    Not those that are listed by what they change, such as the budget. Where nothing but the folder or a
    given name tells the variants apart, the options of the model are what is compared.
    """
    first = [group[0] for group in groups.values()]
    names = list(groups)
    named = next(
        (
            chosen
            for chosen in _namings(first)
            if [_settings_text(run, chosen) for run in first] == names
        ),
        None,
    )
    found = [
        name
        for name in _different_options(first)
        if not _is_condition(name)
        and (name not in named if named is not None else not name.startswith("model."))
    ]
    texts = []
    for name in found[:MAX_SETTINGS]:
        values = dict.fromkeys(truncate(_value_text(run, name), MAX_VALUE) for run in first)
        texts.append(f"{_label(name)}: {' / '.join(values)}")
    if len(found) > MAX_SETTINGS:
        texts.append(f"{len(found) - MAX_SETTINGS} more in the settings of each variant")
    return f"{'; '.join(texts)}." if texts else ""


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


def _data_text(data: Mapping[str, Any], split: str, fingerprint: str = "") -> str:
    """The size and fingerprint of a split; not its chunks, which depend on the tokenizer."""
    if not data:
        return "none"
    sizes = [
        f"{value:,} {name.removeprefix(f'{split}_')}"
        for name, value in data.items()
        if name.startswith(f"{split}_") and isinstance(value, int) and name != "train_chunks"
    ]
    found = data.get(f"{split}_{fingerprint or 'fingerprint'}", "unknown")
    return f"{', '.join(sizes)} ({found})"
