"""Tasks on recordings: features, splits by speaker, augmentation, joined words, alignment accuracy."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.factories.sounds import sine, write_wav

from regard.core.batches import FrameInput
from regard.core.errors import RegardError
from regard.data.audio.clips import AudioClip
from regard.data.readers.text_file import RowErrors
from regard.models import build_model
from regard.models.generation.search import decode
from regard.models.stems import FrameStem
from regard.tasks.audio import AudioExamples, AudioTask
from regard.tasks.audio_classification import AudioClassification, AudioClassificationOptions
from regard.tasks.speech_recognition import SpeechOptions, SpeechRecognition
from regard.tasks.task import EvalResult

RATE = 8000
SMALL: dict[str, Any] = {"sample_rate": RATE, "num_bands": 8, "hop_ms": 20.0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two digits of three speakers, eight takes each: tones of another height and loudness."""
    found = tmp_path_factory.mktemp("digits")
    for number, speaker in enumerate(("ann", "bob", "eve")):
        for digit in range(2):
            for take in range(8):
                tone = sine(
                    400 + 800 * digit + 40 * number + 5 * take, seconds=0.3, sample_rate=RATE
                )
                write_wav(found / f"{digit}_{speaker}_{take}.wav", tone, sample_rate=RATE)
    return found


def classification(folder: Path, **options: Any) -> AudioClassification:
    chosen = AudioClassificationOptions(train_file=str(folder), **{**SMALL, **options})
    return AudioClassification.from_options(chosen, seed=0, decode=partial(decode, beam_size=1))


def recognition(folder: Path, **options: Any) -> SpeechRecognition:
    chosen = SpeechOptions(train_file=str(folder), **{**SMALL, **options})
    return SpeechRecognition.from_options(chosen, seed=0, decode=partial(decode, beam_size=1))


def speakers(task: AudioTask, split: str) -> set[str]:
    return {clip.speaker for clip in getattr(task.dataset, split).inputs}


def test_splits_of_the_folder_are_used(folder: Path) -> None:
    task = classification(folder)
    # Takes 0 to 4 are the test split of such a folder.
    names = task.dataset.test.names
    assert len(names) == 2 * 3 * 5
    assert {int(name[:-4].split("_")[2]) for name in names} == {0, 1, 2, 3, 4}
    assert task.dataset.leakage == {"validation": 0, "test": 0}


def test_speakers_are_held_out(folder: Path) -> None:
    task = classification(folder, test_speakers=("bob",), validation_speakers=("eve",))
    assert speakers(task, "test") == {"bob"}
    assert speakers(task, "validation") == {"eve"}
    # All takes of ann that are not in the test split of the folder.
    assert len(task.dataset.train) == 2 * 3
    assert len(task.dataset.test) == 16


def test_speakers_by_hash(folder: Path) -> None:
    options: dict[str, Any] = {"split_by": "speaker", "test_speakers": ("ann",)}
    task = classification(folder, **options, validation_fraction=0.7)
    assert [speakers(task, name) for name in ("validation", "test")] == [{"eve"}, {"ann"}]
    assert not task.dataset.leakage["validation"]
    strings = recognition(folder, **{**JOINED, **options, "validation_fraction": 0.7})
    assert speakers(strings, "validation") == {"eve"}


def test_speakers_of_one_split_leave_the_other_split_of_the_folder(folder: Path) -> None:
    task = classification(folder, validation_speakers=("bob",))
    assert speakers(task, "validation") == {"bob"}
    assert speakers(task, "test") == {"ann", "eve"}
    assert len(task.dataset.test) == 2 * 2 * 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"test_speakers": ("zoe",)}, "Unknown speaker 'zoe'"),
        (
            {"test_speakers": ("ann",), "validation_speakers": ("ann",)},
            "ann is in task\\.validation",
        ),
        ({"test_speakers": ("ann",), "test_file": "elsewhere"}, "give one of the two"),
        ({"train_file": "nowhere"}, "nowhere"),
        ({"split_by": "speaker"}, "a split test of its own"),
        (
            {"split_by": "speaker", "test_speakers": ("ann", "bob"), "validation_fraction": 0.5},
            "has 1 known speaker for the splits",
        ),
        ({"features": "mfcc", "freq_warp": 0.1}, r"freq_warp=0\.1 varies mel bands"),
        ({"gain_db": 3.0, "normalize": "level"}, r"gain_db=3\.0 has no effect"),
        ({"equalize_db": 3.0, "normalize": "utterance"}, r"equalize_db=3\.0 has no effect"),
    ],
)
def test_errors_name_the_option(folder: Path, options: dict[str, Any], message: str) -> None:
    place = Path(options.pop("train_file", folder))
    with pytest.raises(RegardError, match=message):
        classification(place, **options)


