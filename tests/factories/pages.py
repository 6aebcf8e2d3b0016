"""Every kind of page, from dummy records."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from tests.factories.claims import CLAIMS
from tests.factories.documents import make_document_record
from tests.factories.looks import LOOKS
from tests.factories.pictures import convnet_run, image_run, image_study
from tests.factories.runs import RUNS, speech_run
from tests.factories.studies import dummy_study

from regard.claims.engine import run_claims
from regard.core.cost import Cost
from regard.core.records.cost import CostReport, CostRow, Crossover, Curve, Formulas, Unsupported
from regard.core.records.overview import CheckRecord, CostRecord, MechanismRecord, Overview
from regard.core.records.study import AttentionExample, ScoreRecord, StudyRecord
from regard.views.pages.claims import claim_page
from regard.views.pages.costs import cost_page
from regard.views.pages.document import document_page
from regard.views.pages.look import look_page
from regard.views.pages.overview import overview_page
from regard.views.pages.run import run_page
from regard.views.pages.study import study_page

LENGTHS = (128, 1024, 8192)


class Page(NamedTuple):
    """A record and the function that draws it."""

    record: Callable[[], Any]
    draw: Callable[[Any], str]


def unfinished_study() -> StudyRecord:
    """Three variants; seed 3 is missing for one of them, seed 4 for all."""
    record = dummy_study(names=["a", "b", "c"])
    missing = {"a": (4,), "b": (3, 4), "c": (4,)}
    return dataclasses.replace(
        record,
        headline=("The study is not finished.", "Resume with: regard study scores"),
        seeds=(0, 1, 2),
        variants=tuple(
            dataclasses.replace(
                variant,
                scores={
                    name: ScoreRecord(mean=score.mean) for name, score in variant.scores.items()
                },
            )
            for variant in record.variants
        ),
        runs=tuple(
            dataclasses.replace(run, state="missing", scores={}, curve=())
            if run.seed in missing[run.variant]
            else run
            for run in record.runs
        ),
        verdicts=(),
        pairing=None,
        missing=missing,
    )


def failed_study() -> StudyRecord:
    """Four variants with learning rates; one run failed."""
    record = dummy_study(names=["a", "b", "c", "d"], rates=(0.001, 0.003))
    runs = list(record.runs)
    runs[1] = dataclasses.replace(
        runs[1], state="failed", reason="the loss was nan at step 12", scores={}, curve=()
    )
    return dataclasses.replace(
        record,
        runs=tuple(runs),
        variants=(
            *record.variants[:3],
            dataclasses.replace(record.variants[3], problems="one run failed"),
        ),
        matched="Widths were chosen for 1.0 M parameters each.",
    )


def compared_runs() -> StudyRecord:
    """Three existing runs, one seed each, that differ in more than their variant."""
    record = dummy_study(names=["runs/dot", "runs/additive", "runs/longer"], seeds=1)
    return dataclasses.replace(
        record,
        name="compared runs",
        question="How do these runs compare?",
        differences={
            "budget": "2,000 steps: runs/dot, runs/additive; 4,000 steps: runs/longer.",
            "training data": "3f1c0e6a: runs/dot; 77a1b2c3: runs/additive, runs/longer.",
        },
    )


def speech_study() -> StudyRecord:
    """Three variants of speech recognition, with the attention of two over the same recording."""
    record = dummy_study(names=["ctc", "attention", "none"])
    first, second, _ = speech_run().alignments
    example = AttentionExample(
        input="ann/00000",
        alignments={
            "ctc": dataclasses.replace(first, sound=None),
            "attention": dataclasses.replace(second, sound=None),
        },
        sound=first.sound,
    )
    return dataclasses.replace(record, task="speech_recognition", attention_examples=(example,))


def study_of(mechanisms: int, widths: int, depths: int) -> StudyRecord:
    """A grid of variants with five seeds; names are those of its three settings."""
    generator = np.random.default_rng(0)
    grid = [
        {"mechanism": f"mechanism_{a}", "hidden_dim": 64 << b, "num_layers": c + 1}
        for a in range(mechanisms)
        for b in range(widths)
        for c in range(depths)
    ]
    names = [" · ".join(map(str, settings.values())) for settings in grid]
    effects = 6 + generator.normal(size=len(grid)).cumsum() / 3
    record = dummy_study(
        means=dict(zip(names, effects.round(3).tolist(), strict=True)), attention_of=len(grid)
    )
    return dataclasses.replace(
        record,
        name="grid",
        question="Which mechanism, width and depth?",
        variants=tuple(
            dataclasses.replace(variant, settings={"model": settings})
            for variant, settings in zip(record.variants, grid, strict=True)
        ),
    )


@cache
def study_of_200() -> StudyRecord:
    """10 mechanisms × 5 widths × 4 depths, 5 seeds, 3 metrics, the verdicts of all 19,900 pairs."""
    return study_of(10, 5, 4)


def dummy_overview() -> Overview:
    """Four mechanisms of two families; one of them fails a check."""
    tokens = ("a", "rose", "is", "a", "rose")
    checks = (
        CheckRecord(name="adds_up", description="Rows sum to one.", outcome="passed", detail=""),
        CheckRecord(
            name="causal", description="It reads the past only.", outcome="failed", detail="0.1"
        ),
        CheckRecord(
            name="decodes",
            description="Step by step, the same.",
            outcome="not_applicable",
            detail="no state",
        ),
    )
    weights = tuple(tuple((1.0 + (i * j) % 3) / 10 for j in range(5)) for i in range(5))

    def mechanism(name: str, family: str, *, signed: bool = False) -> MechanismRecord:
        return MechanismRecord(
            name=name,
            family=family,
            summary=f"attention by {name}",
            reference="Luong et al. 2015",
            capabilities=("rows sum to one", "causal"),
            causal=family == "kernel",
            signed=signed,
            weights_options="radius=2" if signed else "",
            weights=weights,
            checks=checks[::2] if name == "dot" else checks,
            cost_head_dim=64,
            costs=tuple(
                CostRecord(
                    length=length,
                    cost=Cost(matmul_flops=length**2),
                    form="scan" if signed else None,
                )
                for length in LENGTHS
            ),
        )

    return Overview(
        version="0.5.0",
        seed=0,
        tokens=tokens,
        num_heads=8,
        mechanisms=(
            mechanism("dot", "score"),
            mechanism("additive", "score"),
            mechanism("elu", "kernel"),
            mechanism("delta", "kernel", signed=True),
        ),
    )


def dummy_costs() -> CostReport:
    """Two mechanisms and a layer, with times, crossovers and formulas."""

    def row(name: str, family: str, seconds: float) -> CostRow:
        return CostRow(
            name=name,
            family=family,
            formula="4n²d",
            flops=5_000_000,
            peak_bytes=3 << 20,
            traffic_bytes=1 << 30,
            state=0,
            parameters=12,
            sequential_steps=1,
            max_path_length=1,
            seconds=seconds,
            note="reads the past only" if family == "kernel" else "",
            measured_seconds=seconds * 1.1,
            measured_bytes=3 << 20,
        )

    def curve(name: str, family: str, power: int, scale: float) -> Curve:
        points = tuple((length, scale * length**power) for length in (32, *LENGTHS))
        return Curve(name=name, family=family, points=points)

    return CostReport(
        version="0.5.0",
        command="regard cost --causal --measure",
        mode="forward",
        length=512,
        num_heads=2,
        head_dim=8,
        batch_size=1,
        causal=True,
        machine={"processor": "x86_64", "threads": 1, "torch": "2.13.0"},
        has_times=True,
        mechanisms=(row("elu", "kernel", 2e-3), row("scaled_dot", "score", 3e-3)),
        layers=(row("lstm", "layer", 1.5),),
        unsupported=(Unsupported(name="delta", reason="it reads the past only"),),
        crossovers=(
            Crossover(
                baseline="scaled_dot",
                candidate="elu",
                length=400,
                value=4e-4,
                sentence="elu costs less than scaled_dot from n = 400",
            ),
            Crossover(
                baseline="self-attention",
                candidate="lstm",
                length=None,
                value=None,
                sentence="self-attention costs less than lstm at every length",
            ),
        ),
        curves=(
            curve("scaled_dot", "score", 2, 1e-9),
            curve("elu", "kernel", 1, 4e-7),
            curve("lstm", "layer", 1, 1e-5),
        ),
        formulas=(
            Formulas(
                name="elu",
                by_field=(("matmul_flops", "4nd²", 131072), ("memory", "nd", 4096)),
                length_note="At n = 512 the memory is 4096.",
            ),
        ),
    )


@cache
def claim_records() -> tuple[Any, ...]:
    """Four claims: holds, fails, holds if, and one that was skipped."""
    return tuple(
        dataclasses.replace(record, seconds=1.5 * number)
        for number, record in enumerate(run_claims(CLAIMS))
    )


PAGES = {
    "study-small": Page(dummy_study, study_page),
    "study-two": Page(lambda: dummy_study(names=["a", "b"]), study_page),
    "study-unfinished": Page(unfinished_study, study_page),
    "study-failed": Page(failed_study, study_page),
    "study-of-runs": Page(compared_runs, study_page),
    "study-speech": Page(speech_study, study_page),
    "study-40": Page(lambda: study_of(5, 4, 2), study_page),
    "study-images": Page(image_study, study_page),
    "overview": Page(dummy_overview, overview_page),
    "claims": Page(claim_records, claim_page),
    "costs": Page(dummy_costs, cost_page),
    "document": Page(lambda: make_document_record(hops=3), document_page),
    "run-images": Page(image_run, run_page),
    "run-convnet": Page(convnet_run, run_page),
    **{f"run-{name}": Page(record, run_page) for name, record in RUNS.items()},
    **{f"look-{name}": Page(records, look_page) for name, records in LOOKS.items()},
}


def all_pages() -> dict[str, Callable[[], str]]:
    """The HTML of every kind of page, by name."""
    return {name: cache(lambda page=page: page.draw(page.record())) for name, page in PAGES.items()}
