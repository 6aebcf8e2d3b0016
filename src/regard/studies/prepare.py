"""A study made ready to run: its variants in their final widths, and what is known of each before training."""

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
from regard.runs.plan import WIDTH_OF_A_HEAD, option_of
from regard.runs.profile import Trainee, middles
from regard.runs.spec import RunSpec
from regard.runs.warm_start import start_facts, start_vocabularies
from regard.studies.execution.jobs import Job
from regard.studies.folder import StudyFolder
from regard.studies.spec import StudySpec
from regard.tasks.task import RunTask, Vocabularies

# Variants made as large as the baseline: widths solved for, and what mismatch is left.
#
# The main width is found by halving, since parameters only grow with it: the hidden width of a
# recurrent model, the model width of a Transformer. A width that counts for less then closes what
# is left of the gap: that of the embeddings, or of the feed-forward layers.


# model → the main width and the one that closes the gap
SOLVED = {
    **dict.fromkeys(
        ("transformer", "decoder_only", "text_encoder"), ("model_dim", "feed_forward_dim")
    ),
    "recurrent": ("hidden_dim", "embedding_dim"),
}
# What a model may have more or fewer of than the baseline, as a share.
TOLERATED = 0.02
FEED_FORWARD_TIMES = 4
# Beyond this many units of width nothing that trains here is found.
MOST_UNITS = 1 << 14


class Matched(NamedTuple):
    """The study with its variants made alike, and a sentence on how alike they are."""

    study: StudySpec
    told: str


def matched_parameters(study: StudySpec, vocabularies: Vocabularies) -> Matched:
    """Every variant in the width that brings its parameters closest to the baseline's."""
    base = study.spec_of(study.variant(study.baseline), seed=study.seeds[0])
    wanted = count_parameters(base, vocabularies)
    solved = {width for widths in SOLVED.values() for width in widths}
    for option in study.written.get("over", {}):
        if option.rpartition(".")[2] in solved:
            raise RegardError(
                f"match=parameters solves for {', '.join(sorted(solved))}, but the variants are to differ in "
                f"{option}. Leave match away, or compare something else."
            )
    changes, mismatches = {}, []
    for variant in study.variants:
        if variant.name == study.baseline:
            continue
        found = _matched(study.spec_of(variant, seed=study.seeds[0]), vocabularies, wanted)
        share = count_parameters(found, vocabularies) / wanted - 1
        if abs(share) > TOLERATED:
            raise RegardError(
                f"The variant '{variant.name}' cannot be made as large as '{study.baseline}': the closest model "
                f"differs by {share:+.1%} from its {wanted:,} parameters. Choose other depths, or leave "
                "match away."
            )
        changes[variant.name] = {"model": {"name": found.model, **found.model_options}}
        mismatches.append(abs(share))
    told = (
        f"Widths were solved for, so that every variant has about the {wanted:,} parameters of "
        f"'{study.baseline}'; the largest mismatch is {max(mismatches, default=0.0):.2%}."
    )
    return Matched(study.changed(changes), told)


def count_parameters(spec: RunSpec, vocabularies: Vocabularies) -> int:
    """How many numbers the model of a spec has; nothing is allocated."""
    with torch.device("meta"):
        model = build_spec_model(spec, vocabularies)
    return sum(parameter.numel() for parameter in model.parameters())


def _matched(spec: RunSpec, vocabularies: Vocabularies, wanted: int) -> RunSpec:
    def closest(widened: Callable[[int], RunSpec]) -> RunSpec:
        """Of the widths on both sides of the wanted count, the one that is nearer."""
        low, high = 1, 2
        while high < MOST_UNITS and count_parameters(widened(high), vocabularies) < wanted:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            if count_parameters(widened(middle), vocabularies) < wanted:
                low = middle
            else:
                high = middle
        return min(
            (widened(low), widened(high)),
            key=lambda found: abs(count_parameters(found, vocabularies) - wanted),
        )

    main, _ = SOLVED[spec.model]
    if spec.model == "recurrent":
        # Each direction of the encoder has half of the hidden width.
        wide = closest(lambda units: _with(spec, **{main: 2 * units}))
        return closest(lambda width: _with(wide, embedding_dim=width))
    unit = WIDTH_OF_A_HEAD * int(option_of(spec, "num_heads"))
    ratio = option_of(spec, "feed_forward_dim") or FEED_FORWARD_TIMES * option_of(spec, main)
    ratio /= option_of(spec, main)
    wide = closest(
        lambda units: _with(
            spec, **{main: unit * units, "feed_forward_dim": max(1, round(ratio * unit * units))}
        )
    )
    return closest(lambda width: _with(wide, feed_forward_dim=width))


def _with(spec: RunSpec, **widths: int) -> RunSpec:
    return replace(spec, model_options={**spec.model_options, **widths})


# How much memory a training takes: all that lives from step to step, and the peak within a step.


LOOKED_AT = 4


def step_bytes(spec: RunSpec, task: RunTask) -> int:
    """With the largest of a few batches of the first epoch; weights, moments and averages included."""
    epoch = task.epoch(0)
    batches = [epoch[place] for place in middles(len(epoch), LOOKED_AT)]
    largest = max(batches, key=lambda batch: math.prod(task.cost_words(batch).values()))
    # Tensors are as large on any device, and only the processor's are counted.
    here = replace(spec, training=replace(spec.training, device="cpu"))
    trainee = Trainee(here, task)
    trainee.step(largest)  # the optimiser makes its moments at its first step
    # Batches ask for values, which fake tensors do not have.
    step = Workload("step", "train", lambda: lambda: trainee.step(largest))
    return trainee.kept_bytes + trace(step, really=True).peak_bytes


