"""Methods that say what each position contributes to each other, layer by layer: `METHODS`.

    weights             W_ij
    contribution_norm   ‖W_ij · v_j W_O‖                        (Kobayashi et al. 2020)
    value_zeroing       1 − cos(o_i, o_i without v_j)           (Mohebbi et al. 2023)
    gradient_attention  W_ij · ∂f/∂W_ij, with ∂f/∂W = ∂f/∂o · vᵀ
    rollout             products of ½(W + 1) over the layers    (Abnar and Zuidema 2020), a heuristic

o_i is the output of the attention layer, before the residual connection, and f what is explained. All of
them need the weights and the values of a call only, for any mechanism: no softmax, no second forward pass
and no weights in the graph. `docs/explain.md` has the formulas with examples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.core.errors import RegardError
from regard.core.registry import lookup
from regard.explain.trace import AttentionCall, Trace

Maps = Float[Tensor, "batch heads_or_1 queries keys"]
# Rows of queries are taken together up to so many numbers.
CHUNK_NUMBERS = 4_000_000


@dataclass(frozen=True, kw_only=True)
class MethodEntry:
    """A method: what it shows, and how to compute it from one call.

    title            its name on a page
    meaning          one sentence
    signed           whether values may be negative; the weights of some mechanisms are negative anyway
    heuristic        whether it is no exact property of the layer
    per_head         whether there is a map per head, or one of all heads
    needs_gradient   whether `Trace.backward` must have been called
    function         the maps of a call; None for rollout, which needs the whole trace
    """

    title: str
    meaning: str
    signed: bool = False
    heuristic: bool = False
    per_head: bool = True
    needs_gradient: bool = False
    function: Callable[[AttentionCall], Maps] | None = None


def weights(call: AttentionCall) -> Float[Tensor, "batch heads queries keys"]:
    """The attention weights: the map from values to what the heads write."""
    return call.weights()


@torch.no_grad()
def contribution_norm(call: AttentionCall) -> Float[Tensor, "batch heads queries keys"]:
    """The length of what a key adds to the output of a query: |W_ij| · ‖v_j W_O‖, for each head."""
    return call.weights().abs() * call.written_values().norm(dim=-1)[:, :, None]


@torch.no_grad()
def contributions(call: AttentionCall, query: int) -> Float[Tensor, "batch heads keys model_dim"]:
    """The vectors that each key adds to the output of one query: with the bias, their sum is the output."""
    if not 0 <= query < call.num_queries:
        raise RegardError(
            f"query={query}: the layer '{call.name}' has {call.num_queries} queries. Choose one from 0 to "
            f"{call.num_queries - 1}."
        )
    return call.weights()[:, :, query, :, None] * call.written_values()


@torch.no_grad()
def value_zeroing(call: AttentionCall) -> Float[Tensor, "batch 1 queries keys"]:
    """How far the output of a query turns if a value is set to zero in all heads: a cosine distance.

    With o_i = b + Σ_hj W_hij u_hj and u_hj = v_hj W_O, the output without v_j is o_i − d_ij with
    d_ij = Σ_h W_hij u_hj. The cosine needs o_i · d_ij and ‖d_ij‖² only, weighted sums of o_i · u_hj and
    of u_hj · u_gj. If nothing is left the distance is 1.
    """
    weights, output, value = call.weights(), call.written(), call.value.detach().double()
    # ‖o − d‖² is a difference: in float64 its error is that of the fast path.
    tolerance, exact = torch.finfo(output.dtype).eps, output.double()
    written = call.written_values().double()
    gram = torch.einsum("bhkm,bgkm->bkhg", written, written)
    read = exact[:, None]
    if call.projection is not None:
        read = torch.einsum("bqm,hvm->bhqv", exact, call.projection.detach().double())
    rows = max(1, CHUNK_NUMBERS // max(1, weights[:, :, 0].numel()))
    found = []
    for start in range(0, call.num_queries, rows):
        some = slice(start, start + rows)
        chunk, o, seen = weights[:, :, some].double(), exact[:, some], read[:, :, some]
        along = (chunk * (seen @ value.transpose(2, 3))).sum(dim=1)
        by_key = chunk.permute(0, 3, 2, 1)
        removed = ((by_key @ gram) * by_key).sum(dim=-1).transpose(1, 2)
        found.append(_turned(o.square().sum(dim=-1)[:, :, None], along, removed, tolerance))
    return torch.cat(found, dim=1)[:, None].to(call.value.dtype)


def _turned(
    whole: Float[Tensor, "batch queries 1"],
    along: Float[Tensor, "batch queries keys"],
    removed: Float[Tensor, "batch queries keys"],
    tolerance: float,
) -> Float[Tensor, "batch queries keys"]:
    """The cosine distance between o and o − d, from ‖o‖², o · d and ‖d‖²."""
    left = (whole - 2 * along + removed).clamp(min=0)
    # Below this a vector is rounding error of the sum it is left of.
    noise = max((8 * tolerance) ** 2, 16 * torch.finfo(whole.dtype).eps) * (whole + removed)
    cosine = (whole - along) / (whole * left).sqrt().clamp(min=torch.finfo(whole.dtype).tiny)
    distance = 1 - cosine.clamp(-1, 1)
    distance = torch.where(left <= noise, torch.ones_like(distance), distance)
    # Nothing is removed, or there was nothing.
    return distance.masked_fill((removed <= 0) | (whole <= 0), 0.0)


@torch.no_grad()
def gradient_attention(call: AttentionCall) -> Float[Tensor, "batch heads queries keys"]:
    """Weights times the gradient of the explained value with respect to them, signed.

    The gradient is ∂f/∂o · vᵀ, because o = W v. So the sum over keys of a row is o · ∂f/∂o.
    """
    return call.weights() * (call.gradient @ call.value.detach().transpose(2, 3))


# The first is the default.
METHODS: dict[str, MethodEntry] = {
    "weights": MethodEntry(
        title="Attention weights",
        meaning="The share of each value in what the query's head reads.",
        function=weights,
    ),
    "contribution_norm": MethodEntry(
        title="Contribution norm",
        meaning="The length of the vector that a key adds to the query's output in this head.",
        function=contribution_norm,
    ),
    "value_zeroing": MethodEntry(
        title="Value zeroing",
        meaning="How far the layer's output for the query turns if the key's value is zero in all heads.",
        per_head=False,
        function=value_zeroing,
    ),
    "gradient_attention": MethodEntry(
        title="Gradient × attention",
        meaning="How much the explained value would fall, to first order, without this weight.",
        signed=True,
        needs_gradient=True,
        function=gradient_attention,
    ),
    "rollout": MethodEntry(
        title="Attention rollout",
        meaning="Products of the mean weights and residual connections of all layers so far; values, "
        "projections and feed-forward layers are ignored.",
        heuristic=True,
        per_head=False,
    ),
}


def method_maps(trace: Trace, method: str) -> dict[str, Maps]:
    """The maps of every layer that the method has one of."""
    entry: MethodEntry = lookup("method", method, METHODS)
    if entry.function is None:
        return rollout(trace)
    return {call.name: entry.function(call) for call in trace}


@torch.no_grad()
def rollout(trace: Trace) -> dict[str, Float[Tensor, "batch 1 queries keys"]]:
    """The rollout up to each self-attention layer, by stack: "encoder/0", …, and "decoder/0", …

    Each layer is ½(mean of |W| over the heads, rows normalised) + ½ identity (Abnar and Zuidema 2020). It
    follows positions through the weights and residual connections only, so it is no exact property of the
    model. Weights may be negative here, which the paper does not consider: their absolute value is taken.
    """
    found: dict[str, Tensor] = {}
    for stack in ("encoder/", "decoder/"):
        before: Tensor | None = None
        for call in _square_calls(trace, stack):
            mean = F.normalize(call.weights().abs().mean(dim=1), p=1, dim=-1)
            layer = (mean + torch.eye(mean.shape[-1], dtype=mean.dtype, device=mean.device)) / 2
            # A row without keys has the residual connection only.
            layer = F.normalize(layer, p=1, dim=-1)
            if before is not None and before.shape != layer.shape:
                break
            before = layer if before is None else layer @ before
            found[call.name] = before[:, None]
    return found


def _square_calls(trace: Trace, stack: str) -> Iterator[AttentionCall]:
    return (call for call in trace if call.name.startswith(stack) and call.role == "self")
