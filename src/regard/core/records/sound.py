"""Sound records: the spectrogram of a recording, its words, and its audio.

The spectrogram is one byte per cell, from 0 (quiet) to 255 (loud), band by band, the lowest band first.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

from regard.core.errors import RegardError
from regard.core.records.record import Record


@dataclass(frozen=True, kw_only=True)
class WordRecord:
    """A word, and when it begins and ends, in seconds."""

    word: str
    start: float
    end: float


@dataclass(frozen=True, kw_only=True)
class SoundRecord(Record):
    """What a page shows of a recording.

    Args:
        name: Name of the recording.
        spectrogram: The cells in base64.
        num_bands: Number of bands; those of MFCC are coefficients.
        bands: What the bands are, such as "log-mel bands".
        low, high: The ends of their axis, such as "0 Hz" and "4 kHz".
        frames: Number of frames before columns were averaged.
        seconds: Duration of all frames; None of features whose recording is not known.
        words: The words whose borders are known.
        audio: A WAV file of at most a few seconds; JSON does not have it.
        note: A remark on the audio, such as why there is none.
    """

    name: str
    spectrogram: str
    num_bands: int
    bands: str
    low: str
    high: str
    frames: int
    seconds: float | None = None
    words: tuple[WordRecord, ...] = ()
    audio: bytes | None = None
    note: str = ""

    def __post_init__(self) -> None:
        if self.num_bands < 1 or self.frames < 1 or not self.levels()[0]:
            raise RegardError(
                f"The sound has {self.num_bands} bands and {self.frames} frames. Pass at least one."
            )
        if self.seconds is not None and not self.seconds > 0:
            raise RegardError(f"The sound lasts {self.seconds} seconds. Pass a number above 0.")

    def levels(self) -> list[bytes]:
        """The rows of the spectrogram, the highest band first, as it is drawn."""
        try:
            cells = base64.b64decode(self.spectrogram, validate=True)
        except binascii.Error as error:
            raise RegardError(f"The spectrogram is not base64: {error}.") from error
        width, rest = divmod(len(cells), self.num_bands)
        if rest:
            raise RegardError(
                f"The spectrogram has {len(cells)} cells, which are not {self.num_bands} equal bands."
            )
        rows = [cells[row * width : (row + 1) * width] for row in range(self.num_bands)]
        return rows[::-1]

    def column_names(self, count: int) -> tuple[str, ...]:
        """Names of `count` equal parts: when each begins."""
        if self.seconds is None:
            return tuple(f"frame {round(self.frames * part / count)}" for part in range(count))
        return tuple(f"{self.seconds * part / count:.2f} s" for part in range(count))
