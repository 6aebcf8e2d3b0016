"""Features of sound: log-mel spectrograms and MFCCs, and their normalisation.

    samples  →  windows (Hann)  →  power spectra  →  mel bands  →  log  →  DCT-II
                                                            log_mel     mfcc

The mel filter bank is Slaney's (Auditory Toolbox 1998), with triangles of equal area, as librosa's
`melspectrogram` has it by default: frames are centred on multiples of the hop, and the signal is padded
with zeros. The logarithm is natural, with a floor of 1e-10. Frames come first: (frames, bands).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Float, Float32
from pydantic import Field
from torch import Tensor

from regard.core.errors import RegardError
from regard.core.options import NonNegativeFloat, Options, PositiveFloat, PositiveInt
from regard.data.audio.wav import MAX_RATE, MIN_RATE

FLOOR = 1e-10
NEPERS_PER_DB = math.log(10) / 10  # of power, in natural logarithms
MIN_DEVIATION = 1e-3  # a band that is constant but for rounding is not scaled up
MAX_FFT_FACTOR = 4  # of the smallest FFT: zeros after a window add frequencies, but no resolution

# Slaney's mel scale: linear below 1 kHz, logarithmic above.
LINEAR_HZ_PER_MEL = 200 / 3
LOG_FROM_HZ = 1000.0
LOG_FROM_MEL = LOG_FROM_HZ / LINEAR_HZ_PER_MEL
LOG_STEP = math.log(6.4) / 27


class FeatureOptions(Options):
    """How features are computed from samples.

    Args:
        features: log_mel or mfcc.
        sample_rate: Recordings are resampled to this rate, in Hz.
        num_bands: Number of mel bands.
        num_coefficients: Number of MFCCs.
        window_ms, hop_ms: Length of a window, and distance between two, in milliseconds.
        fft_size: Samples of an FFT; default: the smallest power of two that fits.
        min_hz, max_hz: The range of the mel bands; `max_hz` is half of the sample rate by default.
        trim_db: Remove silence at both ends: what is this many dB below the peak. Default: keep it.
        top_db: Raise mel bands to at least this many dB below the loudest value of the recording, so that
            recordings with more and less background noise are alike. Default: as they are.
    """

    SECTION: ClassVar[str] = "features"

    features: Literal["log_mel", "mfcc"] = "log_mel"
    sample_rate: Annotated[int, Field(ge=MIN_RATE, le=MAX_RATE)] = 16_000
    num_bands: PositiveInt = 80
    num_coefficients: PositiveInt = 13
    window_ms: PositiveFloat = 25.0
    hop_ms: PositiveFloat = 10.0
    fft_size: PositiveInt | None = None
    min_hz: NonNegativeFloat = 0.0
    max_hz: PositiveFloat | None = None
    trim_db: PositiveFloat | None = None
    top_db: PositiveFloat | None = None

    @property
    def num_features(self) -> int:
        """Features of a frame."""
        return self.num_bands if self.features == "log_mel" else self.num_coefficients

    @property
    def hop_seconds(self) -> float:
        """The distance between two frames: a whole number of samples."""
        return round(self.sample_rate * self.hop_ms / 1000) / self.sample_rate

    def extract(
        self, samples: Float[np.ndarray, " samples"]
    ) -> Float32[np.ndarray, "frames features"]:
        """The features of samples at `sample_rate`, silence included."""
        kwargs: dict[str, Any] = {
            name: getattr(self, name)
            for name in (
                "sample_rate", "num_bands", "window_ms", "hop_ms", "fft_size", "min_hz", "max_hz", "top_db",
            )
        }  # fmt: skip
        given = torch.from_numpy(np.ascontiguousarray(samples, dtype=np.float32))
        if self.features == "log_mel":
            return log_mel(given, **kwargs).numpy()
        return mfcc(given, num_coefficients=self.num_coefficients, **kwargs).numpy()


def log_mel(
    samples: Float[Tensor, "*batch samples"],
    *,
    sample_rate: int,
    num_bands: int = 80,
    window_ms: float = 25.0,
    hop_ms: float = 10.0,
    fft_size: int | None = None,
    min_hz: float = 0.0,
    max_hz: float | None = None,
    top_db: float | None = None,
) -> Float[Tensor, "*batch frames bands"]:
    """The log-mel spectrogram of one clip, or of several of one length; one frame per hop, and one more.

    >>> log_mel(torch.randn(16_000), sample_rate=16_000).shape
    torch.Size([101, 80])
    """
    window = round(sample_rate * window_ms / 1000)
    hop = round(sample_rate * hop_ms / 1000)
    if not samples.shape[-1]:
        raise RegardError("samples: there are 0, at least 1 is needed. Give a longer recording.")
    if window < 2 or hop < 1:
        raise RegardError(
            f"window_ms={window_ms}, hop_ms={hop_ms}: at {sample_rate:,} Hz these are {window} and {hop} "
            "samples; 2 and 1 are the least. Raise them, as to 25 and 10."
        )
    bank = (num_bands, min_hz, sample_rate / 2 if max_hz is None else max_hz)
    size = default_fft_size(sample_rate, window, *bank) if fft_size is None else fft_size
    if size < window:
        raise RegardError(
            f"fft_size={size}: the window of {window_ms} ms has {window} samples. Use at least as many."
        )
    flat = samples.reshape(-1, samples.shape[-1])
    # In single precision the rounding errors of loud frequencies drown quiet bands: the logarithm would be
    # off by 1e-3. Double precision costs less than a third of the time.
    spectrum = torch.stft(
        flat.double(),
        size,
        hop,
        window,
        window=torch.hann_window(window, dtype=torch.float64, device=samples.device),
        center=True,
        pad_mode="constant",
        return_complex=True,
    )
    real, imaginary = spectrum.real.to(samples.dtype), spectrum.imag.to(samples.dtype)
    power = real.square_().addcmul_(imaginary, imaginary)
    filters = _filter_tensor(sample_rate, size, *bank, dtype=samples.dtype).to(samples.device)
    bands = power.transpose(-1, -2) @ filters
    bands = bands.clamp_(min=FLOOR).log_()
    if top_db is not None:
        loudest = bands.amax((-2, -1), keepdim=True)
        bands = bands.maximum(loudest - top_db * NEPERS_PER_DB)
    return bands.reshape(*samples.shape[:-1], -1, num_bands)


def mfcc(
    samples: Float[Tensor, "*batch samples"],
    *,
    sample_rate: int,
    num_coefficients: int = 13,
    num_bands: int = 80,
    window_ms: float = 25.0,
    hop_ms: float = 10.0,
    fft_size: int | None = None,
    min_hz: float = 0.0,
    max_hz: float | None = None,
    top_db: float | None = None,
) -> Float[Tensor, "*batch frames coefficients"]:
    """Mel-frequency cepstral coefficients: the first of the orthonormal DCT-II of the log-mel bands."""
    if not 1 <= num_coefficients <= num_bands:
        raise RegardError(
            f"num_coefficients={num_coefficients}: there are num_bands={num_bands}. Use 1 to {num_bands}."
        )
    bands = log_mel(
        samples,
        sample_rate=sample_rate,
        num_bands=num_bands,
        window_ms=window_ms,
        hop_ms=hop_ms,
        fft_size=fft_size,
        min_hz=min_hz,
        max_hz=max_hz,
        top_db=top_db,
    )
    # The first coefficient is a sum of large numbers: in single precision it would be off by 1e-4.
    matrix = dct_matrix(num_bands, num_coefficients).to(bands.device)
    return (bands.double() @ matrix).to(bands.dtype)


def dct_matrix(num_bands: int, num_coefficients: int) -> Float[Tensor, "bands coefficients"]:
    """The orthonormal DCT-II as a matrix; column k is a cosine of k half periods.

    >>> dct_matrix(2, 2)
    tensor([[ 0.7071,  0.7071],
            [ 0.7071, -0.7071]], dtype=torch.float64)
    """
    band = torch.arange(num_bands, dtype=torch.float64)[:, None]
    order = torch.arange(num_coefficients, dtype=torch.float64)
    matrix = torch.cos(math.pi / num_bands * (band + 0.5) * order) * math.sqrt(2 / num_bands)
    matrix[:, 0] /= math.sqrt(2)
    return matrix


def hz_to_mel(hz: float) -> float:
    """Slaney's mel scale.

    >>> [round(hz_to_mel(hz), 6) for hz in (200.0, 1000.0, 6400.0)]
    [3.0, 15.0, 42.0]
    """
    if hz < LOG_FROM_HZ:
        return hz / LINEAR_HZ_PER_MEL
    return LOG_FROM_MEL + math.log(hz / LOG_FROM_HZ) / LOG_STEP


def mel_to_hz(mel: Float[np.ndarray, " points"]) -> Float[np.ndarray, " points"]:
    """The inverse of `hz_to_mel`, of several values."""
    above = LOG_FROM_HZ * np.exp(LOG_STEP * (mel - LOG_FROM_MEL))
    return np.where(mel < LOG_FROM_MEL, LINEAR_HZ_PER_MEL * mel, above)


def mel_filters(
    sample_rate: int, fft_size: int, num_bands: int, min_hz: float, max_hz: float
) -> Float[np.ndarray, "frequencies bands"]:
    """The filter bank: triangles at equal distances on the mel scale, each from peak to peak of its
    neighbours, divided by half of its width in Hz. A band without a frequency of the FFT is all zeros.
    """
    if not 0 <= min_hz < max_hz <= sample_rate / 2:
        raise RegardError(
            f"min_hz={min_hz}, max_hz={max_hz}: mel bands lie between 0 and half of the sample rate, "
            f"{sample_rate / 2:g} Hz. Use such a range, or leave both out."
        )
    ends = np.linspace(hz_to_mel(min_hz), hz_to_mel(max_hz), num_bands + 2)
    edges = mel_to_hz(ends)
    hz = np.linspace(0.0, sample_rate / 2, fft_size // 2 + 1)[:, None]
    rising = (hz - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - hz) / (edges[2:] - edges[1:-1])
    triangles = np.maximum(0.0, np.minimum(rising, falling))
    return triangles * (2.0 / (edges[2:] - edges[:-2]))


@lru_cache(maxsize=32)
def default_fft_size(
    sample_rate: int, window: int, num_bands: int, min_hz: float, max_hz: float
) -> int:
    """The smallest power of two that has room for the window and leaves no band empty.

    An empty band would be a feature that is always the logarithm's floor.
    """
    size = 1 << max(1, (window - 1).bit_length())
    for fft_size in (size * 2**power for power in range(MAX_FFT_FACTOR.bit_length())):
        filters = mel_filters(sample_rate, fft_size, num_bands, min_hz, max_hz)
        if filters.any(axis=0).all():
            return fft_size
    raise _empty_band(sample_rate, num_bands, min_hz, max_hz)


@lru_cache(maxsize=32)
def _filter_tensor(
    sample_rate: int,
    fft_size: int,
    num_bands: int,
    min_hz: float,
    max_hz: float,
    *,
    dtype: torch.dtype,
) -> Tensor:
    filters = mel_filters(sample_rate, fft_size, num_bands, min_hz, max_hz)
    if not filters.any(axis=0).all():
        raise _empty_band(sample_rate, num_bands, min_hz, max_hz, fft_size=fft_size)
    return torch.from_numpy(filters).to(dtype)


def _empty_band(
    sample_rate: int, num_bands: int, min_hz: float, max_hz: float, *, fft_size: int | None = None
) -> RegardError:
    size = "" if fft_size is None else f" with fft_size={fft_size}"
    way_out = "Lower num_bands" + ("" if fft_size is None else ", or raise fft_size")
    return RegardError(
        f"num_bands={num_bands}: between {min_hz:g} and {max_hz:g} Hz at {sample_rate:,} Hz{size}, a band "
        f"is so narrow that no frequency lies in it. {way_out}."
    )


def normalize_utterance(
    features: Float[np.ndarray, "frames bands"],
) -> Float32[np.ndarray, "frames bands"]:
    """Each band with mean 0 and standard deviation 1 over the frames of the utterance.

    >>> normalize_utterance(np.array([[1.0, 5.0], [3.0, 5.0]])).tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    """
    centred = features - features.mean(axis=0, dtype=np.float64)
    deviation = np.sqrt(np.square(centred).mean(axis=0))
    return (centred / np.maximum(deviation, MIN_DEVIATION)).astype(np.float32)


def normalize_level(
    features: Float[np.ndarray, "frames bands"],
) -> Float32[np.ndarray, "frames bands"]:
    """All values together with mean 0 and standard deviation 1, so that the shape of the spectrum stays.

    >>> normalize_level(np.array([[1.0, 5.0], [1.0, 5.0]])).tolist()
    [[-1.0, 1.0], [-1.0, 1.0]]
    """
    centred = features - features.mean(dtype=np.float64)
    deviation = np.sqrt(np.square(centred).mean())
    return (centred / np.maximum(deviation, MIN_DEVIATION)).astype(np.float32)
