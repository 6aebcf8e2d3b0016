"""WAV files: their headers and their samples.

    header = read_header(path)         rate, channels, width and length, from the first bytes of the file
    sound = read_wav(path)             mono float32 samples in [-1, 1], and their rate

Integers of 8, 16, 24 and 32 bits and floating-point numbers of 32 and 64 bits are read, at any rate and
with any number of channels, which are averaged. A file that is too long is refused from its header. Every
error is an `AudioFileError`.
"""

from __future__ import annotations

import io
import os
import struct
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32

from regard.core.formatting import duration_text, integer_text
from regard.data.media_files import (
    MAX_CHECKED_FILES,
    MediaBytes,
    MediaFileError,
    MediaPath,
    file_stamp,
    opened,
)

MAX_SECONDS = 60.0
MIN_RATE, MAX_RATE = 1_000, 384_000
MAX_CHANNELS = 64
MAX_DATA_BYTES = 1 << 30  # decoded at once
MAX_CHUNKS = 1_000  # before the samples: a file of empty chunks would be walked for hours
MAX_FLOAT_PEAK = 10.0  # a little above 1 is overdriven, far above 1 is another scale

BYTE_ORDERS = {b"RIFF": "<", b"RIFX": ">", b"RF64": "<"}
PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE
WIDTHS = {PCM: (8, 16, 24, 32), FLOAT: (32, 64)}
ENCODINGS = {
    0x02: "ADPCM",
    0x06: "A-law",
    0x07: "µ-law",
    0x11: "IMA ADPCM",
    0x31: "GSM 6.10",
    0x50: "MPEG",
    0x55: "MP3",
}
# First bytes → the format they are the sign of.
OTHER_FORMATS = {b"ID3": "MP3", b"fLaC": "FLAC", b"OggS": "Ogg", b"FORM": "AIFF", b"caff": "CAF"}
NO_LENGTH = 0xFFFFFFFF  # what a program writes that cannot go back to the header
CONVERT = "Convert it, as with: ffmpeg -i FILE -c:a pcm_s16le NEW.wav"
COPY = "Copy or download it again"


class AudioFileError(MediaFileError):
    """A sound file that cannot be used."""

    what = "a WAV file"


class WavHeader(NamedTuple):
    """What the header of a WAV file says; `num_samples` are those of one channel."""

    sample_rate: int
    num_channels: int
    sample_bits: int
    is_float: bool
    num_samples: int
    data_offset: int
    byte_order: str

    @property
    def seconds(self) -> float:
        """The duration."""
        return self.num_samples / self.sample_rate

    @property
    def frame_bytes(self) -> int:
        """Bytes of one sample of all channels."""
        return self.num_channels * self.sample_bits // 8


class Sound(NamedTuple):
    """Mono samples and their rate."""

    samples: Float32[np.ndarray, " samples"]
    sample_rate: int


def read_header(path: MediaPath, *, max_seconds: float = MAX_SECONDS) -> WavHeader:
    """The header of a WAV file whose samples are complete, and not longer than `max_seconds`."""
    with opened(path, AudioFileError) as file:
        return _parse_header(file, path, max_seconds=max_seconds)


def read_wav(path: MediaPath, *, max_seconds: float = MAX_SECONDS) -> Sound:
    """The samples of a WAV file, averaged over its channels, in [-1, 1]; louder ones are clipped."""
    with opened(path, AudioFileError) as file:
        header = _parse_header(file, path, max_seconds=max_seconds)
        file.seek(header.data_offset)
        content = file.read(header.num_samples * header.frame_bytes)
    samples = _decode(header, content)
    if header.is_float:
        _validate_floats(samples, path)
        scaled = samples.astype(np.float32)
    elif header.sample_bits == 8:  # unsigned
        scaled = (samples.astype(np.float32) - 128.0) / 128.0
    else:  # 24 bits are the upper ones of 32
        scaled = samples.astype(np.float32) / float(1 << (8 * samples.itemsize - 1))
    mono = scaled if scaled.ndim == 1 else scaled.mean(axis=1, dtype=np.float32)
    return Sound(np.clip(mono, -1.0, 1.0), header.sample_rate)


