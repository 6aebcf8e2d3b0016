"""Deletion and sufficiency curves: known answers, every kind of run, the file in the run folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.factories.images import write_classes
from tests.factories.sounds import write_digits
from tests.factories.tiny_runs import (
    TRAINING,
    bag_of_words,
    classifier,
    language_model,
    regression,
    seq2seq,
    train_tiny,
)

from regard.core.batches import END, START, FrameInput, ImageInput, TokenInput
from regard.core.errors import RegardError
from regard.explain.attribution import IMPORTANCE_METHODS
from regard.explain.faithfulness import (
    FRACTIONS,
    faithfulness_curves,
    measure_faithfulness,
    read_faithfulness,
)
from regard.explain.removal import RunItem, run_item
from regard.runs.load import TrainedRun, load

SIZES = {"model_dim": 8, "num_heads": 2, "num_layers": 1, "feed_forward_dim": 8}
FEATURES = {"sample_rate": 8000, "num_bands": 8, "hop_ms": 20.0}


def _sections(kind: str, folder: Path) -> dict[str, Any]:
    """The sections of a tiny run."""
    own = {"classifier": classifier, "regression": regression, "language-model": language_model}
    if kind in own:
        sections = own[kind](folder)
        if kind == "classifier":
            sections["training"] |= {"steps": 80, "evaluate_every": 40}
        return sections
    if kind == "hierarchical":
        sections = classifier(folder)
        sections["task"]["sentences"] = True
        return {**sections, "model": {"name": "hierarchical", "model_dim": 8, "hidden_dim": 8}}
    if kind == "pairs":
        return seq2seq(folder)
    if kind == "images":
        task: dict[str, Any] = {"name": "image_classification", "validation_fraction": 0.3}
        task["train_file"] = str(write_classes(folder / "images"))
        model = {"name": "vision_transformer", **SIZES, "stem": {"patch_size": 2}}
        return {"task": task, "model": model, "training": TRAINING}
    audio: dict[str, Any] = {**FEATURES, "train_file": str(write_digits(folder / "digits"))}
    stem = {"type": "convolutional", "strides": [1, 2]}
    if kind == "speech":
        joined = {
            "join": [2, 3],
            "num_strings": 8,
            "num_validation_strings": 3,
            "num_test_strings": 5,
        }
        task = {"name": "speech_recognition", **joined, "max_characters": 30}
        return {
            "task": {**task, **audio},
            "model": {"name": "transformer", "tie": "target", **SIZES, "stem": stem},
            "training": TRAINING,
        }
    if kind == "ctc":
        sections = _sections("speech", folder)
        return {**sections, "model": {"name": "ctc", **SIZES, "stem": stem}}
    model = {"name": "structured", "model_dim": 8, "hidden_dim": 0, "hops": 2, "stem": stem}
    task = {"name": "audio_classification", "validation_fraction": 0.3}
    return {"task": {**task, **audio}, "model": model, "training": TRAINING}


KINDS = (
    "classifier",
    "hierarchical",
    "regression",
    "pairs",
    "language-model",
    "images",
    "recordings",
    "speech",
    "ctc",
)
POOLED = {*IMPORTANCE_METHODS} - {"rollout"}
METHODS = {
    "classifier": POOLED,
    "hierarchical": {"weights", "attribution"},
    "regression": {"attribution"},
    "pairs": POOLED,
    "recordings": POOLED,
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TrainedRun]:
    found = {}
    for kind in KINDS:
        place = tmp_path_factory.mktemp(kind)
        folder = train_tiny(lambda data, kind=kind: _sections(kind, data), place / "run")  # type: ignore[misc]
        found[kind] = load(folder.path)
    return found


@dataclass
class Switch:
    """An input of which one unit decides."""

    units: int = 10
    decisive: int = 3

    def importance(self, methods: Sequence[str]) -> dict[str, np.ndarray]:
        decides = np.arange(self.units) == self.decisive
        found = {"weights": decides * 1.0, "rollout": decides * -1.0}
        return {name: found[name] for name in methods if name in found}

    def scores(self, kept: Sequence[np.ndarray]) -> np.ndarray:
        return np.array([float(self.decisive in units) for units in kept])


def test_curves_of_an_input_of_which_one_unit_decides() -> None:
    options: dict[str, Any] = {"items": 40, "draws": 4, "score": "switch", "data": "synthetic"}
    best, worst = faithfulness_curves([Switch(decisive=n % 10) for n in range(50)], **options)
    assert (best.method, worst.method, best.items) == ("weights", "rollout", 40)
    assert best.deletion == (0.0,) * 6
    assert best.sufficiency == (1.0,) * 6
    assert worst.deletion == (1.0,) * 6
    assert worst.sufficiency == (0.0,) * 6
    # At random, the unit is among those removed as often as their fraction says.
    assert best.random_deletion == pytest.approx([1 - each for each in FRACTIONS], abs=0.12)
    assert best.random_sufficiency == pytest.approx(FRACTIONS, abs=0.12)
    assert worst.random_deletion == best.random_deletion
    for curves, sign in ((best, 1), (worst, -1)):
        for gain in (curves.deletion_gain, curves.sufficiency_gain):
            assert gain.low is not None
            assert gain.high is not None
            assert gain.low < gain.mean < gain.high
            assert min(sign * gain.low, sign * gain.high) > 0.2
    again = faithfulness_curves([Switch(decisive=n % 10) for n in range(50)], **options)
    assert again == (best, worst)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_run(kind: str, runs: dict[str, TrainedRun]) -> None:
    curves = measure_faithfulness(runs[kind], items=3, draws=2)
    assert {each.method for each in curves} == METHODS.get(kind, set(IMPORTANCE_METHODS))
    for each in curves:
        assert each.items >= 2
        assert each.data == "validation split"
        assert np.isfinite([*each.deletion, *each.sufficiency, *each.random_deletion]).all()
        assert each.deletion_gain.low is not None
    assert read_faithfulness(runs[kind]) is not None


def test_a_classifier_whose_last_words_decide(runs: dict[str, TrainedRun]) -> None:
    curves = {each.method: each for each in measure_faithfulness(runs["classifier"])}
    gain = curves["attribution"].deletion_gain
    assert gain.low is not None
    assert gain.low > 0
    assert curves["attribution"].sufficiency_gain.mean > 0
    assert curves["attribution"].score == "probability of the predicted label"


def _everything(item: RunItem) -> float:
    return float(item.scores([np.arange(item.units)])[0])


def test_scores_of_texts(runs: dict[str, TrainedRun]) -> None:
    run = runs["classifier"]
    model: Any = run.model
    item = run_item(run, "the film of a fine cast")
    label = run.predict(["the film of a fine cast"])[0]
    index = run.preprocessor.target.labels.index(label)
    for kept in ([0, 1, 2, 3, 4, 5], [1, 4], [5, 0]):
        words = ["the", "film", "of", "a", "fine", "cast"]
        text = " ".join(words[number] for number in sorted(kept))
        input = run.preprocessor.encode_inputs([text]).collate_inputs(np.arange(1))
        expected = model.classify(input).logits.softmax(dim=-1)[0, index].item()
        assert item.scores([np.array(kept)])[0] == pytest.approx(expected, abs=1e-6)
    assert item.units == 6
    assert item.importance(["weights"])["weights"].shape == (6,)


def test_scores_of_outputs(runs: dict[str, TrainedRun]) -> None:
    run = runs["pairs"]
    model: Any = run.model
    item = run_item(run, "abcd")
    (whole,) = [run.preprocessor.encode_inputs(["abcd"]).collate_inputs(np.arange(1))]
    from regard.models.generation.search import decode

    tokens = torch.tensor([[START, *decode(model, whole)[0].tokens, END]])
    for text, kept in {"abcd": [0, 1, 2, 3], "ad": [0, 3]}.items():
        source = run.preprocessor.encode_inputs([text]).collate_inputs(np.arange(1))
        logits = model(source, tokens[:, :-1]).log_softmax(dim=-1)
        expected = logits.gather(2, tokens[:, 1:, None]).mean().item()
        assert item.scores([np.array(kept)])[0] == pytest.approx(expected, abs=1e-5)


def test_scores_of_continuations_do_not_depend_on_the_batch(runs: dict[str, TrainedRun]) -> None:
    run = runs["language-model"]
    model: Any = run.model
    item = run_item(run, "ab ba bb a")
    context = run.preprocessor.target.encode("ab ba bb a")
    nothing = TokenInput(torch.tensor([[END]]), torch.tensor([1]))
    found: list[int] = []
    while len(found) < 8 and END not in found:
        logits = model(nothing, torch.tensor([[START, *context, *found]]))[0, -1]
        logits[[0, 1, 3]] = -torch.inf
        found.append(int(logits.argmax()))
    subsets = [np.arange(item.units), np.array([0, 4]), np.array([], dtype=np.int64)]
    scores = item.scores(subsets)
    for kept, score in zip(subsets, scores, strict=True):
        tokens = [START, *(context[number] for number in kept)]
        likely = model(nothing, torch.tensor([[*tokens, *found[:-1]]]))[0].log_softmax(dim=-1)
        rows = likely[len(tokens) - 1 :]
        expected = rows.gather(1, torch.tensor(found)[:, None]).mean().item()
        assert score == pytest.approx(expected, abs=1e-5)


def test_removed_patches_and_frames_are_the_mean(runs: dict[str, TrainedRun]) -> None:
    model: Any = runs["images"].model
    run, pixels = runs["images"], torch.rand(1, 1, 4, 4)
    item = run_item(run, next(iter(run.inputs(_names(run), split="validation").values())))
    assert item.units == 4
    assert isinstance(item.input, ImageInput)
    pixels = item.input.pixels.clone()
    pixels[:, :, 2:, :2] = pixels.mean(dim=(2, 3))[:, :, None, None]  # row 2, column 1: unit 2
    before = model.classify(item.input).logits.argmax()
    expected = model.classify(ImageInput(pixels)).logits.softmax(dim=-1)[0, before].item()
    assert item.scores([np.array([0, 1, 3])])[0] == pytest.approx(expected, abs=1e-6)
    assert item.importance(["weights"])["weights"].shape == (4,)

    run = runs["recordings"]
    model = run.model
    item = run_item(run, next(iter(run.inputs(_names(run), split="validation").values())))
    assert isinstance(item.input, FrameInput)
    frames = item.input.frames.clone()
    assert item.units == -(-frames.shape[1] // 2)
    frames[:, 2:4] = frames.mean(dim=1, keepdim=True)
    label = model.classify(item.input).logits.argmax()
    changed = FrameInput(frames, item.input.lengths)
    expected = model.classify(changed).logits.softmax(dim=-1)[0, label].item()
    assert item.scores([np.delete(np.arange(item.units), 1)])[0] == pytest.approx(
        expected, abs=1e-5
    )


def _names(run: TrainedRun) -> list[str]:
    row = run.folder.predictions["validation"].read_text().splitlines()[0]
    return [json.loads(row)["input"]]


def test_the_file_in_the_run_folder(runs: dict[str, TrainedRun], tmp_path: Path) -> None:
    run = runs["pairs"]
    path = run.folder.faithfulness
    measured = measure_faithfulness(run, items=2, draws=1)
    before = path.read_bytes()
    assert measure_faithfulness(run, items=2, draws=1) == measured
    load(run.folder.path)  # it is no part of the run
    assert path.read_bytes() == before
    # Read, not measured.
    path.write_text(path.read_text().replace('"items": 2', '"items": 7'))
    changed = read_faithfulness(run)
    assert changed is not None
    assert changed.curves[0].items == 7
    # Damaged, of another model, a link: measured again.
    other = json.loads(before)
    other["model"] = "0" * 64
    for text in ("", "{", json.dumps(other), before.decode().replace('"deletion"', '"x"')):
        path.write_text(text)
        assert read_faithfulness(run) is None
        assert measure_faithfulness(run, items=2, draws=1) == measured
        assert path.read_bytes() == before
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    assert measure_faithfulness(run, items=2, draws=1) == measured
    assert not (tmp_path / "elsewhere").exists()
    path.unlink()
    file = tmp_path / "more.dict"
    file.write_text("abc  AE B K\nfed  F EH D\n")
    (first, *_) = measure_faithfulness(run, file=str(file), items=2, draws=1)
    assert first.data == str(file)
    assert not path.exists()


def test_errors(runs: dict[str, TrainedRun], tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="draws=0: faithfulness needs 1 or more"):
        measure_faithfulness(runs["pairs"], draws=0)
    with pytest.raises(RegardError, match="two parts or more"):
        faithfulness_curves([Switch(units=1)], score="", data="")
    with pytest.raises(RegardError, match="no attention over its input"):
        faithfulness_curves([Switch()], methods=["attribution"], score="", data="")
    bag = load(train_tiny(bag_of_words, tmp_path / "bag").path)
    assert [each.method for each in measure_faithfulness(bag, items=2)] == ["attribution"]
