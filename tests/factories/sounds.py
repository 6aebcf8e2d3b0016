"""WAV files, valid and hostile, written byte by byte."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

PCM, FLOAT, A_LAW, EXTENSIBLE = 1, 3, 6, 0xFFFE


def sine(hz: float, *, seconds: float = 0.5, sample_rate: int = 16_000) -> np.ndarray:
    """A tone of amplitude one half."""
    return 0.5 * np.sin(2 * np.pi * hz * np.arange(round(seconds * sample_rate)) / sample_rate)


def encoded(samples: np.ndarray, *, bits: int, is_float: bool, order: str = "<") -> bytes:
    """Samples in [-1, 1) as they are stored, channels interleaved."""
    if is_float:
        return samples.astype(f"{order}f{bits // 8}").tobytes()
    if bits == 8:
        return np.round(samples * 128 + 128).clip(0, 255).astype(np.uint8).tobytes()
    full = 2 ** (bits - 1)
    whole = np.round(samples * full).clip(-full, full - 1).astype(f"{order}i4")
    if bits < 32:
        octets = whole.reshape(-1, 1).view(np.uint8).reshape(-1, 4)
        kept = bits // 8
        return (octets[:, :kept] if order == "<" else octets[:, 4 - kept :]).tobytes()
    return whole.tobytes()


def chunk(name: bytes, content: bytes, *, order: str = "<", length: int | None = None) -> bytes:
    """A chunk, padded to an even length; `length` is what its header says."""
    size = len(content) if length is None else length
    return name + struct.pack(f"{order}I", size) + content + b"\0" * (len(content) % 2)


def format_chunk(
    *,
    encoding: int = PCM,
    channels: int = 1,
    sample_rate: int = 16_000,
    bits: int = 16,
    order: str = "<",
    frame_bytes: int | None = None,
    extra: bytes = b"",
) -> bytes:
    """The description of the format."""
    width = channels * bits // 8 if frame_bytes is None else frame_bytes
    rate = min(sample_rate * width, 2**32 - 1)
    content = struct.pack(f"{order}HHIIHH", encoding, channels, sample_rate, rate, width, bits)
    return chunk(b"fmt ", content + extra, order=order)


def riff(*chunks: bytes, signature: bytes = b"RIFF") -> bytes:
    """A whole file of these chunks."""
    body = b"WAVE" + b"".join(chunks)
    order = ">" if signature == b"RIFX" else "<"
    return signature + struct.pack(f"{order}I", len(body)) + body


def wav_bytes(
    samples: np.ndarray,
    *,
    sample_rate: int = 16_000,
    bits: int = 16,
    is_float: bool = False,
    order: str = "<",
) -> bytes:
    """A WAV file of samples of shape (samples,) or (samples, channels)."""
    header = format_chunk(
        encoding=FLOAT if is_float else PCM,
        channels=1 if samples.ndim == 1 else samples.shape[1],
        sample_rate=sample_rate,
        bits=bits,
        order=order,
    )
    data = chunk(b"data", encoded(samples, bits=bits, is_float=is_float, order=order), order=order)
    return riff(header, data, signature=b"RIFF" if order == "<" else b"RIFX")


def write_wav(path: Path, samples: np.ndarray, *, sample_rate: int = 16_000) -> Path:
    """A file of 16 bits, in a folder that is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(wav_bytes(samples, sample_rate=sample_rate))
    return path


def write_digits(folder: Path, *, takes: int = 8) -> Path:
    """Two digits of two speakers in the layout of FSDD: tones of another height."""
    for number, speaker in enumerate(("ann", "bob")):
        for digit in range(2):
            for take in range(takes):
                hz = 400.0 + 800 * digit + 40 * number + 5 * take
                tone = sine(hz, seconds=0.3, sample_rate=8000)
                write_wav(folder / f"{digit}_{speaker}_{take}.wav", tone, sample_rate=8000)
    return folder
