"""Small recurrent decoders trained alike, that pronounce English words: without attention, and with scores.

One study for several claims: the arms share data, seeds and budget, and read the source after the update of
their state, which trains quickest. What each wrote for the test words is kept, to be scored in other ways.
"""

from __future__ import annotations

import tempfile
from collections import Counter as Tally
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rapidfuzz.distance import DamerauLevenshtein

from regard.claims.interleaved import one_thread
from regard.core.errors import RegardError
from regard.runs.predictions import read_predictions
from regard.runs.run_folder import RunFolder
from regard.runs.spec import RunSpec, Sections
from regard.studies.one_run import execute

WITHOUT = "none"
SCORES = ("dot", "general", "additive", "location")
ARMS = (WITHOUT, *SCORES)

Tokens = Sequence[str]


def jaccard(first: Tokens, second: Tokens) -> float:
    """The tokens that both have, of those that one has.

    >>> jaccard(["K", "AE", "T"], ["K", "AH", "T"])
    0.5
    """
    either = {*first} | {*second}
    return len({*first} & {*second}) / len(either) if either else 1.0


def cosine(first: Tokens, second: Tokens) -> float:
    """Of the angle between the two tallies of tokens.

    >>> round(cosine(["K", "AE", "T"], ["K", "AH", "T"]), 3)
    0.667
    """
    one, other = Tally(first), Tally(second)
    lengths = sum(n * n for n in one.values()) * sum(n * n for n in other.values())
    if not lengths:
        return float(one == other)
    return float(sum(count * other[token] for token, count in one.items()) / lengths**0.5)


def damerau_levenshtein(first: Tokens, second: Tokens) -> float:
    """One less the edits, swaps of neighbours among them, for each token of the longer.

    >>> round(damerau_levenshtein(["K", "AE", "T"], ["K", "AH", "T"]), 3)
    0.667
    """
    return float(DamerauLevenshtein.normalized_similarity(first, second))


SIMILARITIES: dict[str, Callable[[Tokens, Tokens], float]] = {
    "jaccard": jaccard,
    "cosine": cosine,
    "damerau-levenshtein": damerau_levenshtein,
}


@dataclass(frozen=True, kw_only=True)
class TrainedDecoder:
    """One run: its arm and seed, phone error rate in percent, and mean similarities to right answers."""

    arm: str
    seed: int
    phone_error_rate: float
    similarities: dict[str, float]


@cache
def trained_decoders(*, seeds: int, steps: int) -> tuple[TrainedDecoder, ...]:
    """Every arm with every seed, seed by seed."""
    if seeds < 1 or steps < 1:
        raise RegardError(f"seeds={seeds}, steps={steps}: both must be 1 or more.")
    found = []
    with tempfile.TemporaryDirectory() as folder, one_thread():
        for seed in range(seeds):
            for arm in ARMS:
                place = Path(folder) / f"{arm}-{seed}"
                if not execute(sections_of(arm, seed=seed, steps=steps), place):
                    raise KeyboardInterrupt
                found.append(_decoder(arm, seed, RunFolder(place)))
    return tuple(found)


def error_rates(decoders: Sequence[TrainedDecoder]) -> dict[str, dict[int, float]]:
    """Arm → seed → phone error rate, as studies compare them."""
    return {
        arm: {each.seed: each.phone_error_rate for each in decoders if each.arm == arm}
        for arm in dict.fromkeys(each.arm for each in decoders)
    }


def mean_similarity(
    measure: Callable[[Tokens, Tokens], float],
    predicted: Sequence[str],
    answers: Sequence[Sequence[str]],
) -> float:
    """Over all items; of several right answers, the nearest counts."""
    nearest = [
        max(measure(text.split(), answer.split()) for answer in choices)
        for text, choices in zip(predicted, answers, strict=True)
    ]
    return sum(nearest) / len(nearest)


def _decoder(arm: str, seed: int, run: RunFolder) -> TrainedDecoder:
    written = read_predictions(run, "test")
    return TrainedDecoder(
        arm=arm,
        seed=seed,
        phone_error_rate=float(run.read_json(run.record)["scores"]["test"]["per"]),
        similarities={
            name: mean_similarity(measure, written.predicted, written.answers)
            for name, measure in SIMILARITIES.items()
        },
    )


def sections_of(arm: str, *, seed: int, steps: int) -> Sections:
    """What one run is, in full."""
    sections: Sections = {
        "task": {
            "name": "pronounce",
            "batch_tokens": 768,
            "beam_size": 1,
            "dev_share": 0.002,
            "test_share": 0.008,
        },
        "model": {
            "name": "recurrent",
            "embedding_dim": 32,
            "hidden_dim": 64,
            "wiring": "after",
            "mechanism": arm,
            "dropout": 0.1,
            "max_length": 66,
        },
        "training": {
            "steps": steps,
            "learning_rate": 8e-3,
            "warmup_steps": min(40, steps),
            "evaluate_every": steps,
            "keep": "last",
        },
        "seed": seed,
        "threads": 1,
    }
    return RunSpec.from_sections(sections).as_sections()
