"""What a batch holds: an input (tokens, frames or an image per row) and a target to predict from it.

    TokenInput      token ids                     SequenceTarget   START … END, predicted token by token
    FrameInput      real-valued vectors           ClassTarget      a class per row
    ImageInput      pixels                        PositionTarget   a class per position
                                                  ValueTarget      a number per row

Padding comes last in every row; lengths count everything but padding. Values are checked when a batch is
built, so that models and losses never read them: `padded` and the positions to predict are known by then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.core.errors import RegardError
from regard.core.masks import NO_MASK, Mask, Padding

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
    """A dataclass of tensors with a common batch dimension."""

    def map(self, function: Callable[[Tensor], Tensor]) -> Self:
        """Apply a function to every tensor."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        changed = {name: function(each) for name, each in values.items() if torch.is_tensor(each)}
        return replace(self, **changed)  # type: ignore[type-var]

    def to(self, device: torch.device | str) -> Self:
        """On another device."""
        return self.map(lambda tensor: tensor.to(device))


@dataclass(frozen=True)
class _Sequences(_Tensors):
    """Padded sequences, with their lengths and whether any row is padded (None: found out)."""

    lengths: Int[Tensor, " batch"]
    padded: bool | None

    def _validate(self, values: Tensor, *, what: str) -> None:
        """Require one length per row, from 1 to the padded length; sets `padded`."""
        if self.lengths.shape != values.shape[:1]:
            raise RegardError(
                f"{what} have {values.shape[0]} rows and lengths the shape {tuple(self.lengths.shape)}: "
                "pass one length per row."
            )
        if self.padded is not None:
            return
        padded = False
        if self.lengths.numel():
            shortest, longest = (int(length) for length in self.lengths.aminmax())
            if shortest < 1 or longest > values.shape[1]:
                raise RegardError(
                    f"lengths range from {shortest} to {longest}, but {what} are padded to "
                    f"{values.shape[1]}: a length must be from 1 to that. Remove empty rows."
                )
            padded = shortest < values.shape[1]
        object.__setattr__(self, "padded", padded)

    @property
    def mask(self) -> Mask:
        """The padding mask; no mask, which is faster, if no row is padded."""
        return Padding(self.lengths) if self.padded else NO_MASK

    @property
    def num_positions(self) -> int:
        """Positions without padding."""
        return int(self.lengths.sum())


@dataclass(frozen=True, init=False)
class TokenInput(_Sequences):
    """Texts as token ids: one text per row, or two marked by their segments.

    tokens      START a b END c d END          START a b END PAD PAD PAD
    segments      0   0 0  0  1 1  1             0   0 0  0   0   0   0

    `segments` is the index of each token's sentence, or of its text in a pair of texts.
    """

    tokens: Int[Tensor, "batch length"]
    segments: Int[Tensor, "batch length"] | None

    def __init__(
        self,
        tokens: Int[Tensor, "batch length"],
        lengths: Int[Tensor, " batch"],
        segments: Int[Tensor, "batch length"] | None = None,
        padded: bool | None = None,
    ) -> None:
        _set(self, tokens=tokens, lengths=lengths, segments=segments, padded=padded)
        self._validate(tokens, what="tokens")

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and padded length."""
        return tuple(self.tokens.shape)

    def select(self, rows: slice | Tensor) -> Self:
        """Some rows, without unneeded padding."""
        lengths = self.lengths[rows]
        width = int(lengths.max()) if lengths.numel() else 0
        segments = None if self.segments is None else self.segments[rows][:, :width]
        return type(self)(self.tokens[rows][:, :width], lengths, segments)


@dataclass(frozen=True, init=False)
class FrameInput(_Sequences):
    """Sequences of real-valued vectors, such as spectrogram frames; also what a stem returns."""

    frames: Float[Tensor, "batch length features"]

    def __init__(
        self,
        frames: Float[Tensor, "batch length features"],
        lengths: Int[Tensor, " batch"],
        padded: bool | None = None,
    ) -> None:
        _set(self, frames=frames, lengths=lengths, padded=padded)
        self._validate(frames, what="frames")

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows, padded length and features."""
        return tuple(self.frames.shape)

    def select(self, rows: slice | Tensor) -> Self:
        """Some rows, without unneeded padding."""
        lengths = self.lengths[rows]
        width = int(lengths.max()) if lengths.numel() else 0
        return type(self)(self.frames[rows][:, :width], lengths)


