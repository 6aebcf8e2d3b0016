"""A device that is not the CPU, simulated: its tensors hold CPU tensors, and do not mix with those.

As on real hardware, an operator takes tensors of one device (or a scalar of the CPU), and values reach the
CPU only by a copy. Its name is that of torch's meta device, which torch accepts everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

DEVICE = torch.device("meta")
aten = torch.ops.aten
# Operators that may combine tensors of two devices.
COPIES = {aten._to_copy.default, aten.copy_.default, aten._pack_padded_sequence.default}
INDEXING = {
    aten.index.Tensor,
    aten.index_put_.default,
    aten.index_put.default,
    aten._index_put_impl_.default,
}


class SimulatedTensor(torch.Tensor):
    """A tensor on the simulated device."""

    value: Tensor

    @staticmethod
    def __new__(cls, value: Tensor) -> SimulatedTensor:
        made: SimulatedTensor = torch.Tensor._make_wrapper_subclass(
            cls,
            value.shape,
            strides=value.stride(),
            storage_offset=value.storage_offset(),
            dtype=value.dtype,
            device=DEVICE,
            requires_grad=value.requires_grad,
        )
        made.value = value
        return made

    def tolist(self) -> Any:
        """Copies to the CPU, as on any device."""
        return self.value.tolist()

    # Those of torch.Tensor need a real device.
    def __int__(self) -> int:
        return int(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __index__(self) -> int:
        return int(self.value)

    def numpy(self, *, force: bool = False) -> Any:
        """Raises without `force`, as on any device."""
        if force:
            return self.value.numpy()
        raise TypeError(f"can't convert {DEVICE} device type tensor to numpy")

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return _run(func, args, kwargs or {})


def _run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    flat = tree_flatten((args, kwargs))[0]
    tensors = [each for each in flat if isinstance(each, Tensor)]
    simulated = [each for each in tensors if isinstance(each, SimulatedTensor)]
    if any(each.is_meta and type(each) is Tensor for each in tensors):
        raise RuntimeError(f"{func} got a tensor of torch's own meta device, without values.")
    device = kwargs.get("device")
    if simulated and len(simulated) < len(tensors) and func not in COPIES:
        others = [each for each in tensors if not isinstance(each, SimulatedTensor)]
        ok = func in INDEXING and isinstance(args[0], SimulatedTensor)
        if not ok and any(each.ndim for each in others):
            raise RuntimeError(f"{func} got tensors of two devices: {DEVICE} and cpu.")
    if simulated and kwargs.get("generator") is not None:
        raise RuntimeError(f"{func} got a generator of the CPU and tensors of {DEVICE}.")
    target = DEVICE if simulated else None
    if device is not None:
        target = DEVICE if torch.device(device).type == DEVICE.type else None
        kwargs = {**kwargs, "device": torch.device("cpu")}
    if func is aten.copy_.default:
        target = DEVICE if isinstance(args[0], SimulatedTensor) else None
    unwrapped = tree_map(lambda x: x.value if isinstance(x, SimulatedTensor) else x, (args, kwargs))
    found = func(*unwrapped[0], **unwrapped[1])
    if func._schema.name.endswith("_") and simulated and isinstance(args[0], Tensor):
        if torch.Tag.inplace_view in func.tags:
            with no_dispatch():
                func(*args, **kwargs)
        return args[0]
    if func is aten._pack_padded_sequence.default:
        return SimulatedTensor(found[0]), found[1]  # batch sizes are always on the CPU
    if target is None:
        return found
    return tree_map(lambda x: SimulatedTensor(x) if type(x) is Tensor else x, found)


class _Factories(TorchDispatchMode):
    """Creates tensors on the simulated device where an operator names it."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


@contextmanager
def simulated_device() -> Iterator[str]:
    """The name of a device, usable in this context."""
    tensor = torch.tensor

    def tensor_on(data: Any, *, device: Any = None, **kwargs: Any) -> Tensor:
        made = tensor(data, **kwargs)  # torch.tensor does not copy data to the meta device
        return made if device is None else made.to(device)

    factories: Any = _Factories
    with pytest.MonkeyPatch.context() as patch, factories():
        patch.setattr(torch, "tensor", tensor_on)
        patch.setattr(torch, "inference_mode", torch.no_grad)  # subclasses do not support it fully
        yield str(DEVICE)
