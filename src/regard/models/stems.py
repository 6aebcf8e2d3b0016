"""Stems: modules from an input to vectors of model_dim, `stem(input: Input) -> FrameInput`.

    FrameStem               real-valued frames, several at a time with `stride`     type "linear"
    ConvolutionalStem       convolutions over frames, some of them with a stride    type "convolutional"
    SpectrogramStem         convolutions over frames and bands                      type "convolutional_2d"
    PatchStem               images in patches                                       type "patches"
    ImageConvolutionalStem  convolutions over images                                type "convolutional"

The stems of tokens are in `models.embeddings`. After its stem a model is the same for every kind of input:
all vectors have the size of scaled token embeddings, and a row's vectors do not depend on its padding. What
a stem of frames returns at position i is centred at frame i · `frame_stride` + `frame_offset`.
Stems of images have a `grid`: the rows and columns of their vectors, which are in reading order.

    stem={"type": "convolutional", "strides": [1, 2]}     the option `stem` of a model
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from pydantic import AfterValidator, Field
from torch import Tensor, nn

from regard.core.batches import (
    FrameInput,
    FrameSpec,
    ImageInput,
    ImageSpec,
    InputSpec,
    TokenSpec,
)
from regard.core.errors import RegardError
from regard.core.masks import NO_MASK, Mask
from regard.core.options import PositiveInt, Probability, options_of, validated
from regard.core.registry import lookup
from regard.layers.convolution import Convolution
from regard.layers.dropout import Dropout
from regard.layers.feed_forward import ACTIVATIONS, Activation
from regard.models.embeddings import WordEmbedding


class FrameStem(nn.Module):
    """Real-valued frames: norm(W · frame + b), where `stride` neighbouring frames are one, longer frame.

    The last one of a row is filled up with zeros. After the norm, vectors have the size of scaled token
    embeddings, whatever the unit of the features.
    """

    @validated
    def __init__(
        self,
        *,
        features: PositiveInt,
        model_dim: PositiveInt,
        stride: PositiveInt = 1,
        dropout: Probability = 0.0,
    ) -> None:
        super().__init__()
        self.stride = self.frame_stride = stride
        self.frame_offset = (stride - 1) / 2
        self.linear = nn.Linear(stride * features, model_dim)
        self.norm = nn.LayerNorm(model_dim)
        self.dropout = Dropout(dropout)

    def forward(self, input: FrameInput) -> FrameInput:
        frames, lengths = input.frames, input.lengths
        _validate_features(frames, self.linear.in_features // self.stride)
        if self.stride > 1:
            if input.padded:
                frames = frames.masked_fill(~input.mask.keep(frames.shape[1])[:, :, None], 0.0)
            frames = F.pad(frames, (0, 0, 0, -frames.shape[1] % self.stride))
            frames = frames.unflatten(1, (-1, self.stride)).flatten(2)
            lengths = (lengths + self.stride - 1) // self.stride
        return FrameInput(self.dropout(self.norm(self.linear(frames))), lengths, input.padded)


def _validate_features(frames: Float[Tensor, "batch length features"], expected: int) -> None:
    if frames.shape[2] != expected:
        raise RegardError(
            f"The frames have {frames.shape[2]} features, but the model was built for {expected}."
        )


def _odd(size: int) -> int:
    if size < 3 or size % 2 == 0:
        raise ValueError("it must be odd and 3 or more, so that it is centred on a frame.")
    return size


Strides = Annotated[tuple[PositiveInt, ...], Field(min_length=1)]


class ConvolutionalStem(nn.Module):
    """Real-valued frames: norm(a(conv(… a(conv(frames))))), convolutions over time with activation a.

    kernel_size  frames that each convolution sees, odd
    strides      the stride of each convolution: (1, 2) are two, of which the second halves the frames

    With the defaults it is the stem of Whisper (Radford et al. 2023, section 2.2), with a norm. Padding is
    set to zero before each convolution, so that the end of a row is the same in every batch.
    """

    @validated
    def __init__(
        self,
        *,
        features: PositiveInt,
        model_dim: PositiveInt,
        kernel_size: Annotated[int, AfterValidator(_odd)] = 3,
        strides: Strides = (1, 2),
        activation: str = "gelu",
        dropout: Probability = 0.0,
    ) -> None:
        super().__init__()
        self.features = features
        self.frame_stride, self.frame_offset = math.prod(strides), 0.0
        self.convolutions: Any = nn.ModuleList(
            Convolution(
                model_dim=model_dim if number else features,
                output_dim=model_dim,
                width=kernel_size,
                stride=stride,
            )
            for number, stride in enumerate(strides)
        )
        self.activation = lookup("activation", activation, ACTIVATIONS)
        self.norm = nn.LayerNorm(model_dim)
        self.dropout = Dropout(dropout)

    def forward(self, input: FrameInput) -> FrameInput:
        x, lengths = input.frames, input.lengths
        _validate_features(x, self.features)
        for convolution in self.convolutions:
            mask = Mask(lengths=lengths) if input.padded else NO_MASK
            x = self.activation.function(convolution(x, mask))
            lengths = convolution.output_lengths(lengths)
        return FrameInput(self.dropout(self.norm(x)), lengths, input.padded)


class SpectrogramStem(nn.Module):
    """Log-mel frames: norm(W · a(norm(conv(… a(norm(conv(frames)))))) + b), over time and frequency.

    channels       output channels of each convolution
    strides        stride over frames of each convolution, as of `ConvolutionalStem`
    band_strides   stride over bands of each convolution
    kernel_size    frames and bands that each convolution sees, odd

    A kernel is the same for all bands, so that it finds a formant wherever a longer or shorter vocal tract
    has it. Norms are over channels, and W over the channels and bands of a frame. Padding is set to zero
    before each convolution.
    """

    @validated
    def __init__(
        self,
        *,
        features: PositiveInt,
        model_dim: PositiveInt,
        channels: Strides = (24, 48, 64),
        strides: Strides = (1, 2, 1),
        band_strides: Strides = (2, 2, 2),
        kernel_size: Annotated[int, AfterValidator(_odd)] = 3,
        activation: str = "gelu",
        dropout: Probability = 0.0,
    ) -> None:
        super().__init__()
        _validate_counts(channels=channels, strides=strides, band_strides=band_strides)
        self.features = features
        self.frame_stride, self.frame_offset = math.prod(strides), 0.0
        both_strides = tuple(zip(strides, band_strides, strict=True))
        self.convolutions, self.norms = _convolutions(1, channels, both_strides, kernel_size)
        self.activation = lookup("activation", activation, ACTIVATIONS)
        bands = _after_strides(features, band_strides)
        self.linear = nn.Linear(bands * channels[-1], model_dim)
        self.norm = nn.LayerNorm(model_dim)
        self.dropout = Dropout(dropout)

    def forward(self, input: FrameInput) -> FrameInput:
        _validate_features(input.frames, self.features)
        x, lengths = input.frames[:, None], input.lengths
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            if input.padded:
                keep = Mask(lengths=lengths).keep(x.shape[2])
                x = x.masked_fill(~keep[:, None, :, None], 0.0)
            x = _convolved(x, convolution, norm, self.activation)
            stride = convolution.stride[0]
            lengths = (lengths + stride - 1) // stride
        vectors = self.norm(self.linear(x.permute(0, 2, 3, 1).flatten(2)))
        return FrameInput(self.dropout(vectors), lengths, input.padded)


def _validate_counts(**lists: tuple[int, ...]) -> None:
    if len({len(values) for values in lists.values()}) > 1:
        given = ", ".join(f"stem.{name}={values}" for name, values in lists.items())
        raise RegardError(f"{given}: give one value per convolution in each.")


def _convolutions(
    inputs: int,
    channels: tuple[int, ...],
    strides: tuple[tuple[int, int], ...],
    kernel_size: int,
) -> tuple[Any, Any]:
    """2-D convolutions that keep height and width but for their strides, and a norm for each."""
    convolutions = nn.ModuleList(
        nn.Conv2d(inputs, outputs, kernel_size, stride=stride, padding=kernel_size // 2)
        for inputs, outputs, stride in zip((inputs, *channels[:-1]), channels, strides, strict=True)
    )
    return convolutions, nn.ModuleList(nn.LayerNorm(outputs) for outputs in channels)


def _convolved(
    x: Float[Tensor, "batch inputs height width"],
    convolution: nn.Module,
    norm: nn.Module,
    activation: Activation,
) -> Float[Tensor, "batch channels rows columns"]:
    """activation(norm(conv(x))); channels are last in memory, for the norm over channels."""
    normed = norm(convolution(x).permute(0, 2, 3, 1))
    return activation.function(normed).permute(0, 3, 1, 2)


def _after_strides(size: int, strides: tuple[int, ...]) -> int:
    for stride in strides:
        size = math.ceil(size / stride)
    return size


class PatchStem(nn.Module):
    """Images in square patches, row by row: norm(W · patch + b)   (Dosovitskiy et al. 2021)."""

    @validated
    def __init__(
        self,
        *,
        channels: PositiveInt,
        height: PositiveInt,
        width: PositiveInt,
        model_dim: PositiveInt,
        patch_size: PositiveInt = 4,
        dropout: Probability = 0.0,
    ) -> None:
        super().__init__()
        if height % patch_size or width % patch_size:
            raise RegardError(
                f"patch_size={patch_size} does not divide the images of {height}×{width} pixels. Choose "
                "a divisor of both."
            )
        self.source = ImageSpec(channels, height, width)
        self.grid = (height // patch_size, width // patch_size)
        self.linear = nn.Conv2d(channels, model_dim, patch_size, stride=patch_size)
        self.norm = nn.LayerNorm(model_dim)
        self.dropout = Dropout(dropout)

    def forward(self, input: ImageInput) -> FrameInput:
        validate_pixels(input, self.source)
        patches = self.linear(input.pixels).flatten(2).transpose(1, 2)
        return _unpadded(self.dropout(self.norm(patches)))


class ImageConvolutionalStem(nn.Module):
    """Images: norm(W · a(norm(conv(… a(norm(conv(pixels)))))) + b)   (Xiao et al. 2021).

    filters        output channels of each convolution
    strides        stride of each convolution: with two of 2, there is one vector per 4×4 pixels
    kernel_size    height and width that each convolution sees, odd

    W is a 1×1 convolution. Norms are over channels, not over the batch as in the paper.
    """

    @validated
    def __init__(
        self,
        *,
        channels: PositiveInt,
        height: PositiveInt,
        width: PositiveInt,
        model_dim: PositiveInt,
        filters: Strides = (24, 48),
        strides: Strides = (2, 2),
        kernel_size: Annotated[int, AfterValidator(_odd)] = 3,
        activation: str = "relu",
        dropout: Probability = 0.0,
    ) -> None:
        super().__init__()
        _validate_counts(filters=filters, strides=strides)
        self.source = ImageSpec(channels, height, width)
        self.grid = (_after_strides(height, strides), _after_strides(width, strides))
        both_strides = tuple((stride, stride) for stride in strides)
        self.convolutions, self.norms = _convolutions(channels, filters, both_strides, kernel_size)
        self.activation = lookup("activation", activation, ACTIVATIONS)
        self.linear = nn.Linear(filters[-1], model_dim)
        self.norm = nn.LayerNorm(model_dim)
        self.dropout = Dropout(dropout)

    def forward(self, input: ImageInput) -> FrameInput:
        validate_pixels(input, self.source)
        x = input.pixels
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = _convolved(x, convolution, norm, self.activation)
        vectors = self.linear(x.flatten(2).transpose(1, 2))
        return _unpadded(self.dropout(self.norm(vectors)))


def _unpadded(vectors: Float[Tensor, "batch length model_dim"]) -> FrameInput:
    lengths = torch.full(vectors.shape[:1], vectors.shape[1], device=vectors.device)
    return FrameInput(vectors, lengths, padded=False)


def validate_pixels(input: ImageInput, source: ImageSpec) -> None:
    """Raise an error unless the images have the channels and the size that a model was built for."""
    channels, height, width = input.pixels.shape[1:]
    if ImageSpec(channels, height, width) != source:
        raise RegardError(
            f"The images have {height}×{width} pixels and {channels} channel(s), but the model was built "
            f"for {source.height}×{source.width} and {source.channels}. Resize the images."
        )


def grid_of(stem: nn.Module) -> tuple[int, int] | None:
    """The rows and columns of a stem's vectors; None if they are no grid."""
    grid: tuple[int, int] | None = getattr(stem, "grid", None)
    return grid


