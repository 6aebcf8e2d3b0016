"""Runs of every kind of task that train within a second."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.factories.images import write_classes
from tests.factories.sounds import write_digits
from tests.factories.toy_pronunciation import tiny_sections, write_dictionary

from regard.runs.folder import RunFolder
from regard.runs.spec import RunSpec, merge_sections
from regard.runs.train import begin_run
from regard.training.callbacks import Callback, StepMetrics

TRAINING = {"steps": 4, "evaluate_every": 2, "log_every": 1, "warmup_steps": 1}
HELD_OUT = {"validation_fraction": 0.2, "test_fraction": 0.2}


def classifier(folder: Path) -> dict[str, Any]:
    """A classifier with two attention hops; good and bad words decide."""
    model = {"name": "structured", "model_dim": 8, "hidden_dim": 8, "hops": 2, "dropout": 0.0}
    training = {**TRAINING, "steps": 10, "evaluate_every": 5, "learning_rate": 3e-2}
    return {"task": _labelled(folder), "model": model, "training": training}


def trees(folder: Path) -> dict[str, Any]:
    """A recursive autoencoder."""
    model = {"name": "recursive_autoencoder", "model_dim": 8, "dropout": 0.0}
    task = {**_labelled(folder), "sentences": True}
    return {"task": task, "model": model, "training": TRAINING}


def bag_of_words(folder: Path) -> dict[str, Any]:
    """A classifier without attention."""
    model = {"name": "bag_of_words", "model_dim": 8, "dropout": 0.0}
    return {"task": _labelled(folder), "model": model, "training": TRAINING}


def regression(folder: Path) -> dict[str, Any]:
    """Numbers of words."""
    lines = [f"{1 + n % 5}\t{' '.join(['word'] * (1 + n % 5))} {n}" for n in range(80)]
    (folder / "numbers.tsv").write_text("\n".join(lines) + "\n")
    task = {"name": "regression", "train_file": str(folder / "numbers.tsv"), "tokens": "words"}
    model = {"name": "bilstm", "model_dim": 8, "hidden_dim": 8, "dropout": 0.0}
    return {"task": {**task, **HELD_OUT}, "model": model, "training": TRAINING}


def language_model(folder: Path) -> dict[str, Any]:
    """A language model of characters."""
    rng = random.Random(1)
    lines = ["".join(rng.choices("ab ", k=12)) + str(n) for n in range(60)]
    (folder / "texts.txt").write_text("\n".join(lines) + "\n")
    task = {"name": "lm", "train_file": str(folder / "texts.txt"), "tokens": "characters"}
    model = {"name": "decoder_only", "model_dim": 8, "num_heads": 1, "num_layers": 1}
    return {"task": {**task, **HELD_OUT}, "model": model, "training": TRAINING}


def seq2seq(folder: Path) -> dict[str, Any]:
    """A recurrent model with attention, of letters and phones."""
    pairs = folder / "words.dict"
    if not pairs.exists():
        write_dictionary(pairs, count=120)
    return tiny_sections(pairs, task={**HELD_OUT, "beam_size": 1})


SMALL = {"model_dim": 8, "num_heads": 2, "num_layers": 1, "feed_forward_dim": 8, "dropout": 0.0}


def translation(folder: Path) -> dict[str, Any]:
    """A transformer that copies words in capitals."""
    rng = random.Random(2)
    texts = [" ".join(rng.choices(["ein", "Haus", "am", "See", "rot"], k=3)) for _ in range(60)]
    lines = "".join(f"{text} {n}\t{text.upper()} {n}\n" for n, text in enumerate(texts))
    (folder / "pairs.tsv").write_text(lines)
    task = {"name": "translate", "train_file": str(folder / "pairs.tsv"), **HELD_OUT}
    tokens = {"source_tokens": "words", "target_tokens": "words"}
    model = {"name": "transformer", "tie": "target", **SMALL}
    return {"task": {**task, **tokens}, "model": model, "training": TRAINING}


def documents(folder: Path) -> dict[str, Any]:
    """Documents of sentences, read by hierarchical attention."""
    model = {"name": "hierarchical", "model_dim": 8, "hidden_dim": 8, "dropout": 0.0}
    task = {**_labelled(folder), "sentences": True}
    return {"task": task, "model": model, "training": TRAINING}


def images(folder: Path) -> dict[str, Any]:
    """Dark and light images of 4×4 pixels, read by a vision transformer."""
    files = str(write_classes(folder / "images"))
    task = {"name": "image_classification", "train_file": files, "validation_fraction": 0.3}
    model = {"name": "vision_transformer", **SMALL, "stem": {"patch_size": 2}}
    return {"task": task, "model": model, "training": TRAINING}


def speech(folder: Path) -> dict[str, Any]:
    """Strings of spoken digits, transcribed by a transformer."""
    task = {
        "name": "speech_recognition",
        "train_file": str(write_digits(folder / "digits")),
        "sample_rate": 8000,
        "num_bands": 8,
        "hop_ms": 20.0,
        "max_characters": 30,
        "join": [2, 3],
        "num_strings": 8,
        "num_validation_strings": 3,
        "num_test_strings": 5,
    }
    stem = {"type": "convolutional", "strides": [1, 2]}
    model = {"name": "transformer", "tie": "target", **SMALL, "stem": stem}
    return {"task": task, "model": model, "training": TRAINING}


def pretrained(folder: Path) -> dict[str, Any]:
    """Letters to phones with a decoder that is pre-trained on texts of letters."""
    (folder / "letters.txt").write_text("abc\nbcd\nfed\n" * 10)
    options = {"source_tokens": "characters", "target_tokens": "characters"}
    return {
        "task": {
            "name": "translate",
            "train_file": seq2seq(folder)["task"]["train_file"],
            "format": "dictionary",
            "shared_vocabulary": True,
            **options,
            **HELD_OUT,
        },
        "model": {"name": "decoder_only", "model_dim": 8, "num_heads": 1, "num_layers": 1},
        "training": TRAINING,
        "pretraining": {
            "task": {
                "name": "lm",
                "train_file": str(folder / "letters.txt"),
                "tokens": "characters",
                "validation_fraction": 0.0,
            },
            "training": {"steps": 3, "warmup_steps": 1},
        },
    }


def _labelled(folder: Path) -> dict[str, Any]:
    rng = random.Random(0)
    words = {"good": "fine great lovely", "bad": "dull poor awful"}
    lines = []
    for number in range(100):
        label = rng.choice(list(words))
        others = rng.choices(["the", "a", "film", "plot", "cast", "of", "and"], k=rng.randint(2, 6))
        lines.append(f"{label}\t{' '.join(others)} {rng.choice(words[label].split())} {number}")
    (folder / "labelled.tsv").write_text("\n".join(lines) + "\n")
    task = {"name": "classify", "train_file": str(folder / "labelled.tsv"), "tokens": "words"}
    return {**task, **HELD_OUT}


def train_tiny(
    kind: Callable[[Path], dict[str, Any]],
    folder: Path,
    *,
    data: Path | None = None,
    callbacks: tuple[Callback, ...] = (),
    **changes: Any,
) -> RunFolder:
    """Train a run in `folder`, on data in `data` (default: beside it)."""
    run = RunFolder(folder)
    sections = merge_sections({"threads": 1, **kind(data or folder.parent)}, changes)
    begin_run(RunSpec.from_sections(sections), run, callbacks=callbacks)
    return run


class StopAt(Callback):
    """Stops a run after a step, as Ctrl-C does."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, info: StepMetrics) -> None:
        """Send the signal."""
        import signal

        if info.step == self.step:
            signal.raise_signal(signal.SIGINT)
