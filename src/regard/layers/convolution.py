"""1-D convolution over positions: each output depends on `width` neighbouring positions (Kim 2014).

Centred, that is (width − 1)/2 to either side; causal, width − 1 back. Unlike attention, the weights are
the same at all positions, and the maximum path length grows with the sequence.
"""

from __future__ import annotations

import math

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.core.cost import Cost
from regard.core.errors import RegardError
from regard.core.masks import NO_MASK, Mask
from regard.core.options import PositiveInt, validated
from regard.layers.cost import SequenceShape, validate_sequence_shape
from regard.layers.validation import validate_padding_only, validate_sequence


class Convolution(nn.Module):
    """From `model_dim` to `output_dim` (default `model_dim`) features, at every `stride`-th position.

    Padding counts as zeros, like positions beyond the ends. There are ⌈length/stride⌉ outputs, of which
    the first `output_lengths(lengths)` are not padding.
    """

    @validated
    def __init__(
        self,
        *,
        model_dim: PositiveInt,
        output_dim: PositiveInt | None = None,
        width: PositiveInt = 3,
        causal: bool = False,
        stride: PositiveInt = 1,
        bias: bool = True,
    ) -> None:
        super().__init__()
        output_dim = model_dim if output_dim is None else output_dim
        if width < 2 or not (causal or width % 2):
            raise RegardError(
                f"Convolution has width={width}, causal={causal}: a centred one needs an odd width "
                "of 3 or more, a causal one a width of 2 or more. For width 1 use FeedForward."
            )
        self.reach = width - 1 if causal else (width - 1) // 2
        self.ahead = 0 if causal else self.reach
        self.linear = nn.Conv1d(model_dim, output_dim, width, stride=stride, bias=bias)

    def forward(
        self, x: Float[Tensor, "batch length model_dim"], mask: Mask = NO_MASK
    ) -> Float[Tensor, "batch output_length output_dim"]:
        validate_sequence("Convolution", x, width=self.linear.in_channels)
        validate_padding_only("Convolution", mask, batch_size=x.shape[0])
        if mask.lengths is not None:
            # Filled, not multiplied by zero: padding may hold any numbers, even inf.
            x = x.masked_fill(~mask.keep(x.shape[1])[:, :, None], 0.0)
        output: Tensor = self.linear(F.pad(x.transpose(1, 2), (self.reach, self.ahead)))
        return output.transpose(1, 2)

    def output_lengths(self, lengths: Int[Tensor, " batch"]) -> Int[Tensor, " batch"]:
        """The number of outputs of each row that are not padding."""
        stride = self.linear.stride[0]
        return (lengths + stride - 1) // stride

    def cost(self, shape: SequenceShape) -> Cost:
        """The cost of `forward`; `max_path_length` is for stride 1."""
        validate_sequence_shape("Convolution", shape)
        weight = self.linear.weight
        outputs = shape.batch_size * math.ceil(shape.length / self.linear.stride[0])
        matmul_flops = 2 * outputs * weight.numel()
        return Cost(
            matmul_flops=matmul_flops,
            elementwise_ops=outputs * weight.shape[0] if self.linear.bias is not None else 0,
            backward_matmul_flops=2 * matmul_flops,
            memory=shape.positions * weight.shape[1] + outputs * weight.shape[0],
            parameters=sum(parameter.numel() for parameter in self.parameters()),
            sequential_steps=1,
            max_path_length=max(1, math.ceil((shape.length - 1) / self.reach)),
        )
