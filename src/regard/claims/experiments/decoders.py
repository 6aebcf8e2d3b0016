"""Small recurrent decoders trained alike, that pronounce English words: without attention, and with scores.

One study for several claims: the variants share data, seeds and budget, and read the source after the update of
their state, which trains quickest. What each wrote for the test words is kept, to be scored in other ways.
"""

from __future__ import annotations

import tempfile
from collections import Counter as Tally
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch
from rapidfuzz.distance import DamerauLevenshtein

from regard.claims.engine import line, one_thread
from regard.core.errors import RegardError
from regard.core.records.claim import CurvePicture
from regard.models.seq2seq.recurrent import RecurrentEncoderDecoder
from regard.runs.folder import RunFolder, read_predictions
from regard.runs.spec import RunSpec, Sections
from regard.studies.execution.jobs import execute
from regard.studies.statistics.compare_seeds import SeedComparison

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
    """One run: its variant and seed, phone error rate in percent, and mean similarities to right answers."""

    variant: str
    seed: int
    phone_error_rate: float
    similarities: dict[str, float]


@cache
def trained_decoders(*, seeds: int, steps: int) -> tuple[TrainedDecoder, ...]:
    """Every variant with every seed, seed by seed."""
    if seeds < 1 or steps < 1:
        raise RegardError(f"seeds={seeds}, steps={steps}: both must be 1 or more.")
    found = []
    with tempfile.TemporaryDirectory() as folder, one_thread():
        for seed in range(seeds):
            for variant in ARMS:
                place = Path(folder) / f"{variant}-{seed}"
                if not execute(sections_of(variant, seed=seed, steps=steps), place):
                    raise KeyboardInterrupt
                found.append(_decoder(variant, seed, RunFolder(place)))
    return tuple(found)


def error_rates(decoders: Sequence[TrainedDecoder]) -> dict[str, dict[int, float]]:
    """Variant → seed → phone error rate, as studies compare them."""
    return {
        variant: {each.seed: each.phone_error_rate for each in decoders if each.variant == variant}
        for variant in dict.fromkeys(each.variant for each in decoders)
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


def _decoder(variant: str, seed: int, run: RunFolder) -> TrainedDecoder:
    written = read_predictions(run, "test")
    return TrainedDecoder(
        variant=variant,
        seed=seed,
        phone_error_rate=float(run.read_json(run.record)["scores"]["test"]["per"]),
        similarities={
            name: mean_similarity(measure, written.predicted, written.answers)
            for name, measure in SIMILARITIES.items()
        },
    )


def sections_of(variant: str, *, seed: int, steps: int) -> Sections:
    """What one run is, in full."""
    sections: Sections = {
        "task": {
            "name": "pronounce",
            "batch_tokens": 768,
            "beam_size": 1,
            "validation_share": 0.002,
            "test_share": 0.008,
        },
        "model": {
            "name": "recurrent",
            "embedding_dim": 32,
            "hidden_dim": 64,
            "wiring": "after",
            "mechanism": variant,
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


# What changes in a recurrent decoder when a token or its attention is changed: the order of its
# wiring.


TOKENS = 12


def changed_weights(wiring: str, *, steps: int) -> np.ndarray:
    """Row t: by how much the weights of every step change if the token given at step t does."""
    model = _untrained_decoder(wiring)
    source, lengths, given = _texts(steps)
    with torch.inference_mode():
        weights = model.weights(source, lengths, given)["cross/0"][0, 0]
        rows = []
        for step in range(steps):
            other = given.clone()
            other[0, step] = 4 + (int(given[0, step]) - 4 + 1) % (TOKENS - 4)
            changed = model.weights(source, lengths, other)["cross/0"][0, 0]
            rows.append((changed - weights).abs().amax(dim=1).numpy())
    return np.stack(rows)


def changed_state(wiring: str, *, steps: int) -> float:
    """By how much the last state changes if the attention reads otherwise, all else being equal."""
    model = _untrained_decoder(wiring)
    mechanism = model.decoder.mechanism
    assert mechanism is not None
    states = []
    with torch.no_grad():
        for _ in range(2):
            state = model.start(*_texts(steps)[:2])
            for token in _texts(steps)[2].unbind(1):
                state = model.step(state, token).state
            states.append(state.hidden)
            for parameter in mechanism.parameters():
                parameter.neg_()
    return float((states[1] - states[0]).abs().max())


def _untrained_decoder(wiring: str) -> RecurrentEncoderDecoder:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = RecurrentEncoderDecoder(
            source_vocabulary=TOKENS,
            target_vocabulary=TOKENS,
            embedding_dim=8,
            hidden_dim=8,
            wiring=wiring,
            mechanism="general",
        )
        # Embeddings start small; larger ones make changes easy to see.
        for table in (model.source_embedding, model.target_embedding):
            torch.nn.init.normal_(table.weight)
    return model.double().eval()


def _texts(steps: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A source of six tokens with its length, and the tokens given to the decoder."""
    drawn = torch.Generator().manual_seed(1)
    source = torch.randint(4, TOKENS, (1, 6), generator=drawn)
    return source, torch.tensor([6]), torch.randint(4, TOKENS, (1, steps), generator=drawn)


# The pictures of the claims about recurrent decoders.


def rates_picture(found: SeedComparison, decoders: Sequence[TrainedDecoder]) -> CurvePicture:
    """The error rate of every training, a row of points a decoder."""
    rates = error_rates(decoders)
    return CurvePicture(
        title="Phone error rate of every run (%)",
        x_label="seed",
        y_label="phone error rate",
        curves=tuple(
            line(
                label=f"{variant.variant} (mean {variant.mean:.1f})",
                x=tuple(rates[variant.variant]),
                y=tuple(rates[variant.variant].values()),
                points_only=True,
            )
            for variant in found.variants
        ),
    )


def similarity_picture(decoders: Sequence[TrainedDecoder]) -> CurvePicture:
    """Three similarities of every decoder."""
    ordered = sorted(decoders, key=lambda each: each.similarities["jaccard"])
    return CurvePicture(
        title="Decoders in the order of their Jaccard similarity",
        x_label="decoder",
        y_label="similarity",
        curves=tuple(
            line(
                label=name,
                x=tuple(range(len(ordered))),
                y=tuple(each.similarities[name] for each in ordered),
            )
            for name in SIMILARITIES
        ),
    )


def cost_picture(lengths: Sequence[int], counted: dict[str, list[int]]) -> CurvePicture:
    """Operations against the length, a line a score."""
    return CurvePicture(
        title="Operations of attention by its score",
        x_label="length n",
        y_label="operations",
        x_scale="log",
        y_scale="log",
        curves=tuple(
            line(label=score, x=lengths, y=tuple(float(count) for count in counts))
            for score, counts in counted.items()
        ),
    )


def tanh_picture() -> CurvePicture:
    """Both functions between -4 and 4."""
    x = torch.linspace(-4, 4, 81, dtype=torch.float64)
    curves = {"tanh": torch.tanh(x), "logistic": torch.sigmoid(x)}
    return CurvePicture(
        title="tanh and the logistic function",
        x_label="x",
        y_label="value",
        curves=tuple(line(label=name, x=x.tolist(), y=y.tolist()) for name, y in curves.items()),
    )
