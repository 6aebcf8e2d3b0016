"""Preparing a study: read the data, match parameter counts, profile every variant, validate a resume."""

from __future__ import annotations

import hashlib
import math
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from regard.core.errors import RegardError
from regard.costs.trace import Workload, trace
from regard.runs.build import build_spec_model, build_task
from regard.runs.plan import MIN_HEAD_DIM, model_option
from regard.runs.profile import StepProfiler, evenly_spaced
from regard.runs.spec import RunSpec
from regard.runs.warm_start import initial_vocabularies, warm_start_facts
from regard.studies.execution.jobs import Job
from regard.studies.folder import StudyFolder
from regard.studies.spec import StudySpec
from regard.tasks.task import Task, Vocabularies

# model → the main width option to search, and the finer one that closes the remaining gap
WIDTH_OPTIONS = {
    **dict.fromkeys(
        ("transformer", "decoder_only", "text_encoder"), ("model_dim", "feed_forward_dim")
    ),
    "recurrent": ("hidden_dim", "embedding_dim"),
}
MATCH_TOLERANCE = 0.02  # relative difference in parameters
FEED_FORWARD_FACTOR = 4
MAX_UNITS = 1 << 14  # of width
PROFILED_BATCHES = 4


class Matched(NamedTuple):
    """The study with matched variants, and a sentence about the remaining mismatch."""

    study: StudySpec
    description: str


def match_parameters(study: StudySpec, vocabularies: Vocabularies) -> Matched:
    """Choose widths so that the parameter count of every variant is closest to the baseline's.

    The main width (hidden_dim or model_dim) is found by bisection, since parameters grow with it; then the
    embedding or feed-forward width closes the remaining gap.
    """
    base = study.run_spec(study.variant(study.baseline), seed=study.seeds[0])
    target = count_parameters(base, vocabularies)
    searched = {width for widths in WIDTH_OPTIONS.values() for width in widths}
    for option in study.sections.get("sweep", {}):
        if option.rpartition(".")[2] in searched:
            raise RegardError(
                f"match=parameters chooses {', '.join(sorted(searched))}, but the sweep contains {option}. "
                f"Remove match, or {option} from the sweep."
            )
    changes, mismatches = {}, []
    for variant in study.variants:
        if variant.name == study.baseline:
            continue
        found = _match(study.run_spec(variant, seed=study.seeds[0]), vocabularies, target)
        mismatch = count_parameters(found, vocabularies) / target - 1
        if abs(mismatch) > MATCH_TOLERANCE:
            raise RegardError(
                f"'{variant.name}' cannot match the {target:,} parameters of '{study.baseline}'; "
                f"the closest model differs by {mismatch:+.1%}. Choose another num_layers, or remove match."
            )
        changes[variant.name] = {"model": {"name": found.model, **found.model_options}}
        mismatches.append(abs(mismatch))
    description = (
        f"Widths were chosen so that every variant has about the {target:,} parameters of "
        f"'{study.baseline}'; the largest mismatch is {max(mismatches, default=0.0):.2%}."
    )
    return Matched(study.changed(changes), description)


def count_parameters(spec: RunSpec, vocabularies: Vocabularies) -> int:
    """The parameter count of the model of a spec, without allocating it."""
    with torch.device("meta"):
        model = build_spec_model(spec, vocabularies)
    return sum(parameter.numel() for parameter in model.parameters())


