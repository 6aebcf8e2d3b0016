"""Tracing attention: what every attention layer of a model reads and writes in one forward pass.

    with trace_attention(model) as trace:
        output = model(x)
    call = trace["encoder/0"]
    call.weights()          (batch, heads, queries, keys), computed beside the fast path
    call.output             (batch, heads, queries, value_dim), what the fast path returned

The output is linear in the values, so for every mechanism, kernels and recurrences included,

    output of the layer = Σ_heads weights @ value @ projection + bias       (before the residual)

`MultiHead`, pooling layers and recurrent decoders are found in any `nn.Module`. Interventions change what a
layer writes. With `hold`, attention weights and the scales of layer norms are constants of the backward
pass, so that a network without activations between them is linear in its input.

Only forward passes are traced, not decoding with a state: use `decode(model, source, use_cache=False)`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.core.batches import FrameInput
from regard.core.masks import NO_MASK, Mask
from regard.core.mechanism import Mechanism, repeat_heads
from regard.core.registry import lookup
from regard.layers.blocks import DecoderBlock, EncoderBlock
from regard.layers.multi_head import MultiHead
from regard.layers.pooling import ContextPooling, Pooled, StructuredPooling
from regard.models.embeddings import TokenEmbedding, WordEmbedding
from regard.models.seq2seq.recurrent_decoder import RecurrentDecoder

POOLINGS = (ContextPooling, StructuredPooling)
EMBEDDINGS = (TokenEmbedding, WordEmbedding, nn.Embedding)
BLOCKS: dict[type[nn.Module], str] = {EncoderBlock: "input", DecoderBlock: "output"}
# Methods of a model that run a forward pass.
PASSES = ("forward", "hidden", "classify")


@dataclass(frozen=True, eq=False, kw_only=True)
class AttentionCall:
    """One call of one attention layer.

    name           "encoder/0", "decoder/0", "cross/0", "pooling/0", or the path of the module
    role           "self"; "cross" if keys and values are of another sequence; "pooling" for learned queries
    value          the values, repeated for the query heads that share them
    outputs        what the heads write; several pieces if decoded step by step
    projection     from the concatenated heads to the output; None: the heads are the output
    bias           added by the projection
    mask           what the mechanism was called with
    is_causal      whether a position attends to itself and earlier ones only
    nonnegative    whether the mechanism's weights are never negative
    first_query    the index of the first query: not 0 in a step of a recurrent decoder
    """

    name: str
    role: Literal["self", "cross", "pooling"]
    value: Float[Tensor, "batch heads keys value_dim"]
    outputs: tuple[Float[Tensor, "batch heads steps value_dim"], ...]
    projection: Float[Tensor, "heads value_dim model_dim"] | None = None
    bias: Float[Tensor, " model_dim"] | None = None
    mask: Mask = NO_MASK
    is_causal: bool = False
    nonnegative: bool = True
    first_query: int = 0
    compute_weights: Callable[[], Tensor] = field(repr=False)

    @property
    def num_heads(self) -> int:
        """The number of query heads."""
        return self.value.shape[1]

    @property
    def num_keys(self) -> int:
        """The number of keys."""
        return self.value.shape[2]

    @property
    def num_queries(self) -> int:
        """The number of queries."""
        return sum(each.shape[2] for each in self.outputs)

    @property
    def output(self) -> Float[Tensor, "batch heads queries value_dim"]:
        """What the heads write: weights @ value."""
        return torch.cat([each.detach() for each in self.outputs], dim=2)

    @property
    def gradient(self) -> Float[Tensor, "batch heads queries value_dim"]:
        """The gradient of what was differentiated with respect to `output`; zeros where it has none."""
        pieces = [
            torch.zeros_like(each) if each.grad is None else each.grad for each in self.outputs
        ]
        return torch.cat(pieces, dim=2)

    @torch.no_grad()
    def weights(self) -> Float[Tensor, "batch heads queries keys"]:
        """The attention weights, computed when they are asked for; they may be negative."""
        return self.compute_weights().detach()

    @torch.no_grad()
    def written_values(self) -> Float[Tensor, "batch heads keys model_dim"]:
        """What each head would write if it attended to one key only: value @ projection."""
        value = self.value.detach()
        return value if self.projection is None else value @ self.projection.detach()

    @torch.no_grad()
    def written(self) -> Float[Tensor, "batch queries model_dim"]:
        """The output of the layer, before the residual connection."""
        if self.projection is None:
            return self.output.sum(dim=1)
        written = torch.einsum("bhqv,hvm->bqm", self.output, self.projection.detach())
        return written if self.bias is None else written + self.bias.detach()


@runtime_checkable
class Intervention(Protocol):
    """A change of what an attention layer writes; see `explain/interventions.py`."""

    @property
    def layer(self) -> str:
        """The name of the layer: that of its `AttentionCall`."""
        ...

    def edit(self, call: AttentionCall) -> Float[Tensor, "batch heads queries keys"]:
        """The attention weights instead of `call.compute_weights()`."""
        ...

    def apply(
        self, call: AttentionCall, output: Float[Tensor, "batch heads queries value_dim"]
    ) -> Float[Tensor, "batch heads queries value_dim"]:
        """What the heads write instead of `output`: `edit(call) @ call.value`."""
        ...

    def validate(self, call: AttentionCall) -> None:
        """Raise an error for a head or position that the finished call does not have."""
        ...


def intervene(
    call: AttentionCall, interventions: Iterable[Intervention]
) -> tuple[AttentionCall, Tensor]:
    """The call after the interventions in its layer, and what its heads write; it has one output."""
    (output,) = call.outputs
    for each in interventions:
        if each.layer == call.name:
            output = each.apply(call, output)
            call = replace(call, outputs=(output,), compute_weights=partial(each.edit, call))
    if output.requires_grad:
        output.retain_grad()
    return call, output


@dataclass(eq=False)
class Trace:
    """The calls of a forward pass by name, in order, and the inputs of the streams they read.

    embedded   with `hold`: what goes into the first block, or comes out of the embedding of a model without
               blocks, by stream: "input", and "output" of a decoder
    """

    calls: dict[str, AttentionCall] = field(default_factory=dict)
    embedded: dict[str, Tensor] = field(default_factory=dict)

    def __getitem__(self, name: str) -> AttentionCall:
        """The call of a layer."""
        found: AttentionCall = lookup("attention layer", name, self.calls)
        return found

    def __iter__(self) -> Iterator[AttentionCall]:
        return iter(self.calls.values())

    def __len__(self) -> int:
        return len(self.calls)

    def backward(
        self, value: Float[Tensor, "..."], *, layers: Collection[str] | None = None
    ) -> None:
        """Set `gradient` of every call, or those of `layers`, to that of the sum of `value`.

        Parameters get no gradient.
        """
        called = [call for call in self if layers is None or call.name in layers]
        pieces = [each for call in called for each in call.outputs if each.requires_grad]
        for each in pieces:
            each.grad = None
        if pieces:
            value.sum().backward(inputs=pieces)


@contextmanager
def trace_attention(
    model: nn.Module, *, interventions: Iterable[Intervention] = (), hold: bool = False
) -> Iterator[Trace]:
    """Record the attention of the last forward pass inside the `with` block.

    hold    queries, keys, gates and the scales of layer norms are constants of the backward pass, and the
            inputs of the first blocks are leaves (`Trace.embedded`)

    The model should be in evaluation mode. A layer that is called more than once in one pass is recorded as
    "encoder/0", "encoder/0#2", … An intervention that names no layer that was called is an error.
    """
    tracer = _Tracer(model, interventions=tuple(interventions), hold=hold)
    with ExitStack() as stack:
        for undo in tracer.attach():
            stack.callback(undo)
        yield tracer.trace
    for intervention in tracer.interventions:
        intervention.validate(tracer.trace[intervention.layer])


Undo = Callable[[], object]


class _Tracer:
    """The hooks of one trace."""

    def __init__(
        self, model: nn.Module, *, interventions: tuple[Intervention, ...], hold: bool
    ) -> None:
        self.model, self.trace = model, Trace()
        self.interventions, self.hold = interventions, hold
        self._owners: dict[str, str] = {}  # the path of the module that has a name
        self._leaves: dict[str, nn.Module] = {}  # the first module of each stream
        self._in_pass, self._calls = False, Counter[str]()

    def attach(self) -> Iterator[Undo]:
        """Add all hooks; each of what is returned removes one."""
        for name in PASSES:
            if callable(getattr(type(self.model), name, None)):
                yield _patched(self.model, name, self._pass)
        for path, module in self.model.named_modules():
            yield from self._attach(path, module)
        if self.hold:
            yield from self._attach_streams()

    def _attach(self, path: str, module: nn.Module) -> Iterator[Undo]:
        if isinstance(module, MultiHead):
            hook: Any = partial(self._attended, path, module)
            yield module.mechanism.register_forward_hook(hook, with_kwargs=True).remove
            if self.hold:
                before = module.mechanism.register_forward_pre_hook
                yield before(_hold_inputs, with_kwargs=True).remove
        elif isinstance(module, POOLINGS):
            yield module.register_forward_hook(partial(self._pooled, path)).remove
        elif isinstance(module, RecurrentDecoder) and module.mechanism is not None:
            reads = _RecurrentReads(self, module.mechanism)
            yield _patched(module, "encode_source", reads.start)
            yield _patched(module, "_attend", reads.read)
        elif self.hold and isinstance(module, nn.LayerNorm | nn.RMSNorm):
            yield module.register_forward_hook(held_norm).remove

    def _attach_streams(self) -> Iterator[Undo]:
        """Make leaves of the inputs of blocks, or of embeddings where there are no blocks."""
        without = {"input", "output"}
        for module in self.model.modules():
            if stream := BLOCKS.get(type(module)):
                without.discard(stream)
                hook: Any = partial(self._entered, stream)
                yield module.register_forward_pre_hook(hook).remove
        inside: tuple[str, ...] = ()
        for path, module in self.model.named_modules():
            if path.startswith(inside):
                continue
            stream = "output" if path.endswith("target_embedding") else "input"
            if isinstance(module, EMBEDDINGS) or _is_stem(path):
                inside = (*inside, f"{path}.")
                if stream not in without:
                    continue
                if isinstance(module, TokenEmbedding):
                    yield _patched(module, "embed", partial(self._embedded, stream, module))
                else:
                    yield module.register_forward_hook(partial(self._stemmed, stream)).remove

    def _pass(self, original: Callable[..., Any], *inputs: Any, **kwargs: Any) -> Any:
        """A forward pass of the model; one inside another is a part of it."""
        if self._in_pass:
            return original(*inputs, **kwargs)
        self._in_pass = True
        self._calls.clear()
        self.trace.calls.clear()
        try:
            return original(*inputs, **kwargs)
        finally:
            self._in_pass = False

    def _attended(
        self,
        path: str,
        layer: MultiHead,
        mechanism: Mechanism,
        inputs: tuple[Any, ...],
        kwargs: dict[str, Any],
        output: Tensor,
    ) -> Tensor:
        query, key, value, *rest = inputs
        mask: Mask = rest[0] if rest else kwargs.get("mask", NO_MASK)
        gates = {name: each for name, each in kwargs.items() if name not in ("mask", "dropout")}
        sizes, weight = layer.sizes, layer.output.weight
        call = AttentionCall(
            name=self._name(path, layer_name(path, role=layer.role, is_causal=mask.causal)),
            role=layer.role,
            value=repeat_heads(value, sizes.num_heads),
            outputs=(output,),
            projection=weight.t().unflatten(0, (sizes.num_heads, sizes.value_dim)),
            bias=layer.output.bias,
            mask=mask,
            is_causal=mask.causal,
            nonnegative=mechanism.capabilities.nonnegative,
            compute_weights=partial(mechanism.weights, query, key, mask, **gates),
        )
        return self.record(call)

    def _pooled(
        self, path: str, layer: nn.Module, inputs: tuple[Any, ...], output: Pooled
    ) -> Pooled:
        del layer
        weights = output.weights.detach() if self.hold else output.weights
        call = AttentionCall(
            name=self._name(path, layer_name(path, role="pooling", is_causal=False)),
            role="pooling",
            value=inputs[0][:, None],
            outputs=((weights @ inputs[0])[:, None],),
            mask=inputs[1] if len(inputs) > 1 else NO_MASK,
            compute_weights=lambda: weights[:, None],
        )
        return Pooled(self.record(call)[:, 0], output.weights)

    def record(self, call: AttentionCall) -> Tensor:
        """Record a call, and what its heads write after the interventions."""
        self.trace.calls[call.name], output = intervene(call, self.interventions)
        return output

    def _name(self, path: str, name: str) -> str:
        """The name of the next call of a module: its path, if another module has the name."""
        if self._owners.setdefault(name, path) != path:
            name = path
        if not self._in_pass:
            return name
        self._calls[name] += 1
        return name if self._calls[name] == 1 else f"{name}#{self._calls[name]}"

    @property
    def in_pass(self) -> bool:
        """Whether a forward pass of the model is running."""
        return self._in_pass

    def _leaf(self, stream: str, module: nn.Module, x: Tensor) -> Tensor:
        """The input of a stream as a leaf, if this is its first module."""
        if self._leaves.setdefault(stream, module) is not module:
            return x
        self.trace.embedded[stream] = leaf = x.detach().requires_grad_()
        return leaf

    def _entered(self, stream: str, module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        return (self._leaf(stream, module, inputs[0]), *inputs[1:])

    def _embedded(
        self, stream: str, module: nn.Module, original: Callable[[Tensor], Tensor], tokens: Tensor
    ) -> Tensor:
        return self._leaf(stream, module, original(tokens))

    def _stemmed(self, stream: str, module: nn.Module, inputs: Any, output: Any) -> Any:
        del inputs
        if isinstance(output, FrameInput):
            return replace(output, frames=self._leaf(stream, module, output.frames))
        return self._leaf(stream, module, output)


class _RecurrentReads:
    """The reads of a recurrent decoder from its source, as one call of one layer."""

    def __init__(self, tracer: _Tracer, mechanism: Mechanism) -> None:
        self._tracer, self._mechanism = tracer, mechanism
        self._steps: list[AttentionCall] = []

    def start(self, original: Callable[..., Any], memory: Tensor, mask: Mask) -> Any:
        """Encode the source, and remember its keys and values."""
        self._memory, self._mask, self._steps = memory[:, None], mask, []
        return original(memory, mask)

    def read(self, original: Callable[..., Tensor], source: Any, queries: Tensor) -> Tensor:
        """What the decoder reads; queries are those of one step, or of all."""
        if not self._tracer.in_pass:
            return original(source, queries)
        query, key = queries[:, None], self._memory
        if self._tracer.hold:
            query, key = query.detach(), key.detach()
        weights = partial(self._mechanism.weights, query, key, self._mask)
        held = self._tracer.hold
        output = weights() @ self._memory if held else original(source, queries)[:, None]
        step = AttentionCall(
            name="cross/0",
            role="cross",
            value=self._memory,
            outputs=(output,),
            mask=self._mask,
            nonnegative=self._mechanism.capabilities.nonnegative,
            first_query=sum(each.num_queries for each in self._steps),
            compute_weights=weights,
        )
        step, output = intervene(step, self._tracer.interventions)
        self._steps.append(step)
        steps = self._steps
        self._tracer.trace.calls[step.name] = replace(
            step,
            outputs=tuple(piece for each in steps for piece in each.outputs),
            first_query=0,
            compute_weights=lambda: torch.cat([each.compute_weights() for each in steps], dim=2),
        )
        return output[:, 0]


def _patched(owner: nn.Module, name: str, wrapper: Callable[..., Any]) -> Undo:
    """Replace a method of one object by wrapper(method, …); what is returned restores it."""
    original, before = getattr(owner, name), vars(owner).get(name)
    setattr(owner, name, partial(wrapper, original))

    def undo() -> None:
        if before is None:
            delattr(owner, name)
        else:
            setattr(owner, name, before)

    return undo


def _hold_inputs(
    mechanism: nn.Module, inputs: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Query, key and gates as constants; the output is then linear in the values."""
    del mechanism
    query, key, *rest = inputs
    held = {
        name: each.detach() if isinstance(each, Tensor) else each for name, each in kwargs.items()
    }
    return (query.detach(), key.detach(), *rest), held


