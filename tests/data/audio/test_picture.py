"""Pictures of recordings: spectrograms of bounded size, word borders, and audio that pages can play."""

from __future__ import annotations

import base64
import io
import wave
from pathlib import Path

import numpy as np
import pytest
from tests.factories.sounds import sine, write_wav

from regard.core.errors import RegardError
from regard.core.records.sound import SoundRecord
from regard.data.audio.clips import AudioClip, Part
from regard.data.audio.features import FeatureOptions
from regard.data.audio.picture import (
    AUDIO_RATE,
    AUDIO_SECONDS,
    MAX_BANDS,
    MAX_COLUMNS,
    playable,
    sound_record,
    spectrogram,
)

OPTIONS = FeatureOptions(sample_rate=16_000, num_bands=10)


def joined(folder: Path, *words: str, seconds: float = 0.4) -> AudioClip:
    """Tones, one per word, with pauses of 0.1 s."""
    parts = []
    for number, word in enumerate(words):
        path = write_wav(
            folder / f"{number}{word}.wav", sine(600.0 * number + 400, seconds=seconds)
        )
        parts.append(Part(path, pause=0.1 if number else 0.0))
    return AudioClip(name="ann/00000", parts=tuple(parts), words=words)


def picture(clip: AudioClip, options: FeatureOptions = OPTIONS) -> SoundRecord:
    samples = clip.samples(sample_rate=options.sample_rate, trim_db=options.trim_db)
    return sound_record(options.extract(samples), options, name=clip.name, clip=clip)


def test_picture_of_joined_words(tmp_path: Path) -> None:
    found = picture(joined(tmp_path, "low", "high"))
    assert (found.name, found.num_bands, found.frames) == ("ann/00000", 10, 91)
    assert (found.bands, found.low, found.high) == ("log-mel bands", "0 Hz", "8 kHz")
    assert found.seconds == pytest.approx(0.91)
    borders = [(word.word, word.start, word.end) for word in found.words]
    assert borders == [("low", 0.0, 0.4), ("high", 0.5, pytest.approx(0.9))]
    rows = found.levels()
    assert [len(row) for row in rows] == [91] * 10
    # The highest band comes first; the second tone is higher than the first one.
    loudest = [max(range(10), key=lambda band: rows[band][column]) for column in (20, 70)]
    assert loudest[0] > loudest[1]
    assert found.column_names(2) == ("0.00 s", "0.46 s")


def test_a_single_word_has_no_borders(tmp_path: Path) -> None:
    assert picture(joined(tmp_path, "low")).words == ()


def test_size_is_bounded() -> None:
    frames = np.random.default_rng(0).standard_normal((1007, 131)).astype(np.float32)
    for is_log_mel in (True, False):
        assert spectrogram(frames, is_log_mel=is_log_mel).shape == (MAX_BANDS, MAX_COLUMNS)


def test_silence_is_drawn() -> None:
    frames = np.full((7, 3), -23.0, dtype=np.float32)
    assert spectrogram(frames, is_log_mel=True).shape == (3, 7)
    assert (spectrogram(frames, is_log_mel=False) == 128).all()


def test_features_without_a_recording() -> None:
    found = sound_record(np.ones((5, 3), dtype=np.float32), OPTIONS, name="digits.npz:2")
    assert (found.seconds, found.audio, found.words) == (None, None, ())
    assert (found.bands, found.low, found.high) == ("features", "1", "3")
    assert "no recording to play" in found.note
    assert found.column_names(2) == ("frame 0", "frame 2")


def test_cepstra_are_numbered(tmp_path: Path) -> None:
    options = FeatureOptions(sample_rate=16_000, features="mfcc", num_coefficients=7)
    found = picture(joined(tmp_path, "low"), options)
    assert (found.bands, found.low, found.high, found.num_bands) == ("MFCC", "1", "7", 7)
    assert found.audio is not None


@pytest.mark.parametrize(("seconds", "width"), [(1.0, 2), (5.0, 1), (20.0, 1)])
def test_audio_is_small(seconds: float, width: int) -> None:
    samples = sine(440.0, seconds=seconds).astype(np.float32)
    audio = playable(samples, sample_rate=16_000)
    with wave.open(io.BytesIO(audio)) as file:
        assert (file.getnchannels(), file.getsampwidth()) == (1, width)
        assert file.getframerate() == AUDIO_RATE
        assert file.getnframes() == AUDIO_RATE * min(seconds, AUDIO_SECONDS)
    assert len(base64.b64encode(audio)) < 100_000


def test_long_recordings_say_what_can_be_played(tmp_path: Path) -> None:
    assert picture(joined(tmp_path, "a", "b", seconds=4.0)).note.startswith("The first 6 seconds")
    assert picture(joined(tmp_path, "c", "d")).note == ""


def test_json_has_no_audio(tmp_path: Path) -> None:
    found = picture(joined(tmp_path, "low", "high"))
    assert found.audio
    stored = SoundRecord.from_json(found.as_json())
    assert stored.audio is None
    assert stored.levels() == found.levels()
    assert len(found.as_json()) < 3000


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"spectrogram": "%"}, "not base64"),
        ({"num_bands": 2}, "not 2 equal bands"),
        ({"num_bands": 0}, "0 bands"),
        ({"frames": 0}, "0 frames"),
        ({"seconds": 0.0}, "0.0 seconds"),
    ],
)
def test_malformed_sound(change: dict[str, object], message: str) -> None:
    values = {
        "name": "a",
        "spectrogram": "AAAA",
        "num_bands": 3,
        "bands": "b",
        "low": "",
        "high": "",
    }
    with pytest.raises(RegardError, match=message):
        SoundRecord(**{**values, "frames": 1, **change})  # type: ignore[arg-type]