@dataclass(frozen=True)
class ImageInput(_Tensors):
    """Images of one size."""

    pixels: Float[Tensor, "batch channels height width"]

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows, channels, height and width."""
        return tuple(self.pixels.shape)

    @property
    def num_positions(self) -> int:
        """The number of images, for a token budget."""
        return len(self.pixels)

    def select(self, rows: slice | Tensor) -> Self:
        """Some rows."""
        return type(self)(self.pixels[rows])


Input = TokenInput | FrameInput | ImageInput


def _set(target: object, **values: object) -> None:
    for name, value in values.items():
        object.__setattr__(target, name, value)


@runtime_checkable
class Target(Protocol):
    """What a model is to predict from an input. A task may define its own."""

    @property
    def num_predictions(self) -> int:
        """The number of predictions that the loss is summed over."""
        ...

    @property
    def num_positions(self) -> int:
        """Positions that a token budget counts beside those of the input."""
        ...

    def to(self, device: torch.device | str) -> Self:
        """On another device."""
        ...

    def select(self, rows: slice | Tensor) -> Self:
        """Some rows, without unneeded padding."""
        ...


@dataclass(frozen=True, init=False)
class SequenceTarget(_Sequences):
    """Token sequences with START and END, predicted with teacher forcing.

    tokens    START K AE T END
              START AA K S END
    """

    tokens: Int[Tensor, "batch length"]
    index: Int[Tensor, " predictions"] | None

    def __init__(
        self,
        tokens: Int[Tensor, "batch length"],
        lengths: Int[Tensor, " batch"],
        padded: bool | None = None,
    ) -> None:
        _set(self, tokens=tokens, lengths=lengths, padded=padded, index=None)
        self._validate(tokens, what="target tokens")
        if self.padded:
            is_predicted = torch.arange(tokens.shape[1] - 1, device=tokens.device) < (
                lengths[:, None] - 1
            )
            _set(self, index=is_predicted.flatten().nonzero()[:, 0])

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and padded length, START included."""
        return tuple(self.tokens.shape)

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
        return torch.arange(len(self.lengths), device=self.lengths.device).repeat_interleave(
            self.lengths - 1
        )

    @property
    def num_predictions(self) -> int:
        """All tokens but START."""
        return int(self.lengths.sum()) - self.lengths.numel()

    @property
    def num_positions(self) -> int:
        """As `num_predictions`: predicted tokens count in a token budget."""
        return self.num_predictions

    def select(self, rows: slice | Tensor) -> Self:
        """Some rows, without unneeded padding."""
        lengths = self.lengths[rows]
        width = int(lengths.max()) if lengths.numel() else 0
        return type(self)(self.tokens[rows][:, :width], lengths)

    def to(self, device: torch.device | str) -> Self:
        """On another device."""
        return type(self)(self.tokens.to(device), self.lengths.to(device))


@dataclass(frozen=True)
class ClassTarget(_Tensors):
    """A class per row; IGNORE_INDEX where there is none."""

    labels: Int[Tensor, " batch"]

    @property
    def num_predictions(self) -> int:
        """The number of rows with a class."""
        return int((self.labels != IGNORE_INDEX).sum())

    @property
    def num_positions(self) -> int:
        """None beside the input's."""
        return 0

    def select(self, rows: slice | Tensor) -> Self:
        """Some rows."""
        return type(self)(self.labels[rows])


@dataclass(frozen=True)
class ValueTarget(_Tensors):
    """A number per row."""

    values: Float[Tensor, " batch"]

    @property
    def num_predictions(self) -> int:
        """The number of rows."""
        return len(self.values)

    @property
    def num_positions(self) -> int:
        """None beside the input's."""
        return 0

    def select(self, rows: slice | Tensor) -> Self:
        """Some rows."""
        return type(self)(self.values[rows])


