"""Attribution with held attention: what each input position adds to an output, in one backward pass.

    found = attribute(model, lambda: model(x)[0, label])
    found.scores["input"]         one value per position
    found.completeness_error      |f − Σ scores − biases|

Attention weights and the scales of layer norms are constants, so attention layers, norms and residual
connections are linear, and x · ∂f/∂x says exactly what a position adds, through all layers and heads, to an
output f that is linear in what the last layer writes, such as a logit:

    f = Σ_positions x · ∂f/∂x + Σ_biases b · ∂f/∂b       of layers without activations, and with ReLU

Other activations leave an error, which is reported. What decides the weights themselves is not explained.
(Kobayashi et al. 2021 and Ferrando et al. 2022 decompose a layer like this; Ameisen et al. 2025 a network.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.core.errors import RegardError
from regard.core.mechanism import Mechanism
from regard.core.registry import lookup
from regard.explain.methods import METHODS, Maps, method_maps, rollout
from regard.explain.trace import AttentionCall, Intervention, Trace, trace_attention

Tracing = Callable[..., AbstractContextManager[Trace]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Attribution:
    """What every position adds to an output.

    value     the output f, summed over the batch
    scores    by stream, "input" and "output" of a decoder: x · ∂f/∂x of each position
    biases    what the biases add: Σ b · ∂f/∂b, summed over the batch
    """

    value: float
    scores: dict[str, Float[Tensor, "batch length"]]
    biases: float

    @property
    def completeness_error(self) -> float:
        """|f − Σ scores − biases|: rounding error if the network is linear once weights are held."""
        return abs(
            self.value - self.biases - sum(float(each.sum()) for each in self.scores.values())
        )

    @property
    def relative_error(self) -> float:
        """The completeness error relative to |f|."""
        return self.completeness_error / max(abs(self.value), torch.finfo(torch.float32).tiny)


def attribute(
    model: nn.Module,
    forward: Callable[[], Float[Tensor, "*batch"]],
    *,
    interventions: Iterable[Intervention] = (),
    trace: Tracing = trace_attention,
) -> Attribution:
    """Attribute the output of `forward()`, a number or one per row, to the positions of its streams.

    forward   runs the model in evaluation mode, such as `lambda: model(x)[:, label]`
    trace     how the model is traced, as `trace_attention`
    """
    found = _attribution(model, forward, interventions, trace)
    if found is None:
        raise RegardError(
            f"{type(model).__name__} has neither blocks nor an embedding or stem that was called, so it is "
            "unknown what to attribute to. Build it of EncoderBlock or DecoderBlock, or name its first "
            "module `stem`."
        )
    return found


def _attribution(
    model: nn.Module,
    forward: Callable[[], Tensor],
    interventions: Iterable[Intervention],
    trace: Tracing,
) -> Attribution | None:
    """The attribution; None if there is no input of a stream to attribute to."""
    with (
        _biases_of(model) as biases,
        torch.enable_grad(),
        trace(model, interventions=interventions, hold=True) as found,
    ):
        value = forward().sum()
        if not found.embedded:
            return None
        inputs = [*found.embedded.values(), *biases]
        if not value.requires_grad:
            raise RegardError(
                "The explained value does not depend on the model's input, or was computed without "
                "gradients. Return it from `forward` as a tensor, without detach() or inference_mode()."
            )
        gradients: Sequence[Tensor | None] = torch.autograd.grad(value, inputs, allow_unused=True)
    added = [
        torch.zeros_like(each) if gradient is None else each.detach() * gradient
        for each, gradient in zip(inputs, gradients, strict=True)
    ]
    streams = len(found.embedded)
    return Attribution(
        value=float(value.detach()),
        scores={
            name: each.sum(dim=-1)
            for name, each in zip(found.embedded, added[:streams], strict=True)
        },
        biases=float(sum(float(each.sum()) for each in added[streams:])),
    )


@contextmanager
def _biases_of(model: nn.Module) -> Iterator[list[nn.Parameter]]:
    """The biases of a model, which are added to what flows through it; with gradients, even if frozen.

    Not those of mechanisms, which decide the weights.
    """
    mechanisms = (module for module in model.modules() if isinstance(module, Mechanism))
    held = {id(parameter) for module in mechanisms for parameter in module.parameters()}
    biases = [
        each
        for name, each in model.named_parameters()
        if "bias" in name.rpartition(".")[2] and id(each) not in held
    ]
    frozen = [each for each in biases if not each.requires_grad]
    for each in frozen:
        each.requires_grad_(True)
    try:
        yield biases
    finally:
        for each in frozen:
            each.requires_grad_(False)


IMPORTANCE_METHODS = (*METHODS, "attribution")
Importance = dict[str, Float[Tensor, "batch length"]]


def input_importance(
    model: nn.Module,
    forward: Callable[[], Float[Tensor, "*batch"]],
    *,
    length: int | None = None,
    methods: Iterable[str] = IMPORTANCE_METHODS,
    interventions: Iterable[Intervention] = (),
    trace: Tracing = trace_attention,
) -> Importance:
    """One number per input position by method, for the output of `forward()`, one or one per row.

    length   of the input, padded: layers with another number of keys do not read it; by default that of
             the first attention layer

    weights, contribution_norm, value_zeroing    the last layer that reads the input: the mean of the
                                                 absolute values over heads, and over the queries on which
                                                 the explained output depends
    rollout                                      the same of rollout; a last layer of cross-attention or
                                                 pooling is one more step of it
    gradient_attention                           the sum over all layers that read the input, heads, queries
    attribution                                  its scores of the stream "input"

    A method is left out if the model has no layer for it.
    """
    names = list(methods)
    for name in names:
        lookup("method", name, dict.fromkeys(IMPORTANCE_METHODS))
    with torch.enable_grad(), trace(model, interventions=interventions) as traced:
        value = forward()
    if value.requires_grad:
        traced.backward(value)
    if length is None:
        length = next((call.num_keys for call in traced), None)
    found = {} if length is None else traced_importance(traced, length=length, methods=names)
    if "attribution" in names:
        whole = _attribution(model, forward, interventions, trace)
        if whole is not None and length in (None, whole.scores["input"].shape[1]):
            found["attribution"] = whole.scores["input"]
    return found


def traced_importance(trace: Trace, *, length: int, methods: Iterable[str]) -> Importance:
    """As `input_importance`, of a trace that was differentiated; without attribution."""
    found: Importance = {}
    layers = [call for call in trace if reads_input(trace, call) and call.num_keys == length]
    for name in methods:
        if name == "attribution" or not layers:
            continue
        if name == "gradient_attention":
            maps = [METHODS[name].function(call) for call in layers]  # type: ignore[misc]
            found[name] = torch.stack([each.sum(dim=(1, 2)) for each in maps]).sum(dim=0)
        elif (map_ := _last_map(trace, layers[-1], name)) is not None:
            found[name] = _mean_of_read(layers[-1], map_.abs().mean(dim=1))
    return found


def reads_input(trace: Trace, call: AttentionCall) -> bool:
    """Whether the keys of a layer are positions of the input: not those of a decoder beside an encoder."""
    if call.role != "self" or not call.is_causal:
        return True
    return all(each.role == "self" and each.is_causal for each in trace if each.role != "pooling")


def _last_map(trace: Trace, last: AttentionCall, method: str) -> Maps | None:
    """The maps of the last layer by a method."""
    if method != "rollout":
        return method_maps(Trace({last.name: last}), method)[last.name]
    rolled = rollout(trace)
    if last.name in rolled:
        return rolled[last.name]
    before = [each for name, each in rolled.items() if reads_input(trace, trace[name])]
    if not before:
        return None
    step = nn.functional.normalize(last.weights().abs().mean(dim=1, keepdim=True), p=1, dim=-1)
    return step @ before[-1]


def _mean_of_read(
    call: AttentionCall, rows: Float[Tensor, "batch queries keys"]
) -> Float[Tensor, "batch keys"]:
    """The mean over the queries whose output the explained value depends on; of all if that is unknown."""
    is_read = (call.gradient != 0).any(dim=3).any(dim=1)
    is_read = is_read | ~is_read.any(dim=1, keepdim=True)
    return (rows * is_read[:, :, None]).sum(dim=1) / is_read.sum(dim=1, keepdim=True)
