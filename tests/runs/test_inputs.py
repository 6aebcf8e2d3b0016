"""Inputs from bytes are those of the same file; what does not suit a run is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.factories.images import bright, write_image
from tests.factories.sounds import sine, write_digits, write_wav
from tests.factories.tiny_runs import TRAINING, train_tiny
from tests.factories.untrained_runs import untrained_run

from regard.core.errors import RegardError
from regard.data.images.pixels import read_image
from regard.data.media_files import MediaBytes
from regard.runs.inputs import file_input, input_name, sound_input, text_input
from regard.runs.load import load

FEATURES = {"sample_rate": 8000, "num_bands": 8, "hop_ms": 20.0, "validation_fraction": 0.3}


def test_sound(tmp_path: Path) -> None:
    data = write_digits(tmp_path / "digits")

    def sections(_: Any) -> dict[str, Any]:
        task = {"name": "audio_classification", "train_file": str(data), **FEATURES}
        model = {"name": "structured", "model_dim": 8, "hidden_dim": 0, "hops": 1}
        return {"task": task, "model": model, "training": {**TRAINING, "steps": 2}}

    run = load(train_tiny(sections, tmp_path / "run").path)
    path = write_wav(tmp_path / "a.wav", sine(400.0, sample_rate=8000), sample_rate=8000)
    content = path.read_bytes()
    frames, length = file_input(run, content, max_pixels=1)
    assert input_name(run) == "sound"
    np.testing.assert_array_equal(frames, run.preprocessor.features(path))
    assert length == len(frames)
    clip = sound_input(run, content)
    assert not clip.is_on_disk
    assert clip.seconds() == 0.5
    assert run.predict([clip]) == run.predict([frames]) == run.predict([path])
    own, file = (run.preprocessor.picture(each, name="a.wav") for each in (clip, path))
    assert own == file
    with pytest.raises(RegardError, match="'upload': not a WAV file"):
        file_input(run, b"RIFF", max_pixels=1)
    # Never the name of a file.
    with pytest.raises(RegardError, match=r"is a text, but the model 'run' takes sounds\. Send"):
        text_input(run, str(path), max_tokens=1000)


def test_pixels_are_those_of_the_file(tmp_path: Path) -> None:
    path = write_image(tmp_path / "a.png", bright(seed=0, level=9))
    given = MediaBytes("upload", path.read_bytes())
    np.testing.assert_array_equal(read_image(given, max_pixels=16), read_image(path))
    with pytest.raises(RegardError, match=r"'upload': too large: 16 pixels, the maximum is 15"):
        read_image(given, max_pixels=15)


def test_text() -> None:
    run = untrained_run()
    assert input_name(run) == "text"
    assert text_input(run, " abc ", max_tokens=3) == (" abc ", 3)
    with pytest.raises(RegardError, match="has 4 tokens, the maximum is 3"):
        text_input(run, "abcd", max_tokens=3)
    with pytest.raises(RegardError, match="has 151 characters, the maximum is 150"):
        text_input(run, "a" * 151, max_tokens=3)
    with pytest.raises(RegardError, match="is a file, but the model 'untrained' takes texts"):
        file_input(run, b"abc", max_pixels=1)
