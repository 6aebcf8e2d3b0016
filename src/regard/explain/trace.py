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
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, Protocol

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.core.errors import RegardError
from regard.core.masks import NO_MASK, Mask
from regard.core.mechanism import Mechanism, repeat_heads
from regard.core.registry import lookup
from regard.layers.multi_head import MultiHead
from regard.layers.pooling import ContextPooling, Pooled, StructuredPooling
from regard.models.seq2seq.recurrent_decoder import RecurrentDecoder

POOLINGS = (ContextPooling, StructuredPooling)


@dataclass(frozen=True, eq=False, kw_only=True)
class AttentionCall:
    """One call of one attention layer.

    name           "encoder/0", "decoder/0", "cross/0", "pooling/0", or the path of the module
    role           "self"; "cross" if keys and values are of another sequence; "pooling" for learned queries
    value          the values, repeated for the query heads that share them
    outputs        what the heads write; several pieces if decoded step by step
    projection     from the concatenated heads to the output; None: the heads are the output
    bias           added by the projection
    is_causal      whether a position attends to itself and earlier ones only
    nonnegative    whether the mechanism's weights are never negative
    """

    name: str
    role: Literal["self", "cross", "pooling"]
    value: Float[Tensor, "batch heads keys value_dim"]
    outputs: tuple[Float[Tensor, "batch heads steps value_dim"], ...]
    projection: Float[Tensor, "heads value_dim model_dim"] | None = None
    bias: Float[Tensor, " model_dim"] | None = None
    is_causal: bool = False
    nonnegative: bool = True
    compute_weights: Callable[[], Tensor] = field(repr=False)

    @property
    def num_heads(self) -> int:
        """The number of query heads."""
        return self.value.shape[1]

    @property
    def output(self) -> Float[Tensor, "batch heads queries value_dim"]:
        """What the heads write: weights @ value."""
        return torch.cat([each.detach() for each in self.outputs], dim=2)

    @property
    def gradient(self) -> Float[Tensor, "batch heads queries value_dim"]:
        """The gradient of what was differentiated with respect to `output`; zeros where it has none."""
        pieces = [torch.zeros_like(each) if each.grad is None else each.grad for each in self.outputs]
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


class Intervention(Protocol):
    """A change of what an attention layer writes; see `explain/interventions.py`."""

    @property
    def layer(self) -> str:
        """The name of the layer: that of its `AttentionCall`."""
        ...

    def apply(
        self, call: AttentionCall, output: Float[Tensor, "batch heads queries value_dim"]
    ) -> Float[Tensor, "batch heads queries value_dim"]:
        """What the heads write instead of `output`."""
        ...


