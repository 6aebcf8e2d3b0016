"""A made-up language that small models learn exactly: every letter has one phone."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from regard.runs.folder import RunFolder
from regard.runs.spec import RunSpec, merged
from regard.runs.train import begin_run

PHONES = {"a": "AH", "b": "B", "c": "K", "d": "D", "e": "EH", "f": "F"}

MODELS: dict[str, dict[str, Any]] = {
    "recurrent": {
        "name": "recurrent",
        "embedding_dim": 32,
        "hidden_dim": 48,
        "cell": "gru",
        "wiring": "after",
        "mechanism": "additive",
        "dropout": 0.0,
    },
    "transformer": {
        "name": "transformer",
        "model_dim": 32,
        "num_heads": 2,
        "num_layers": 1,
        "feed_forward_dim": 64,
        "dropout": 0.0,
        "tie": "target",
    },
}
STEPS = {"recurrent": 150, "transformer": 300}
RATES = {"recurrent": 2e-2, "transformer": 1e-2}


def spoken(word: str) -> str:
    """The one right pronunciation."""
    return " ".join(PHONES[letter] for letter in word)


def write_words(path: Path, *, count: int = 300) -> Path:
    """A pronouncing dictionary of different words."""
    chance = random.Random(0)
    words: set[str] = set()
    while len(words) < count:
        words.add("".join(chance.choices("abcdef", k=chance.randint(2, 4))))
    path.write_text("".join(f"{word}  {spoken(word)}\n" for word in sorted(words)))
    return path


def toy_sections(pairs: Path, *, kind: str = "recurrent", **changes: Any) -> dict[str, Any]:
    """A spec that learns the language in a few seconds; `changes` are put over its sections."""
    sections: dict[str, Any] = {
        "task": {
            "name": "pronounce",
            "pairs": str(pairs),
            "validation_share": 0.1,
            "test_share": 0.1,
            "batch_tokens": 384,
            "label_smoothing": 0.0,
            "beam_size": 2,
        },
        "model": MODELS[kind],
        "training": {
            "steps": STEPS[kind],
            "learning_rate": RATES[kind],
            "warmup_steps": 20,
            "evaluate_every": 75,
        },
    }
    return merged(sections, changes)


TINY = {"name": "recurrent", "embedding_dim": 4, "hidden_dim": 8, "mechanism": "dot"}


def tiny_sections(pairs: Path, **changes: Any) -> dict[str, Any]:
    """A spec of a few quick steps, for whatever does not depend on what is learned."""
    quick: dict[str, Any] = {
        "model": TINY,
        "training": {"steps": 6, "evaluate_every": 3, "log_every": 2},
    }
    return merged(merged({**toy_sections(pairs), "model": {}}, quick), changes)


_TRAINED: dict[str, RunFolder] = {}


def trained_folder(model: str, parent: Path) -> RunFolder:
    """The folder of a run that has learned the language; trained once in a process."""
    if model not in _TRAINED:
        pairs = write_words(parent / f"{model}.dict")
        folder = RunFolder(parent / model)
        begin_run(RunSpec.from_sections(toy_sections(pairs, kind=model)), folder)
        _TRAINED[model] = folder
    return _TRAINED[model]
