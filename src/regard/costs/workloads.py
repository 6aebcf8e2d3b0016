"""Workloads to trace and measure: mechanisms, layers, modules; forward, training, or a decoding step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_iter

from regard.core.cost import AttentionShape
from regard.core.errors import RegardError
from regard.core.masks import NO_MASK, Causal
from regard.core.mechanism import Mechanism
from regard.core.registry import lookup
from regard.costs.trace import Mode, Run, Trace, Workload, no_grad_run, trace
from regard.layers.convolution import Convolution
from regard.layers.cost import SequenceShape
from regard.layers.multi_head import MultiHead
from regard.layers.recurrent import Recurrent
from regard.mechanisms import build_mechanism


def train_run(call: Callable[[], Tensor], *, inputs: Iterable[Tensor]) -> Run:
    """Forward and backward pass, with gradients of all `inputs`."""
    tensors = list(inputs)
    for tensor in tensors:
        tensor.requires_grad_()

    def run() -> None:
        output = call()
        output.backward(torch.ones_like(output))
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
    """A mechanism that calibration times, for overheads that no single operator shows."""

    name: str
    shape: AttentionShape
    mode: Mode

    def workload(self) -> Workload:
        return attention_workload(self.name, self.shape, self.mode)


def random_inputs(
    mechanism: Mechanism, shape: AttentionShape, *, queries: int, keys: int
) -> dict[str, Tensor]:
    """Random keyword arguments for one call."""
    kv_heads = shape.num_kv_heads or shape.num_heads
    of_keys = (shape.batch_size, kv_heads, keys)
    tensors = {
        "query": torch.randn(
            shape.batch_size, shape.num_heads, queries, shape.query_dim or shape.key_dim
        ),
        "key": torch.randn(*of_keys, shape.key_dim),
        "value": torch.randn(*of_keys, shape.value_dim),
    }
    for gate in mechanism.gates:
        width = 1 if gate.width == "one" else shape.key_dim
        tensors[gate.name] = gate.activation(torch.randn(*of_keys, width)).detach()
    return tensors


def _step(mechanism: Mechanism, shape: AttentionShape) -> Run:
    past: dict[str, Any] = random_inputs(mechanism, shape, queries=1, keys=shape.key_length)
    new: dict[str, Any] = random_inputs(mechanism, shape, queries=1, keys=1)
    del past["query"]
    with torch.no_grad():
        state = mechanism.start(
            batch_size=shape.batch_size,
            num_kv_heads=shape.num_kv_heads or shape.num_heads,
            key_dim=shape.key_dim,
            value_dim=shape.value_dim,
        )
        state = mechanism.extend(state, **past)
    return no_grad_run(lambda: mechanism.step(state, **new))


# name → a layer of width `model_dim`, for comparison with attention
LAYERS: dict[str, Callable[[int], nn.Module]] = {
    "lstm": lambda width: Recurrent(model_dim=width, hidden_dim=width, cell="lstm"),
    "gru": lambda width: Recurrent(model_dim=width, hidden_dim=width, cell="gru"),
    "convolution": lambda width: Convolution(model_dim=width, width=3, causal=True),
}


def build_layer(name: str, *, model_dim: int) -> nn.Module:
    """Build a layer of `LAYERS`."""
    return lookup("layer", name, LAYERS)(model_dim)


def layer_workload(name: str, shape: SequenceShape, mode: Mode, *, model_dim: int) -> Workload:
    """A call of a layer of `LAYERS`; mode "decode" is one step."""

    def prepare() -> Run:
        return _run(build_layer(name, model_dim=model_dim), shape, mode, model_dim=model_dim)

    return Workload(name, mode, prepare)


def self_attention_workload(
    mechanism: str, shape: SequenceShape, mode: Mode, *, model_dim: int, num_heads: int
) -> Workload:
    """Multi-head self-attention with its projections, for comparison with a recurrent layer."""

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


class LayerExample(NamedTuple):
    """A layer that calibration times."""

    name: str
    shape: SequenceShape
    mode: Mode
    model_dim: int

    def workload(self) -> Workload:
        return layer_workload(self.name, self.shape, self.mode, model_dim=self.model_dim)


Built = tuple[nn.Module, Sequence[Any]]


def module_workload(name: str, mode: Mode, build: Callable[[], Built]) -> Workload:
    """A call of the module that `build` returns with its inputs. `build` may be called many times."""

    def prepare() -> Run:
        module, inputs = build()
        if mode == "forward":
            return no_grad_run(lambda: module(*inputs))
        for each in inputs:
            if isinstance(each, Tensor) and each.is_floating_point():
                each.requires_grad_()
        return lambda: _forward_and_backward(module, inputs)

    return Workload(name, mode, prepare)


def trace_module(name: str, mode: Mode, build: Callable[[], Built]) -> Trace:
    """Trace a module, on fake tensors; on real ones if that fails."""
    workload = module_workload(name, mode, build)
    try:
        return trace(workload)
    except RegardError:
        raise
    except Exception:
        return trace(workload, real=True)


def _forward_and_backward(module: nn.Module, inputs: Sequence[Any]) -> None:
    outputs = [
        output
        for output in tree_iter(module(*inputs))
        if isinstance(output, Tensor) and output.requires_grad
    ]
    torch.autograd.backward(outputs, [torch.ones_like(output) for output in outputs])
    module.zero_grad(set_to_none=True)
    for each in inputs:
        if isinstance(each, Tensor):
            each.grad = None