def held_norm(norm: Any, inputs: tuple[Any, ...], output: Tensor) -> Tensor:
    """A forward hook of `nn.LayerNorm` and `nn.RMSNorm`: the same output with a constant scale."""
    (x,) = inputs
    dims = tuple(range(-len(norm.normalized_shape), 0))
    bias = getattr(norm, "bias", None)
    if isinstance(norm, nn.LayerNorm):
        x = x - x.mean(dim=dims, keepdim=True)
    eps = torch.finfo(x.dtype).eps if norm.eps is None else norm.eps
    x = x * (x.detach().square().mean(dim=dims, keepdim=True) + eps).rsqrt()
    x = x if norm.weight is None else x * norm.weight
    held: Tensor = x if bias is None else x + bias
    # The values are those of the fast path to the last bit.
    return held + (output - held).detach()


def _is_stem(path: str) -> bool:
    return path.rpartition(".")[2] == "stem"


SLOTS = {"self": "encoder", "cross": "cross", "pooling": "pooling"}
OWN_NAMES = ("", "attention", "self_attention", "cross_attention", "pooling")


def layer_name(path: str, *, role: str, is_causal: bool) -> str:
    """The name of an attention layer in a model: its slot and number, or the path of a layer without one.

    >>> layer_name("decoder.1.cross_attention", role="cross", is_causal=False)
    'cross/1'
    >>> layer_name("blocks.0.attention", role="self", is_causal=True)
    'decoder/0'
    >>> layer_name("cross_attention", role="cross", is_causal=False)
    'cross/0'
    >>> layer_name("sentence_pooling", role="pooling", is_causal=False)
    'sentence_pooling'
    """
    slot = "decoder" if role == "self" and is_causal else SLOTS[role]
    numbers = re.findall(r"(?:^|\.)(\d+)(?=\.|$)", path)
    if numbers:
        return f"{slot}/{int(numbers[-1])}"
    return f"{slot}/0" if path in OWN_NAMES else path
