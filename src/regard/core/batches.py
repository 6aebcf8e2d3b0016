"""What a batch holds: an input (tokens, frames or an image per row) and a target to predict from it.

    TokenInput      token ids                     SequenceTarget   START … END, predicted token by token
    FrameInput      real-valued vectors           ClassTarget      a class per row
    ImageInput      pixels                        PositionTarget   a class per position
                                                  ValueTarget      a number per row

Padding comes last in every row; lengths count everything but padding. Values are checked when a batch is
built, so that models and losses never read them: `padded` and the positions to predict are known by then.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple, Self

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.core.errors import RegardError
from regard.core.masks import NO_MASK, Mask

# Special tokens, the same ids in every vocabulary.
PAD = 0
START = 1
END = 2
UNKNOWN = 3

SPECIAL_TOKENS = ("<pad>", "<start>", "<end>", "<unknown>")
IGNORE_INDEX = -1  # the class of a row or position without one


@dataclass(frozen=True)
class TokenSpec:
    """What a model must know of its token input."""

    vocabulary: int


@dataclass(frozen=True)
class FrameSpec:
    """What a model must know of its real-valued input."""

    features: int


@dataclass(frozen=True)
class ImageSpec:
    """What a model must know of its images."""

    channels: int
    height: int
    width: int


InputSpec = TokenSpec | FrameSpec | ImageSpec


class _Tensors:
    """A dataclass of tensors with a common batch dimension; the first one has its shape."""

    def _tensors(self) -> dict[str, Tensor]:
        """The tensors that it is built from."""
        names = [each.name for each in fields(self) if each.init]  # type: ignore[arg-type]
        values = {name: getattr(self, name) for name in names}
        return {name: value for name, value in values.items() if isinstance(value, Tensor)}

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows, then the padded length, and the features or pixels."""
        return tuple(next(iter(self._tensors().values())).shape)

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return next(iter(self._tensors().values())).device

    def to(self, device: torch.device | str) -> Self:
        """On another device."""
        moved = {name: tensor.to(device) for name, tensor in self._tensors().items()}
        return replace(self, **moved)  # type: ignore[type-var]

    def select(self, rows: slice | Tensor) -> Self:
        """Some rows."""
        chosen = {name: tensor[rows] for name, tensor in self._tensors().items()}
        return replace(self, **chosen)  # type: ignore[type-var]

    @property
    def num_positions(self) -> int:
        """Positions that a token budget counts: none of a class or a number."""
        return 0


class _Sequences(_Tensors):
    """Padded sequences; `padded` says whether any row is, and None that it is to be found out."""

    lengths: Int[Tensor, " batch"]
    padded: bool | None

    def __post_init__(self) -> None:
        """Require one length per row, from 1 to the padded length; sets `padded`."""
        what, values = next(iter(self._tensors().items()))
        if self.lengths.shape != values.shape[:1]:
            raise RegardError(
                f"{what} have {values.shape[0]} rows and lengths the shape {tuple(self.lengths.shape)}: "
                "pass one length per row."
            )
        if self.padded is None and self.lengths.numel():
            shortest, longest = (int(length) for length in self.lengths.aminmax())
            if shortest < 1 or longest > values.shape[1]:
                raise RegardError(
                    f"lengths range from {shortest} to {longest}, but {what} are padded to "
                    f"{values.shape[1]}: a length must be from 1 to that. Remove empty rows."
                )
            object.__setattr__(self, "padded", shortest < values.shape[1])

    def select(self, rows: slice | Tensor) -> Self:
        """Some rows, without unneeded padding."""
        chosen = {name: tensor[rows] for name, tensor in self._tensors().items()}
        width = int(chosen["lengths"].max()) if chosen["lengths"].numel() else 0
        cut = {name: each[:, :width] if each.ndim > 1 else each for name, each in chosen.items()}
        return replace(self, padded=None, **cut)  # type: ignore[type-var]

    @property
    def mask(self) -> Mask:
        """The padding mask; no mask, which is faster, if no row is padded."""
        # Not `Padding`, which checks values: those of lengths were checked when this was built.
        return Mask(lengths=self.lengths) if self.padded else NO_MASK

    @property
    def num_positions(self) -> int:
        """Positions without padding."""
        return int(self.lengths.sum())


@dataclass(frozen=True)
class TokenInput(_Sequences):
    """Texts as token ids: one text per row, or two marked by their segments.

    tokens      START a b END c d END          START a b END PAD PAD PAD
    segments      0   0 0  0  1 1  1             0   0 0  0   0   0   0

    `segments` is the index of each token's sentence, or of its text in a pair of texts.
    """

    tokens: Int[Tensor, "batch length"]
    lengths: Int[Tensor, " batch"]
    segments: Int[Tensor, "batch length"] | None = None
    padded: bool | None = None


@dataclass(frozen=True)
class FrameInput(_Sequences):
    """Sequences of real-valued vectors, such as spectrogram frames; also what a stem returns."""

    frames: Float[Tensor, "batch length features"]
    lengths: Int[Tensor, " batch"]
    padded: bool | None = None


