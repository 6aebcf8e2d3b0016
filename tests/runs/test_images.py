"""Runs on images, loaded again: attention over patches, feature maps, files, studies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests.factories.tiny_runs import TRAINING, train_tiny

from regard import views
from regard.core.records.run import RunRecord
from regard.explain import explain_image
from regard.explain.media_classifier import MAX_MAP_SIDE, MAX_MAPS, small_maps
from regard.runs.load import TrainedRun, load
from regard.studies.run_comparison import compare_runs
from regard.studies.run_report import run_record

SMALL = {"name": "vision_transformer", "model_dim": 8, "num_heads": 2, "num_layers": 1}
MODELS: dict[str, dict[str, Any]] = {
    "scaled_dot": {**SMALL, "stem": {"patch_size": 2}},
    "taylor": {**SMALL, "mechanism": "taylor", "stem": {"patch_size": 4}, "pooling": "mean"},
    "convnet": {"name": "convnet", "channels": 4, "hidden_dim": 8, "feed_forward_dim": 0},
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("images")
    generator = np.random.default_rng(0)
    for split, count in (("train", 12), ("validation", 4), ("test", 6)):
        for number in range(count):
            pixels = generator.integers(0, 256, size=(8, 12, 3)).astype(np.uint8)
            path = folder / split / ("odd" if number % 2 else "even") / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(path)
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, data: Path) -> dict[str, TrainedRun]:
    place = tmp_path_factory.mktemp("runs")
    task = {"name": "image_classification", "train_file": str(data)}

    def trained(name: str) -> TrainedRun:
        def sections(_: Any) -> dict[str, Any]:
            return {"task": task, "model": MODELS[name], "training": TRAINING}

        return load(train_tiny(sections, place / name).path)

    return {name: trained(name) for name in MODELS}


def test_attention_is_that_of_the_model(runs: dict[str, TrainedRun], data: Path) -> None:
    file = str(data / "test" / "odd" / "1.png")
    for name, grid in (("scaled_dot", (4, 6)), ("taylor", (2, 3))):
        run, found = runs[name], explain_image(runs[name], file)
        input = run.preprocessor.encode_inputs([file]).collate_inputs(np.arange(1))
        weights = run.model.weights(input)["encoder/0"][0]  # type: ignore[operator]
        patches = weights[:, 0, 1:] if name == "scaled_dot" else weights.mean(dim=1)
        expected = patches.detach().unflatten(-1, grid)
        assert torch.equal(torch.tensor(found.attention), expected)
        assert found.label == run.predict([file])[0]
        assert sum(found.probabilities.values()) == pytest.approx(1.0)
        assert found.image is not None
        with Image.open(file) as image:
            assert b"".join(found.image.rows()) == image.tobytes()
        assert found.feature_maps is None


def test_page_of_a_run(runs: dict[str, TrainedRun]) -> None:
    record = run_record(runs["scaled_dot"].folder)
    assert (record.notes, record.documents) == ((), ())
    assert len(record.images) == 4
    for each in record.images:
        assert each.image is not None
        assert each.reference == each.image.name.split("/")[-2]
        assert np.shape(each.attention) == (2, 4, 6)
        assert each.feature_maps is None
    assert [point.epoch for point in record.training] == [1, 2, 3, 4]
    page = views.run_page(RunRecord.from_json(record.as_json()))
    assert page.count("<image") == 4 * (1 + 3 * 2)
    assert "steps (4 epochs)" in page


def test_convnet_has_feature_maps(runs: dict[str, TrainedRun], data: Path) -> None:
    run = runs["convnet"]
    record = run_record(run.folder)
    assert [each.attention for each in record.images] == [()] * 4
    file = str(data / "test" / "odd" / "1.png")
    found = explain_image(run, file).feature_maps
    assert found is not None
    input = run.preprocessor.encode_inputs([file]).collate_inputs(np.arange(1))
    maps = run.model.feature_maps(input)[0].detach().numpy()  # type: ignore[operator]
    levels = np.array([[list(row) for row in each] for each in found.maps()])
    assert levels.shape == maps.shape == (4, 8, 12)
    step = (found.high - found.low) / 255
    assert np.abs(found.low + step * levels - maps).max() <= 0.51 * step


def test_large_and_many_feature_maps() -> None:
    found = small_maps(torch.full((40, 100, 30), -2.0))
    assert (found.count, found.height, found.width) == (MAX_MAPS, MAX_MAP_SIDE, 30)
    assert (found.low, found.high) == (-2.0, 0.0)


def test_study_has_the_attention_of_all_variants(runs: dict[str, TrainedRun]) -> None:
    study = compare_runs([run.folder for run in runs.values()], names=list(runs))
    assert study.attention_note == ""
    assert len(study.attention_examples) == 4
    for example in study.attention_examples:
        assert set(example.images) == {"scaled_dot", "taylor"}
        assert example.image is not None
        assert all(each.image is None for each in example.images.values())
    page = views.study_page(study)
    assert page.count("<image") >= 4 * (1 + 2 * 2)
