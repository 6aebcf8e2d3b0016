"""Trace the operators that a workload calls: kind and sizes of each, FLOPs, memory traffic, peak memory.

A workload runs on fake tensors, which have shapes but no data, so that a model of any size is traced
quickly. A workload with data-dependent control flow or output shapes is traced on real tensors.
"""

from __future__ import annotations

import math
from collections import Counter as Tally
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_iter

from regard.core.counter import Counter, bytes_of, is_causal, memory_traffic
from regard.core.counting import fake_or_real


class OperatorCall(NamedTuple):
    """The kind of an operator and its sizes.

    matmul                     (batch, rows, inner, columns)
    triangular_solve           (batch, size, columns)
    attention[_backward]       (batch × heads, queries, keys, width), fused attention
    causal_attention[_backward]  (batch × heads, length, width), fused causal attention
    convolution[_backward]     (positions, inner, columns)
    recurrent[_backward]       (steps, batch, inputs, hidden), fused recurrent layer
    view                       (): no memory traffic
    all others                 (bytes read and written,): elementwise, exp, softmax, gather …
    """

    kind: str
    sizes: tuple[int, ...]


# kind → operator names; operators that are not listed are "elementwise"
KINDS: dict[str, tuple[str, ...]] = {
    "exp": ("exp", "exp2", "expm1", "elu", "celu", "elu_backward"),
    "log": ("log", "log2", "log1p", "log10", "logsumexp"),
    "tanh": ("tanh", "erf", "gelu", "gelu_backward", "mish"),
    "sigmoid": ("sigmoid", "silu", "silu_backward", "softplus", "log_sigmoid_forward", "glu"),
    "sine": ("sin", "cos", "tan"),
    "divide": ("div", "reciprocal", "sqrt", "rsqrt"),
    "compare": (
        *("eq", "ne", "lt", "le", "gt", "ge"),
        *("isneginf", "isnan", "bitwise_not", "bitwise_and"),
    ),
    "where": ("where", "masked_fill"),
    "softmax": ("softmax", "_softmax", "_safe_softmax", "_log_softmax", "log_softmax"),
    "softmax_backward": ("_softmax_backward_data", "_log_softmax_backward_data"),
    "layer_norm": ("native_layer_norm",),
    "layer_norm_backward": ("native_layer_norm_backward",),
    "cumsum": ("cumsum", "logcumsumexp", "cummax"),
    "index_select": ("index_select", "embedding"),
    "gather": ("gather", "take_along_dim"),
    "index": ("index",),
    "remainder": ("remainder", "fmod", "floor_divide"),
    "scatter": (
        *("embedding_dense_backward", "index_add", "index_put", "_index_put_impl", "scatter_add"),
        *("nll_loss_backward", "scatter"),
    ),
    "random": (
        *("bernoulli", "rand", "randn", "random", "uniform", "normal"),
        *("native_dropout", "rand_like"),
    ),
    "optimizer": ("_fused_adamw", "_fused_adam"),
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
# Neither read nor write tensor data.
NO_TRAFFIC = {
    *("empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided"),
    *("lift_fresh", "detach", "alias"),
}
MATMULS = {"mm", "bmm", "addmm", "baddbmm", "addbmm"}
FUSED_ATTENTION = "_scaled_dot_product_flash_attention_for_cpu"


def describe(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> OperatorCall:
    """The kind and sizes of an operator call."""
    name = func.overloadpacket.__name__
    stem = name[:-1] if name.endswith("_") and not name.startswith("__") else name
    if func.is_view or stem in NO_TRAFFIC:
        return OperatorCall("view", ())
    if stem in MATMULS:
        return _matmul(*args[-2:])
    if stem in ("mv", "addmv", "dot"):
        left = args[-2]
        return OperatorCall("matmul", (1, math.prod(left.shape[:-1]), left.shape[-1], 1))
    if stem == FUSED_ATTENTION:
        return _attention("", *args[:2], causal=is_causal(args, backward=False))
    if stem == f"{FUSED_ATTENTION}_backward":
        return _attention("_backward", *args[1:3], causal=is_causal(args, backward=True))
    if stem in ("mkldnn_rnn_layer", "mkldnn_rnn_layer_backward"):
        steps, batch, inputs = args[0].shape
        kind = "recurrent_backward" if stem.endswith("backward") else "recurrent"
        return OperatorCall(kind, (steps, batch, inputs, args[2].shape[1]))
    if stem in ("convolution", "convolution_backward"):
        # Output positions; in the backward pass, those of the output gradient.
        weight, positions = (args[1], output) if stem == "convolution" else (args[2], args[0])
        count = positions.numel() // positions.shape[1]
        return OperatorCall(stem, (count, math.prod(weight.shape[1:]), weight.shape[0]))
    if "solve" in stem:
        triangle, right = args[:2]
        batch, size = math.prod(triangle.shape[:-2]), triangle.shape[-1]
        return OperatorCall("triangular_solve", (batch, size, right.shape[-1]))
    traffic = memory_traffic(func, args, kwargs, output)
    if stem != name and isinstance(output, Tensor):
        traffic -= bytes_of(output)  # in-place: written where it was read
    return OperatorCall(_kind_by_name(stem, args), (traffic,))


def _kind_by_name(stem: str, args: tuple[Any, ...]) -> str:
    if stem in KIND_OF:
        return KIND_OF[stem]
    first = next((part for part in tree_iter(args) if isinstance(part, Tensor)), None)
    if stem in REDUCTIONS:
        return "reduce_last" if first is None or _reduces_last(first, args) else "reduce_first"
    if stem in COPIES:
        source = next((p for p in reversed(list(tree_iter(args))) if isinstance(p, Tensor)), None)
        return "copy" if source is None or _is_dense(source) else "transpose"
    return "elementwise"


def _reduces_last(tensor: Tensor, args: tuple[Any, ...]) -> bool:
    """Whether the reduction includes the last, contiguous dimension."""
    dims = args[1] if len(args) > 1 else None
    if isinstance(dims, int):
        dims = [dims]
    if not isinstance(dims, list | tuple) or not dims:
        return True
    return any(dim % tensor.ndim == tensor.ndim - 1 for dim in dims if isinstance(dim, int))


def _is_dense(tensor: Tensor) -> bool:
    """Whether the last dimension is contiguous."""
    return tensor.ndim == 0 or tensor.shape[-1] == 1 or tensor.stride(-1) == 1


def _matmul(left: Tensor, right: Tensor) -> OperatorCall:
    batch = left.shape[0] if left.ndim == 3 else 1
    return OperatorCall("matmul", (batch, left.shape[-2], left.shape[-1], right.shape[-1]))


def _attention(which: str, query: Tensor, key: Tensor, *, causal: bool) -> OperatorCall:
    rows = math.prod(query.shape[:-2])
    if causal and query.shape[-2] == key.shape[-2]:
        return OperatorCall(f"causal_attention{which}", (rows, key.shape[-2], query.shape[-1]))
    return OperatorCall(
        f"attention{which}", (rows, query.shape[-2], key.shape[-2], query.shape[-1])
    )


Run = Callable[[], object]
# forward: without gradients; train: forward and backward; decode: one decoding step
Mode = Literal["forward", "train", "decode"]
MODES: tuple[Mode, ...] = ("forward", "train", "decode")


@dataclass(frozen=True)
class Workload:
    """Work that can be traced, predicted and measured.

    `prepare` allocates modules and inputs and returns a function that can be called many times. It
    allocates nothing before, so that it can be called under a fake tensor mode.
    """

    name: str
    mode: Mode
    prepare: Callable[[], Run]


def no_grad_run(call: Run) -> Run:
    """Call under `torch.no_grad`."""

    def run() -> object:
        with torch.no_grad():
            return call()

    return run


@dataclass(frozen=True, kw_only=True)
class Trace:
    """Counts of one run: operator calls by kind and sizes, FLOPs, memory.

    `autograd_calls` are the operator calls recorded by autograd. `python_calls` are the Python-level
    torch calls; one of a recurrent layer may run a thousand operators. `peak_bytes` excludes inputs and
    parameters.
    """

    name: str
    mode: Mode
    calls: Tally[OperatorCall]
    autograd_calls: int
    python_calls: int
    matmul_flops: int
    transcendental_ops: int
    elementwise_ops: int
    traffic_bytes: int
    peak_bytes: int

    @property
    def flops(self) -> int:
        """The sum of matmul, transcendental and elementwise operations."""
        return self.matmul_flops + self.transcendental_ops + self.elementwise_ops

    @property
    def num_calls(self) -> int:
        """Number of operator calls, views included."""
        return self.calls.total()


class Recorder(Counter):
    """A counter that also records the kind and sizes of every operator call."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Tally[OperatorCall] = Tally()
        self.autograd_calls = 0

    def count(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        super().count(func, args, kwargs, output)
        self.calls[describe(func, args, kwargs, output)] += 1
        # Autograd records nothing in the backward pass or inside a custom autograd function.
        self.autograd_calls += torch.is_grad_enabled()


class PythonCalls(TorchFunctionMode):
    """Counts outermost Python-level torch calls that ran at least one operator."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder
        self.count = 0

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        before = self.recorder.calls.total()
        result = func(*args, **(kwargs or {}))
        self.count += self.recorder.calls.total() > before
        return result


def trace(workload: Workload, *, real: bool = False) -> Trace:
    """Trace one run of the workload, on fake tensors where possible and unless `real`."""

    def attempt(fake: bool) -> Trace:
        with FakeTensorMode(allow_non_fake_inputs=True) if fake else nullcontext():
            return _trace(workload)

    return attempt(False) if real else fake_or_real(attempt)


def _trace(workload: Workload) -> Trace:
    with torch.random.fork_rng(devices=[]):
        ready = workload.prepare()
    with Recorder() as recorder, PythonCalls(recorder) as python:
        ready()
    counts = (
        "matmul_flops",
        "transcendental_ops",
        "elementwise_ops",
        "traffic_bytes",
        "peak_bytes",
    )
    return Trace(
        name=workload.name,
        mode=workload.mode,
        calls=recorder.calls,
        autograd_calls=recorder.autograd_calls if workload.mode == "train" else 0,
        python_calls=python.count,
        **{name: getattr(recorder, name) for name in counts},
    )
