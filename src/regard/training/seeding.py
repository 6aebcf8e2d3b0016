"""Random numbers by name: initialisation and dropout that variants of a study share.

    parameters   drawn from (seed, name of the parameter)
    dropout      drawn from (seed, name of the layer, step, call within the step)

With one generator for all draws, a model with one more parameter differs from its neighbour in every
tensor after it. Here two models with the same seed start with the same value in every tensor of equal
name and shape, and layers of equal name drop the same features, so that paired differences are those of
the variants. A resumed run needs no random state.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from regard.core.errors import RegardError


def derive_seed(*parts: object) -> int:
    """A seed of 63 bits from the parts; torch's generator of the CPU uses 32 of them.

    >>> derive_seed(0, "encoder.weight") == derive_seed(0, "encoder.weight")
    True
    >>> derive_seed(0, "encoder.weight") == derive_seed(1, "encoder.weight")
    False
    """
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def build_seeded(build: Callable[[], nn.Module], *, seed: int) -> nn.Module:
    """The module that `build` returns, with every parameter and buffer drawn from `seed` and its name.

    The module is built twice: first to learn which draw reaches which tensor, then with every draw seeded
    by that tensor's name. So a constructor draws as it likes, and needs no method for it. Draws of numpy,
    of `random`, and of torch as Python numbers are seeded in their order instead. All random states stay as
    they are.
    """
    with torch.random.fork_rng(devices=[]):
        with _SeededDraws(seed) as draws, _seeded_numpy(seed):
            module = build()
        parameters: list[tuple[str, Any]] = list(module.named_parameters())
        if lazy := [name for name, tensor in parameters if is_lazy(tensor)]:
            raise RegardError(
                f"The parameter '{lazy[0]}' of the model is lazy, so it has no shape yet. Give its layer "
                "the number of input features, such as nn.Linear for nn.LazyLinear."
            )
        names = draws.names(module)
        if not names or any(tensor.is_meta for tensor in module.parameters()):
            return module
        with _SeededDraws(seed, names) as again, _seeded_numpy(seed):
            module = build()
        if again.count != draws.count:
            raise RegardError(
                f"The constructor of the model drew {draws.count} times, then {again.count} times: the "
                "number of draws depends on drawn values, so parameters cannot be seeded by name. Draw a "
                "fixed number of times."
            )
        return module


@contextmanager
def _seeded_numpy(seed: int) -> Iterator[None]:
    """Seed `random` and numpy's global generator inside the context."""
    states = random.getstate(), np.random.get_state()  # noqa: NPY002
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002


# Of a draw: the tensor that it reaches, and its number among the draws of that tensor, from the last.
DrawName = tuple[str, int]


class _SeededDraws(TorchFunctionMode):
    """Seeds every draw from torch's generator by its name; follows the draws to the tensors they reach."""

    def __init__(self, seed: int, names: Mapping[int, DrawName] | None = None) -> None:
        super().__init__()
        self.seed = seed
        self.draw_names = names or {}
        self.count = 0
        # Address of a storage → the draws in it. Tensors are kept, so that no address is used twice.
        self.draws: dict[int, frozenset[int]] = {}
        self.kept: list[Tensor] = []

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        torch.default_generator.manual_seed(
            derive_seed(self.seed, *self.draw_names.get(self.count, (self.count,)))
        )
        before = torch.default_generator.get_state()
        result = func(*args, **kwargs)
        drawn = frozenset[int]()
        if not torch.equal(before, torch.default_generator.get_state()):
            drawn = frozenset({self.count})
            self.count += 1
        if self.draw_names:
            return result
        inputs = list(_tensors((args, kwargs)))
        for tensor in inputs:
            drawn |= self.draws.get(_address(tensor), frozenset())
        if drawn:
            self._mark([*inputs[:1], *_tensors(result)] if _is_inplace(func) else [result], drawn)
        return result

    def _mark(self, tensors: Any, drawn: frozenset[int]) -> None:
        for tensor in _tensors(tensors):
            address = _address(tensor)
            self.draws[address] = self.draws.get(address, frozenset()) | drawn
            self.kept.append(tensor)

    def names(self, module: nn.Module) -> dict[int, DrawName]:
        """Draw → the first tensor of the module that it reaches."""
        found: dict[int, DrawName] = {}
        for name, tensor in (*module.named_parameters(), *module.named_buffers()):
            # From the last: a constructor may overwrite torch's own initialisation, or not.
            drawn = sorted(self.draws.get(_address(tensor), ()), reverse=True)
            for number, draw in enumerate(drawn):
                found.setdefault(draw, (name, number))
        return found