def _match(spec: RunSpec, vocabularies: Vocabularies, target: int) -> RunSpec:
    def closest(widened: Callable[[int], RunSpec]) -> RunSpec:
        """Bisect the width; the nearer one of both sides of the target."""
        low, high = 1, 2
        while high < MAX_UNITS and count_parameters(widened(high), vocabularies) < target:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            if count_parameters(widened(middle), vocabularies) < target:
                low = middle
            else:
                high = middle
        return min(
            (widened(low), widened(high)),
            key=lambda found: abs(count_parameters(found, vocabularies) - target),
        )

    main, _ = WIDTH_OPTIONS[spec.model]
    if spec.model == "recurrent":
        # Each direction of the encoder has half of the hidden_dim.
        wide = closest(lambda units: _with(spec, **{main: 2 * units}))
        return closest(lambda width: _with(wide, embedding_dim=width))
    unit = MIN_HEAD_DIM * int(model_option(spec, "num_heads"))
    ratio = model_option(spec, "feed_forward_dim") or FEED_FORWARD_FACTOR * model_option(spec, main)
    ratio /= model_option(spec, main)
    wide = closest(
        lambda units: _with(
            spec, **{main: unit * units, "feed_forward_dim": max(1, round(ratio * unit * units))}
        )
    )
    return closest(lambda width: _with(wide, feed_forward_dim=width))


def _with(spec: RunSpec, **widths: int) -> RunSpec:
    return replace(spec, model_options={**spec.model_options, **widths})


def peak_memory(spec: RunSpec, task: Task) -> int:
    """Peak memory of training on the largest of a few batches: parameters, optimizer state, activations."""
    epoch = task.epoch(0)
    batches = [epoch[index] for index in evenly_spaced(len(epoch), PROFILED_BATCHES)]
    largest = max(batches, key=lambda batch: math.prod(task.cost_kwargs(batch).values()))
    # Measured on the CPU; tensor sizes are the same on any device.
    on_cpu = replace(spec, training=replace(spec.training, device="cpu"))
    profiler = StepProfiler(on_cpu, task)
    profiler.step(largest)  # allocates the optimizer state
    # Real tensors: batches read values, which fake tensors do not have.
    step = Workload("step", "train", lambda: lambda: profiler.step(largest))
    return profiler.training_state_bytes + trace(step, real=True).peak_bytes


