"""A model on another device predicts, evaluates, generates and explains as on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.factories.simulated_device import simulated_device

from regard.api.options import torch_threads
from regard.core.device import float64_on, resolve_device
from regard.core.errors import RegardError
from regard.explain import explain_text, find_phrases, parse_tree
from regard.runs.build import build_spec_model, build_task
from regard.runs.folder import RunFolder
from regard.runs.load import TrainedRun, load
from regard.runs.spec import RunSpec

TEXTS = ["a good film", "bad", "a film of two parts. the second is bad"]
WIDTH = {"model_dim": 8}
RECURRENT = {"name": "recurrent", "embedding_dim": 4, "hidden_dim": 8}
TRANSFORMER = {**WIDTH, "num_heads": 2, "num_layers": 1, "feed_forward_dim": 8}
CHARACTERS = {"source_tokens": "characters", "target_tokens": "characters"}
CLASSIFIERS: dict[str, dict[str, Any]] = {
    "text_encoder": TRANSFORMER,
    "structured": {**WIDTH, "hidden_dim": 4, "hops": 2, "attention_dim": 4},
    "hierarchical": {**WIDTH, "hidden_dim": 4},
    "bag_of_words": {**WIDTH, "bigram_buckets": 10, "affix_buckets": 10},
    "bilstm": {**WIDTH, "hidden_dim": 4},
    "convolutional": {**WIDTH, "widths": [3], "filters": 4},
    "recursive_autoencoder": WIDTH,
}


def untrained(task: str, model: dict[str, Any], folder: Path, **options: Any) -> TrainedRun:
    """A run without training on a small file of its task."""
    rows = {
        "classify": "".join(f"{number % 2}\t{text}\n" for number, text in enumerate(TEXTS * 9)),
        "regression": "".join(f"{len(text)}\t{text}\n" for text in TEXTS * 9),
        "translate": "".join(f"{text}\t{text[::-1]}\n" for text in TEXTS),
    }
    file = folder / "rows.tsv"
    file.write_text(rows.get(task, "".join(f"{text}\n" for text in TEXTS * 9)))
    shared = {"name": task, "train_file": str(file), "validation_file": str(file), **options}
    spec = RunSpec.from_sections({"task": shared, "model": model, "training": {"steps": 1}})
    preprocessor = build_task(spec).dataset.preprocessor
    return TrainedRun(
        folder=RunFolder(folder),
        spec=spec,
        model=build_spec_model(spec, preprocessor).eval(),
        preprocessor=preprocessor,
    )


def on_both(run: TrainedRun, result: Callable[[TrainedRun], Any]) -> tuple[Any, Any]:
    """The result on the CPU and on another device."""
    on_cpu = result(run)
    with simulated_device() as device:
        run.model.to(device)
        return on_cpu, result(run)


def score(run: TrainedRun) -> dict[str, float]:
    return run.score(run.spec.task_options.train_file)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifier(name: str, tmp_path: Path) -> None:
    options = {"sentences": name == "hierarchical", "tokens": "word_punct"}

    def result(run: TrainedRun) -> Any:
        scores = {key: round(value, 3) for key, value in score(run).items()}
        if name == "recursive_autoencoder":
            merges = parse_tree(run, TEXTS[2]).merges
            return run.predict(TEXTS), scores, merges, len(find_phrases(run, TEXTS).texts)
        if name in ("text_encoder", "structured", "hierarchical"):
            return run.predict(TEXTS), scores, explain_text(run, TEXTS[2]).label
        return run.predict(TEXTS), scores

    run = untrained("classify", {"name": name, **CLASSIFIERS[name]}, tmp_path, **options)
    on_cpu, on_device = on_both(run, result)
    assert on_device == on_cpu


@pytest.mark.parametrize(
    "model",
    [
        RECURRENT,
        {**RECURRENT, "attention_style": "bahdanau", "mechanism": "additive"},
        {"name": "transformer", **TRANSFORMER},
        {"name": "decoder_only", **TRANSFORMER},
    ],
)
def test_sequence_to_sequence(model: dict[str, Any], tmp_path: Path) -> None:
    run = untrained("translate", model, tmp_path, **CHARACTERS, shared_vocabulary=True)

    def result(run: TrainedRun) -> Any:
        titles = [run.alignment(TEXTS[0]).title] if run.has_cross_attention else []
        return run.predict(TEXTS), run.predict(TEXTS, beam_size=2), titles, list(score(run))

    on_cpu, on_device = on_both(run, result)
    assert on_device == on_cpu


def test_language_model(tmp_path: Path) -> None:
    model = {"name": "decoder_only", **TRANSFORMER}
    run = untrained("lm", model, tmp_path, tokens="characters")

    def result(run: TrainedRun) -> Any:
        return "".join(run.generate("a good", max_tokens=9, top_p=0.9)), list(score(run))

    on_cpu, on_device = on_both(run, result)
    assert on_device == on_cpu


def test_masked_language_model(tmp_path: Path) -> None:
    model = {"name": "text_encoder", **TRANSFORMER, "pretraining_heads": True}
    on_cpu, on_device = on_both(
        untrained("masked_lm", model, tmp_path),
        lambda run: (run.predict(["a [MASK] film"]), list(score(run))),
    )
    assert on_device == on_cpu


def test_regression(tmp_path: Path) -> None:
    model = {"name": "bilstm", **CLASSIFIERS["bilstm"]}
    on_cpu, on_device = on_both(
        untrained("regression", model, tmp_path), lambda run: run.predict(TEXTS)
    )
    assert on_device == pytest.approx(on_cpu, rel=1e-4)


def test_load_moves_the_model(learned: RunFolder) -> None:
    expected = load(learned.path, device="cpu").predict(["abc"])
    with simulated_device() as device, torch.device(device):
        run = load(learned.path)
        assert {each.device for each in run.model.parameters()} == {torch.device(device)}
        assert run.predict(["abc"]) == expected


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("abacus", r"--device abacus: unknown device. Choose one of: (.*, )?cpu, auto\."),
        (
            "cuda:99",
            r"--device cuda:99: this machine has no such device. Choose one of: (.*, )?cpu,",
        ),
    ],
)
def test_unknown_device(name: str, message: str, learned: RunFolder) -> None:
    with pytest.raises(RegardError, match=message):
        load(learned.path, device=name)


def test_auto_is_a_device_of_this_machine() -> None:
    assert resolve_device("auto").type in ("cpu", "cuda", "mps")


def test_no_float64_on_mps() -> None:
    assert float64_on(torch.device("mps")) is torch.float32
    assert float64_on(torch.device("cpu")) is torch.float64


def test_batches_are_classified_on_one_thread_each(tmp_path: Path) -> None:
    """Threads that share small operations spin while they wait for each other."""
    model = {"name": "bag_of_words", **CLASSIFIERS["bag_of_words"]}
    run = untrained("classify", model, tmp_path, tokens="word_punct")
    seen: list[int] = []
    classify: Any = run.model.classify

    def record(*args: Any) -> Any:
        seen.append(torch.get_num_threads())
        return classify(*args)

    run.model.classify = record  # type: ignore[assignment]
    with torch_threads(2):
        run.predict(["a " * 100] * 500)
    assert len(seen) > 1
    assert set(seen) == {1}
