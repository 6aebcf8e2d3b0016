"""FLOP counter: counts the operators that really run, forward and backward.

A dispatch mode sees every operator torch executes. Public FLOP counters miss the n² term of fused
attention on a CPU and count an LSTM as 0; here both have a formula, and an operator that hides matrix
products and has no formula raises an error.

    with Counter() as counter:
        model(inputs)
    counter.matmul_flops, counter.transcendental_ops, counter.elementwise_ops, counter.peak_memory

    matmul_flops        2 per multiply-add of a matrix product
    transcendental_ops  one per exp, tanh, 1/x …; a softmax has one per entry
    elementwise_ops     one per number that an elementwise operator writes or a reduction reads; inside
                        fused operators: 4 per entry of a softmax (maximum, difference, sum, quotient),
                        5 per pair of fused attention (also a scale), 7 per number of a layer norm,
                        12 per number of an LSTM's hidden state. Copies count 0
    flops               the sum of these three
    traffic_bytes       memory traffic: bytes each operator reads and writes
    peak_memory         peak of newly allocated numbers; `peak_bytes` in bytes
    depth               longest chain of dependent operators, the steps of an LSTM included

All counts are of what is executed. Masked query–key pairs count, unless the kernel skips them: see
`attention_pairs`. On fake tensors (torch._subclasses.FakeTensorMode) everything is counted and nothing
computed.
"""

from __future__ import annotations

import math
import re
import weakref
from collections import Counter as Tally
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from regard.core.errors import RegardError


def _matrix_product(inputs: tuple[Any, ...], _: Any) -> int:
    left, right = inputs[-2:]
    return 2 * int(left.numel()) * int(right.shape[-1])


def _dot_product(inputs: tuple[Any, ...], _: Any) -> int:
    return 2 * int(inputs[0].numel())


def _matrix_vector(inputs: tuple[Any, ...], _: Any) -> int:
    return 2 * int(inputs[-2].numel())


def _convolution(inputs: tuple[Any, ...], output: Any) -> int:
    _, weight = inputs[:2]
    transposed = bool(inputs[6])
    positions = inputs[0] if transposed else output
    return 2 * int(positions.numel() * math.prod(weight.shape[1:]))


def _convolution_backward(inputs: tuple[Any, ...], output: Any) -> int:
    gradient, sequence, weight = inputs[:3]
    positions = sequence if inputs[7] else gradient
    matmul_flops = 2 * int(positions.numel() * math.prod(weight.shape[1:]))
    return matmul_flops * sum(part is not None for part in output[:2])


# Torch's fused attention on a CPU takes so many keys at a time, for each block of query rows.
FUSED_KEYS = 512


