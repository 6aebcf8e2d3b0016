"""Counts what really runs: products, functions, arithmetic, bytes moved, peak memory, dependency depth.

A dispatch mode sees every operator torch executes, forward and backward. Public counters miss the n²
term of fused attention on a CPU and count an LSTM as nothing; here both have a formula, and an operator
that hides products without one is refused rather than counted as zero.

    with Counter() as counter:
        model(inputs)
    counter.products, counter.functions, counter.arithmetic, counter.peak_memory, counter.depth

`peak_memory` is in numbers and `peak_bytes` in bytes, beyond what existed before; `moved_bytes` is what
operators read and write, each its inputs and outputs once; `depth` is the longest chain of operators
each of which needed the one before, an LSTM's steps included. On fake tensors
(torch._subclasses.FakeTensorMode) everything is counted and nothing computed.

Conventions: a multiply-add of a product is 2. A function is one exp, tanh, 1/x …; a softmax is one an
entry. Arithmetic is one for every number an elementwise operator writes (addition, comparison, choice)
or a reduction reads, and what fused operators do inside: 4 an entry of a softmax (maximum, difference,
sum, quotient), 5 a pair in fused attention (a scale too), 7 a number in a layer norm, 12 a number of an
LSTM's state. Copies are no arithmetic. Fused attention counts every query–key pair it is given, masked
or not.
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
from torch.utils._pytree import tree_iter

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
    products = 2 * int(positions.numel() * math.prod(weight.shape[1:]))
    return products * sum(part is not None for part in output[:2])


def _attention_pairs(query: Tensor, key: Tensor) -> int:
    return int(math.prod(query.shape[:-1]) * key.shape[-2])


def _fused_attention(inputs: tuple[Any, ...], _: Any) -> int:
    query, key, value = inputs[:3]
    return 2 * _attention_pairs(query, key) * int(query.shape[-1] + value.shape[-1])


def _fused_attention_backward(inputs: tuple[Any, ...], _: Any) -> int:
    # Scores again, then the gradients of weights, values, queries and keys: five products.
    _, query, key, value = inputs[:4]
    return 2 * _attention_pairs(query, key) * int(3 * query.shape[-1] + 2 * value.shape[-1])


def _recurrent_layer(inputs: tuple[Any, ...], _: Any) -> int:
    sequence, input_weight, hidden_weight = inputs[:3]
    vectors = math.prod(sequence.shape[:-1])
    return 2 * int(vectors * (input_weight.numel() + hidden_weight.numel()))


def _recurrent_layer_backward(inputs: tuple[Any, ...], output: Any) -> int:
    # The gradient of a product is two products.
    return 2 * _recurrent_layer(inputs, output)


_aten = torch.ops.aten
PRODUCTS: dict[Any, Callable[[tuple[Any, ...], Any], int]] = {
    _aten.mm: _matrix_product,
    _aten.bmm: _matrix_product,
    _aten.addmm: _matrix_product,
    _aten.addmm_: _matrix_product,
    _aten.baddbmm: _matrix_product,
    _aten.baddbmm_: _matrix_product,
    _aten.addbmm: _matrix_product,
    _aten.mv: _matrix_vector,
    _aten.addmv: _matrix_vector,
    _aten.dot: _dot_product,
    _aten.convolution: _convolution,
    _aten.convolution_backward: _convolution_backward,
    _aten._scaled_dot_product_flash_attention_for_cpu: _fused_attention,
    _aten._scaled_dot_product_flash_attention_for_cpu_backward: _fused_attention_backward,
    _aten.mkldnn_rnn_layer: _recurrent_layer,
    _aten.mkldnn_rnn_layer_backward: _recurrent_layer_backward,
}

# Functions evaluated once for every element of the output; also those with in-place forms.
STEMS = (
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal"),
    *("sin", "cos", "tan", "atan", "sinh", "cosh", "tanh", "erf", "erfc", "sigmoid"),
    *("elu", "celu", "silu", "mish"),
)
FUNCTIONS = {getattr(_aten, name) for stem in STEMS for name in (stem, f"{stem}_")} | {
    _aten._softmax,
    _aten.softmax,
    _aten._safe_softmax,
    _aten._log_softmax,
    _aten.gelu,
    _aten.glu,
    _aten.softplus,
    _aten.log_sigmoid_forward,
    _aten.logsumexp,
}
DIVISIONS = {_aten.div, _aten.div_}

# Arithmetic inside operators, for every entry they write; other elementwise operators have 1.
SOFTMAX_ARITHMETIC = 4
ATTENTION_ARITHMETIC = 5
ATTENTION_BACKWARD_ARITHMETIC = 8
LAYER_NORM_ARITHMETIC = 7
LSTM_ARITHMETIC = 12
WRITTEN: dict[Any, int] = {
    _aten._softmax: SOFTMAX_ARITHMETIC,
    _aten.softmax: SOFTMAX_ARITHMETIC,
    _aten._safe_softmax: SOFTMAX_ARITHMETIC,
    _aten._log_softmax: SOFTMAX_ARITHMETIC,
    _aten._softmax_backward_data: 4,
    _aten._log_softmax_backward_data: 4,
    _aten.native_layer_norm: LAYER_NORM_ARITHMETIC,
    _aten.native_layer_norm_backward: 2 * LAYER_NORM_ARITHMETIC,
    _aten.addcmul: 2,
    _aten.addcmul_: 2,
    _aten.addcdiv: 2,
    _aten.addcdiv_: 2,
    _aten.masked_fill_: 1,  # not marked as elementwise in torch, as masked_fill is
    _aten.mkldnn_rnn_layer: LSTM_ARITHMETIC,
    _aten.mkldnn_rnn_layer_backward: 2 * LSTM_ARITHMETIC,
    _aten.clone: 0,
    _aten._to_copy: 0,
    _aten.copy_: 0,
}
# The same for every number read.
READ: dict[Any, int] = {
    getattr(_aten, name): 1
    for name in (
        *("sum", "mean", "amax", "amin", "max", "min", "prod", "any", "all", "argmax", "argmin"),
        *("cumsum", "logcumsumexp", "cummax", "var", "std", "norm", "linalg_vector_norm"),
        *("logsumexp", "embedding_dense_backward"),
    )
}
# The same for every number of the last tensor read: what is added into a place.
ADDED: dict[Any, int] = dict.fromkeys(
    (_aten.index_add, _aten.index_add_, _aten.scatter_add, _aten.scatter_add_), 1
)
# Products that also add a matrix or a bias.
ADDING = {_aten.addmm, _aten.addmm_, _aten.baddbmm, _aten.baddbmm_, _aten.addbmm, _aten.addmv}

LOOK_UPS = {_aten.embedding, _aten.index_select, _aten.index, _aten.gather}

# Operators that do matrix products inside; without a formula above they would count as nothing.
OPAQUE = re.compile(
    "attention|transformer|rnn|lstm|gru_|gru$|linalg|conv|triangular|cholesky|ormqr|cdist|pdist"
    "|linear$|trilinear|embedding_bag|vdot|addr|(^|_)[a-z]*mm(_|$)"
)
HARMLESS = {_aten.linalg_vector_norm, _aten._to_copy}
SOLVES = {_aten.linalg_solve_triangular, _aten.triangular_solve}


class Counter(TorchDispatchMode):
    """Counts the operators run inside its `with` block. The module's text says what each figure is."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.products = 0
        self.functions = 0
        self.arithmetic = 0
        self.moved_bytes = 0
        self.depth = 0
        self.peak_memory = 0
        self.peak_bytes = 0
        self.by_operator: Tally[str] = Tally()
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
        if func.namespace == "prim":  # a question to a fake tensor, not an operator
            return func(*args, **(kwargs or {}))
        inputs = (*args, *(kwargs or {}).values())
        if func.overloadpacket not in PRODUCTS and _is_composite(func):
            # Without autograd, operators made of others arrive whole: take them apart.
            with self:
                parts = func.decompose(*args, **(kwargs or {}))
            if parts is not NotImplemented:
                return parts
        tensors = [tensor for tensor in tree_iter(inputs) if isinstance(tensor, Tensor)]
        existing = {_storage_of(tensor) for tensor in tensors}
        output = func(*args, **(kwargs or {}))
        self.count(func, args, kwargs or {}, output)
        # What is merely overwritten is not waited for.
        overwrites = func.overloadpacket is _aten.copy_ or (kwargs or {}).get("beta") == 0
        awaited = {_storage_of(tensor) for tensor in tensors[1:]} if overwrites else existing
        depth = max((self._depths.get(storage, 0) for storage in awaited), default=0)
        depth += _steps_inside(func, args)
        self.depth = max(self.depth, depth)
        for tensor in tree_iter(output):
            if isinstance(tensor, Tensor):
                self._follow(tensor, depth, is_new=_storage_of(tensor) not in existing)
        return output

    @property
    def operations(self) -> int:
        """Products, functions and arithmetic together."""
        return self.products + self.functions + self.arithmetic

    def count(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        """Add what one operator did."""
        packet = func.overloadpacket
        self.arithmetic += arithmetic_of(func, args, kwargs, output)
        self.moved_bytes += moved_by(func, args, kwargs, output)
        products = 0
        if packet in PRODUCTS:
            products = PRODUCTS[packet](args, output)
        elif packet in SOLVES:
            # Forward substitution does half the multiply-adds of a full product.
            triangle, right = args[:2]
            products = int(triangle.shape[-1]) * int(right.numel())
        elif packet not in HARMLESS and OPAQUE.search(packet.__name__):
            raise RegardError(
                f"The counter has no formula for the operator '{packet.__name__}', which does matrix "
                "products inside. Add one to regard.core.counter.PRODUCTS."
            )
        if "attention" in packet.__name__:
            query, key = args[1:3] if packet.__name__.endswith("backward") else args[:2]
            self.functions += _attention_pairs(query, key)
        elif packet in FUNCTIONS or (packet in DIVISIONS and isinstance(args[1], Tensor)):
            first = next(part for part in tree_iter(output) if isinstance(part, Tensor))
            self.functions += first.numel()
        elif packet is _aten.mkldnn_rnn_layer:
            # Three sigmoids and two tanh for every number of an LSTM's hidden state.
            self.functions += 5 * output[0].numel()
        if products:
            self.products += products
            self.by_operator[packet.__name__] += products

    def _follow(self, tensor: Tensor, depth: int, *, is_new: bool) -> None:
        storage = tensor.untyped_storage()
        identity = _storage_of(tensor)
        self._depths[identity] = max(depth, 0 if is_new else self._depths.get(identity, 0))
        if is_new and storage.nbytes():
            taken = storage.nbytes()
            numbers = taken // tensor.element_size()
            self._live_memory += numbers
            self._live_bytes += taken
            self.peak_memory = max(self.peak_memory, self._live_memory)
            self.peak_bytes = max(self.peak_bytes, self._live_bytes)
            weakref.finalize(storage, self._forget, identity, numbers, taken)

    def _forget(self, identity: int, numbers: int, taken: int) -> None:
        self._live_memory -= numbers
        self._live_bytes -= taken
        self._depths.pop(identity, None)


def arithmetic_of(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> int:
    """How many additions, comparisons and the like an operator does beside products and functions."""
    packet = func.overloadpacket
    read = [part for part in tree_iter((args, kwargs)) if isinstance(part, Tensor)]
    written = next((part for part in tree_iter(output) if isinstance(part, Tensor)), None)
    if written is None or not read:
        return 0
    if "attention" in packet.__name__:
        if packet.__name__.endswith("backward"):
            return ATTENTION_BACKWARD_ARITHMETIC * _attention_pairs(*args[1:3])
        return ATTENTION_ARITHMETIC * _attention_pairs(*args[:2])
    if packet in WRITTEN:
        return WRITTEN[packet] * written.numel()
    if packet in READ:
        return READ[packet] * read[0].numel()
    if packet in ADDED:
        return ADDED[packet] * read[-1].numel()
    if packet is _aten.index_put or packet is _aten.index_put_ or packet is _aten._index_put_impl_:
        accumulates = kwargs.get("accumulate", args[3] if len(args) > 3 else False)
        return int(args[2].numel()) if accumulates else 0
    if packet in ADDING:
        return 0 if kwargs.get("beta") == 0 else written.numel()
    if packet is _aten.convolution:
        return written.numel() if args[2] is not None else 0
    if packet in FUNCTIONS or (packet in DIVISIONS and isinstance(args[1], Tensor)):
        return 0
    return written.numel() if torch.Tag.pointwise in func.tags else 0


def moved_by(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> int:
    """Bytes an operator reads and writes; of a table it looks rows up in, those rows alone."""
    if func.is_view:
        return 0
    if func.overloadpacket in LOOK_UPS:
        return 2 * sum(bytes_of(part) for part in tree_iter(output))
    return sum(bytes_of(part) for part in tree_iter((args, kwargs, output)))


def bytes_of(part: object) -> int:
    """What a tensor's numbers take; of one that is expanded, what it takes before that."""
    if not isinstance(part, Tensor):
        return 0
    shown = math.prod(
        size for size, stride in zip(part.shape, part.stride(), strict=True) if stride or size == 0
    )
    return shown * part.element_size()


@cache
def _is_composite(func: Any) -> bool:
    """Whether the operator is a few lines of other operators."""
    return bool(
        torch._C._dispatch_has_kernel_for_dispatch_key(
            func.name(), torch._C.DispatchKey.CompositeImplicitAutograd
        )
    )


def _steps_inside(func: Any, args: tuple[Any, ...]) -> int:
    """How many steps of an operator wait for one another."""
    if "rnn_layer" in func.overloadpacket.__name__:
        return int(args[0].shape[0])
    return 0 if func.is_view else 1


def _storage_of(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