def validate_wav(path: MediaPath, *, max_seconds: float = MAX_SECONDS) -> WavHeader:
    """The header of a file that `read_wav` can read; raises otherwise.

    Integers need no decoding. Floating-point numbers are decoded once, since any may be NaN; the result is
    remembered until the file changes.
    """
    if isinstance(path, MediaBytes):
        read_wav(path, max_seconds=max_seconds)
        return read_header(path, max_seconds=max_seconds)
    try:
        stamp = file_stamp(path)
    except (OSError, ValueError):
        return read_header(path, max_seconds=max_seconds)  # which says why
    return _validate(path, stamp, max_seconds)


@lru_cache(maxsize=MAX_CHECKED_FILES)
def _validate(path: Path, stamp: tuple[int, int, int], max_seconds: float) -> WavHeader:
    del stamp
    header = read_header(path, max_seconds=max_seconds)
    if header.is_float:
        read_wav(path, max_seconds=max_seconds)
    return header


def _parse_header(file: io.BufferedIOBase, path: MediaPath, *, max_seconds: float) -> WavHeader:
    """Walk through the chunks up to the samples; `path` is for messages."""
    start = file.read(16)
    order = BYTE_ORDERS.get(start[:4])
    if order is None or start[8:12] != b"WAVE":
        raise _not_a_wav(path, start)
    size = file.seek(0, os.SEEK_END)
    position = 12
    encoding: tuple[int, int, int, int] | None = None
    long_length = 0
    for _ in range(MAX_CHUNKS):
        file.seek(position)
        opening = file.read(8)
        if len(opening) < 8:
            break
        name, length = struct.unpack(f"{order}4sI", opening)
        position += 8
        if name == b"data" and encoding is not None:
            if start[:4] == b"RF64" and length == NO_LENGTH:
                length = long_length
            return _validated_header(
                path,
                *encoding,
                order=order,
                offset=position,
                length=length,
                available=size - position,
                max_seconds=max_seconds,
            )
        if name == b"fmt ":
            encoding = _parse_format(file.read(min(length, 40)), order, path)
        elif name == b"ds64" and len(content := file.read(16)) == 16:
            long_length = struct.unpack("<8xQ", content)[0]
        position += length + length % 2  # chunks begin at even positions
    raise AudioFileError(
        path,
        "truncated file",
        f"it ends after {integer_text(size)} bytes, before any samples",
        way_out=COPY,
    )


def _parse_format(content: bytes, order: str, path: MediaPath) -> tuple[int, int, int, int]:
    """Encoding, channels, sample rate and bits per sample."""
    if len(content) < 16:
        raise AudioFileError(
            path, "truncated file", "the description of its format is incomplete", way_out=COPY
        )
    encoding, channels, rate, _, frame_bytes, bits = struct.unpack(f"{order}HHIIHH", content[:16])
    if encoding == EXTENSIBLE and len(content) >= 26:
        encoding = struct.unpack(f"{order}H", content[24:26])[0]
    kind = "unsupported encoding"
    if encoding not in WIDTHS:
        name = ENCODINGS.get(encoding, f"number {encoding}")
        details = f"{name}; integers and floating-point numbers are read"
        raise AudioFileError(path, kind, details, way_out=CONVERT)
    if bits not in WIDTHS[encoding] or frame_bytes != channels * bits // 8:
        noun = "integers" if encoding == PCM else "floating-point numbers"
        known = ", ".join(map(str, WIDTHS[encoding]))
        details = (
            f"{bits} bits in {frame_bytes} bytes of {channels} channels; {noun} have {known} bits"
        )
        raise AudioFileError(path, kind, details, way_out=CONVERT)
    if not (1 <= channels <= MAX_CHANNELS and MIN_RATE <= rate <= MAX_RATE):
        details = (
            f"{channels} channels at {integer_text(rate)} Hz; there may be 1 to {MAX_CHANNELS} channels, "
            f"at {MIN_RATE:,} to {MAX_RATE:,} Hz"
        )
        raise AudioFileError(path, kind, details, way_out=CONVERT)
    return encoding, channels, rate, bits