@dataclass(frozen=True, kw_only=True)
class VariantProfile:
    """Parameters, peak memory of a training step, and data facts (sizes and fingerprints) of a variant."""

    parameters: int
    peak_bytes: int
    data: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class PreparedStudy:
    """A study with matched and profiled variants; `matched` describes the matching, if any."""

    name: str
    study: StudySpec
    profiles: dict[str, VariantProfile]
    matched: str
    command: str
    machine: str
    plugins: tuple[str, ...]

    def jobs(self, folder: StudyFolder) -> list[Job]:
        """The jobs of all runs, for an executor."""
        return [
            Job(
                key=run.key,
                variant=run.variant,
                seed=run.seed,
                sections=run.spec.as_sections(),
                folder=folder.runs / run.key,
                plugins=self.plugins,
            )
            for run in self.study.runs()
        ]

    def validate_resume(self, folder: StudyFolder) -> None:
        """Raise if the folder has runs of another study, other data or another plug-in."""
        if not folder.study.is_file():
            return
        before: dict[str, Any] = folder.read(folder.study)
        jobs = self.jobs(folder)
        if not {job.key for job in jobs} & set(before.get("keys", ())):
            raise RegardError(
                f"'{folder.path}' contains another study, without common runs. Choose another folder with "
                "--out, or remove it."
            )
        finished = [job for job in jobs if job.is_finished]
        hashes = before.get("plugins", {})
        for target, digest in self.plugin_hashes().items():
            if finished and hashes.get(target, digest) != digest:
                raise RegardError(
                    f"The plug-in '{target}' changed since the runs in '{folder.path}' were trained. "
                    "Restore it, or choose another folder with --out."
                )
        for job in finished:
            if (
                folder.read(job.folder / "record.json").get("data")
                != self.profiles[job.variant].data
            ):
                raise RegardError(
                    f"The data changed since the run '{job.folder}' was trained ({job.variant}, seed "
                    f"{job.seed}), so it is not comparable with new runs. Restore the files, or choose "
                    "another folder with --out."
                )

    def plugin_hashes(self) -> dict[str, str]:
        """Plug-in → hash of its file."""
        found = {}
        for target in self.plugins:
            file = Path(target.rpartition(":")[0])
            found[target] = hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""
        return found

    def write(self, folder: StudyFolder) -> None:
        """Write study.json."""
        folder.write(
            folder.study,
            {
                "name": self.name,
                "spec": self.study.sections,
                "variants": {variant.name: variant.changes for variant in self.study.variants},
                "profiles": {name: asdict(profile) for name, profile in self.profiles.items()},
                "matched": self.matched,
                "command": self.command,
                "machine": self.machine,
                "plugins": self.plugin_hashes(),
                "keys": [run.key for run in self.study.runs()],
            },
        )

    @classmethod
    def read(cls, folder: StudyFolder) -> PreparedStudy:
        """Read study.json."""
        stored: dict[str, Any] = folder.read(folder.study)
        try:
            return cls(
                name=stored["name"],
                study=StudySpec.from_sections(stored["spec"]).changed(stored["variants"]),
                profiles={
                    name: VariantProfile(**values) for name, values in stored["profiles"].items()
                },
                matched=stored["matched"],
                command=stored["command"],
                machine=stored["machine"],
                plugins=tuple(stored["plugins"]),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise RegardError(
                f"'{folder.study}' is not a study file ({error!r}). Run the study again: "
                "finished runs are not repeated."
            ) from error


def prepare_study(
    study: StudySpec,
    *,
    name: str,
    command: str = "",
    plugins: Sequence[str] = (),
    log: Callable[[str], None] = lambda _: None,
) -> PreparedStudy:
    """Read the data, match and profile the variants; errors are found before anything is trained."""
    log("reading the data")
    datasets = _DataCache()
    first = datasets.get(study.run_spec(study.variants[0], seed=study.seeds[0]))
    matched = ""
    if study.match == "parameters":
        log("matching parameter counts")
        study, matched = match_parameters(study, first.task.corpus.vocabularies)
    profiles = {}
    for variant in study.variants:
        log(f"profiling {variant.name}")
        spec = study.run_spec(variant, seed=study.seeds[0])
        try:
            data = datasets.get(spec)
            profiles[variant.name] = VariantProfile(
                parameters=count_parameters(spec, data.task.corpus.vocabularies),
                peak_bytes=peak_memory(spec, data.task),
                data=data.facts,
            )
        except RegardError as error:
            raise RegardError(f"In the variant '{variant.name}': {error}") from error
    _validate_same_items(profiles)
    return PreparedStudy(
        name=name,
        study=study,
        profiles=profiles,
        matched=matched,
        command=command,
        machine=f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}",
        plugins=tuple(plugins),
    )


def _validate_same_items(profiles: Mapping[str, VariantProfile]) -> None:
    """Raise if variants have different evaluation items."""
    first, first_profile = next(iter(profiles.items()))
    for variant, profile in profiles.items():
        for split in ("validation", "test"):
            key = f"{split}_fingerprint"
            if profile.data[key] != first_profile.data[key]:
                raise RegardError(
                    f"The variants '{first}' and '{variant}' have different {split} items, so their scores "
                    "are not comparable. Give both the same files with --validation-file and --test-file."
                )


class Data(NamedTuple):
    """A task with its vocabularies, and the sizes and fingerprints of its data."""

    task: Task
    facts: dict[str, Any]


class _DataCache:
    """The data of variants, each read once."""

    def __init__(self) -> None:
        self._data: dict[tuple[object, ...], Data] = {}

    def get(self, spec: RunSpec) -> Data:
        """The data of a run."""
        before = spec.pretraining
        pretraining = None if before is None else (before.task, before.task_options)
        key = (spec.task, spec.task_options, spec.init_from, pretraining)
        if key not in self._data:
            task = build_task(spec, vocabularies=initial_vocabularies(spec))
            self._data[key] = Data(task, {**task.corpus.facts(), **warm_start_facts(spec)})
        return self._data[key]
