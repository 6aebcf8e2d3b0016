"""Layers that attention is compared with, on sequences of a shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.core.masks import NO_MASK, Causal
from regard.core.names import look_up
from regard.costs.running import trained, without_gradients
from regard.costs.workload import Mode, Run, Workload
from regard.layers.convolution import Convolution
from regard.layers.layer_cost import SequenceShape
from regard.layers.multi_head import MultiHead
from regard.layers.recurrent import Recurrent

# name → a layer as wide as `model_dim` inside and out
LAYERS: dict[str, Callable[[int], nn.Module]] = {
    "lstm": lambda width: Recurrent(model_dim=width, hidden_dim=width, cell="lstm"),
    "gru": lambda width: Recurrent(model_dim=width, hidden_dim=width, cell="gru"),
    "convolution": lambda width: Convolution(model_dim=width, width=3, causal=True),
}


def build_layer(name: str, *, model_dim: int) -> nn.Module:
    """A layer of the table."""
    return look_up("layer", name, LAYERS)(model_dim)


def layer_workload(name: str, shape: SequenceShape, mode: Mode, *, model_dim: int) -> Workload:
    """A call of a layer of the table; in decoding, a step."""

    def prepare() -> Run:
        layer = build_layer(name, model_dim=model_dim)
        return _run(layer, shape, mode, model_dim=model_dim)

    return Workload(name, mode, prepare)


def self_attention_workload(
    mechanism: str, shape: SequenceShape, mode: Mode, *, model_dim: int, num_heads: int
) -> Workload:
    """Multi-head self-attention with its projections, to be compared with a recurrent layer."""

    def prepare() -> Run:
        layer = MultiHead(
            model_dim=model_dim,
            num_heads=num_heads,
            mechanism=mechanism,
            max_length=shape.length + 1,
        )
        return _run(layer, shape, mode, model_dim=model_dim)

    return Workload(f"self-attention ({mechanism})", mode, prepare)


def _run(layer: nn.Module, shape: SequenceShape, mode: Mode, *, model_dim: int) -> Run:
    x = torch.randn(shape.batch_size, shape.length, model_dim)
    words: dict[str, Any] = {}
    if isinstance(layer, MultiHead):
        words["mask"] = Causal() if shape.causal else NO_MASK
    if mode == "decode":
        stepping: Any = layer
        with torch.no_grad():
            state = stepping.step(stepping.start(shape.batch_size), x).state
        return without_gradients(lambda: stepping.step(state, x[:, :1]))

    def call() -> Tensor:
        output = layer(x, **words)
        return output if isinstance(output, Tensor) else output[0]

    if mode == "forward":
        return without_gradients(call)
    return trained(call, wanting=[x, *layer.parameters()])


class LayerExample(NamedTuple):
    """A layer that calibration runs."""

    name: str
    shape: SequenceShape
    mode: Mode
    model_dim: int

    def workload(self) -> Workload:
        """The call."""
        return layer_workload(self.name, self.shape, self.mode, model_dim=self.model_dim)
