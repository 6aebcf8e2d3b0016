"""Records of `regard look`: the attention of a model on one input, by method, layer and head.

Maps are bytes in base64, so that hundreds of heads fit into a page. Every head has a tile of at most
64×64 cells; short maps and the chosen heads are exact, others keep the largest entries of each row.
"""

from __future__ import annotations

import base64
import math
import struct
from array import array
from dataclasses import dataclass, field
from itertools import count

from regard.core.errors import RegardError
from regard.core.records.attention import AlignmentRecord, TreeRecord
from regard.core.records.document import DocumentRecord, Estimate
from regard.core.records.image import ClassifiedImage
from regard.core.records.record import Record
from regard.core.records.sound import SoundRecord
from regard.core.registry import lookup

MAX_TILE, TOP_ENTRIES = 64, 16


@dataclass(frozen=True, kw_only=True)
class Axis:
    """What the rows or columns of a map are.

    Args:
        tokens: Names of the positions: tokens, "row 1, column 2" of patches, "0.12 s" of frames.
        grid: Rows and columns of the patches of an image, after `prefix` other positions (a class token).
    """

    tokens: tuple[str, ...]
    grid: tuple[int, int] | None = None
    prefix: int = 0


@dataclass(frozen=True, kw_only=True)
class Method:
    """A way to measure what a position contributes.

    Args:
        name: Its key, such as "value_zeroing".
        title: Its name on a page.
        meaning: One sentence.
        is_signed: Whether values may be negative.
        is_heuristic: Whether it is no exact property of the model, such as rollout.
    """

    name: str
    title: str
    meaning: str
    is_signed: bool = False
    is_heuristic: bool = False


