"""What a piece of work does, operator by operator, without doing it.

It runs on fake tensors, which have shapes and no numbers: a model of any size is traced in the time its
Python takes. Work that asks for the value of a number cannot run so, and is traced while it really runs.
"""

from __future__ import annotations

import math
from collections import Counter as Tally
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedFakeTensorException,
)
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_iter

from regard.core.counter import Counter, bytes_of, moved_by

# One operator as the time model sees it: what kind of work, and how much of it.
#
# Kinds and their sizes:
#
# product                 (batch, rows, inner, columns) of a matrix product solve
# (batch, size, columns) of a triangular system attention, …_backward   (rows, queries, keys, width)
# of fused attention causal_attention, …     (rows, length, width) of the same under a causal mask
# convolution, …          (positions, inner, columns) of a convolution recurrent, …_backward
# (steps, batch, inputs, hidden) of a fused recurrent layer view                    nothing is
# moved; only the call takes time all other kinds         (bytes,) read and written: plain, exp,
# softmax, gather …


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


# Work that can be traced, predicted and measured: a name, and how to make it ready to run.
#
# `prepare` builds what the work needs and returns the run itself, which may be called many times.
# Nothing is built before `prepare` is called, so that it can be called among fake tensors.


Run = Callable[[], object]
# forward: without gradients; train: forward and backward; decode: one token more.
Mode = Literal["forward", "train", "decode"]
MODES: tuple[Mode, ...] = ("forward", "train", "decode")


@dataclass(frozen=True)
class Workload:
    """What is priced."""

    name: str
    mode: Mode
    prepare: Callable[[], Run]


CANNOT_FAKE = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
)


@dataclass(frozen=True, kw_only=True)
class Trace:
    """Counts of one run, and its operators with how often each was called in these sizes.

    `recorded_calls` of them were recorded for gradients. `python_calls` are the calls of Python that led to
    them; one may run a thousand operators, as that of a recurrent layer does. `peak_bytes` is beyond
    what was there before the run: inputs and parameters. `name` and `mode` are the workload's.
    """

    name: str
    mode: Mode
    calls: Tally[OperatorCall]
    recorded_calls: int
    python_calls: int
    products: int
    functions: int
    arithmetic: int
    moved_bytes: int
    peak_bytes: int

    @property
    def operations(self) -> int:
        """Products, functions and arithmetic together."""
        return self.products + self.functions + self.arithmetic

    @property
    def num_calls(self) -> int:
        """How many operators were called, views included."""
        return self.calls.total()


class Recorder(Counter):
    """A counter that also keeps what kind of work each operator was."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Tally[OperatorCall] = Tally()
        self.recorded_calls = 0

    def count(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        super().count(func, args, kwargs, output)
        self.calls[describe(func, args, kwargs, output)] += 1
        # Backward, and inside a function with a backward of its own, nothing is recorded.
        self.recorded_calls += torch.is_grad_enabled()


class PythonCalls(TorchFunctionMode):
    """Counts the calls of Python in which a recorder saw an operator; those within others are not."""

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


def trace(workload: Workload, *, really: bool = False) -> Trace:
    """Record one run of the workload, on fake tensors if it can be done and unless `really`."""
    if not really:
        try:
            with FakeTensorMode(allow_non_fake_inputs=True):
                return _recorded(workload)
        except CANNOT_FAKE:
            pass
    return _recorded(workload)


def _recorded(workload: Workload) -> Trace:
    with torch.random.fork_rng(devices=[]):
        ready = workload.prepare()
    with Recorder() as recorder, PythonCalls(recorder) as python:
        ready()
    return Trace(
        name=workload.name,
        mode=workload.mode,
        calls=recorder.calls,
        recorded_calls=recorder.recorded_calls if workload.mode == "train" else 0,
        python_calls=python.count,
        products=recorder.products,
        functions=recorder.functions,
        arithmetic=recorder.arithmetic,
        moved_bytes=recorder.moved_bytes,
        peak_bytes=recorder.peak_bytes,
    )