@pytest.mark.parametrize(
    "option",
    [
        {"test_speakers": ("ann",)},
        {"speeds": (0.9, 1.1)},
        {"freq_warp": 0.1},
        {"split_by": "speaker"},
    ],
    ids=str,
)
def test_features_without_recordings(tmp_path: Path, option: dict[str, Any]) -> None:
    np.savez(tmp_path / "frames.npz", inputs=np.zeros((4, 5, 2)), labels=np.arange(4) % 2)
    name = next(iter(option))
    with pytest.raises(
        RegardError, match=rf"task\.{name}=.* needs recordings, but .* features only"
    ):
        classification(tmp_path / "frames.npz", **option)


def test_recordings_that_are_too_long_for_their_transcript_are_malformed(folder: Path) -> None:
    with pytest.raises(RegardError, match=r"too long: \d+ frames, but task\.max_length is 10"):
        recognition(folder, max_length=10)


def test_truncated_recordings_are_named(folder: Path) -> None:
    task = classification(folder, max_length=10)
    assert "recordings truncated to 10 frames" in task.dataset.describe()


def test_joining_needs_single_words(tmp_path: Path) -> None:
    for number in range(4):
        write_wav(tmp_path / f"yes/{number}.wav", sine(400, seconds=0.2, sample_rate=RATE))
    (tmp_path / "metadata.csv").write_text(
        "file_name,text\n" + "".join(f"yes/{number}.wav,yes\n" for number in range(4))
    )
    with pytest.raises(RegardError, match=r"task\.join=\[2, 4\]: .* has the layout metadata"):
        recognition(tmp_path, **JOINED)


def test_a_test_split_is_not_trained_on(tmp_path: Path) -> None:
    for label in ("yes", "no"):
        for take in range(6):
            tone = sine(400 + take, seconds=0.2, sample_rate=RATE)
            write_wav(tmp_path / f"test/{label}/{take}.wav", tone, sample_rate=RATE)
    with pytest.raises(
        RegardError, match=r"split=train: .* has the splits test\. Add a folder 'train'"
    ):
        classification(tmp_path)


def test_joining_needs_recordings_in_every_split(folder: Path) -> None:
    with pytest.raises(
        RegardError, match=r"task\.join=\[2, 4\]: no recording of .* is in the validation split"
    ):
        recognition(folder, **{**JOINED, "validation_fraction": 0.0})


def test_a_folder_is_scored_on_its_test_split(folder: Path) -> None:
    for task in (classification(folder), recognition(folder), recognition(folder, **JOINED)):
        split = task.read_split(
            str(folder), task.options, preprocessor=task.dataset.preprocessor, errors=RowErrors()
        )
        assert split.names == task.dataset.test.names
        assert split.references == task.dataset.test.references


def test_utterances_are_normalised(folder: Path) -> None:
    task = classification(folder, normalize="utterance")
    batch = task.epoch(0)[0]
    assert isinstance(batch.input, FrameInput)
    row = batch.input.frames[0, : int(batch.input.lengths[0])]
    assert torch.allclose(row.mean(dim=0), torch.zeros(8), atol=1e-5)


def test_levels_are_normalised(folder: Path) -> None:
    task = classification(folder, normalize="level")
    batch = task.epoch(0)[0]
    assert isinstance(batch.input, FrameInput)
    row = batch.input.frames[0, : int(batch.input.lengths[0])]
    assert row.mean().abs() < 1e-5
    assert row.mean(dim=0).abs().max() > 0.1


