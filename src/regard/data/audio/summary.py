"""Statistics of clips: hours, durations, sample rates, speakers, splits, duplicates across splits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from regard.core.formatting import counted, duration_text, integer_text
from regard.data.audio.clips import AudioClip
from regard.data.audio.wav import validate_wav

MAX_LISTED = 10
SPLIT_ORDER = ("train", "validation", "test")


class AudioSummary:
    """Statistics of the clips that were added."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.sample_rates: Counter[int] = Counter()
        self.speakers: Counter[str] = Counter()
        self.splits: Counter[str] = Counter()
        self._splits_of: dict[str, set[str]] = {}

    def add(self, clip: AudioClip, *, split: str | None = None, key: str) -> None:
        """Count one clip; clips with the same `key` are duplicates."""
        self.seconds.append(clip.seconds())
        headers = (validate_wav(part.path, max_seconds=clip.max_seconds) for part in clip.parts)
        self.sample_rates.update({header.sample_rate for header in headers})
        if clip.speaker:
            self.speakers[clip.speaker] += 1
        if split is not None:
            self.splits[split] += 1
            self._splits_of.setdefault(key, set()).add(split)

    @property
    def in_several_splits(self) -> int:
        """Number of distinct recordings that occur in more than one split."""
        return sum(len(splits) > 1 for splits in self._splits_of.values())

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

    def _ordered_splits(self) -> list[tuple[str, int]]:
        return [(name, self.splits[name]) for name in SPLIT_ORDER if self.splits[name]]

    def as_json(self) -> dict[str, Any]:
        """All statistics by name."""
        return {
            "hours": sum(self.seconds) / 3600,
            "seconds": self.durations(),
            "sample_rates": {str(rate): count for rate, count in sorted(self.sample_rates.items())},
            "speakers": dict(sorted(self.speakers.items())),
            "splits": dict(self._ordered_splits()),
            "recordings_in_several_splits": self.in_several_splits,
        }

    def lines(self) -> list[str]:
        """The statistics for a terminal."""
        rates = sorted(self.sample_rates.items())
        found = [f"duration: {duration_text(sum(self.seconds))}"]
        if len(rates) == 1:
            found.append(f"sample rate: {integer_text(rates[0][0])} Hz")
        elif rates:
            shown = _listed((f"{integer_text(rate)} Hz", count) for rate, count in rates)
            found.append(f"sample rates: {shown}")
        if self.speakers:
            ordered = sorted(self.speakers.items(), key=lambda item: (-item[1], item[0]))
            found.append(f"{counted(len(ordered), 'speaker')}: {_listed(ordered)}")
        if self.splits:
            twice = counted(self.in_several_splits, "recording")
            verb = "occurs" if self.in_several_splits == 1 else "occur"
            found.append(f"splits: {_listed(self._ordered_splits())}; {twice} {verb} in several")
        return found


def _listed(counts: Iterable[tuple[str, int]]) -> str:
    shown = [f"{name} {integer_text(count)}" for name, count in counts]
    more = [f"and {len(shown) - MAX_LISTED} more"] if len(shown) > MAX_LISTED else []
    return ", ".join([*shown[:MAX_LISTED], *more])