@cache
def attention_pairs(queries: int, keys: int, *, causal: bool) -> int:
    """The query–key pairs per head that torch's fused attention computes on a CPU.

    Under a causal mask, a block of rows stops after the 512 keys in which its last row's own position
    lies; up to 512 keys, nothing is skipped.
    """
    if not causal:
        return queries * keys
    rows = 256 if queries >= 768 else 64 if queries >= 192 else 32
    blocks = ((start, min(start + rows, queries)) for start in range(0, queries, rows))
    return sum(
        (stop - start) * min(keys, -(-stop // FUSED_KEYS) * FUSED_KEYS) for start, stop in blocks
    )


def is_causal(inputs: tuple[Any, ...], *, backward: bool) -> bool:
    """Whether a call of fused attention is causal."""
    return inputs[7 if backward else 4 :][:1] == (True,)


def _fused_pairs(inputs: tuple[Any, ...], *, backward: bool) -> int:
    query, key = inputs[1:3] if backward else inputs[:2]
    causal = is_causal(inputs, backward=backward)
    pairs = attention_pairs(query.shape[-2], key.shape[-2], causal=causal)
    return math.prod(query.shape[:-2]) * pairs


def _fused_attention(inputs: tuple[Any, ...], _: Any) -> int:
    query, _, value = inputs[:3]
    return 2 * _fused_pairs(inputs, backward=False) * int(query.shape[-1] + value.shape[-1])


def _fused_attention_backward(inputs: tuple[Any, ...], _: Any) -> int:
    # The scores recomputed, then the gradients of weights, values, queries and keys.
    _, query, _, value = inputs[:4]
    width = int(3 * query.shape[-1] + 2 * value.shape[-1])
    return 2 * _fused_pairs(inputs, backward=True) * width


def _recurrent_layer(inputs: tuple[Any, ...], _: Any) -> int:
    sequence, input_weight, hidden_weight = inputs[:3]
    vectors = math.prod(sequence.shape[:-1])
    return 2 * int(vectors * (input_weight.numel() + hidden_weight.numel()))


def _recurrent_layer_backward(inputs: tuple[Any, ...], output: Any) -> int:
    return 2 * _recurrent_layer(inputs, output)


# The tables below are keyed by an operator's name without the underscore of its in-place form.

MATMULS: dict[str, Callable[[tuple[Any, ...], Any], int]] = {
    "mm": _matrix_product,
    "bmm": _matrix_product,
    "addmm": _matrix_product,
    "baddbmm": _matrix_product,
    "addbmm": _matrix_product,
    "mv": _matrix_vector,
    "addmv": _matrix_vector,
    "dot": _dot_product,
    "vdot": _dot_product,
    "convolution": _convolution,
    "convolution_backward": _convolution_backward,
    "_scaled_dot_product_flash_attention_for_cpu": _fused_attention,
    "_scaled_dot_product_flash_attention_for_cpu_backward": _fused_attention_backward,
    "mkldnn_rnn_layer": _recurrent_layer,
    "mkldnn_rnn_layer_backward": _recurrent_layer_backward,
}

# One function evaluation per element of the output.
TRANSCENDENTAL = {
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal"),
    *("sin", "cos", "tan", "atan", "sinh", "cosh", "tanh", "erf", "erfc", "sigmoid"),
    *("elu", "celu", "silu", "mish", "gelu", "glu", "softplus", "log_sigmoid_forward"),
    *("_softmax", "softmax", "_safe_softmax", "_log_softmax", "logsumexp"),
}

# Elementwise operations per entry written; other pointwise operators have 1.
SOFTMAX_OPS = 4
ATTENTION_OPS = 5
ATTENTION_BACKWARD_OPS = 8
LAYER_NORM_OPS = 7
LSTM_OPS = 12
OPS_PER_OUTPUT = {
    "_softmax": SOFTMAX_OPS,
    "softmax": SOFTMAX_OPS,
    "_safe_softmax": SOFTMAX_OPS,
    "_log_softmax": SOFTMAX_OPS,
    "_softmax_backward_data": 4,
    "_log_softmax_backward_data": 4,
    "native_layer_norm": LAYER_NORM_OPS,
    "native_layer_norm_backward": 2 * LAYER_NORM_OPS,
    "native_group_norm": LAYER_NORM_OPS,
    "native_group_norm_backward": 2 * LAYER_NORM_OPS,
    "addcmul": 2,
    "addcdiv": 2,
    "masked_fill": 1,  # in place it has no pointwise tag in torch
    "mkldnn_rnn_layer": LSTM_OPS,
    "mkldnn_rnn_layer_backward": 2 * LSTM_OPS,
    "clone": 0,
    "_to_copy": 0,
    "copy": 0,
}
# One elementwise operation per number read.
REDUCTIONS = {
    *("sum", "mean", "amax", "amin", "max", "min", "prod", "any", "all", "argmax", "argmin"),
    *("cumsum", "logcumsumexp", "cummax", "var", "std", "norm", "linalg_vector_norm"),
    *("logsumexp", "embedding_dense_backward", "max_pool2d_with_indices"),
}
# One addition per number of the last tensor read.
SCATTER_ADDS = {"index_add", "scatter_add"}
INDEX_PUTS = {"index_put", "_index_put_impl"}
# Matrix products that also add a matrix or a bias.
FUSED_ADDS = {"addmm", "baddbmm", "addbmm", "addmv"}
# Operators that read only the selected rows of a table.
GATHERS = {"embedding", "index_select", "index", "gather"}
SOLVES = {"linalg_solve_triangular", "triangular_solve"}

# Operators that may hide matrix products; without a formula they are an error.
OPAQUE = re.compile(
    "attention|transformer|rnn|lstm|gru_|gru$|linalg|conv|triangular|cholesky|ormqr|cdist|pdist"
    "|linear$|trilinear|embedding_bag|addr|(^|_)[a-z]*mm(_|$)"
)
NOT_OPAQUE = {"linalg_vector_norm", "_to_copy"}


class Counter(TorchDispatchMode):
    """Counts the operators run inside its `with` block; the module docstring defines the counts."""

    def __init__(self, *, memory: bool = True) -> None:
        """Without `memory`, FLOPs alone are counted, in half the time."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.matmul_flops = 0
        self.transcendental_ops = 0
        self.elementwise_ops = 0
        self.traffic_bytes = 0
        self.depth = 0
        self.peak_memory = 0
        self.peak_bytes = 0
        self.by_operator: Tally[str] = Tally()
        self._tracks_memory = memory
        self._live_memory = 0
        self._live_bytes = 0
        self._depths: dict[int, int] = {}

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func.namespace == "prim":  # a query on a fake tensor, not an operator
            return func(*args, **kwargs)
        if _name(func) not in MATMULS and _is_composite(func):
            # Without autograd, composite operators arrive undecomposed.
            with self:
                decomposed = func.decompose(*args, **kwargs)
            if decomposed is not NotImplemented:
                return decomposed
        if not self._tracks_memory:
            output = func(*args, **kwargs)
            self.count(func, args, kwargs, output)
            return output
        tensors = tensors_in((args, kwargs))
        existing = {_storage_of(tensor) for tensor in tensors}
        output = func(*args, **kwargs)
        self.count(func, args, kwargs, output)
        # A tensor that is merely overwritten is no dependency.
        overwrites = _name(func) == "copy" or kwargs.get("beta") == 0
        awaited = {_storage_of(tensor) for tensor in tensors[1:]} if overwrites else existing
        depth = max((self._depths.get(storage, 0) for storage in awaited), default=0)
        depth += _steps_inside(func, args)
        self.depth = max(self.depth, depth)
        for tensor in tensors_in(output):
            self._track(tensor, depth, is_new=_storage_of(tensor) not in existing)
        return output

    @property
    def flops(self) -> int:
        """All of `matmul_flops`, `transcendental_ops` and `elementwise_ops`."""
        return self.matmul_flops + self.transcendental_ops + self.elementwise_ops

    def count(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        """Add one operator."""
        name = _name(func)
        self.elementwise_ops += elementwise_ops_of(func, args, kwargs, output)
        if self._tracks_memory:
            self.traffic_bytes += memory_traffic(func, args, kwargs, output)
        matmul_flops = 0
        if name in MATMULS:
            matmul_flops = MATMULS[name](args, output)
        elif name in SOLVES:
            # Forward substitution does half the multiply-adds of a full product.
            triangle, right = args[:2]
            matmul_flops = int(triangle.shape[-1]) * int(right.numel())
        elif name not in NOT_OPAQUE and OPAQUE.search(name):
            raise RegardError(
                f"The counter has no formula for the operator '{name}', which does matrix products "
                "inside. Add one to regard.core.counter.MATMULS."
            )
        if "attention" in name:
            self.transcendental_ops += _fused_pairs(args, backward=name.endswith("backward"))
        elif _is_transcendental(name, args):
            self.transcendental_ops += tensors_in(output)[0].numel()
        elif name == "mkldnn_rnn_layer":
            # Three sigmoids and two tanh per number of an LSTM's hidden state.
            self.transcendental_ops += 5 * output[0].numel()
        if matmul_flops:
            self.matmul_flops += matmul_flops
            self.by_operator[func.overloadpacket.__name__] += matmul_flops

    def _track(self, tensor: Tensor, depth: int, *, is_new: bool) -> None:
        storage = tensor.untyped_storage()
        identity = _storage_of(tensor)
        self._depths[identity] = max(depth, 0 if is_new else self._depths.get(identity, 0))
        if is_new and storage.nbytes():
            size = storage.nbytes()
            numbers = size // tensor.element_size()
            self._live_memory += numbers
            self._live_bytes += size
            self.peak_memory = max(self.peak_memory, self._live_memory)
            self.peak_bytes = max(self.peak_bytes, self._live_bytes)
            weakref.finalize(storage, self._release, identity, numbers, size)

    def _release(self, identity: int, numbers: int, size: int) -> None:
        self._live_memory -= numbers
        self._live_bytes -= size
        self._depths.pop(identity, None)


def elementwise_ops_of(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
) -> int:
    """The elementwise operations of one operator."""
    name = _name(func)
    if func.is_view:
        return 0
    read, outputs = tensors_in((args, kwargs)), tensors_in(output)
    if not outputs or not read:
        return 0
    written = outputs[0]
    if "attention" in name:
        backward = name.endswith("backward")
        per_pair = ATTENTION_BACKWARD_OPS if backward else ATTENTION_OPS
        return per_pair * _fused_pairs(args, backward=backward)
    if name in OPS_PER_OUTPUT:
        return OPS_PER_OUTPUT[name] * written.numel()
    if name in REDUCTIONS:
        return read[0].numel()
    if name in SCATTER_ADDS:
        return read[-1].numel()
    if name in INDEX_PUTS:
        accumulates = kwargs.get("accumulate", args[3] if len(args) > 3 else False)
        return int(args[2].numel()) if accumulates else 0
    if name in FUSED_ADDS:
        return 0 if kwargs.get("beta") == 0 else written.numel()
    if name == "convolution":
        return written.numel() if args[2] is not None else 0
    if _is_transcendental(name, args):
        return 0
    return written.numel() if torch.Tag.pointwise in func.tags else 0


def memory_traffic(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> int:
    """Bytes one operator reads and writes; of a table it indexes, the selected rows only."""
    if func.is_view:
        return 0
    if _name(func) in GATHERS:
        return 2 * sum(bytes_of(part) for part in tensors_in(output))
    return sum(bytes_of(part) for part in tensors_in((args, kwargs, output)))


def tensors_in(parts: Any) -> list[Tensor]:
    """All tensors in nested tuples, lists and dicts."""
    if isinstance(parts, Tensor):
        return [parts]
    if isinstance(parts, dict):
        parts = parts.values()
    elif not isinstance(parts, tuple | list):
        return []
    return [tensor for part in parts for tensor in tensors_in(part)]


def bytes_of(part: Tensor) -> int:
    """The bytes of a tensor; an expanded dimension counts once."""
    numbers = math.prod(
        size for size, stride in zip(part.shape, part.stride(), strict=True) if stride or size == 0
    )
    return numbers * part.element_size()


@cache
def _name(func: Any) -> str:
    """The name of an operator, without the underscore of an in-place form."""
    return str(func.overloadpacket.__name__).removesuffix("_")


def _is_transcendental(name: str, args: tuple[Any, ...]) -> bool:
    return name in TRANSCENDENTAL or (name == "div" and isinstance(args[1], Tensor))


@cache
def _is_composite(func: Any) -> bool:
    """Whether the operator is defined by other operators."""
    return bool(
        torch._C._dispatch_has_kernel_for_dispatch_key(
            func.name(), torch._C.DispatchKey.CompositeImplicitAutograd
        )
    )


def _steps_inside(func: Any, args: tuple[Any, ...]) -> int:
    """The number of sequential steps of one operator."""
    if "rnn_layer" in _name(func):
        return int(args[0].shape[0])
    return 0 if func.is_view else 1


def _storage_of(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
