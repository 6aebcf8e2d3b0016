"""ConvNet: convolutions with downsampling, then fully connected layers (LeCun et al. 1998).

    pixels → (conv → norm → activation → max-pool) × num_layers → flatten
           → linear → activation → dropout → linear → activation → linear → classes

It has no attention: the baseline of `vision_transformer`. Without pooling, convolutions have stride 2
(Springenberg et al. 2015).
"""

from __future__ import annotations

from itertools import count
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.core.batches import ImageInput, ImageSpec
from regard.core.errors import RegardError
from regard.core.options import NonNegativeInt, PositiveInt, Probability, validated
from regard.core.registry import lookup
from regard.core.traits import Alternative, Size, Traits
from regard.layers.dropout import Dropout
from regard.layers.feed_forward import ACTIVATIONS
from regard.models.classifier import ONE_OUTPUT, Classifier
from regard.models.stems import validate_pixels

DOWNSAMPLING = 2  # the stride of convolutions, or size and stride of max pooling


class ConvolutionBlock(nn.Module):
    """activation(norm(conv(x))), then max pooling unless the convolution has a stride.

    The norm is over channels and positions of an image: it does not depend on the batch.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        kernel_size: int,
        padding: int,
        pool: bool,
        norm: bool,
        activation: str,
    ) -> None:
        super().__init__()
        stride = 1 if pool else DOWNSAMPLING
        self.convolution = nn.Conv2d(inputs, outputs, kernel_size, stride=stride, padding=padding)
        self.norm = nn.GroupNorm(1, outputs) if norm else nn.Identity()
        self.activation = lookup("activation", activation, ACTIVATIONS)
        self.pool = pool

    def feature_maps(
        self, x: Float[Tensor, "batch inputs height width"]
    ) -> Float[Tensor, "batch outputs rows columns"]:
        """The activations, before max pooling."""
        return self.activation.function(self.norm(self.convolution(x)))

    def forward(
        self, x: Float[Tensor, "batch inputs height width"]
    ) -> Float[Tensor, "batch outputs rows columns"]:
        maps = self.feature_maps(x)
        return F.max_pool2d(maps, DOWNSAMPLING) if self.pool else maps

    def output_size(self, size: int) -> int:
        """Height or width of the output; 0 if the input is too small."""
        own = self.convolution
        (kernel_size, _), (stride, _) = own.kernel_size, own.stride
        reach = size + 2 * int(own.padding[0]) - kernel_size
        if size < 1 or reach < 0:
            return 0
        return (reach // stride + 1) // (DOWNSAMPLING if self.pool else 1)


class ConvNet(Classifier):
    """Convolutional image classifier.

    channels          output channels of the first convolution; each further one has twice as many
    num_layers        number of convolutions, each of which halves height and width
    kernel_size       height and width of the convolution kernels
    padding           of the first convolution, where others have none; or a list, one per convolution
    downsampling      "pool": max pooling after each convolution; "stride": convolutions of stride 2
    norm              layer norm over channels and positions, before each activation
    global_pooling    mean over the positions of the last feature maps, instead of flattening them
    hidden_dim        width of the first fully connected layer; 0: none
    feed_forward_dim  width of the second one; 0: none
    dropout           dropout probability after the first fully connected layer
    activation        activation of all layers
    """

    traits: ClassVar[Traits] = Traits(
        inputs=frozenset({"images"}),
        targets=ONE_OUTPUT,
        sizes={"channels": Size(), "hidden_dim": Size()},
        alternatives=(Alternative(model="vision_transformer"),),
    )

    @validated
    def __init__(
        self,
        *,
        source: ImageSpec,
        outputs: PositiveInt,
        channels: PositiveInt = 8,
        num_layers: PositiveInt = 2,
        kernel_size: PositiveInt = 3,
        padding: NonNegativeInt | tuple[NonNegativeInt, ...] = 1,
        downsampling: Literal["pool", "stride"] = "pool",
        norm: bool = False,
        global_pooling: bool = False,
        hidden_dim: NonNegativeInt = 320,
        feed_forward_dim: NonNegativeInt = 120,
        dropout: Probability = 0.7,
        activation: str = "relu",
    ) -> None:
        super().__init__()
        self.source = source
        if isinstance(padding, int):
            padding = (padding, *[0] * (num_layers - 1))
        if len(padding) != num_layers:
            raise RegardError(
                f"padding={list(padding)}, num_layers={num_layers}: give one padding per convolution, or "
                "a number for the first one."
            )
        widths = [source.channels, *(channels * 2**layer for layer in range(num_layers))]
        self.blocks: Any = nn.ModuleList(
            ConvolutionBlock(
                inputs,
                outputs_of_block,
                kernel_size=kernel_size,
                padding=own_padding,
                pool=downsampling == "pool",
                norm=norm,
                activation=activation,
            )
            for inputs, outputs_of_block, own_padding in zip(
                widths[:-1], widths[1:], padding, strict=True
            )
        )
        self.activation = lookup("activation", activation, ACTIVATIONS)
        self.global_pooling = global_pooling
        positions = self._positions(source)
        width = widths[-1] * (1 if global_pooling else positions)
        self.hidden = nn.Linear(width, hidden_dim) if hidden_dim else None
        width = hidden_dim or width
        self.dropout = Dropout(dropout)
        self.feed_forward = nn.Linear(width, feed_forward_dim) if feed_forward_dim else None
        self.head = nn.Linear(feed_forward_dim or width, outputs)

    def features(self, input: ImageInput) -> Float[Tensor, "batch width"]:
        """The output of the last fully connected layer before the head."""
        x = self._pixels(input)
        for block in self.blocks:
            x = block(x)
        x = x.mean(dim=(2, 3)) if self.global_pooling else x.flatten(1)
        if self.hidden is not None:
            x = self.activation.function(self.hidden(x))
        x = self.dropout(x)
        if self.feed_forward is not None:
            x = self.activation.function(self.feed_forward(x))
        return x

    def feature_maps(self, input: ImageInput) -> Float[Tensor, "batch channels rows columns"]:
        """The activations of the first convolution, one map per channel, before max pooling."""
        maps: Tensor = self.blocks[0].feature_maps(self._pixels(input))
        return maps

    def _pixels(self, input: ImageInput) -> Float[Tensor, "batch channels height width"]:
        validate_pixels(input, self.source)
        # max pooling on a CPU is several times faster in this format
        return input.pixels.clone(memory_format=torch.channels_last)

    def _positions(self, source: ImageSpec) -> int:
        """Positions of the last feature maps; an error names the least size of an image."""
        rows, columns = self._output_size(source.height), self._output_size(source.width)
        if rows * columns == 0:
            least = next(size for size in count(1) if self._output_size(size))
            raise RegardError(
                f"The images of {source.height}×{source.width} pixels are too small for "
                f"{len(self.blocks)} convolutions with downsampling: the least size is {least}×{least}. "
                "Choose larger images, a smaller num_layers, or more padding."
            )
        return rows * columns

    def _output_size(self, size: int) -> int:
        for block in self.blocks:
            size = block.output_size(size)
        return size
