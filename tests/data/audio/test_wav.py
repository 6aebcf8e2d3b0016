"""WAV files of every width, and files that are damaged, hostile or not WAV."""

from __future__ import annotations

import os
import struct
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from tests.factories.sounds import (
    A_LAW,
    EXTENSIBLE,
    FLOAT,
    PCM,
    chunk,
    encoded,
    format_chunk,
    riff,
    sine,
    wav_bytes,
)

from regard.core.errors import RegardError
from regard.data.audio import wav
from regard.data.audio.wav import AudioFileError, read_header, read_wav, validate_wav

# Exact in every width.
SAMPLES = np.array([0.0, 0.5, -0.5, 0.25, -1.0])
WIDTHS = [(8, False), (16, False), (24, False), (32, False), (32, True), (64, True)]


@pytest.mark.parametrize(("bits", "is_float"), WIDTHS)
@pytest.mark.parametrize("order", ["<", ">"])
def test_every_width(tmp_path: Path, bits: int, is_float: bool, order: str) -> None:
    path = tmp_path / "a.wav"
    content = wav_bytes(SAMPLES, bits=bits, is_float=is_float, sample_rate=11_025, order=order)
    path.write_bytes(content)
    samples, rate = read_wav(path)
    assert rate == 11_025
    assert samples.dtype == np.float32
    assert samples.tolist() == SAMPLES.tolist()
    header = read_header(path)
    assert (header.sample_bits, header.is_float, header.num_samples) == (bits, is_float, 5)
    assert header.seconds == 5 / 11_025


@pytest.mark.parametrize(("bits", "is_float"), WIDTHS)
def test_channels_are_averaged(tmp_path: Path, bits: int, is_float: bool) -> None:
    path = tmp_path / "a.wav"
    stereo = np.array([[0.5, 0.0], [-1.0, 0.5], [0.25, 0.25]])
    path.write_bytes(wav_bytes(stereo, bits=bits, is_float=is_float))
    assert read_wav(path).samples.tolist() == [0.25, -0.25, 0.25]