def _tensors(tree: Any) -> Iterator[Tensor]:
    return (leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor))


def _address(tensor: Tensor) -> int:
    return 0 if tensor.is_meta or is_lazy(tensor) else tensor.untyped_storage().data_ptr()


def _is_inplace(func: Any) -> bool:
    name = str(getattr(func, "__name__", ""))
    return name == "__setitem__" or (name.endswith("_") and not name.endswith("__"))


def shared_fraction(own: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> float:
    """The fraction of the numbers in `own` whose tensor has the same name, shape and values in `other`.

    >>> own = {"output.weight": torch.ones(2, 3), "mechanism.bilinear": torch.ones(2)}
    >>> shared_fraction(own, {"output.weight": torch.ones(2, 3)})
    0.75
    """
    total = sum(tensor.numel() for tensor in own.values())
    common = sum(
        tensor.numel()
        for name, tensor in own.items()
        if name in other and torch.equal(tensor, other[name])
    )
    return common / total if total else 1.0


class RandomStreams:
    """Seeds the random layers of a model in every training step.

    A layer is random if it has an attribute named `p`, or with "drop" in its name, that is a positive
    number, as those of torch have. Draws elsewhere continue the stream of the random layer before them, or
    that of the step. A layer that activation checkpointing runs again in the backward pass draws the same
    numbers.
    """

    def __init__(self, model: nn.Module, *, seed: int, device: str = "cpu") -> None:
        """Register the hooks; `begin_step` must be called before every step."""
        self.seed = seed
        self.step = 0
        self.calls: Counter[str] = Counter()
        # Layer and the seed before it → its seed. Checkpointing restores the seed before, too.
        self.seeds: dict[tuple[str, int], int] = {}
        # Seeding torch's other generators as well takes three times as long.
        self._seed = torch.default_generator.manual_seed if device == "cpu" else torch.manual_seed
        self._hooks = [
            layer.register_forward_pre_hook(
                partial(self._before_forward, name=name, base=derive_seed(seed, name))
            )
            for name, layer in model.named_modules()
            if _is_random(vars(layer).items())
        ]

    def begin_step(self, step: int) -> None:
        """Seed the draws of a step."""
        self.step = step
        self.calls.clear()
        self.seeds.clear()
        self._seed(derive_seed(self.seed, step))

    def _before_forward(self, layer: nn.Module, args: Any, *, name: str, base: int) -> None:
        if not layer.training:
            return
        before = name, torch.default_generator.initial_seed()
        seed = self.seeds.get(before) if torch._C._current_graph_task_id() != -1 else None
        if seed is None:
            call = self.calls[name]
            self.calls[name] = call + 1
            seed = self.seeds[before] = _mixed(base, self.step, call)
        self._seed(seed)

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Remove the hooks on exit."""
        try:
            yield
        finally:
            for hook in self._hooks:
                hook.remove()


def _is_random(attributes: Iterable[tuple[str, Any]]) -> bool:
    return any(
        (name == "p" or "drop" in name)
        and isinstance(value, float | int | np.floating)
        and value is not True
        and value > 0
        for name, value in attributes
    )


def _mixed(base: int, step: int, call: int) -> int:
    """A seed from three numbers, quicker than `derive_seed`: the finaliser of splitmix64."""
    value = (base + step * 0x9E3779B97F4A7C15 + call * 0xD1342543DE82EF95) & (2**64 - 1)
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
    return (value ^ (value >> 31)) >> 1
