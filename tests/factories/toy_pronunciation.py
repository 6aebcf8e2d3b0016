"""A toy pronunciation dataset that small models learn exactly: every letter has one phone."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from regard.runs.folder import RunFolder
from regard.runs.spec import RunSpec, merge_sections
from regard.runs.train import begin_run

PHONES = {"a": "AH", "b": "B", "c": "K", "d": "D", "e": "EH", "f": "F"}

MODELS: dict[str, dict[str, Any]] = {
    "recurrent": {
        "name": "recurrent",
        "embedding_dim": 32,
        "hidden_dim": 48,
        "cell": "gru",
        "attention_style": "luong",
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
SMALL = {"model_dim": 32, "num_heads": 2, "num_layers": 1, "feed_forward_dim": 64, "dropout": 0.0}
MODELS["transformer_recurrent"] = {"name": "transformer_recurrent", **SMALL}
# A word with repeated letters has too few of them for a blank between their phones.
MODELS["ctc"] = {"name": "ctc", "zero_infinity": True, **SMALL}
STEPS = {"recurrent": 150, "transformer": 300, "transformer_recurrent": 150, "ctc": 150}
RATES = {"recurrent": 2e-2, "transformer": 1e-2, "transformer_recurrent": 1e-2, "ctc": 1e-2}


def pronunciation(word: str) -> str:
    """The reference pronunciation."""
    return " ".join(PHONES[letter] for letter in word)


def write_dictionary(path: Path, *, count: int = 300) -> Path:
    """Write a pronouncing dictionary of distinct words."""
    rng = random.Random(0)
    words: set[str] = set()
    while len(words) < count:
        words.add("".join(rng.choices("abcdef", k=rng.randint(2, 4))))
    path.write_text("".join(f"{word}  {pronunciation(word)}\n" for word in sorted(words)))
    return path


def toy_sections(pairs: Path, *, kind: str = "recurrent", **changes: Any) -> dict[str, Any]:
    """A run spec that learns the dataset in a few seconds; `changes` override its sections."""
    sections: dict[str, Any] = {
        "task": {
            "name": "pronounce",
            "train_file": str(pairs),
            "validation_fraction": 0.1,
            "test_fraction": 0.1,
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
    return merge_sections(sections, changes)


TINY = {"name": "recurrent", "embedding_dim": 4, "hidden_dim": 8, "mechanism": "dot"}


def tiny_sections(pairs: Path, **changes: Any) -> dict[str, Any]:
    """A run spec of a few steps, for tests that do not depend on what is learned."""
    quick: dict[str, Any] = {
        "model": TINY,
        "training": {"steps": 6, "evaluate_every": 3, "log_every": 2},
    }
    return merge_sections(merge_sections({**toy_sections(pairs), "model": {}}, quick), changes)


_TRAINED: dict[str, RunFolder] = {}


def trained_folder(model: str, parent: Path) -> RunFolder:
    """The folder of a trained run; trained once per process."""
    if model not in _TRAINED:
        pairs = write_dictionary(parent / f"{model}.dict")
        folder = RunFolder(parent / model)
        begin_run(RunSpec.from_sections(toy_sections(pairs, kind=model)), folder)
        _TRAINED[model] = folder
    return _TRAINED[model]