@dataclass(frozen=True, init=False)
class PositionTarget(_Tensors):
    """A class per position, such as a masked token; IGNORE_INDEX where nothing is predicted."""

    classes: Int[Tensor, "batch length"]
    index: Int[Tensor, " predictions"]

    def __init__(self, classes: Int[Tensor, "batch length"]) -> None:
        index = (classes.flatten() != IGNORE_INDEX).nonzero()[:, 0]
        _set(self, classes=classes, index=index)

    @property
    def labels(self) -> Int[Tensor, " predictions"]:
        """The classes to predict, row by row."""
        return self.predicted(self.classes)

    def predicted(self, x: Tensor) -> Tensor:
        """The positions of x (batch, length, …) that are predicted, row by row."""
        return x.flatten(0, 1).index_select(0, self.index)

    @property
    def num_predictions(self) -> int:
        """The number of positions with a class."""
        return len(self.index)

    @property
    def num_positions(self) -> int:
        """None beside the input's."""
        return 0

    def select(self, rows: slice | Tensor) -> Self:
        """Some rows; the caller removes padding."""
        return type(self)(self.classes[rows])

    def to(self, device: torch.device | str) -> Self:
        """On another device."""
        return type(self)(self.classes.to(device))


class Batch(NamedTuple):
    """Inputs and the targets to predict from them."""

    input: Input
    target: Any

    @property
    def num_predictions(self) -> int:
        """The number of predictions that the loss is summed over."""
        return int(self.target.num_predictions)

    @property
    def num_tokens(self) -> int:
        """Input positions and predicted tokens, without padding."""
        return self.input.num_positions + int(self.target.num_positions)

    def to(self, device: torch.device | str) -> Batch:
        """On another device."""
        return Batch(self.input.to(device), self.target.to(device))

    def select(self, rows: slice | Tensor) -> Batch:
        """Some rows, without unneeded padding."""
        return Batch(self.input.select(rows), self.target.select(rows))


# To be removed: the batches of tasks that do not use `Batch` yet.


class PairBatch(NamedTuple):
    """Source and target sequences, for encoder–decoder models and language models.

    source   c a t END            target   START K AE T END
    source   o x END PAD          target   START AA K S END
    """

    source: Int[Tensor, "batch source_length"]
    source_lengths: Int[Tensor, " batch"]
    target: Int[Tensor, "batch target_length"]
    target_lengths: Int[Tensor, " batch"]

    @property
    def num_predictions(self) -> int:
        """The number of predicted tokens: all target tokens but START."""
        return int(self.target_lengths.sum()) - self.target_lengths.numel()

    @property
    def num_tokens(self) -> int:
        """Source tokens and predicted tokens, without padding."""
        return int(self.source_lengths.sum()) + self.num_predictions

    @property
    def decoder_input(self) -> Int[Tensor, "batch predictions"]:
        """The target without its last position (teacher forcing)."""
        return self.target[:, :-1]

    @property
    def decoder_target(self) -> Int[Tensor, "batch predictions"]:
        """The next token at each position of `decoder_input`; PAD where there is none."""
        return self.target[:, 1:]

    @property
    def target_mask(self) -> Bool[Tensor, "batch predictions"]:
        """Which positions of `decoder_target` are not padding."""
        return self.decoder_target != PAD


class TextBatch(NamedTuple):
    """Texts for encoders and classifiers: one text per row, or two marked by their segments.

    tokens          START a b END c d END          START a b END PAD PAD PAD
    segments          0   0 0  0  1 1  1             0   0 0  0   0   0   0
    token_targets     ·   · b  ·  · d  ·             ·   a ·  ·   ·   ·   ·

    `token_targets` are the masked tokens to predict and `labels` the class of a row; -1 where there is
    none.
    """

    tokens: Int[Tensor, "batch length"]
    lengths: Int[Tensor, " batch"]
    segments: Int[Tensor, "batch length"]
    token_targets: Int[Tensor, "batch length"]
    labels: Int[Tensor, " batch"]

    @property
    def target_mask(self) -> Bool[Tensor, "batch length"]:
        """Which positions have a token target."""
        return self.token_targets >= 0

    @property
    def labelled(self) -> Bool[Tensor, " batch"]:
        """Which rows have a label."""
        return self.labels >= 0

    @property
    def num_predictions(self) -> int:
        """The number of token targets and labels."""
        return int(self.target_mask.sum()) + int(self.labelled.sum())

    @property
    def num_tokens(self) -> int:
        """Tokens, without padding."""
        return int(self.lengths.sum())
