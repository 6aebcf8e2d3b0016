"""Workloads to trace and measure: mechanisms, layers, modules; forward, training, or a decoding step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.core.cost import AttentionShape
from regard.core.counter import tensors_in
from regard.core.counting import random_inputs, state_after
from regard.core.masks import NO_MASK, Causal
from regard.core.mechanism import Mechanism
from regard.core.registry import lookup
from regard.costs.trace import Mode, Run, Workload, no_grad_run
from regard.layers.convolution import Convolution
from regard.layers.cost import SequenceShape
from regard.layers.multi_head import MultiHead
from regard.layers.recurrent import Recurrent
from regard.mechanisms import build_mechanism


def train_run(call: Run, *, inputs: Iterable[Tensor]) -> Run:
    """Forward and backward pass of all outputs, with gradients of all `inputs`."""
    tensors = [tensor.requires_grad_() for tensor in inputs]

    def run() -> None:
        outputs = [output for output in tensors_in(call()) if output.requires_grad]
        torch.autograd.backward(outputs, [torch.ones_like(output) for output in outputs])
        for tensor in tensors:
            tensor.grad = None

    return run


def build_for_shape(
    name: str, shape: AttentionShape, options: Mapping[str, Any] | None = None
) -> Mechanism:
    """Build the mechanism in the sizes of a shape; `max_length` is as short as possible."""
    return build_mechanism(
        name,
        query_dim=shape.query_dim or shape.key_dim,
        key_dim=shape.key_dim,
        num_heads=shape.num_heads,
        max_length=max(shape.key_length, shape.query_length) + 1,
        **(options or {}),
    )


def attention_workload(
    name: str, shape: AttentionShape, mode: Mode, options: Mapping[str, Any] | None = None
) -> Workload:
    """A call of the mechanism; mode "decode" is a step after `key_length` tokens."""

    def prepare() -> Run:
        mechanism = build_for_shape(name, shape, options)
        if mode == "decode":
            return _step(mechanism, shape)
        tensors = random_inputs(mechanism, shape, queries=shape.query_length, keys=shape.key_length)
        mask = Causal() if shape.causal else NO_MASK

        def call() -> Tensor:
            return mechanism(mask=mask, **tensors)

        if mode == "forward":
            return no_grad_run(call)
        return train_run(call, inputs=[*tensors.values(), *mechanism.parameters()])

    return Workload(name, mode, prepare)


class Example(NamedTuple):
    """A mechanism, or a layer of width `model_dim`, that calibration times as a whole."""

    name: str
    shape: AttentionShape | SequenceShape
    mode: Mode
    model_dim: int = 0

    def workload(self) -> Workload:
        if isinstance(self.shape, AttentionShape):
            return attention_workload(self.name, self.shape, self.mode)
        return layer_workload(self.name, self.shape, self.mode, model_dim=self.model_dim)


def _step(mechanism: Mechanism, shape: AttentionShape) -> Run:
    new: dict[str, Any] = random_inputs(mechanism, shape, queries=1, keys=1)
    with torch.no_grad():
        state = state_after(mechanism, shape)
    return no_grad_run(lambda: mechanism.step(state, **new))


SELF_ATTENTION = "self-attention"
# name → a layer of a width with a number of heads, for comparison with attention
LAYERS: dict[str, Callable[[int, int], nn.Module]] = {
    "lstm": lambda width, _: Recurrent(model_dim=width, hidden_dim=width, cell="lstm"),
    "gru": lambda width, _: Recurrent(model_dim=width, hidden_dim=width, cell="gru"),
    "convolution": lambda width, _: Convolution(model_dim=width, width=3, causal=True),
    SELF_ATTENTION: lambda width, heads: MultiHead(model_dim=width, num_heads=heads),
}


def build_layer(name: str, *, model_dim: int, num_heads: int = 1) -> nn.Module:
    """Build a layer of `LAYERS`; self-attention has its projections."""
    return lookup("layer", name, LAYERS)(model_dim, num_heads)


def layer_workload(
    name: str, shape: SequenceShape, mode: Mode, *, model_dim: int, num_heads: int = 1
) -> Workload:
    """A call of a layer of `LAYERS`; mode "decode" is one step."""

    def prepare() -> Run:
        layer = build_layer(name, model_dim=model_dim, num_heads=num_heads)
        return _run(layer, shape, mode, model_dim=model_dim)

    return Workload(name, mode, prepare)


def _run(layer: nn.Module, shape: SequenceShape, mode: Mode, *, model_dim: int) -> Run:
    x = torch.randn(shape.batch_size, shape.length, model_dim)
    kwargs: dict[str, Any] = {}
    if isinstance(layer, MultiHead):
        kwargs["mask"] = Causal() if shape.causal else NO_MASK
    if mode == "decode":
        decoder: Any = layer
        with torch.no_grad():
            state = decoder.step(decoder.start(shape.batch_size), x).state
        return no_grad_run(lambda: decoder.step(state, x[:, :1]))

    def call() -> Tensor:
        output = layer(x, **kwargs)
        return output if isinstance(output, Tensor) else output[0]

    if mode == "forward":
        return no_grad_run(call)
    return train_run(call, inputs=[x, *layer.parameters()])


Built = tuple[nn.Module, Sequence[Any]]


def module_workload(name: str, mode: Mode, build: Callable[[], Built]) -> Workload:
    """A call of the module that `build` returns with its inputs. `build` may be called many times."""

    def prepare() -> Run:
        module, inputs = build()
        if mode == "forward":
            return no_grad_run(lambda: module(*inputs))
        given = [each for each in inputs if isinstance(each, Tensor) and each.is_floating_point()]
        trained = [each for each in module.parameters() if each.requires_grad]
        return train_run(lambda: module(*inputs), inputs=[*given, *trained])

    return Workload(name, mode, prepare)
