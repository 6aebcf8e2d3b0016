"""Clips: joined samples, pauses, word intervals, content hashes, and strings of words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.factories.sounds import sine, write_wav

from regard.core.errors import RegardError
from regard.data.audio.clips import AudioClip, Part, joined_clips
from regard.data.audio.wav import AudioFileError

RATE = 16_000


@pytest.fixture
def one(tmp_path: Path) -> Path:
    return write_wav(tmp_path / "one.wav", sine(300, seconds=0.2))


@pytest.fixture
def two(tmp_path: Path) -> Path:
    return write_wav(
        tmp_path / "two.wav", sine(600, seconds=0.1, sample_rate=8000), sample_rate=8000
    )


@pytest.fixture
def joined(one: Path, two: Path) -> AudioClip:
    parts = (Part(one), Part(two, pause=0.3))
    return AudioClip(name="made", parts=parts, words=("one", "two"))


def test_one_file(one: Path) -> None:
    clip = AudioClip(name="one.wav", parts=(Part(one),))
    np.testing.assert_allclose(clip.samples(sample_rate=RATE), sine(300, seconds=0.2), atol=1e-4)
    assert clip.seconds() == 0.2
    assert clip.word_intervals(sample_rate=RATE) == []
    assert clip.transcript == ""


def test_parts_of_two_rates_are_joined_with_a_pause(joined: AudioClip) -> None:
    samples = joined.samples(sample_rate=RATE)
    assert samples.dtype == np.float32
    assert len(samples) == 3200 + 4800 + 1600
    assert joined.seconds() == pytest.approx(0.6)
    assert joined.transcript == "one two"
    assert joined.word_intervals(sample_rate=RATE) == [("one", 0.0, 0.2), ("two", 0.5, 0.6)]


def test_a_pause_is_quiet_noise_that_depends_on_the_clip_only(joined: AudioClip, one: Path) -> None:
    pause = joined.samples(sample_rate=RATE)[3200:8000]
    assert 1e-5 <= np.sqrt(np.square(pause).mean()) <= 1.1e-3
    assert len(np.unique(pause)) > 4000
    again = AudioClip(name="another name", parts=joined.parts).samples(sample_rate=RATE)
    np.testing.assert_array_equal(pause, again[3200:8000])
    other = AudioClip(name="made", parts=(Part(one), Part(one, pause=0.3)))
    assert (other.samples(sample_rate=RATE)[3200:8000] != pause).any()


def test_speed_shortens_everything(joined: AudioClip) -> None:
    (_, _, end), (_, start, last) = joined.word_intervals(sample_rate=RATE, speed=1.25)
    assert (end, start, last) == (0.16, 0.4, 0.48)
    assert len(joined.samples(sample_rate=RATE, speed=1.25)) == last * RATE


def test_every_part_is_trimmed(tmp_path: Path) -> None:
    quiet = np.zeros(4000)
    path = write_wav(tmp_path / "a.wav", np.concatenate([quiet, sine(300, seconds=0.2), quiet]))
    clip = AudioClip(name="a", parts=(Part(path), Part(path, pause=0.1)), words=("a", "a"))
    first, second = clip.word_intervals(sample_rate=RATE, trim_db=30.0)
    assert 0.2 <= first.end < 0.226
    assert second.start - first.end == pytest.approx(0.1)
    samples = clip.samples(sample_rate=RATE, trim_db=30.0)
    assert len(samples) == round(second.end * RATE)


def test_the_hash_is_of_content_order_and_pauses(joined: AudioClip, one: Path, two: Path) -> None:
    parts = joined.parts
    own = joined.content_hash()
    assert AudioClip(name="x", parts=parts, speaker="y").content_hash() == own
    copy = one.with_name("copy.wav")
    copy.write_bytes(one.read_bytes())
    assert AudioClip(name="x", parts=(Part(copy), parts[1])).content_hash() == own
    others = [parts[::-1], (Part(one), Part(two, pause=0.4)), (Part(one), Part(one, pause=0.3))]
    hashes = {AudioClip(name="x", parts=each).content_hash() for each in others}
    assert len({own, *hashes}) == 4
    write_wav(one, sine(301, seconds=0.2))
    assert joined.content_hash() != own


def test_invalid_clips(one: Path, tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="'a' has no parts"):
        AudioClip(name="a", parts=())
    with pytest.raises(RegardError, match="'a' has 2 words and 1 parts"):
        AudioClip(name="a", parts=(Part(one),), words=("one", "two"))
    with pytest.raises(RegardError, match=r"pause=-1\.0"):
        Part(one, pause=-1.0)
    absent = AudioClip(name="a", parts=(Part(tmp_path / "absent.wav"),))
    with pytest.raises(AudioFileError, match="missing file"):
        absent.samples(sample_rate=RATE)
    with pytest.raises(AudioFileError, match="missing file"):
        absent.content_hash()
    with pytest.raises(AudioFileError, match=r"max_seconds=0\.1"):
        AudioClip(name="a", parts=(Part(one),), max_seconds=0.1).samples(sample_rate=RATE)


def clips_by_speaker() -> dict[str, list[AudioClip]]:
    return {
        speaker: [
            AudioClip(
                name=f"{word}_{speaker}.wav",
                parts=(Part(Path(f"{word}_{speaker}.wav")),),
                speaker=speaker,
                words=(word,),
            )
            for word in ("zero", "one", "two")
        ]
        for speaker in ("ann", "bob")
    }


def strings(clips: dict[str, list[AudioClip]], **options: int) -> list[AudioClip]:
    given = {"num_strings": 50, "min_words": 2, "max_words": 4, "seed": 0, **options}
    return joined_clips(clips, pause_range=(0.1, 0.5), **given)


def test_strings_are_of_one_speaker() -> None:
    found = strings(clips_by_speaker())
    assert len(found) == len({clip.name for clip in found}) == 50
    assert {clip.speaker for clip in found} == {"ann", "bob"}
    assert {len(clip.words) for clip in found} == {2, 3, 4}
    for clip in found:
        files = [f"{word}_{clip.speaker}.wav" for word in clip.words]
        assert [str(part.path) for part in clip.parts] == files
        assert clip.transcript.split() == list(clip.words)
        assert clip.parts[0].pause == 0
        assert all(0.1 <= part.pause <= 0.5 for part in clip.parts[1:])


def test_strings_depend_on_the_seed_and_not_on_the_order() -> None:
    clips = clips_by_speaker()
    reordered = {name: clips[name][::-1] for name in reversed(clips)}
    assert strings(clips) == strings(reordered)
    assert strings(clips) != strings(clips, seed=1)


def test_invalid_strings() -> None:
    with pytest.raises(RegardError, match="min_words=5, max_words=4"):
        strings(clips_by_speaker(), min_words=5)
    with pytest.raises(RegardError, match="there are no clips"):
        strings({"ann": []})
    with pytest.raises(RegardError, match=r"pause_range=\(0\.5, 0\.1\)"):
        joined_clips({}, num_strings=1, min_words=1, max_words=1, pause_range=(0.5, 0.1), seed=0)
    wordless = AudioClip(name="a.wav", parts=(Part(Path("a.wav")),))
    with pytest.raises(RegardError, match=r"'a\.wav' has no words"):
        strings({"ann": [wordless]})