@dataclass(frozen=True, kw_only=True)
class LayerMaps:
    """The maps of one layer by one method.

    Args:
        layer: "encoder/0", "cross/1", …
        method: Name of the method.
        queries, keys: Names of the axes.
        heads: Names of the heads: "1", "2", …, or "all".
        shape: Rows and columns of the full maps.
        limits: Largest absolute value of each head. Stored values are fractions of it, from −1 to 1.
        tile_shape: Rows and columns of a tile. A cell is the entry of largest absolute value in its block;
            all blocks have the same size, but those at the end may be smaller.
        tiles: int8, heads × rows × columns; 127 is the limit.
        exact: Heads with a full map, in the order of `exact_values`.
        exact_values: float16, little-endian, heads × rows × columns; fractions of the limit.
        top_indices: uint16, of the other heads in order, rows × `TOP_ENTRIES`: the columns of the largest
            entries of each row.
        top_values: float16, as `top_indices`; fractions of the limit. Padded with 0 after fewer columns.
    """

    layer: str
    method: str
    queries: str
    keys: str
    heads: tuple[str, ...]
    shape: tuple[int, int]
    limits: tuple[float, ...]
    tile_shape: tuple[int, int]
    tiles: str
    exact: tuple[str, ...] = ()
    exact_values: str = ""
    top_indices: str = ""
    top_values: str = ""

    def __post_init__(self) -> None:
        for limit in self.limits:
            if not (math.isfinite(limit) and limit >= 0):
                raise RegardError(
                    f"The layer {self.layer} has a map with the limit {limit}; maps must be finite. Look "
                    "for an overflow where they were computed."
                )
        expected = len(self.heads) * self.tile_shape[0] * self.tile_shape[1]
        if len(base64.b64decode(self.tiles)) != expected or len(self.limits) != len(self.heads):
            raise RegardError(
                f"The layer {self.layer} has {len(self.heads)} heads with tiles of {self.tile_shape}; its "
                f"tiles are not {expected} bytes, or its limits not {len(self.heads)}."
            )

    def tile(self, head: str) -> list[list[float]]:
        """The tile of a head, in units of the method."""
        number, (rows, columns) = self._number(head), self.tile_shape
        cells = array("b", base64.b64decode(self.tiles))
        first, scale = number * rows * columns, self.limits[number] / 127
        return [
            [cells[first + row * columns + column] * scale for column in range(columns)]
            for row in range(rows)
        ]

    def matrix(self, head: str) -> list[list[float]]:
        """The map of a head, in units of the method: exact, or with 0 but for the largest of each row."""
        rows, columns = self.shape
        limit = self.limits[self._number(head)]
        if head in self.exact:
            start = self.exact.index(head) * rows * columns
            values = _halves(self.exact_values, start, rows * columns)
            return [
                [limit * value for value in values[row * columns : (row + 1) * columns]]
                for row in range(rows)
            ]
        others = [each for each in self.heads if each not in self.exact]
        start, size = others.index(head) * rows * TOP_ENTRIES, rows * TOP_ENTRIES
        indices = struct.unpack_from(f"<{size}H", base64.b64decode(self.top_indices), 2 * start)
        values = _halves(self.top_values, start, size)
        found = [[0.0] * columns for _ in range(rows)]
        for number, (column, value) in enumerate(zip(indices, values, strict=True)):
            if value:
                found[number // TOP_ENTRIES][column] = limit * value
        return found

    def _number(self, head: str) -> int:
        """The number of a head."""
        number: int = lookup(
            f"head of {self.layer}", head, dict(zip(self.heads, count(), strict=False))
        )
        return number


def _halves(text: str, start: int, count: int) -> tuple[float, ...]:
    """float16 values, `count` of them from `start`."""
    return struct.unpack_from(f"<{count}e", base64.b64decode(text), 2 * start)


@dataclass(frozen=True, kw_only=True)
class HeadScores:
    """How much of each known pattern a head of self-attention has, from 0 to 1."""

    layer: str
    head: str
    scores: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class FaithfulnessCurves:
    """What happens to the prediction when inputs are removed, by method and at random.

    Args:
        method: Name of the method that ranks the inputs.
        fractions: Removed (deletion) or kept (sufficiency) fractions of the input.
        deletion, random_deletion: Mean score after removing the highest ranked, or random, fractions.
        sufficiency, random_sufficiency: Mean score with only the highest ranked, or random, fractions.
        deletion_gain: Area between random and method: above 0, what ranks high matters more than chance.
        sufficiency_gain: Area between method and random.
        score: What the score is, such as "probability of the predicted label".
        items: Number of inputs, of which split or file.
    """

    method: str
    fractions: tuple[float, ...]
    deletion: tuple[float, ...]
    random_deletion: tuple[float, ...]
    sufficiency: tuple[float, ...]
    random_sufficiency: tuple[float, ...]
    deletion_gain: Estimate
    sufficiency_gain: Estimate
    score: str
    items: int
    data: str


@dataclass(frozen=True, kw_only=True)
class OutputToken:
    """A token that the model wrote, and its log-probability."""

    token: str
    log_probability: float


@dataclass(frozen=True, kw_only=True)
class LookRecord(Record):
    """The attention of one model on one input.

    Args:
        title: The input, or its name.
        model: Name of the model, such as the folder of its run.
        description: What kind of model it is.
        prediction: The label, the output or the continuation.
        probabilities: Of the labels, or of the most likely next tokens.
        reference: The correct output, if known.
        axes: "input"; of a decoder also "output" and "decoder_input", which is the output shifted by one:
            row i of its self-attention predicts token i of "output"; "hops" of pooling. A language model
            has "input" only: the text and its continuation.
        methods: The methods, the default first.
        maps: One per layer and method.
        importance: By method, one value per position of the axis "input".
        target: What gradients and attributions explain, such as "log-probability of 'positive'".
        completeness_error: Of the attribution, relative to the explained value.
        patterns: Head patterns of self-attention.
        faithfulness: Curves by method; empty if not measured, for the reason in `faithfulness_note`.
        output_tokens: Token by token, of a model that writes text.
        document, tree, image, sound, alignment: Further views of the same input.
        notes: What was left out, and other remarks.
    """

    title: str
    model: str
    description: str = ""
    prediction: str = ""
    probabilities: dict[str, float] = field(default_factory=dict)
    reference: str | None = None
    axes: dict[str, Axis] = field(default_factory=dict)
    methods: tuple[Method, ...] = ()
    maps: tuple[LayerMaps, ...] = ()
    importance: dict[str, tuple[float, ...]] = field(default_factory=dict)
    target: str = ""
    completeness_error: float | None = None
    patterns: tuple[HeadScores, ...] = ()
    faithfulness: tuple[FaithfulnessCurves, ...] = ()
    faithfulness_note: str = ""
    output_tokens: tuple[OutputToken, ...] = ()
    document: DocumentRecord | None = None
    tree: TreeRecord | None = None
    image: ClassifiedImage | None = None
    sound: SoundRecord | None = None
    alignment: AlignmentRecord | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for each in self.maps:
            sizes = tuple(len(self.axes[name].tokens) for name in (each.queries, each.keys))
            if each.shape != sizes:
                raise RegardError(
                    f"The maps of {each.layer} are {each.shape[0]}×{each.shape[1]}, but the axes "
                    f"'{each.queries}' and '{each.keys}' have {sizes[0]} and {sizes[1]} positions."
                )

    def layer_maps(self, layer: str, method: str) -> LayerMaps | None:
        """The maps of a layer by a method, if it has them."""
        return next(
            (each for each in self.maps if (each.layer, each.method) == (layer, method)), None
        )