def _validated_header(
    path: MediaPath,
    encoding: int,
    channels: int,
    rate: int,
    bits: int,
    *,
    order: str,
    offset: int,
    length: int,
    available: int,
    max_seconds: float,
) -> WavHeader:
    """The header, if there are samples, all of them, and not too many."""
    if length == NO_LENGTH:
        details = "its header has no length, as that of a stream"
        raise AudioFileError(path, "unknown length", details, way_out=CONVERT)
    num_samples = length // (channels * bits // 8)
    header = WavHeader(rate, channels, bits, encoding == FLOAT, num_samples, offset, order)
    if not num_samples:
        raise AudioFileError(
            path, "no samples", "it has a header alone", way_out="Record it again, or remove it"
        )
    if header.seconds > max_seconds:
        details = f"{duration_text(header.seconds)}, the maximum is max_seconds={max_seconds:g}"
        raise AudioFileError(
            path, "too long", details, way_out="Split the recording, or raise max_seconds"
        )
    if length > MAX_DATA_BYTES:
        details = f"{integer_text(length)} bytes of samples, the maximum is {MAX_DATA_BYTES:,}"
        raise AudioFileError(path, "too large", details, way_out="Split it, or lower its rate")
    if length > available:
        details = (
            f"its header announces {integer_text(length)} bytes of samples, but there are "
            f"{integer_text(available)}"
        )
        raise AudioFileError(path, "truncated file", details, way_out=COPY)
    return header


def _decode(header: WavHeader, content: bytes) -> np.ndarray:
    """The samples as they are stored, of shape (samples,) or (samples, channels).

    SciPy is given the format and the samples, and no other chunk of the file: it warns of those that it
    does not know, and refuses harmless faults such as a wrong number of bytes per second.
    """
    from scipy.io import wavfile

    order, width = header.byte_order, header.frame_bytes
    signature = b"RIFF" if order == "<" else b"RIFX"
    encoding = FLOAT if header.is_float else PCM
    rate = header.sample_rate
    chunk = struct.pack(
        f"{order}4sIHHIIHH",
        b"fmt ",
        16,
        encoding,
        header.num_channels,
        rate,
        rate * width,
        width,
        header.sample_bits,
    )
    padding = b"\0" * (len(content) % 2)
    data = struct.pack(f"{order}4sI", b"data", len(content))
    body = b"".join([b"WAVE", chunk, data, content, padding])
    file = io.BytesIO(signature + struct.pack(f"{order}I", len(body)) + body)
    samples: np.ndarray = wavfile.read(file)[1]
    return samples


def _validate_floats(samples: np.ndarray, path: MediaPath) -> None:
    peak = float(np.abs(samples).max())  # NaN if any sample is
    if not np.isfinite(peak):
        bad = int(np.count_nonzero(~np.isfinite(samples)))
        details = f"{integer_text(bad)} of {integer_text(samples.size)} are NaN or infinite"
        way_out = "Write it again from finite samples"
        raise AudioFileError(path, "samples not finite", details, way_out=way_out)
    if peak > MAX_FLOAT_PEAK:
        details = f"the largest is {peak:,.6g}, floating-point samples lie in [-1, 1]"
        way_out = "Divide them by their full scale, such as 32768"
        raise AudioFileError(path, "samples out of range", details, way_out=way_out)


def _not_a_wav(path: MediaPath, start: bytes) -> AudioFileError:
    kind = "not a WAV file"
    if not start:
        return AudioFileError(path, kind, "it is empty", way_out=COPY)
    for signature, name in OTHER_FORMATS.items():
        if start.startswith(signature):
            return AudioFileError(path, kind, f"it is {name}", way_out=CONVERT)
    shown = start.decode("ascii", errors="backslashreplace")
    return AudioFileError(path, kind, f"it begins with {shown!r}", way_out=CONVERT)