@dataclass(frozen=True)
class ImageInput(_Tensors):
    """Images of one size."""

    pixels: Float[Tensor, "batch channels height width"]

    @property
    def num_positions(self) -> int:
        """The number of images, for a token budget."""
        return len(self.pixels)


Input = TokenInput | FrameInput | ImageInput


@dataclass(frozen=True)
class SequenceTarget(_Sequences):
    """Token sequences with START and END, predicted with teacher forcing.

    tokens    START K AE T END
              START AA K S END

    `index` are the flat positions of `decoder_input` that are not padding; None if nothing is padded.
    """

    tokens: Int[Tensor, "batch length"]
    lengths: Int[Tensor, " batch"]
    padded: bool | None = None
    index: Int[Tensor, " predictions"] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        """Validate, and find the positions to predict."""
        super().__post_init__()
        if self.padded:
            position = torch.arange(self.tokens.shape[1] - 1, device=self.tokens.device)
            index = (position < self.lengths[:, None] - 1).flatten().nonzero()[:, 0]
            object.__setattr__(self, "index", index)

    @property
    def decoder_input(self) -> Int[Tensor, "batch predictions"]:
        """The tokens without the last position (teacher forcing)."""
        return self.tokens[:, :-1]

    @property
    def labels(self) -> Int[Tensor, " predictions"]:
        """The next token after each position of `decoder_input`, row by row, without padding."""
        return self.predicted(self.tokens[:, 1:])

    def predicted(self, x: Tensor) -> Tensor:
        """The positions of x (batch, predictions, …) that are predicted, row by row, without padding."""
        flat = x.flatten(0, 1)
        return flat if self.index is None else flat.index_select(0, self.index)

    @property
    def rows(self) -> Int[Tensor, " predictions"]:
        """The row of each prediction."""
        row = torch.arange(len(self.lengths), device=self.lengths.device)
        return row.repeat_interleave(self.lengths - 1)

    @property
    def num_predictions(self) -> int:
        """All tokens but START."""
        return int(self.lengths.sum()) - self.lengths.numel()

    @property
    def num_positions(self) -> int:
        """As `num_predictions`: predicted tokens count in a token budget."""
        return self.num_predictions


@dataclass(frozen=True)
class ClassTarget(_Tensors):
    """A class per row; IGNORE_INDEX where there is none."""

    labels: Int[Tensor, " batch"]

    @property
    def num_predictions(self) -> int:
        """The number of rows with a class."""
        return int((self.labels != IGNORE_INDEX).sum())


@dataclass(frozen=True)
class ValueTarget(_Tensors):
    """A number per row."""

    values: Float[Tensor, " batch"]

    @property
    def num_predictions(self) -> int:
        """The number of rows."""
        return len(self.values)


@dataclass(frozen=True)
class PositionTarget(_Tensors):
    """A class per position, such as a masked token; IGNORE_INDEX where nothing is predicted.

    `index` are the flat positions that are predicted.
    """

    classes: Int[Tensor, "batch length"]
    index: Int[Tensor, " predictions"] = field(init=False)

    def __post_init__(self) -> None:
        """Find the positions to predict."""
        index = (self.classes.flatten() != IGNORE_INDEX).nonzero()[:, 0]
        object.__setattr__(self, "index", index)

    @property
    def labels(self) -> Int[Tensor, " predictions"]:
        """The classes to predict, row by row."""
        return self.predicted(self.classes)

    def predicted(self, x: Tensor) -> Tensor:
        """The positions of x (batch, length, …) that are predicted, row by row."""
        return x.flatten(0, 1).index_select(0, self.index)

    def cut(self, length: int) -> Self:
        """The first positions of every row, where the others are padding."""
        return replace(self, classes=self.classes[:, :length])

    @property
    def num_predictions(self) -> int:
        """The number of positions with a class."""
        return len(self.index)


class Batch(NamedTuple):
    """Inputs and the targets to predict from them: one of those above, or a task's own."""

    input: Input
    target: Any

    @property
    def num_predictions(self) -> int:
        """The number of predictions that the loss is summed over."""
        return int(self.target.num_predictions)

    @property
    def num_tokens(self) -> int:
        """Input positions and predicted tokens, without padding."""
        return self.input.num_positions + (int(self.target.num_positions) if self.target else 0)

    def to(self, device: torch.device | str) -> Batch:
        """On another device."""
        if self.input.device == torch.device(device):
            return self
        return Batch(self.input.to(device), self.target and self.target.to(device))

    def select(self, rows: slice | Tensor) -> Batch:
        """Some rows, without unneeded padding."""
        chosen, target = self.input.select(rows), self.target
        if target is None or chosen.shape[1:2] == self.input.shape[1:2]:
            return Batch(chosen, target and target.select(rows))
        # The target of each position is cut like the input.
        cut = getattr(target, "cut", None)
        found = target.select(rows) if cut is None else cut(chosen.shape[1]).select(rows)
        return Batch(chosen, found)