@dataclass(frozen=True, kw_only=True)
class VariantSize:
    """How large a variant's model is, and what a training step of it holds at its peak.

    `data` says how much data there is, with fingerprints.
    """

    parameters: int
    peak_bytes: int
    data: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class PreparedStudy:
    """`matched` is a sentence on how variants were made alike, if they were; `command` is what began it."""

    name: str
    study: StudySpec
    sizes: dict[str, VariantSize]
    matched: str
    command: str
    machine: str
    plugins: tuple[str, ...]

    def jobs(self, folder: StudyFolder) -> list[Job]:
        """The runs, for an executor."""
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

    def require_continued(self, folder: StudyFolder) -> None:
        """Refuse to go on with runs of another study, of other data or of another plug-in."""
        if not folder.study.is_file():
            return
        before: dict[str, Any] = folder.read(folder.study)
        jobs = self.jobs(folder)
        if not {job.key for job in jobs} & set(before.get("keys", ())):
            raise RegardError(
                f"'{folder.path}' holds another study, with no run in common. Choose another folder with "
                "--out, or remove that one."
            )
        finished = [job for job in jobs if job.is_finished]
        digests = before.get("plugins", {})
        for target, digest in self.digests().items():
            if finished and digests.get(target, digest) != digest:
                raise RegardError(
                    f"The plug-in '{target}' changed since the runs in '{folder.path}' were trained, so "
                    "they cannot be held against new ones. Restore it, or choose another folder with --out."
                )
        for job in finished:
            if folder.read(job.folder / "record.json").get("data") != self.sizes[job.variant].data:
                raise RegardError(
                    f"The data changed since the run '{job.folder}' was trained ({job.variant}, seed "
                    f"{job.seed}), so it cannot be held against new ones. Restore the files, or choose "
                    "another folder with --out."
                )

    def digests(self) -> dict[str, str]:
        """Plug-in → what its file holds, in short."""
        found = {}
        for target in self.plugins:
            file = Path(target.rpartition(":")[0])
            found[target] = hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""
        return found

    def write(self, folder: StudyFolder) -> None:
        """Keep it in the study's folder."""
        folder.write(
            folder.study,
            {
                "name": self.name,
                "asked": self.study.written,
                "variants": {variant.name: variant.changes for variant in self.study.variants},
                "sizes": {variant: asdict(size) for variant, size in self.sizes.items()},
                "matched": self.matched,
                "command": self.command,
                "machine": self.machine,
                "plugins": self.digests(),
                "keys": [run.key for run in self.study.runs()],
            },
        )

    @classmethod
    def read(cls, folder: StudyFolder) -> PreparedStudy:
        """The study that was kept in a folder."""
        held: dict[str, Any] = folder.read(folder.study)
        try:
            return cls(
                name=held["name"],
                study=StudySpec.from_sections(held["asked"]).changed(held["variants"]),
                sizes={variant: VariantSize(**size) for variant, size in held["sizes"].items()},
                matched=held["matched"],
                command=held["command"],
                machine=held["machine"],
                plugins=tuple(held["plugins"]),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise RegardError(
                f"'{folder.study}' is not what `regard study` writes ({error!r}). Run the study again: "
                "finished runs are not repeated."
            ) from error


def prepare_study(
    study: StudySpec,
    *,
    name: str,
    command: str = "",
    plugins: Sequence[str] = (),
    tell: Callable[[str], None] = lambda _: None,
) -> PreparedStudy:
    """Read the data, match the variants if asked to, and size each of them up.

    What cannot be built is found here, before anything is trained.
    """
    tell("reading the data")
    read = _Read()
    first = read.of(study.spec_of(study.variants[0], seed=study.seeds[0]))
    matched = ""
    if study.match == "parameters":
        tell("matching the variants in parameters")
        study, matched = matched_parameters(study, first.task.corpus.vocabularies)
    sizes = {}
    for variant in study.variants:
        tell(f"sizing up {variant.name}")
        spec = study.spec_of(variant, seed=study.seeds[0])
        try:
            own = read.of(spec)
            sizes[variant.name] = VariantSize(
                parameters=count_parameters(spec, own.task.corpus.vocabularies),
                peak_bytes=step_bytes(spec, own.task),
                data=own.facts,
            )
        except RegardError as error:
            raise RegardError(f"In the variant '{variant.name}': {error}") from error
    _require_same_items(sizes)
    return PreparedStudy(
        name=name,
        study=study,
        sizes=sizes,
        matched=matched,
        command=command,
        machine=f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}",
        plugins=tuple(plugins),
    )


def _require_same_items(sizes: Mapping[str, VariantSize]) -> None:
    """Refuse variants that would be scored on different items."""
    first, of_first = next(iter(sizes.items()))
    for variant, size in sizes.items():
        for part in ("validation", "test"):
            if size.data[f"{part}_fingerprint"] != of_first.data[f"{part}_fingerprint"]:
                raise RegardError(
                    f"The variants '{first}' and '{variant}' have different {part} items, so their scores cannot "
                    "be compared. Give both the same held-out files with --validation and --test, or compare "
                    "something else."
                )


class Data(NamedTuple):
    """A task with the vocabularies that its runs will have, and what shows any later change of its data."""

    task: RunTask
    facts: dict[str, Any]


class _Read:
    """What variants learn from, each read once."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], Data] = {}

    def of(self, spec: RunSpec) -> Data:
        """The data of a run."""
        before = spec.pretraining
        first = None if before is None else (before.task, before.task_options)
        key = (spec.task, spec.task_options, spec.start, first)
        if key not in self._known:
            task = build_task(spec, vocabularies=start_vocabularies(spec))
            self._known[key] = Data(task, {**task.corpus.facts(), **start_facts(spec)})
        return self._known[key]
