"""Runs on recordings, loaded again: inputs by name, alignments over time, attention of classifiers."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.factories.sounds import write_digits
from tests.factories.tiny_runs import TRAINING, train_tiny

from regard import views
from regard.api.training import predict
from regard.core.errors import RegardError
from regard.core.records.run import RunRecord
from regard.data.audio.clips import AudioClip, Part
from regard.explain.media_classifier import explain_recording
from regard.runs.folder import RunFolder
from regard.runs.load import MAX_OUTPUTS, TrainedRun, added_parts, load
from regard.studies.run_comparison import compare_runs
from regard.studies.run_report import run_record

FEATURES = {"sample_rate": 8000, "num_bands": 8, "hop_ms": 20.0}
JOINED = {"join": [2, 3], "num_strings": 8, "num_validation_strings": 3, "num_test_strings": 5}
SIZES = {"model_dim": 8, "num_heads": 2, "num_layers": 1, "feed_forward_dim": 8}
STEM = {"type": "convolutional", "strides": [1, 2]}
SPEECH = {"name": "speech_recognition", **FEATURES, **JOINED, "max_characters": 30}
CLASSES = {"name": "audio_classification", **FEATURES, "validation_fraction": 0.3}
STRUCTURED = {"name": "structured", "model_dim": 8, "hidden_dim": 0, "hops": 2}
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "ctc": (SPEECH, {"name": "ctc", **SIZES, "stem": STEM}),
    "transformer": (SPEECH, {"name": "transformer", "tie": "target", **SIZES, "stem": STEM}),
    "none": (SPEECH, {"name": "recurrent", "hidden_dim": 8, "mechanism": "none"}),
    "structured": (CLASSES, STRUCTURED),
    "bilstm": (CLASSES, {"name": "bilstm", "model_dim": 8, "hidden_dim": 8}),
}


def train(name: str, folder: Path, data: Path) -> RunFolder:
    task, model = KINDS[name]
    sections = {"task": {**task, "train_file": str(data)}, "model": model, "training": TRAINING}
    return train_tiny(lambda _: sections, folder)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_digits(tmp_path_factory.mktemp("recordings") / "digits")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, data: Path) -> dict[str, TrainedRun]:
    place = tmp_path_factory.mktemp("runs")
    return {name: load(train(name, place / name, data).path) for name in KINDS}


def test_inputs_by_name(runs: dict[str, TrainedRun], data: Path) -> None:
    clip = runs["structured"].inputs(["0_ann_1.wav"], split="test")["0_ann_1.wav"]
    assert isinstance(clip, AudioClip)
    assert clip.parts[0].path == data / "0_ann_1.wav"
    name = runs["ctc"].folder.predictions["test"].read_text().split('"')[3]
    joined = runs["ctc"].inputs([name], split="test")[name]
    assert joined.name == name
    assert len(joined.words) > 1
    with pytest.raises(RegardError, match=r"'gone.wav' is not in the test split"):
        runs["structured"].inputs(["gone.wav"], split="test")


@pytest.mark.parametrize("name", ["ctc", "structured"])
def test_a_path_and_a_clip_are_inputs(name: str, runs: dict[str, TrainedRun], data: Path) -> None:
    path = data / "0_ann_1.wav"
    clip = AudioClip(name="a", parts=(Part(path),))
    of_text, *others = runs[name].predict([str(path), path, clip])
    assert others == [of_text, of_text]


@pytest.mark.parametrize("name", ["transformer", "structured"])
def test_what_is_truncated_is_said(
    name: str, runs: dict[str, TrainedRun], data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, notes = runs[name], list[str]()
    path = str(data / "0_ann_1.wav")
    predict(run, [path], log=notes.append)
    assert run.evaluate(data).notes == ()
    assert notes == []
    options = run.preprocessor.options.model_copy(update={"max_length": 6})
    monkeypatch.setattr(run.preprocessor, "options", options)
    predict(run, [path], log=notes.append)
    for found in (notes, run.evaluate(data).notes):
        [note] = found
        assert "truncated to 6 frames" in note
        assert "recording" in note


@pytest.mark.parametrize("name", ["ctc", "transformer"])
def test_alignment_with_a_recording(name: str, runs: dict[str, TrainedRun]) -> None:
    run = runs[name]
    assert run.has_cross_attention
    record = run_record(run.folder)
    assert record.notes == ()
    assert len(record.alignments) == 3
    scores = [split.alignment for split in record.splits]
    for alignment in record.alignments:
        assert alignment.sound is not None
        assert alignment.sound.audio is not None
        ((head, (rows,)),) = alignment.maps.items()
        assert scores[0] is not None
        assert head == scores[0].head
        # The stem has a stride of 2.
        assert len(rows[0]) == -(-alignment.sound.frames // 2)
        assert len(rows) == len(alignment.output_tokens) <= MAX_OUTPUTS
        words = [word.word for word in alignment.sound.words]
        assert alignment.reference == " ".join(words)
        assert np.sum(rows, axis=1) == pytest.approx(1.0, abs=0.02)
    page = views.run_page(record)
    assert page.count("<audio") == 3
    assert views.run_page(RunRecord.from_json(record.as_json())).count("<audio") == 0


def test_head_without_known_words(runs: dict[str, TrainedRun], data: Path) -> None:
    run = runs["transformer"]
    cross = {"cross/0": torch.rand(1, 2, 3, 4), "cross/1": torch.rand(1, 2, 3, 4)}
    unknown = TrainedRun(
        folder=RunFolder(data), spec=run.spec, model=run.model, preprocessor=run.preprocessor
    )
    name, weights = unknown._best_head(cross)
    assert name == "cross/1, mean of 2 heads"
    assert torch.equal(weights, cross["cross/1"].mean(1, keepdim=True))


def test_many_positions_are_added() -> None:
    weights = torch.rand(2, 3, 1001)
    found = added_parts(weights, 150)
    assert found.shape == (2, 3, 150)
    assert torch.allclose(found.sum(-1), weights.sum(-1), rtol=1e-4)
    assert added_parts(weights, 1001) is weights


def test_models_without_attention_have_no_pictures(runs: dict[str, TrainedRun]) -> None:
    assert not runs["none"].has_cross_attention
    for name in ("none", "bilstm"):
        record = run_record(runs[name].folder)
        assert (record.alignments, record.documents, record.notes) == ((), (), ())


def test_attention_of_a_classifier(runs: dict[str, TrainedRun], data: Path) -> None:
    run = runs["structured"]
    documents = run_record(run.folder).documents
    assert len(documents) == 3
    for document in documents:
        assert document.sound is not None
        assert document.sound.audio is not None
        assert document.title == document.sound.name
        assert document.reference == document.title[0]
        assert [len(hop) for hop in document.hops] == [document.sound.frames] * 2
    direct = explain_recording(run, str(data / documents[0].title), name=documents[0].title)
    assert direct.label == documents[0].label
    assert direct.label == run.predict([str(data / documents[0].title)])[0]
    with pytest.raises(RegardError, match=r"'bilstm'.* no attention over its input"):
        explain_recording(runs["bilstm"], str(data / "0_ann_0.wav"))


def test_page_without_the_recordings(tmp_path: Path) -> None:
    data = write_digits(tmp_path / "digits")
    folders = [train(name, tmp_path / name, data) for name in ("ctc", "none", "structured")]
    shutil.rmtree(data)
    for folder in (folders[0], folders[2]):
        record = run_record(folder)
        assert (record.alignments, record.documents) == ((), ())
        (note,) = [note for note in record.notes if note.startswith("Attention is not shown: ")]
        assert "digits" in note
        assert "Attention is not shown" in views.run_page(record)
    study = compare_runs(folders[:2])
    assert study.attention_examples == ()
    assert study.attention_note.startswith("Not available: ")
    assert "Not available: " in views.study_page(study)


def test_study_has_the_alignment_accuracy(runs: dict[str, TrainedRun]) -> None:
    folders = [runs[name].folder for name in ("ctc", "transformer", "none")]
    record = compare_runs(folders, names=["ctc", "transformer", "none"])
    for name in ("ctc", "transformer"):
        score = run_record(runs[name].folder).splits[0].alignment
        assert score is not None
        assert record.variant(name).agreement == pytest.approx((score.accuracy or 0) / 100)
    assert record.variant("none").agreement is None
    assert record.agreement_source.startswith("known borders of words; a random position: ")
    assert len(record.attention_examples) == 3
    for example in record.attention_examples:
        assert set(example.alignments) == {"ctc", "transformer"}
        assert example.sound is not None
        assert all(each.sound is None for each in example.alignments.values())
    page = views.study_page(record)
    assert page.count("<audio") == 3
    assert page.count("<image") == 3 + 2 * 3
    assert "characters within their word" in page
