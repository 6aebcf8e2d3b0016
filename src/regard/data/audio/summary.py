"""Statistics of clips: hours, durations, sample rates, speakers, splits, duplicates across splits."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from regard.core.formatting import counted, duration_text, integer_text
from regard.data.audio.clips import AudioClip
from regard.data.audio.wav import validate_wav
from regard.data.splits import SplitCounts, listed_counts


class AudioSummary:
    """Statistics of the clips that were added."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.sample_rates: Counter[int] = Counter()
        self.speakers: Counter[str] = Counter()
        self.splits = SplitCounts()

    def add(self, clip: AudioClip, *, split: str | None = None, key: str) -> None:
        """Count one clip; clips with the same `key` are duplicates."""
        self.seconds.append(clip.seconds())
        headers = (validate_wav(part.path, max_seconds=clip.max_seconds) for part in clip.parts)
        self.sample_rates.update({header.sample_rate for header in headers})
        if clip.speaker:
            self.speakers[clip.speaker] += 1
        self.splits.add(split, key=key)

    def durations(self) -> dict[str, float]:
        """Summary of the durations in seconds; empty without clips."""
        if not self.seconds:
            return {}
        seconds = np.array(self.seconds)
        return {
            "min": float(seconds.min()),
            "median": float(np.median(seconds)),
            "mean": float(seconds.mean()),
            "quantile_95": float(np.quantile(seconds, 0.95, method="inverted_cdf")),
            "max": float(seconds.max()),
        }

    def as_json(self) -> dict[str, Any]:
        """All statistics by name."""
        return {
            "hours": sum(self.seconds) / 3600,
            "seconds": self.durations(),
            "sample_rates": {str(rate): count for rate, count in sorted(self.sample_rates.items())},
            "speakers": dict(sorted(self.speakers.items())),
            "splits": dict(self.splits.ordered()),
            "recordings_in_several_splits": self.splits.in_several,
        }

    def lines(self) -> list[str]:
        """The statistics for a terminal."""
        rates = sorted(self.sample_rates.items())
        found = [f"duration: {duration_text(sum(self.seconds))}"]
        if len(rates) == 1:
            found.append(f"sample rate: {integer_text(rates[0][0])} Hz")
        elif rates:
            shown = listed_counts((f"{integer_text(rate)} Hz", count) for rate, count in rates)
            found.append(f"sample rates: {shown}")
        if self.speakers:
            ordered = sorted(self.speakers.items(), key=lambda item: (-item[1], item[0]))
            found.append(f"{counted(len(ordered), 'speaker')}: {listed_counts(ordered)}")
        return found + self.splits.lines("recording")
