"""Experiments with recurrent decoders: a small study of score functions, tests of the order of computation.

The study trains decoders for English pronunciation without attention and with each score function, on the
same data, seeds and budget, with Luong attention, which trains fastest. Test predictions are compared with
the references by several string similarities.
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

from regard.claims.engine import curve_figure, lines, num_threads
from regard.core.batches import TokenInput
from regard.core.errors import RegardError
from regard.core.records.claim import CurveFigure
from regard.models.seq2seq.recurrent import RecurrentEncoderDecoder
from regard.runs.folder import RunFolder, read_predictions
from regard.runs.spec import RunSpec, Sections
from regard.studies.execution.jobs import run_job

WITHOUT = "none"
SCORES = ("dot", "general", "additive", "location")
VARIANTS = (WITHOUT, *SCORES)

Tokens = Sequence[str]


def jaccard(first: Tokens, second: Tokens) -> float:
    """Size of the intersection over size of the union of the token sets.

    >>> jaccard(["K", "AE", "T"], ["K", "AH", "T"])
    0.5
    """
    either = {*first} | {*second}
    return len({*first} & {*second}) / len(either) if either else 1.0


def cosine(first: Tokens, second: Tokens) -> float:
    """Cosine similarity of the token counts.

    >>> round(cosine(["K", "AE", "T"], ["K", "AH", "T"]), 3)
    0.667
    """
    one, other = Tally(first), Tally(second)
    lengths = sum(n * n for n in one.values()) * sum(n * n for n in other.values())
    if not lengths:
        return float(one == other)
    return float(sum(count * other[token] for token, count in one.items()) / lengths**0.5)


def damerau_levenshtein(first: Tokens, second: Tokens) -> float:
    """One minus the Damerau–Levenshtein distance over the length of the longer sequence.

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
    """One run: variant, seed, phone error rate in percent, mean similarities to the references."""

    variant: str
    seed: int
    phone_error_rate: float
    similarities: dict[str, float]


@cache
def trained_decoders(*, seeds: int, steps: int) -> tuple[TrainedDecoder, ...]:
    """Train every variant with every seed."""
    if seeds < 1 or steps < 1:
        raise RegardError(f"seeds={seeds}, steps={steps}: both must be 1 or more.")
    decoders = []
    with tempfile.TemporaryDirectory() as root, num_threads(1):
        for seed in range(seeds):
            for variant in VARIANTS:
                folder = Path(root) / f"{variant}-{seed}"
                if not run_job(sections_of(variant, seed=seed, steps=steps), folder):
                    raise KeyboardInterrupt
                decoders.append(_decoder(variant, seed, RunFolder(folder)))
    return tuple(decoders)


def error_rates(decoders: Sequence[TrainedDecoder]) -> dict[str, dict[int, float]]:
    """Variant → seed → phone error rate."""
    return {
        variant: {each.seed: each.phone_error_rate for each in decoders if each.variant == variant}
        for variant in dict.fromkeys(each.variant for each in decoders)
    }


def mean_similarity(
    measure: Callable[[Tokens, Tokens], float],
    predictions: Sequence[str],
    references: Sequence[Sequence[str]],
) -> float:
    """Mean over all items of the similarity to the most similar reference."""
    best = [
        max(measure(prediction.split(), reference.split()) for reference in choices)
        for prediction, choices in zip(predictions, references, strict=True)
    ]
    return sum(best) / len(best)


def _decoder(variant: str, seed: int, run: RunFolder) -> TrainedDecoder:
    predictions = read_predictions(run, "test")
    return TrainedDecoder(
        variant=variant,
        seed=seed,
        phone_error_rate=float(run.read_json(run.record)["scores"]["test"]["per"]),
        similarities={
            name: mean_similarity(measure, predictions.predictions, predictions.references)
            for name, measure in SIMILARITIES.items()
        },
    )


def sections_of(variant: str, *, seed: int, steps: int) -> Sections:
    """The spec of one run."""
    sections: Sections = {
        "task": {
            "name": "pronounce",
            "batch_tokens": 768,
            "beam_size": 1,
            "validation_fraction": 0.002,
            "test_fraction": 0.008,
        },
        "model": {
            "name": "recurrent",
            "embedding_dim": 32,
            "hidden_dim": 64,
            "attention_style": "luong",
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


TOKENS = 12


def changed_weights(attention_style: str, *, steps: int) -> np.ndarray:
    """Row t: largest change of the weights of every step when decoder input t changes."""
    model = _untrained_decoder(attention_style)
    source, decoder_input = _tokens(steps)
    with torch.inference_mode():
        weights = model.weights(source, decoder_input)["cross/0"][0, 0]
        rows = []
        for step in range(steps):
            other = decoder_input.clone()
            other[0, step] = 4 + (int(decoder_input[0, step]) - 4 + 1) % (TOKENS - 4)
            changed = model.weights(source, other)["cross/0"][0, 0]
            rows.append((changed - weights).abs().amax(dim=1).numpy())
    return np.stack(rows)


def changed_state(attention_style: str, *, steps: int) -> float:
    """Largest change of the last state when the attention parameters change sign."""
    model = _untrained_decoder(attention_style)
    mechanism = model.decoder.mechanism
    assert mechanism is not None
    states = []
    with torch.no_grad():
        for _ in range(2):
            source, decoder_input = _tokens(steps)
            state = model.start(source)
            for token in decoder_input.unbind(1):
                state = model.step(state, token).state
            states.append(state.hidden)
            for parameter in mechanism.parameters():
                parameter.neg_()
    return float((states[1] - states[0]).abs().max())


def _untrained_decoder(attention_style: str) -> RecurrentEncoderDecoder:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = RecurrentEncoderDecoder(
            source=TOKENS,
            target_vocabulary=TOKENS,
            embedding_dim=8,
            hidden_dim=8,
            attention_style=attention_style,  # type: ignore[arg-type]  # checked by the constructor
            mechanism="general",
        )
        # Initial embeddings are small; larger ones make changes easy to detect.
        for parameter in (*model.stem.parameters(), *model.target_embedding.parameters()):
            torch.nn.init.normal_(parameter)
    return model.double().eval()


def _tokens(steps: int) -> tuple[TokenInput, torch.Tensor]:
    """A source of six tokens, and the decoder input."""
    generator = torch.Generator().manual_seed(1)
    source = torch.randint(4, TOKENS, (1, 6), generator=generator)
    decoder_input = torch.randint(4, TOKENS, (1, steps), generator=generator)
    return TokenInput(source, torch.tensor([6])), decoder_input


def cost_figure(lengths: Sequence[int], counted: dict[str, list[int]]) -> CurveFigure:
    """FLOPs by length, one line per score function."""
    return curve_figure(
        "FLOPs of attention by score function",
        ("length n", "flops"),
        *lines(lengths, counted),
        log="xy",
    )
