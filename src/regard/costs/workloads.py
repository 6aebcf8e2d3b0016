"""One mechanism on tensors of a shape: forward, forward and backward, or decoding one token."""

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
from regard.core.registry import look_up
from regard.costs.trace import Mode, Run, Trace, Workload, trace
from regard.layers.convolution import Convolution
from regard.layers.cost import SequenceShape
from regard.layers.multi_head import MultiHead
from regard.layers.recurrent import Recurrent
from regard.mechanisms import build_mechanism

# Ways of running a call: without gradients, or forward and backward.


def without_gradients(call: Callable[[], object]) -> Run:
    """The call alone."""

    def run() -> object:
        with torch.no_grad():
            return call()

    return run


def trained(call: Callable[[], Tensor], *, wanting: Iterable[Tensor]) -> Run:
    """The call and its backward pass, for the gradients of all that want them."""
    tensors = list(wanting)
    for tensor in tensors:
        tensor.requires_grad_()

    def run() -> None:
        output = call()
        output.backward(torch.ones_like(output))
        for tensor in tensors:
            tensor.grad = None

    return run


def build_for(
    name: str, shape: AttentionShape, options: Mapping[str, Any] | None = None
) -> Mechanism:
    """The mechanism in the sizes of a shape, just long enough where its length is bounded."""
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
    """A call of the mechanism; in decoding, a step after `key_length` tokens."""

    def prepare() -> Run:
        mechanism = build_for(name, shape, options)
        if mode == "decode":
            return _step(mechanism, shape)
        tensors = drawn(mechanism, shape, queries=shape.query_length, keys=shape.key_length)
        mask = Causal() if shape.causal else NO_MASK

        def call() -> Tensor:
            return mechanism(mask=mask, **tensors)

        if mode == "forward":
            return without_gradients(call)
        return trained(call, wanting=[*tensors.values(), *mechanism.parameters()])

    return Workload(name, mode, prepare)


class Example(NamedTuple):
    """A call that calibration runs to find what no single operator shows."""

    name: str
    shape: AttentionShape
    mode: Mode

    def workload(self) -> Workload:
        """The call."""
        return attention_workload(self.name, self.shape, self.mode)


def drawn(
    mechanism: Mechanism, shape: AttentionShape, *, queries: int, keys: int
) -> dict[str, Tensor]:
    """Random tensors for one call, by the names it takes them under."""
    kv_heads = shape.num_kv_heads or shape.num_heads
    of_keys = (shape.batch_size, kv_heads, keys)
    tensors = {
        "query": torch.randn(
            shape.batch_size, shape.num_heads, queries, shape.query_dim or shape.key_dim
        ),
        "key": torch.randn(*of_keys, shape.key_dim),
        "value": torch.randn(*of_keys, shape.value_dim),
    }
    for extra in mechanism.extras:
        width = 1 if extra.width == "one" else shape.key_dim
        tensors[extra.name] = extra.squash(torch.randn(*of_keys, width)).detach()
    return tensors


def _step(mechanism: Mechanism, shape: AttentionShape) -> Run:
    past: dict[str, Any] = drawn(mechanism, shape, queries=1, keys=shape.key_length)
    new: dict[str, Any] = drawn(mechanism, shape, queries=1, keys=1)
    del past["query"]
    with torch.no_grad():
        state = mechanism.start(
            batch_size=shape.batch_size,
            num_kv_heads=shape.num_kv_heads or shape.num_heads,
            key_dim=shape.key_dim,
            value_dim=shape.value_dim,
        )
        state = mechanism.extend(state, **past)
    return without_gradients(lambda: mechanism.step(state, **new))


# Layers that attention is compared with, on sequences of a shape.


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


# Any module with inputs as work to be priced: forward, or forward and backward.


Built = tuple[nn.Module, Sequence[Any]]


def module_workload(name: str, mode: Mode, build: Callable[[], Built]) -> Workload:
    """A call of the module that `build` returns with its inputs; it may be called many times."""

    def prepare() -> Run:
        module, inputs = build()
        if mode == "forward":
            return without_gradients(lambda: module(*inputs))
        for each in inputs:
            if isinstance(each, Tensor) and each.is_floating_point():
                each.requires_grad_()
        return lambda: _forward_and_backward(module, inputs)

    return Workload(name, mode, prepare)


def traced_module(name: str, mode: Mode, build: Callable[[], Built]) -> Trace:
    """Its trace, on fake tensors if it can be done: whatever fails among those is done really."""
    workload = module_workload(name, mode, build)
    try:
        return trace(workload)
    except RegardError:
        raise
    except Exception:
        return trace(workload, really=True)


def _forward_and_backward(module: nn.Module, inputs: Sequence[Any]) -> None:
    wanting = [
        part
        for part in tree_iter(module(*inputs))
        if isinstance(part, Tensor) and part.requires_grad
    ]
    torch.autograd.backward(wanting, [torch.ones_like(part) for part in wanting])
    module.zero_grad(set_to_none=True)
    for each in inputs:
        if isinstance(each, Tensor):
            each.grad = None