def test_augmentation_is_of_training_only_and_reproducible(folder: Path) -> None:
    augmented = partial(
        classification, folder, freq_warp=0.2, noise_db=(20.0, 40.0), speeds=(0.9, 1.0, 1.1)
    )
    one, same, plain = augmented(), augmented(), classification(folder)
    first, again = one.epoch(3)[0].input, same.epoch(3)[0].input
    assert isinstance(first, FrameInput)
    assert isinstance(again, FrameInput)
    assert torch.equal(first.frames, again.frames)
    other = one.epoch(4)[0].input
    assert isinstance(other, FrameInput)
    assert first.shape != other.shape or not torch.equal(first.frames, other.frames)
    found, expected = (task.eval_batches(task.dataset.validation)[0].input for task in (one, plain))
    assert isinstance(found, FrameInput)
    assert isinstance(expected, FrameInput)
    assert torch.equal(found.frames, expected.frames)


def test_speeds_change_the_length(folder: Path) -> None:
    task = classification(folder, speeds=(0.5, 2.0))
    train = task.dataset.train
    assert isinstance(train, AudioExamples)
    slow, fast = (int(copy.lengths.sum()) for copy in train.copies)
    assert slow > 3 * fast
    inputs = [batch.input for batch in task.epoch(0)]
    lengths = [n for each in inputs if isinstance(each, FrameInput) for n in each.lengths.tolist()]
    assert min(lengths) < int(train.inputs.lengths[0]) < max(lengths)


def test_a_path_is_an_input(folder: Path) -> None:
    task = classification(folder)
    path = str(folder / "1_ann_7.wav")
    model = build_model(
        "text_encoder", **task.dataset.preprocessor.sizes(), model_dim=8, num_heads=2, num_layers=1
    ).eval()
    predicted = task.predict(model, [path], task.dataset.preprocessor, task.decode)
    assert predicted[0] in {"0", "1"}
    with pytest.raises(RegardError, match=r"missing\.wav"):
        task.predict(model, ["missing.wav"], task.dataset.preprocessor, task.decode)


JOINED: dict[str, Any] = {
    "join": (2, 4),
    "num_strings": 12,
    "num_validation_strings": 6,
    "num_test_strings": 8,
    "validation_fraction": 0.4,
}


def test_strings_are_joined_from_recordings_of_their_split(folder: Path) -> None:
    task = recognition(folder, **JOINED)
    dataset = task.dataset
    assert (len(dataset.train), len(dataset.validation), len(dataset.test)) == (12, 6, 8)
    parts: dict[str, set[Path]] = {}
    for name in ("validation", "test"):
        clips = getattr(dataset, name).inputs
        assert all(isinstance(clip, AudioClip) for clip in clips)
        assert all(2 <= len(clip.words) <= 4 for clip in clips)
        parts[name] = {part.path for clip in clips for part in clip.parts}
    assert not parts["validation"] & parts["test"]
    assert {path.stem[-1] for path in parts["test"]} <= set("01234")
    for clip, references in zip(dataset.test.inputs, dataset.test.references, strict=True):
        assert references == (" ".join(clip.words),)


def test_splits_have_strings_of_their_own(folder: Path) -> None:
    """With one seed, string i of every split would have the words and pauses of string i of the others."""
    task = recognition(folder, **JOINED)
    readers = task.readers(task.options)
    strings = {
        name: [row.input for row in reader.rows(errors=RowErrors())]
        for name, reader in readers.items()
    }
    for name in ("validation", "test"):
        pairs = list(zip(strings["train"], strings[name], strict=False))
        assert sum(train.words == other.words for train, other in pairs) < len(pairs) / 2
        pauses = [
            [part.pause for part in clip.parts]
            for clip in (*strings["train"][: len(pairs)], *strings[name])
        ]
        assert len({str(each) for each in pauses}) == len(pauses)


