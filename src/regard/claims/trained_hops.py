"""Small structured classifiers trained with and without a penalty, and how alike their hops came out.

The texts are the embedded films, whose language is to be told. All arms share data, seeds and budget.
"""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import torch

from regard.claims.interleaved import one_thread
from regard.core.errors import RegardError
from regard.core.text_classifier import hop_overlap
from regard.models.structured import StructuredClassifier
from regard.runs.build import build_task
from regard.runs.spec import RunSpec, Sections
from regard.runs.trained import load
from regard.studies.one_run import execute
from regard.tasks.classify_rows import text_rows
from regard.tasks.text_batches import evaluation_cuts, plain_batch

# The first is what the others are compared with.
ARMS = ("none", "frobenius", "kl")


@cache
def trained_overlaps(*, seeds: int, steps: int, penalty_weight: float) -> dict[str, list[float]]:
    """Arm → the mean overlap of hops on the texts held out to test on, seed by seed."""
    if seeds < 2 or steps < 1:
        raise RegardError(
            f"seeds={seeds}, steps={steps}: two seeds or more show a spread, and one step or more trains."
        )
    found: dict[str, list[float]] = {arm: [] for arm in ARMS}
    with tempfile.TemporaryDirectory() as folder, one_thread():
        for seed in range(seeds):
            for arm in ARMS:
                place = Path(folder) / f"{arm}-{seed}"
                sections = sections_of(arm, seed=seed, steps=steps, penalty_weight=penalty_weight)
                if not execute(sections, place):
                    raise KeyboardInterrupt
                found[arm].append(overlap_of(place))
    return found


def overlap_of(run: Path) -> float:
    """How alike the hops of a trained run are, on the texts it is tested on."""
    trained = load(run)
    assert isinstance(trained.model, StructuredClassifier)
    texts = build_task(trained.spec, vocabularies=trained.vocabularies).corpus.test.sources
    rows = text_rows(texts, trained.vocabularies, trained.spec.task_options)
    cuts, overlaps = evaluation_cuts(rows), []
    for place in range(len(cuts)):
        batch = plain_batch(rows, cuts.indices(place))
        with torch.inference_mode():
            overlaps.append(hop_overlap(trained.model.reading(batch.tokens, batch.lengths).tokens))
    return float(torch.cat(overlaps).mean())


def sections_of(arm: str, *, seed: int, steps: int, penalty_weight: float) -> Sections:
    """What one run is, in full."""
    sections: Sections = {
        "task": {
            "name": "classify",
            "tokens": "running_words",
            "vocabulary_size": 3000,
            "max_length": 64,
            "batch_tokens": 1024,
        },
        "model": {
            "name": "structured",
            "model_dim": 32,
            "hidden_dim": 24,
            "hops": 4,
            "attention_dim": 24,
            "penalty": arm,
            "penalty_weight": penalty_weight,
            "dropout": 0.2,
        },
        "training": {
            "steps": steps,
            "learning_rate": 5e-3,
            "warmup_steps": min(20, steps),
            "evaluate_every": steps,
            "keep": "last",
        },
        "seed": seed,
        "threads": 1,
    }
    return RunSpec.from_sections(sections).as_sections()
