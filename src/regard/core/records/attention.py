"""Attention records: alignment maps of one input, and the tree of a recursive autoencoder.

Records hold plain values, so a figure can be drawn without the model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from regard.core.errors import RegardError
from regard.core.records.record import Record
from regard.core.records.sound import SoundRecord

Map = tuple[tuple[tuple[float, ...], ...], ...]


@dataclass(frozen=True, kw_only=True)
class AlignmentRecord(Record):
    """Attention maps of one input by name, each of shape (heads, output tokens, source tokens).

    `maps[name][head][i][j]` is the weight of source token j while output token i was generated. Every
    map has at least one head; weights are finite and may be negative. The source tokens of a recording,
    which is in `sound`, are equal parts of its time.
    """

    source_tokens: tuple[str, ...]
    output_tokens: tuple[str, ...]
    maps: dict[str, Map]
    title: str
    prediction: str = ""
    reference: str = ""
    sound: SoundRecord | None = None

    def __post_init__(self) -> None:
        if not (self.source_tokens and self.output_tokens):
            raise RegardError(
                f"An alignment has {len(self.source_tokens)} source tokens and "
                f"{len(self.output_tokens)} output tokens; it needs at least one of each."
            )
        if not self.maps:
            raise RegardError("The alignment has no maps. Pass at least one, under a name.")
        for name, heads in self.maps.items():
            self._validate_map(name, heads)

    def _validate_map(self, name: str, heads: Map) -> None:
        rows, columns = len(self.output_tokens), len(self.source_tokens)
        if not heads:
            raise RegardError(f"Map '{name}' has no heads. Pass at least one.")
        for number, head in enumerate(heads, start=1):
            where = f"Map '{name}', head {number}"
            if len(head) != rows:
                raise RegardError(
                    f"{where} has {len(head)} rows for {rows} output tokens. "
                    "Pass one row per output token."
                )
            for row in head:
                if len(row) != columns:
                    raise RegardError(
                        f"{where} has a row of {len(row)} weights for {columns} source tokens. "
                        "Pass one weight per source token."
                    )
                invalid = [weight for weight in row if not math.isfinite(weight)]
                if invalid:
                    raise RegardError(
                        f"{where} has the weight {invalid[0]}; weights must be finite. "
                        "Look for an overflow where they were computed."
                    )


@dataclass(frozen=True, kw_only=True)
class TreeRecord(Record):
    """Binary tree over the tokens of one text, with a prediction at every node.

    Nodes are numbered: leaves from left to right, then merges in the order they were made.

        leaves  very good film     merges  (0, 1), (3, 2)     → ((very good) film)

    Args:
        leaves: Tokens of the text.
        merges: The two children of each inner node; they are adjacent spans.
        errors: Reconstruction error of each merge.
        predictions: Predicted class of each node.
        confidences: Probability of that class, from 0 to 1.
        title: Title of the figure.
    """

    leaves: tuple[str, ...]
    merges: tuple[tuple[int, int], ...]
    errors: tuple[float, ...]
    predictions: tuple[str, ...]
    confidences: tuple[float, ...]
    title: str

    def __post_init__(self) -> None:
        size = len(self.leaves)
        if not size:
            raise RegardError("The tree has no leaves. Pass at least one.")
        for name in ("merges", "errors"):
            self._validate_length(name, size - 1, of=f"{size} leaves")
        for name in ("predictions", "confidences"):
            self._validate_length(name, self.num_nodes, of=f"{self.num_nodes} nodes")
        for error in self.errors:
            if not math.isfinite(error):
                raise RegardError(
                    f"The tree has the error {error}; errors must be finite. "
                    "Look for an overflow where they were computed."
                )
        for confidence in self.confidences:
            if not 0 <= confidence <= 1:
                raise RegardError(
                    f"The tree has the confidence {confidence}. Pass probabilities from 0 to 1."
                )
        self._validate_merges()

    def _validate_length(self, name: str, expected: int, *, of: str) -> None:
        values: Sequence[object] = getattr(self, name)
        if len(values) != expected:
            raise RegardError(f"The tree has {len(values)} {name} for {of}. Pass {expected}.")

    def _validate_merges(self) -> None:
        spans = [(index, index + 1) for index in range(len(self.leaves))]
        parents = [0] * self.num_nodes
        for number, (left, right) in enumerate(self.merges, start=len(self.leaves)):
            known = all(0 <= child < number and not parents[child] for child in (left, right))
            if not known or spans[left][1] != spans[right][0]:
                raise RegardError(
                    f"Merge {number} of the tree is of {left} and {right}, which are not adjacent nodes "
                    "without a parent. Number leaves from left to right, then merges in order."
                )
            parents[left] = parents[right] = number
            spans.append((spans[left][0], spans[right][1]))

    @property
    def num_nodes(self) -> int:
        """Number of leaves and merges."""
        return 2 * len(self.leaves) - 1

    @property
    def levels(self) -> list[int]:
        """Height of each node: 0 for a leaf, one more than the higher child for a merge."""
        levels = [0] * len(self.leaves)
        for left, right in self.merges:
            levels.append(1 + max(levels[left], levels[right]))
        return levels