# The stems of real-valued input by their type; the first is the default.
STEMS: dict[type, dict[str, Callable[..., nn.Module]]] = {
    FrameSpec: {
        "linear": FrameStem,
        "convolutional": ConvolutionalStem,
        "convolutional_2d": SpectrogramStem,
    },
    ImageSpec: {"patches": PatchStem, "convolutional": ImageConvolutionalStem},
}

StemOptions = dict[str, Any] | nn.Module | None  # the type of a model's option `stem`


def build_stem(
    source: InputSpec | int,
    *,
    model_dim: int,
    tokens: Callable[[int], nn.Module],
    stem: StemOptions = None,
    dropout: float = 0.0,
) -> nn.Module:
    """The stem of an input: `tokens(vocabulary)`, or a stem of frames or images.

    `stem` are the `type` of the last two and its options, such as stride and patch_size; or a stem already
    built.
    """
    if isinstance(stem, nn.Module):
        return stem
    source = TokenSpec(source) if isinstance(source, int) else source
    if isinstance(source, TokenSpec):
        if stem:
            raise RegardError(f"stem={stem}: the stem of tokens has no options. Remove stem.")
        return tokens(source.vocabulary)
    kinds = STEMS[type(source)]
    given = {"type": next(iter(kinds)), "dropout": dropout, **(stem or {})}
    kind = lookup("stem type", str(given.pop("type")), kinds)
    sizes = {"model_dim": model_dim, **vars(source)}
    options = options_of(kind, section="stem", reserved=tuple(sizes))(**given)
    return kind(**sizes, **options.as_kwargs())


def build_word_stem(
    source: InputSpec | int,
    *,
    model_dim: int,
    stem: StemOptions,
    dropout: float,
    input_dropout: float | None,
    **words: Any,
) -> nn.Module:
    """The stem of a text classifier: words with the options of `WordEmbedding`, frames or patches."""
    input_dropout = dropout if input_dropout is None else input_dropout
    sizes: dict[str, Any] = {"model_dim": model_dim, "dropout": input_dropout}
    return build_stem(
        source,
        tokens=lambda vocabulary: WordEmbedding(vocabulary=vocabulary, **sizes, **words),
        stem=stem,
        **sizes,
    )