class Peaks(torch.nn.Module):
    """Cross-attention that peaks in the middle of a character's word, at the first frame, at its end."""

    def __init__(self, task: SpeechRecognition, stride: int = 1) -> None:
        super().__init__()
        self.stride = stride
        self.stem = FrameStem(features=2, model_dim=2, stride=stride)
        self.unused = torch.nn.Parameter(torch.zeros(1))
        self.task, self.rows = task, list(task.dataset.test.inputs)

    def weights(self, source: FrameInput, decoder_input: torch.Tensor) -> dict[str, torch.Tensor]:
        rows, length = decoder_input.shape
        found = torch.zeros(rows, 3, length, -(-source.shape[1] // self.stride))
        found[:, 1, :, 0] = 1.0
        for row in range(rows):
            clip = next(
                clip
                for clip in self.rows
                if len(clip.transcript) == int((decoder_input[row] > 2).sum())
                and len(self.task.dataset.preprocessor.features(clip)) == int(source.lengths[row])
            )
            starts, ends = self.task._frame_bounds(clip)
            for at, start, end in zip(self.task._letters(clip), starts, ends, strict=True):
                first, last = (
                    (each - (self.stride - 1) / 2) / self.stride for each in (start, end)
                )
                found[row, 0, at, int((first + last) / 2)] = 1.0
                found[row, 2, at, int(last)] = 1.0
        return {"cross/0": found, "encoder/0": found}


@pytest.mark.parametrize("stride", [1, 2, 4])
def test_alignment_accuracy(folder: Path, stride: int) -> None:
    task = recognition(folder, **JOINED)
    found = task.alignment_accuracies(Peaks(task, stride), task.dataset.test)
    assert set(found) == {f"cross/0, head {head}" for head in (1, 2, 3)}
    assert found["cross/0, head 1"] == found["cross/0, head 3"] == 100.0
    # The first frame is within the first word alone.
    words = [clip.words for clip in task.dataset.test.inputs]
    first, letters = (
        sum(len(each[0]) for each in words),
        sum(map(len, (w for e in words for w in e))),
    )
    assert found["cross/0, head 2"] == pytest.approx(100 * first / letters)


def test_the_head_is_chosen_on_validation(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = recognition(folder, **JOINED)
    accuracies = {
        task.dataset.validation: {"cross/0, head 1": 60.0, "cross/0, head 2": 50.0},
        task.dataset.test: {"cross/0, head 1": 55.0, "cross/0, head 2": 70.0},
    }
    monkeypatch.setattr(task, "alignment_accuracies", lambda _, split: accuracies[split])
    found = task.details(None, task.dataset.test, EvalResult({}, []))["alignment"]
    assert (found["head"], found["accuracy"]) == ("cross/0, head 1", 55.0)


@pytest.mark.parametrize("name", ["transformer", "transformer_recurrent", "ctc", "recurrent"])
def test_models_train_on_recordings(folder: Path, name: str) -> None:
    task = recognition(folder, **JOINED, max_characters=30)
    sizes = task.dataset.preprocessor.sizes()
    options: dict[str, Any] = {"model_dim": 16, "num_heads": 2, "num_layers": 1, "dropout": 0.0}
    if name == "recurrent":
        options = {"embedding_dim": 16, "hidden_dim": 16, "dropout": 0.0}
    if name == "transformer":
        options["tie"] = "target"
    torch.manual_seed(0)
    model = build_model(name, **sizes, **options, stem={"type": "convolutional", "strides": [1, 1]})
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for epoch in range(25):
        for batch in task.epoch(epoch):
            loss = task.loss(model, batch)
            optimizer.zero_grad()
            (loss.total / loss.num_predictions).backward()
            optimizer.step()
        losses.append(loss.total.item() / loss.num_predictions)
    assert losses[-1] < 0.7 * losses[0]
    result = task.evaluate_on(model.eval(), task.dataset.test)
    assert {"cer", "wer", "loss", "jaccard_similarity"} <= set(result.scores)
    assert len(result.predictions) == 8
    if name == "transformer_recurrent":
        without = build_model(name, **sizes, **options, cross_mechanism="none").eval()
        assert task.details(without, task.dataset.test, result) == {}
    details = task.details(model, task.dataset.test, result)["alignment"]
    assert 0 <= details["accuracy"] <= 100
    assert np.isfinite(details["chance"])
