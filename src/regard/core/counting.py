"""Count what a call does: on fake tensors, which have shapes but no values, so that any size is quick.

    count_call(lambda: model(x), backward=True).flops
    training_flops(lambda: task.loss(model, batch))
    counted_cost(layer, prepare)

Small integer tensors (positions, lengths, token numbers) keep their values under `shapes_only`, so that
control flow which depends on them works. Where it depends on other values, real tensors are used.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Bool
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from regard.core.cost import AttentionShape, Cost
from regard.core.counter import Counter, tensors_in
from regard.core.errors import RegardError
from regard.core.masks import NO_MASK, Causal, Mask

# Integer tensors of up to so many numbers keep their values.
MAX_INTEGERS = 1 << 20
# Counted on real tensors, a call may allocate so many numbers: 2 GB in float32.
MAX_REAL_NUMBERS = 1 << 29
MAX_REMEMBERED = 256

Result = TypeVar("Result")


class _IntegersWithValues(TorchDispatchMode):
    """Runs operators on small integer tensors for real, above a fake tensor mode."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.own: dict[int, Any] = {}

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        from torch._subclasses.fake_tensor import unset_fake_temporarily

        kwargs = kwargs or {}
        if func._schema.is_mutable and args and self._is_of_caller(args[0]):
            with unset_fake_temporarily():
                args = (args[0].clone(), *args[1:])
        if not self._keeps_values(func, args, kwargs):
            return func(*args, **kwargs)
        with unset_fake_temporarily():
            output = func(*args, **kwargs)
        given = {tensor.untyped_storage()._cdata for tensor in tensors_in((args, kwargs))}
        for tensor in tensors_in(output):
            storage = tensor.untyped_storage()
            if storage._cdata not in given:
                self.own[storage._cdata] = storage  # kept alive, so that the key stays unique
        return output

    def _is_of_caller(self, tensor: object) -> bool:
        """Whether it is a real tensor from before, which must not change."""
        from torch._subclasses.fake_tensor import FakeTensor

        if not isinstance(tensor, Tensor) or isinstance(tensor, FakeTensor):
            return False
        return tensor.untyped_storage()._cdata not in self.own

    def _keeps_values(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        from torch._subclasses.fake_tensor import FakeTensor

        if torch.Tag.nondeterministic_seeded in func.tags or func.namespace != "aten":
            return False
        tensors = tensors_in((args, kwargs))
        if not tensors:
            return _is_small_integer_factory(func, args, kwargs)
        for tensor in tensors:
            if isinstance(tensor, FakeTensor) or tensor.is_floating_point() or tensor.is_complex():
                return False
        dtype = kwargs.get("dtype")
        if dtype is not None and (dtype.is_floating_point or dtype.is_complex):
            return False
        if torch.Tag.pointwise in func.tags:
            shape = torch.broadcast_shapes(*(tensor.shape for tensor in tensors))
            return math.prod(shape) <= MAX_INTEGERS
        sizes = math.prod(part for part in tree_iter(args) if type(part) is int and part > 0)
        return max(sum(tensor.numel() for tensor in tensors), sizes) <= MAX_INTEGERS


def _is_small_integer_factory(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    name, dtype = func.overloadpacket.__name__, kwargs.get("dtype")
    numbers = [part for part in tree_iter(args) if type(part) in (int, float)]
    if dtype is None:
        # Of these, `arange` of integers alone has integers by default.
        is_integer = name == "arange" and not any(isinstance(part, float) for part in numbers)
    else:
        is_integer = not (dtype.is_floating_point or dtype.is_complex)
    if not is_integer or name not in ("arange", "zeros", "ones", "full", "scalar_tensor"):
        return False
    return math.prod(max(1, abs(int(part))) for part in numbers) <= MAX_INTEGERS


@contextmanager
def shapes_only(fake_mode: Any = None) -> Iterator[Any]:
    """Operators compute shapes only; integer tensors keep their values. Yields the fake tensor mode."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    mode = FakeTensorMode(allow_non_fake_inputs=True) if fake_mode is None else fake_mode
    allowed, mode.allow_non_fake_inputs = mode.allow_non_fake_inputs, True
    try:
        with mode, _IntegersWithValues():
            yield mode
    finally:
        mode.allow_non_fake_inputs = allowed


def fake_or_real(attempt: Callable[[bool], Result]) -> Result:
    """`attempt(True)` on fake tensors; where values are needed, `attempt(False)` on real ones."""
    try:
        return attempt(True)
    except RegardError:
        raise
    except Exception:
        with torch.random.fork_rng(devices=[]):
            return attempt(False)


def count_call(call: Callable[[], Any], *, backward: bool = False) -> Counter:
    """The counts of a call, and with `backward` of the backward pass of all its outputs.

    Neither values nor `.grad` of the tensors it uses change, and modules stay in their mode (training or
    evaluation). A call that needs values, such as that of a packed sequence, runs on real tensors.
    """

    def attempt(fake: bool) -> Counter:
        with shapes_only() if fake else nullcontext(), Counter(memory=False) as counter:
            with torch.set_grad_enabled(backward):
                output = call()
            if backward:
                differentiate(output)
        return counter

    return fake_or_real(attempt)


def training_flops(call: Callable[[], Tensor]) -> int:
    """All FLOPs of the forward and backward pass of a call that returns a scalar loss."""
    return count_call(call, backward=True).flops


def differentiate(output: Any, inputs: Iterable[Tensor] = ()) -> None:
    """The gradients of all outputs with respect to `inputs`, or to all leaves; no `.grad` is set."""
    roots = [tensor for tensor in tensors_in(output) if tensor.requires_grad]
    wanted = [tensor for tensor in inputs if tensor.requires_grad] or _leaves(roots)
    if roots and wanted:
        ones = [torch.ones_like(root) for root in roots]
        torch.autograd.grad(roots, wanted, ones, allow_unused=True)


def _leaves(roots: list[Tensor]) -> list[Tensor]:
    """The tensors whose `.grad` a backward pass from these roots would set."""
    seen, leaves = set(), []
    pending: list[Any] = [root.grad_fn for root in roots if root.grad_fn is not None]
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            leaves.append(node.variable)
        pending += [after for after, _ in node.next_functions if after is not None]
    return leaves


class Example(NamedTuple):
    """What `counted_cost` counts: `forward`, the tensors it needs gradients of, and a decoding step.

    `step` continues from `state`; both are None for a layer that cannot decode.
    """

    forward: Callable[[], Any]
    inputs: tuple[Tensor, ...]
    state: Any = None
    step: Callable[[], Any] | None = None


def counted_cost(
    module: nn.Module,
    prepare: Callable[[Any], Example],
    *,
    key: object,
    numbers: int,
    max_path_length: Callable[[], int],
) -> Cost:
    """The cost of a module in evaluation mode, counted and remembered by `key`, its shape.

    `prepare(copy of the module)` builds the inputs and the decoding state; `numbers` are about those that
    the call allocates, for a limit on real tensors.
    """
    remembered = _COSTS.setdefault(module, {})
    key = (key, *map(id, module.modules()))
    if key not in remembered:
        if len(remembered) >= MAX_REMEMBERED:
            remembered.pop(next(iter(remembered)))

        path_length = max_path_length()

        def attempt(fake: bool) -> Cost:
            if not fake and numbers > MAX_REAL_NUMBERS:
                raise RegardError(
                    f"The cost of {type(module).__name__} depends on values, so it is counted on real "
                    f"tensors, and at {key[0]} they would have about {numbers:,} numbers. "
                    "Choose a smaller shape, or declare `cost`."
                )
            with _copied(module, fake=fake) as copied:
                return _count(copied, prepare, path_length)

        remembered[key] = fake_or_real(attempt)
    return remembered[key]


_COSTS: WeakKeyDictionary[nn.Module, dict[Any, Cost]] = WeakKeyDictionary()


@contextmanager
def _copied(module: nn.Module, *, fake: bool) -> Iterator[nn.Module]:
    """A copy in evaluation mode, of fake tensors in their mode, or of real ones."""
    if not fake:
        yield copy.deepcopy(module).eval()
        return
    from torch._subclasses.fake_tensor import FakeCopyMode, FakeTensor

    tensors = [*module.parameters(), *module.buffers()]
    own_mode = next((each.fake_mode for each in tensors if isinstance(each, FakeTensor)), None)
    with shapes_only(own_mode) as mode:
        with FakeCopyMode(mode):
            copied = copy.deepcopy(module).eval()
        if any(tensor.is_meta for tensor in tensors):
            copied = copied.to_empty(device="cpu")
        yield copied


def _count(module: nn.Module, prepare: Callable[[Any], Example], max_path_length: int) -> Cost:
    with torch.no_grad():
        example = prepare(module)
        with Counter() as forward:
            example.forward()
        with Counter(memory=False) as step, suppress(RegardError):  # beyond a maximum length
            if example.step is not None:
                example.step()
    leaves = [*(each.requires_grad_() for each in example.inputs), *module.parameters()]
    with torch.enable_grad(), Counter(memory=False) as training:
        differentiate(example.forward(), leaves)
    return Cost(
        matmul_flops=forward.matmul_flops,
        transcendental_ops=forward.transcendental_ops,
        elementwise_ops=forward.elementwise_ops,
        backward_matmul_flops=training.matmul_flops - forward.matmul_flops,
        step_matmul_flops=step.matmul_flops,
        memory=forward.peak_memory,
        parameters=sum(parameter.numel() for parameter in module.parameters()),
        state=sum(part.numel() for part in tensors_in(example.state) if part.is_floating_point()),
        sequential_steps=forward.depth,
        max_path_length=max_path_length,
    )


def random_inputs(
    mechanism: Any, shape: AttentionShape, *, queries: int, keys: int
) -> dict[str, Tensor]:
    """Random keyword arguments for one call, gates included, in the data type of the parameters."""
    randn = partial(torch.randn, dtype=_dtype(mechanism))
    kv_heads = shape.num_kv_heads or shape.num_heads
    of_keys = (shape.batch_size, kv_heads, keys)
    tensors = {
        "query": randn(
            shape.batch_size, shape.num_heads, queries, shape.query_dim or shape.key_dim
        ),
        "key": randn(*of_keys, shape.key_dim),
        "value": randn(*of_keys, shape.value_dim),
    }
    for gate in mechanism.gates:
        width = 1 if gate.width == "one" else shape.key_dim
        tensors[gate.name] = gate.activation(randn(*of_keys, width)).detach()
    return tensors


def _dtype(module: nn.Module) -> torch.dtype:
    """The data type of the parameters, or float32."""
    return next((each.dtype for each in module.parameters()), torch.float32)


def state_after(mechanism: Any, shape: AttentionShape) -> Any:
    """The decoding state after `key_length` random tokens."""
    past: dict[str, Any] = random_inputs(mechanism, shape, queries=1, keys=shape.key_length)
    del past["query"]
    state = mechanism.start(
        batch_size=shape.batch_size,
        num_kv_heads=shape.num_kv_heads or shape.num_heads,
        key_dim=shape.key_dim,
        value_dim=shape.value_dim,
        dtype=_dtype(mechanism),
    )
    return mechanism.extend(state, **past)


def attention_example(mechanism: Any, *, shape: AttentionShape) -> Example:
    """A forward call and a decoding step of a mechanism."""
    tensors = random_inputs(mechanism, shape, queries=shape.query_length, keys=shape.key_length)
    new: dict[str, Any] = random_inputs(mechanism, shape, queries=1, keys=1)
    state = state_after(mechanism, shape)
    return Example(
        forward=partial(mechanism, mask=_plain_mask(mechanism, shape), **tensors),
        inputs=tuple(tensors.values()),
        state=state,
        step=partial(mechanism.step, state, **new),
    )


def _plain_mask(mechanism: Any, shape: AttentionShape) -> Mask:
    return Causal() if shape.causal or mechanism.capabilities.requires_causal else NO_MASK


# Longer sequences have too many pairs for a matrix of which positions are connected.
MAX_WALK = 512


def attention_path_length(mechanism: Any, shape: AttentionShape) -> int:
    """The maximum path length in the weights of random inputs; 1 if the parameters have no values."""
    from torch._subclasses.fake_tensor import unset_fake_temporarily

    has_values = all(
        type(tensor) in (Tensor, nn.Parameter) and not tensor.is_meta
        for tensor in (*mechanism.parameters(), *mechanism.buffers())
    )
    if "self" not in mechanism.capabilities.roles or not has_values:
        return 1
    length = min(shape.key_length, MAX_WALK)
    one = replace(shape, batch_size=1)
    mask = _plain_mask(mechanism, shape)
    with unset_fake_temporarily(), torch.random.fork_rng(devices=[]), torch.no_grad():
        inputs: dict[str, Any] = random_inputs(mechanism, one, queries=length, keys=length)
        del inputs["value"]
        inputs |= {name: 0.5 * inputs[name] for name in ("query", "key")}  # weights above 0
        connected = (mechanism.weights(mask=mask, **inputs) != 0).any(dim=1).any(dim=0)
        layers = layers_to_connect(connected, causal=mask.causal)
        if layers <= 1 or length == shape.key_length:
            return layers
        query, key = connected.nonzero(as_tuple=True)
        return math.ceil((shape.key_length - 1) / int((query - key).abs().max()))


def layers_to_connect(connected: Bool[Tensor, "length length"], *, causal: bool) -> int:
    """The smallest number of layers that connects every pair that the mask allows; 0 if none does."""
    length = len(connected)
    visible = torch.ones_like(connected)
    visible = visible.tril() if causal else visible
    # The identity is the residual connection.
    one_layer = connected.float() + torch.eye(length)
    reached = torch.eye(length)
    for layers in range(1, length + 1):
        reached = (reached @ one_layer).clamp(max=1.0)
        if bool((reached[visible] > 0).all()):
            return layers
    return 0
