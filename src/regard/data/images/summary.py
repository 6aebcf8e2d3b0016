"""Statistics of images: sizes, channels, splits, duplicates across splits."""

from __future__ import annotations

from collections import Counter
from typing import Any

from regard.core.formatting import counted
from regard.data.images.pixels import ImageFacts
from regard.data.splits import SplitCounts, listed_counts

COLOURS = {1: "grey", 3: "colour"}


class ImageSummary:
    """Statistics of the images that were added."""

    def __init__(self) -> None:
        self.sizes: Counter[tuple[int, int]] = Counter()
        self.channels: Counter[int] = Counter()
        self.splits = SplitCounts()

    def add(self, facts: ImageFacts, *, split: str | None = None) -> None:
        """Count one image; images with the same key are duplicates."""
        self.sizes[facts.height, facts.width] += 1
        self.channels[facts.channels] += 1
        self.splits.add(split, key=facts.key)

    def as_json(self) -> dict[str, Any]:
        """All statistics by name; sizes are [height, width, images]."""
        return {
            "sizes": [[*size, count] for size, count in self.sizes.most_common()],
            "channels": {str(number): count for number, count in sorted(self.channels.items())},
            "splits": dict(self.splits.ordered()),
            "images_in_several_splits": self.splits.in_several,
        }

    def lines(self) -> list[str]:
        """The statistics for a terminal."""
        if not self.sizes:
            return []
        sizes = [
            (f"{height}×{width}", count) for (height, width), count in self.sizes.most_common()
        ]
        colours = [(COLOURS[number], count) for number, count in sorted(self.channels.items())]
        shown = sizes[0][0] if len(sizes) == 1 else listed_counts(sizes)
        found = [f"{counted(len(sizes), 'size')} (height×width): {shown}"]
        found.append(f"channels: {colours[0][0] if len(colours) == 1 else listed_counts(colours)}")
        return found + self.splits.lines("image")