def test_other_chunks_and_harmless_faults_give_no_warning(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    data = chunk(b"data", encoded(SAMPLES, bits=16, is_float=False))
    wrong_byte_rate = struct.pack("<HHIIHH", PCM, 1, 16_000, 7, 2, 16)
    odd = chunk(b"note", b"odd")
    path.write_bytes(riff(odd, chunk(b"fmt ", wrong_byte_rate), odd, data, odd) + b"rubbish")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_wav(path).samples.tolist() == SAMPLES.tolist()


def test_extensible_format_and_files_beyond_4_gib(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    content = encoded(SAMPLES, bits=32, is_float=True)
    # Size of the extension, valid bits, speakers, then the encoding and the rest of its identifier.
    extra = struct.pack("<HHIH", 22, 32, 0, FLOAT) + bytes.fromhex("000000001000800000aa00389b71")
    header = format_chunk(encoding=EXTENSIBLE, bits=32, extra=extra)
    path.write_bytes(riff(header, chunk(b"data", content)))
    assert read_wav(path).samples.tolist() == SAMPLES.tolist()
    sizes = chunk(b"ds64", struct.pack("<QQQI", 0, len(content), 5, 0))
    header = format_chunk(encoding=FLOAT, bits=32)
    data = chunk(b"data", content, length=0xFFFFFFFF)
    path.write_bytes(riff(sizes, header, data, signature=b"RF64"))
    assert read_wav(path).samples.tolist() == SAMPLES.tolist()


def test_a_partial_last_sample_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(riff(format_chunk(), chunk(b"data", b"\0\x40\0\0\x01")))
    assert read_wav(path).samples.tolist() == [0.5, 0.0]


def test_loud_floats_are_clipped(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(wav_bytes(np.array([1.5, -2.0, 0.5]), bits=32, is_float=True))
    assert read_wav(path).samples.tolist() == [1.0, -1.0, 0.5]


VALID = wav_bytes(sine(440, seconds=0.01))
NAN = np.array([0.0, np.nan, 0.0])
HOSTILE = {
    "text": (b"hello, world", "not a WAV file: it begins with 'hello, world'"),
    "empty": (b"", "not a WAV file: it is empty"),
    "control characters": (b"\x1b[31m\xff", r"begins with '\\x1b\[31m"),
    "mp3": (b"ID3\x04" + b"\0" * 40, "not a WAV file: it is MP3. Convert it"),
    "avi": (b"RIFF\0\0\0\0AVI LIST", "not a WAV file: it begins with"),
    "header only": (VALID[:12], "truncated file: it ends after 12 bytes"),
    "half a format": (VALID[:30], "truncated file: the description of its format"),
    "half the samples": (
        VALID[: len(VALID) // 2],
        "truncated file: its header announces 320 bytes of samples, but there are 138",
    ),
    "no samples": (riff(format_chunk(), chunk(b"data", b"")), "no samples"),
    "no data": (riff(format_chunk()), "truncated file"),
    "data before format": (riff(chunk(b"data", b"\0\0"), b""), "truncated file"),
    "short format": (riff(chunk(b"fmt ", b"\1\0\1\0")), "truncated file"),
    "a-law": (riff(format_chunk(encoding=A_LAW, bits=8)), "unsupported encoding: A-law"),
    "unknown codec": (riff(format_chunk(encoding=0x1234)), "unsupported encoding: number 4660"),
    "12 bits": (riff(format_chunk(bits=12, frame_bytes=2)), "unsupported encoding: 12 bits"),
    "64-bit integers": (riff(format_chunk(bits=64)), "integers have 8, 16, 24, 32 bits"),
    "16-bit floats": (riff(format_chunk(encoding=FLOAT)), "floating-point numbers have 32, 64"),
    "no channels": (riff(format_chunk(channels=0)), "unsupported encoding: 0 channels"),
    "65 channels": (riff(format_chunk(channels=65)), "unsupported encoding: 65 channels"),
    "0 Hz": (riff(format_chunk(sample_rate=0)), "at 0 Hz"),
    "4 GHz": (riff(format_chunk(sample_rate=2**32 - 5)), "at 4,294,967,291 Hz"),
    "stream": (
        riff(format_chunk(), chunk(b"data", b"\0" * 8, length=0xFFFFFFFF)),
        "unknown length: its header has no length",
    ),
    "nan": (wav_bytes(NAN, bits=32, is_float=True), "samples not finite: 1 of 3"),
    "infinity": (
        wav_bytes(np.array([0.0, np.inf]), bits=64, is_float=True),
        "samples not finite: 1 of 2",
    ),
    "another scale": (
        wav_bytes(np.array([0.0, 16_384.0]), bits=32, is_float=True),
        "samples out of range: the largest is 16,384",
    ),
    "beyond float32": (wav_bytes(np.array([1e300]), bits=64, is_float=True), "out of range"),
    "empty chunks": (riff(*[chunk(b"note", b"")] * 2000, VALID[12:]), "truncated file"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files(tmp_path: Path, name: str) -> None:
    content, message = HOSTILE[name]
    path = tmp_path / "a.wav"
    path.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(AudioFileError, match=message) as found:
            read_wav(path)
    assert str(found.value).startswith(f"'{path}': ")
    assert str(found.value).endswith(".")
    with pytest.raises(RegardError, match=message):
        validate_wav(path)


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    with pytest.raises(AudioFileError, match=r"absent\.wav': missing file"):
        read_wav(tmp_path / "absent.wav")
    with pytest.raises(AudioFileError, match="it is a folder"):
        read_wav(tmp_path)
    with pytest.raises(AudioFileError, match="unreadable file"):
        read_wav(Path("a\0b.wav"))
    with pytest.raises(AudioFileError, match="unreadable file"):
        read_wav(tmp_path / ("a" * 300))
    pipe = tmp_path / "pipe.wav"
    os.mkfifo(pipe)  # to open it would wait for a writer
    with pytest.raises(AudioFileError, match="it is no regular file"):
        read_wav(pipe)


def test_three_hours_are_refused_from_the_header(tmp_path: Path) -> None:
    path = tmp_path / "long.wav"
    length = 3 * 3600 * 44_100 * 4
    header = format_chunk(channels=2, sample_rate=44_100)
    with path.open("wb") as file:
        file.write(riff(header, chunk(b"data", b"", length=length)))
        file.truncate(file.tell() + length)  # sparse
    tracemalloc.start()
    try:
        with pytest.raises(AudioFileError, match="too long: 3 h, the maximum is max_seconds=60"):
            read_wav(path)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
    with pytest.raises(AudioFileError, match="too large: 1,905,120,000 bytes"):
        read_wav(path, max_seconds=20_000.0)


def test_maximum_duration(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(wav_bytes(sine(440, seconds=0.5)))
    assert read_wav(path, max_seconds=0.5).samples.shape == (8000,)
    with pytest.raises(AudioFileError, match=r"500 ms, the maximum is max_seconds=0\.4"):
        read_wav(path, max_seconds=0.4)


def test_validation_decodes_floats_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[Path] = []
    original = wav.read_wav

    def counted(path: Path, **kwargs: float) -> wav.Sound:
        decoded.append(path)
        return original(path, **kwargs)

    monkeypatch.setattr(wav, "read_wav", counted)
    integers, floats = tmp_path / "integers.wav", tmp_path / "floats.wav"
    integers.write_bytes(wav_bytes(SAMPLES))
    floats.write_bytes(wav_bytes(SAMPLES, bits=32, is_float=True))
    for _ in range(3):
        validate_wav(integers)
        validate_wav(floats)
    assert decoded == [floats]
    floats.write_bytes(wav_bytes(NAN, bits=64, is_float=True))
    with pytest.raises(AudioFileError, match="not finite"):
        validate_wav(floats)


@settings(deadline=None, max_examples=200)
@given(
    edits=st.lists(st.tuples(st.integers(0, len(VALID) - 1), st.integers(0, 255)), max_size=6),
    end=st.integers(0, len(VALID)),
)
def test_damaged_bytes_give_samples_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, edits: list[tuple[int, int]], end: int
) -> None:
    content = bytearray(VALID[:end])
    for position, value in edits:
        if position < end:
            content[position] = value
    path = tmp_path_factory.getbasetemp() / "damaged.wav"
    path.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            samples, rate = read_wav(path)
        except AudioFileError:
            return
    assert samples.size
    assert np.abs(samples).max() <= 1
    assert wav.MIN_RATE <= rate <= wav.MAX_RATE
