"""One operator as the time model sees it: what kind of work, and how much of it.

Kinds and their sizes:

    product                 (batch, rows, inner, columns) of a matrix product
    solve                   (batch, size, columns) of a triangular system
    attention, …_backward   (rows, queries, keys, width) of fused attention
    causal_attention, …     (rows, length, width) of the same under a causal mask
    convolution, …          (positions, inner, columns) of a convolution
    recurrent, …_backward   (steps, batch, inputs, hidden) of a fused recurrent layer
    view                    nothing is moved; only the call takes time
    all other kinds         (bytes,) read and written: plain, exp, softmax, gather …
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_iter

from regard.core.counter import bytes_of, moved_by


class OperatorCall(NamedTuple):
    """A kind of work and its sizes, as this module's text lists them."""

    kind: str
    sizes: tuple[int, ...]


_aten = torch.ops.aten

# Kinds whose operators have names of their own. What is not listed is "plain".
KINDS: dict[str, tuple[str, ...]] = {
    "exp": ("exp", "exp2", "expm1", "elu", "celu", "elu_backward"),
    "log": ("log", "log2", "log1p", "log10", "logsumexp"),
    "tanh": ("tanh", "erf", "gelu", "gelu_backward", "mish"),
    "sigmoid": ("sigmoid", "silu", "silu_backward", "softplus", "log_sigmoid_forward", "glu"),
    "sine": ("sin", "cos", "tan"),
    "divide": ("div", "reciprocal", "sqrt", "rsqrt"),
    "compare": (
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "isneginf",
        "isnan",
        "bitwise_not",
        "bitwise_and",
    ),
    "choose": ("where", "masked_fill"),
    "softmax": ("softmax", "_softmax", "_safe_softmax", "_log_softmax", "log_softmax"),
    "softmax_backward": ("_softmax_backward_data", "_log_softmax_backward_data"),
    "layer_norm": ("native_layer_norm",),
    "layer_norm_backward": ("native_layer_norm_backward",),
    "cumulate": ("cumsum", "logcumsumexp", "cummax"),
    "gather": ("index_select", "embedding"),
    "pick": ("gather", "take_along_dim"),
    "index": ("index",),
    "remainder": ("remainder", "fmod", "floor_divide"),
    "scatter": (
        *("embedding_dense_backward", "index_add", "index_put", "_index_put_impl", "scatter_add"),
        *("nll_loss_backward", "scatter"),
    ),
    "random": (
        "bernoulli",
        "rand",
        "randn",
        "random",
        "uniform",
        "normal",
        "native_dropout",
        "rand_like",
    ),
    "optimise": ("_fused_adamw", "_fused_adam"),
    "sort": ("sort", "topk"),
}
KIND_OF = {name: kind for kind, names in KINDS.items() for name in names}
REDUCTIONS = {
    *("sum", "mean", "amax", "amin", "max", "min", "any", "all", "argmax"),
    *("linalg_vector_norm", "norm"),
}
COPIES = {
    *("clone", "copy", "_to_copy", "contiguous", "cat", "stack", "flip", "constant_pad_nd"),
    *("tril", "triu"),
}
# They allocate and touch nothing, or only answer a question.
IDLE = {
    *("empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided"),
    *("lift_fresh", "detach", "alias"),
}
PRODUCTS = {"mm", "bmm", "addmm", "baddbmm", "addbmm"}
FUSED_ATTENTION = "_scaled_dot_product_flash_attention_for_cpu"


def describe(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> OperatorCall:
    """The kind and sizes of an operator that was called."""
    name = func.overloadpacket.__name__
    stem = name[:-1] if name.endswith("_") and not name.startswith("__") else name
    if func.is_view or stem in IDLE:
        return OperatorCall("view", ())
    if stem in PRODUCTS:
        return _product(*args[-2:])
    if stem in ("mv", "addmv", "dot"):
        left = args[-2]
        return OperatorCall("product", (1, math.prod(left.shape[:-1]), left.shape[-1], 1))
    if stem == FUSED_ATTENTION:
        return _attention("", *args[:2], causal=_flag(args, kwargs, 4))
    if stem == f"{FUSED_ATTENTION}_backward":
        return _attention("_backward", *args[1:3], causal=_flag(args, kwargs, 7))
    if stem in ("mkldnn_rnn_layer", "mkldnn_rnn_layer_backward"):
        steps, batch, inputs = args[0].shape
        kind = "recurrent_backward" if stem.endswith("backward") else "recurrent"
        return OperatorCall(kind, (steps, batch, inputs, args[2].shape[1]))
    if stem in ("convolution", "convolution_backward"):
        # Positions that are written, or, going back, whose gradient is read.
        weight, positions = (args[1], output) if stem == "convolution" else (args[2], args[0])
        count = positions.numel() // positions.shape[1]
        return OperatorCall(stem, (count, math.prod(weight.shape[1:]), weight.shape[0]))
    if "solve" in stem:
        triangle, right = args[:2]
        batch, size = math.prod(triangle.shape[:-2]), triangle.shape[-1]
        return OperatorCall("solve", (batch, size, right.shape[-1]))
    moved = moved_by(func, args, kwargs, output)
    if stem != name and isinstance(output, Tensor):
        moved -= bytes_of(output)  # written where it was read: the memory is at hand
    return OperatorCall(_moving_kind(stem, args), (moved,))


def _moving_kind(stem: str, args: tuple[Any, ...]) -> str:
    if stem in KIND_OF:
        return KIND_OF[stem]
    first = next((part for part in tree_iter(args) if isinstance(part, Tensor)), None)
    if stem in REDUCTIONS:
        return "reduce_last" if first is None or _reduces_last(first, args) else "reduce_first"
    if stem in COPIES:
        source = next((p for p in reversed(list(tree_iter(args))) if isinstance(p, Tensor)), None)
        return "copy" if source is None or _is_dense(source) else "transpose"
    return "plain"


def _reduces_last(tensor: Tensor, args: tuple[Any, ...]) -> bool:
    """Whether the numbers that are added lie side by side."""
    dims = args[1] if len(args) > 1 else None
    if isinstance(dims, int):
        dims = [dims]
    if not isinstance(dims, list | tuple) or not dims:
        return True
    return any(dim % tensor.ndim == tensor.ndim - 1 for dim in dims if isinstance(dim, int))


def _is_dense(tensor: Tensor) -> bool:
    """Whether the numbers of a row lie side by side."""
    return tensor.ndim == 0 or tensor.shape[-1] == 1 or tensor.stride(-1) == 1


def _product(left: Tensor, right: Tensor) -> OperatorCall:
    batch = left.shape[0] if left.ndim == 3 else 1
    return OperatorCall("product", (batch, left.shape[-2], left.shape[-1], right.shape[-1]))


def _attention(which: str, query: Tensor, key: Tensor, *, causal: bool) -> OperatorCall:
    rows = math.prod(query.shape[:-2])
    if causal and query.shape[-2] == key.shape[-2]:
        return OperatorCall(f"causal_attention{which}", (rows, key.shape[-2], query.shape[-1]))
    return OperatorCall(
        f"attention{which}", (rows, query.shape[-2], key.shape[-2], query.shape[-1])
    )


def _flag(args: tuple[Any, ...], kwargs: dict[str, Any], place: int) -> bool:
    return bool(kwargs.get("is_causal", args[place] if len(args) > place else False))
