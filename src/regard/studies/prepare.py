"""Preparing a study: read the data, match parameter counts, profile every variant, validate a resume."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

import torch
from pydantic import ConfigDict, Field, with_config
from torch import Tensor
from typing_extensions import TypedDict

from regard.core.errors import RegardError
from regard.core.records.record import parse_json
from regard.core.traits import traits_of
from regard.costs.trace import Workload, trace
from regard.data.preprocessor import Preprocessor
from regard.models import model_class
from regard.runs.build import build_spec_model, build_task
from regard.runs.folder import RunFolder
from regard.runs.plan import size_unit, with_size
from regard.runs.plugins import PluginRecord, validate_plugins
from regard.runs.profile import StepProfiler, evenly_spaced
from regard.runs.spec import RunSpec, Sections
from regard.runs.warm_start import initial_preprocessor, warm_start_facts
from regard.studies.execution.jobs import Job
from regard.studies.folder import StudyFolder
from regard.studies.spec import StudyRun, StudySpec
from regard.tasks.task import Task
from regard.training.checkpoint import model_state
from regard.training.seeding import shared_fraction

MATCH_TOLERANCE = 0.02  # relative difference in parameters
MAX_UNITS = 1 << 14  # of width
PROFILED_BATCHES = 4


class Matched(NamedTuple):
    """The study with matched variants, and a sentence about the remaining mismatch."""

    study: StudySpec
    description: str


def match_parameters(
    study: StudySpec, preprocessor_of: Callable[[RunSpec], Preprocessor]
) -> Matched:
    """Choose sizes so that the parameter count of every variant is closest to the baseline's.

    The first size that a model's traits declare is found by bisection, since parameters grow with it; the
    others close the remaining gap.
    """
    base = study.run_spec(study.variant(study.baseline), seed=study.seeds[0])
    target = count_parameters(base, preprocessor_of(base))
    changes, mismatches = {}, []
    for variant in study.variants:
        spec = study.run_spec(variant, seed=study.seeds[0])
        _validate_sweep(study, spec)
        if variant.name == study.baseline:
            continue
        preprocessor = preprocessor_of(spec)
        found = _match(spec, preprocessor, target)
        mismatch = count_parameters(found, preprocessor) / target - 1
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


def _validate_sweep(study: StudySpec, spec: RunSpec) -> None:
    """Raise if the model has no sizes to choose, or the sweep sets one of them."""
    sizes = traits_of(model_class(spec.model)).sizes
    if not sizes:
        raise RegardError(
            f"match=parameters: the model '{spec.model}' declares no sizes in its traits, so none can be "
            "chosen. Remove match, or compare other models."
        )
    for option in study.sections.get("sweep", {}):
        if option.rpartition(".")[2] in sizes:
            raise RegardError(
                f"match=parameters chooses {', '.join(sizes)}, but the sweep contains {option}. "
                f"Remove match, or {option} from the sweep."
            )


def count_parameters(spec: RunSpec, preprocessor: Preprocessor) -> int:
    """The parameter count of the model of a spec, without allocating it."""
    with torch.device("meta"):
        model = build_spec_model(spec, preprocessor)
    return sum(parameter.numel() for parameter in model.parameters())


def _match(spec: RunSpec, preprocessor: Preprocessor, target: int) -> RunSpec:
    for name in traits_of(model_class(spec.model)).sizes:
        spec = _closest(partial(with_size, spec, name), size_unit(spec, name), preprocessor, target)
    return spec


def _closest(
    resized: Callable[[int], RunSpec], unit: int, preprocessor: Preprocessor, target: int
) -> RunSpec:
    """Bisect multiples of the unit; the nearer one of both sides of the target."""

    def parameters(multiple: int) -> int:
        return count_parameters(resized(multiple * unit), preprocessor)

    low, high = 1, 2
    while high < MAX_UNITS and parameters(high) < target:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if parameters(middle) < target:
            low = middle
        else:
            high = middle
    return resized(min((low, high), key=lambda one: abs(parameters(one) - target)) * unit)


def peak_memory(spec: RunSpec, task: Task) -> int:
    """Peak memory of training on the largest of a few batches: parameters, optimizer state, activations."""
    epoch = task.epoch(0)
    batches = [epoch[index] for index in evenly_spaced(len(epoch), PROFILED_BATCHES)]
    largest = max(batches, key=lambda batch: math.prod(batch.input.shape))
    # Measured on the CPU; tensor sizes are the same on any device.
    on_cpu = replace(spec, training=spec.training.replace(device="cpu"))
    profiler = StepProfiler(on_cpu, task)
    profiler.step(largest)  # allocates the optimizer state
    # Real tensors: batches read values, which fake tensors do not have.
    step = Workload("step", "train", lambda: lambda: profiler.step(largest))
    return profiler.training_state_bytes + trace(step, real=True).peak_bytes


@dataclass(frozen=True, kw_only=True)
class VariantProfile:
    """Parameters, peak memory of a training step, and data facts (sizes and fingerprints) of a variant.

    `shared_initialisation` is the fraction of its parameters that start with the values of the baseline's.
    """

    parameters: int
    peak_bytes: int
    shared_initialisation: float
    data: dict[str, Any]


@with_config(ConfigDict(extra="forbid", strict=True))
class StudyFile(TypedDict):
    """The content of study.json: `variants` are their changes, `options` have every option written out."""

    name: str
    spec: dict[str, Any]
    variants: dict[str, dict[str, Any]]
    options: Annotated[dict[str, dict[str, Any]], Field(min_length=1)]
    profiles: dict[str, VariantProfile]
    matched: str
    command: str
    machine: str
    plugins: dict[str, PluginRecord]
    keys: list[str]


@dataclass(frozen=True, kw_only=True)
class PreparedStudy:
    """A study with matched and profiled variants; `matched` describes the matching, if any."""

    name: str
    study: StudySpec
    profiles: dict[str, VariantProfile]
    matched: str
    command: str
    machine: str

    def variant_sections(self) -> dict[str, Sections]:
        """Every option of each variant; seed and learning rate are those of its first run."""
        study = self.study
        return {
            variant.name: study.run_spec(variant, seed=study.seeds[0]).as_sections()
            for variant in study.variants
        }

    def plugins(self) -> dict[str, PluginRecord]:
        """The plug-ins that the variants name."""
        sections = self.variant_sections().values()
        return {name: one for each in sections for name, one in each.get("plugins", {}).items()}

    def jobs(self, folder: StudyFolder, runs: Iterable[StudyRun]) -> list[Job]:
        """The jobs of runs, for an executor."""
        plugins = tuple(record["target"] for record in self.plugins().values())
        return [
            Job(
                key=run.key,
                variant=run.variant,
                seed=run.seed,
                sections=run.spec.as_sections(),
                folder=folder.runs / run.key,
                plugins=plugins,
                learning_rate=run.learning_rate,
            )
            for run in runs
        ]

    def validate_resume(self, folder: StudyFolder) -> None:
        """Raise if the folder has runs of another study, other data or another plug-in."""
        jobs = self.jobs(folder, self.study.runs())
        before = read_study_file(folder) if folder.study.is_file() else None
        if before is not None and not {job.key for job in jobs} & set(before["keys"]):
            raise RegardError(
                f"'{folder.path}' contains another study, without common runs. Choose another folder with "
                "--out, or remove it."
            )
        for job in jobs:
            run = RunFolder(job.folder)
            if run.exists:
                run.verify(key=job.key, checkpoint=not job.is_finished, is_resumed=True)
        finished = [job for job in jobs if job.is_finished]
        if finished and before is not None:
            used = self.plugins()
            validate_plugins({name: one for name, one in before["plugins"].items() if name in used})
        for job in finished:
            before, now = (
                RunFolder(job.folder).read_record()["data"],
                self.profiles[job.variant].data,
            )
            # A fact that the run was recorded without is not compared.
            if before != {key: value for key, value in now.items() if key in before}:
                raise RegardError(
                    f"The data changed since the run '{job.folder}' was trained ({job.variant}, seed "
                    f"{job.seed}), so it is not comparable with new runs. Restore the files, or choose "
                    "another folder with --out."
                )

    def write(self, folder: StudyFolder) -> None:
        """Write study.json."""
        folder.write(
            folder.study,
            {
                "name": self.name,
                "spec": self.study.sections,
                "variants": {variant.name: variant.changes for variant in self.study.variants},
                "options": self.variant_sections(),
                "profiles": {name: asdict(profile) for name, profile in self.profiles.items()},
                "matched": self.matched,
                "command": self.command,
                "machine": self.machine,
                "plugins": self.plugins(),
                "keys": [run.key for run in self.study.runs()],
            },
        )

    @classmethod
    def read(
        cls, folder: StudyFolder, *, changed_plugins: Literal["error", "warn"] = "error"
    ) -> PreparedStudy:
        """Read study.json. Its plug-ins must be loaded; see `validate_plugins`."""
        stored = read_study_file(folder)
        validate_plugins(stored["plugins"], changed=changed_plugins)
        recorded = {
            name: RunSpec.read(
                folder.study, {key: value for key, value in sections.items() if key != "plugins"}
            ).as_sections()
            for name, sections in stored["options"].items()
        }
        return cls(
            name=stored["name"],
            study=StudySpec.from_record(stored["spec"], stored["variants"], recorded),
            profiles=stored["profiles"],
            matched=stored["matched"],
            command=stored["command"],
            machine=stored["machine"],
        )


def read_study_file(folder: StudyFolder) -> StudyFile:
    """Read and validate study.json."""
    folder.validate_links()
    folder.read(folder.study)  # raises if it is missing or not JSON
    found: StudyFile = parse_json(
        StudyFile,
        folder.read_text(folder.study),
        problem=f"'{folder.study}' is not a study file",
        way_out="Run the study again: finished runs are not repeated.",
    )
    return found


def prepare_study(
    study: StudySpec,
    *,
    name: str,
    command: str = "",
    log: Callable[[str], None] = lambda _: None,
) -> PreparedStudy:
    """Read the data, match and profile the variants; errors are found before anything is trained."""
    log("reading the data")
    datasets = _DataCache()
    datasets.get(study.run_spec(study.variants[0], seed=study.seeds[0]))
    matched = ""
    if study.match == "parameters":
        log("matching parameter counts")
        study, matched = match_parameters(
            study, lambda spec: datasets.get(spec).task.dataset.preprocessor
        )
    profiles = {}
    first = study.run_spec(study.variant(study.baseline), seed=study.seeds[0])
    baseline = _initial_state(first, datasets)
    for variant in study.variants:
        log(f"profiling {variant.name}")
        spec = study.run_spec(variant, seed=study.seeds[0])
        try:
            data = datasets.get(spec)
            profiles[variant.name] = VariantProfile(
                parameters=count_parameters(spec, data.task.dataset.preprocessor),
                peak_bytes=peak_memory(spec, data.task),
                shared_initialisation=shared_fraction(_initial_state(spec, datasets), baseline),
                data=data.facts,
            )
        except RegardError as error:
            raise RegardError(f"In the variant '{variant.name}': {error}") from error
    _validate_same_items(profiles)
    if len(profiles) > 1:
        log(_describe_sharing(profiles, baseline=study.baseline))
    return PreparedStudy(
        name=name,
        study=study,
        profiles=profiles,
        matched=matched,
        command=command,
        machine=f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}",
    )


def _initial_state(spec: RunSpec, datasets: _DataCache) -> dict[str, Tensor]:
    """The parameters of a model before training."""
    return model_state(build_spec_model(spec, datasets.get(spec).task.dataset.preprocessor))


def _describe_sharing(profiles: Mapping[str, VariantProfile], *, baseline: str) -> str:
    shared = "; ".join(
        f"{name} {profile.shared_initialisation:.1%}"
        for name, profile in profiles.items()
        if name != baseline
    )
    return f"initial parameters in common with {baseline}, for every seed: {shared}"


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
            task = build_task(spec, preprocessor=initial_preprocessor(spec))
            self._data[key] = Data(task, {**task.dataset.facts(), **warm_start_facts(spec)})
        return self._data[key]