@dataclass(eq=False)
class Trace:
    """The calls of a forward pass by name, in order, and the inputs of the streams they read.

    embedded   with `hold`: what goes into the first block, by stream: "input", and "output" of a decoder
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


@contextmanager
def trace_attention(
    model: nn.Module, *, interventions: Iterable[Intervention] = (), hold: bool = False
) -> Iterator[Trace]:
    """Record the attention of the forward passes inside the `with` block; a later call replaces an earlier one.

    hold    queries, keys, gates and the scales of layer norms are constants of the backward pass, and the
            inputs of the first blocks are leaves (`Trace.embedded`)

    The model should be in evaluation mode. An intervention that names no layer that was called is an error.
    """
    tracer = _Tracer(interventions=tuple(interventions), hold=hold)
    with ExitStack() as stack:
        for path, module in model.named_modules():
            for handle in tracer.attach(path, module):
                stack.callback(handle)
        yield tracer.trace
    known = tracer.trace.calls
    for intervention in tracer.interventions:
        lookup("attention layer", intervention.layer, known)


Undo = Callable[[], object]


class _Tracer:
    """The hooks of one trace."""

    def __init__(self, *, interventions: tuple[Intervention, ...], hold: bool) -> None:
        self.trace, self.interventions, self.hold = Trace(), interventions, hold

    def attach(self, path: str, module: nn.Module) -> list[Undo]:
        """Add the hooks of a module; what is returned removes them."""
        if isinstance(module, MultiHead):
            return self._attach_mechanism(path, module)
        if isinstance(module, POOLINGS):
            return [module.register_forward_hook(partial(self._pooled, path)).remove]
        if isinstance(module, RecurrentDecoder) and module.mechanism is not None:
            return [_patched(module, "_attend", partial(self._read, module)), *self._source(module)]
        if not self.hold:
            return []
        if isinstance(module, nn.LayerNorm):
            return [module.register_forward_hook(_held_norm).remove]
        if stream := _stream_of(path, module):
            hook = partial(self._embedded, stream)
            return [module.register_forward_pre_hook(hook).remove]
        return []

    def _attach_mechanism(self, path: str, layer: MultiHead) -> list[Undo]:
        mechanism = layer.mechanism
        found = [
            mechanism.register_forward_hook(
                partial(self._attended, path, layer), with_kwargs=True
            ).remove
        ]
        if self.hold:
            found.append(
                mechanism.register_forward_pre_hook(_hold_inputs, with_kwargs=True).remove
            )
        return found

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
        return self._add(
            AttentionCall(
                name=layer_name(path, role=layer.role, is_causal=mask.causal),
                role=layer.role,
                value=repeat_heads(value, sizes.num_heads),
                outputs=(output,),
                projection=weight.t().unflatten(0, (sizes.num_heads, sizes.value_dim)),
                bias=layer.output.bias,
                is_causal=mask.causal,
                nonnegative=mechanism.capabilities.nonnegative,
                compute_weights=partial(mechanism.weights, query, key, mask, **gates),
            ),
            output,
        )

    def _pooled(self, path: str, layer: nn.Module, inputs: Any, output: Pooled) -> Pooled:
        weights = output.weights.detach() if self.hold else output.weights
        context = (weights @ inputs[0])[:, None]
        call = AttentionCall(
            name=f"pooling/{_last_number(path) or 0}",
            role="pooling",
            value=inputs[0][:, None],
            outputs=(context,),
            compute_weights=lambda: output.weights[:, None],
        )
        return Pooled(self._add(call, context)[:, 0], output.weights)

    def _source(self, decoder: RecurrentDecoder) -> list[Undo]:
        """Remember the keys and values of a recurrent decoder when it encodes its source."""
        encode = decoder.encode_source

        def encode_source(memory: Tensor, mask: Mask) -> Any:
            self._memory, self._mask, self._reads = memory, mask, []
            return encode(memory, mask)

        return [_patched(decoder, "encode_source", encode_source)]

    def _read(self, decoder: RecurrentDecoder, source: Any, queries: Tensor) -> Tensor:
        mechanism: Any = decoder.mechanism
        if self.hold:
            queries = queries.detach()
        output: Tensor = mechanism.read(source, queries[:, None])
        self._reads.append((queries[:, None], output))
        query = torch.cat([each for each, _ in self._reads], dim=2)
        call = AttentionCall(
            name="cross/0",
            role="cross",
            value=self._memory[:, None],
            outputs=tuple(each for _, each in self._reads),
            nonnegative=mechanism.capabilities.nonnegative,
            compute_weights=partial(mechanism.weights, query, self._memory[:, None], self._mask),
        )
        return self._add(call, output)[:, 0]

    def _add(self, call: AttentionCall, output: Tensor) -> Tensor:
        """Record a call, and what its heads write after the interventions."""
        changed = output
        for each in self.interventions:
            if each.layer == call.name:
                changed = each.apply(call, changed)
        if changed.requires_grad:
            changed.retain_grad()
        outputs = (*call.outputs[:-1], changed)
        self.trace.calls[call.name] = replace(call, outputs=outputs)
        return changed

    def _embedded(self, stream: str, module: nn.Module, inputs: Any) -> Any:
        leaf = inputs[0].detach().requires_grad_()
        self.trace.embedded[stream] = leaf
        return (leaf, *inputs[1:])


def layer_name(path: str, *, role: str, is_causal: bool) -> str:
    """The name of an attention layer in a model: its slot and number, or the path of a layer without one.

    >>> layer_name("decoder.1.cross_attention", role="cross", is_causal=False)
    'cross/1'
    >>> layer_name("blocks.0.attention", role="self", is_causal=True)
    'decoder/0'
    """
    number = _last_number(path)
    if number is None:
        return path or "attention"
    slot = "cross" if role == "cross" else "decoder" if is_causal else "encoder"
    return f"{slot}/{number}"


def _last_number(path: str) -> int | None:
    found = re.findall(r"(?:^|\.)(\d+)(?=\.|$)", path)
    return int(found[-1]) if found else None
