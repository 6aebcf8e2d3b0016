"""The weights of a model as a file of named tensors (safetensors; nothing in it can be run).

A tensor that a model has under several names (tied weights) is written once, under the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from regard.core.errors import RegardError
from regard.core.whole_file import write_whole

STEP = "step"


def model_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Every parameter and saved buffer of a model, each once."""
    found: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in model.state_dict(keep_vars=True).items():
        if isinstance(tensor, Tensor) and id(tensor) not in seen:
            seen.add(id(tensor))
            found[name] = tensor.detach()
    return found


def load_model_tensors(model: nn.Module, tensors: Mapping[str, Tensor], *, source: Path) -> None:
    """Copy tensors into the model they were taken from; the names and shapes must be the same."""
    own = model_tensors(model)
    missing = [name for name in own if name not in tensors]
    strange = [name for name in tensors if name not in own]
    for fault, names in (("lacks", missing), ("has, and the model has not,", strange)):
        if names:
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            raise _misfit(source, f"the file {fault} '{names[0]}'{more}")
    for name, tensor in own.items():
        if tensors[name].shape != tensor.shape:
            was, now = tuple(tensors[name].shape), tuple(tensor.shape)
            raise _misfit(source, f"'{name}' has shape {was} in the file and {now} in the model")
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(tensors[name])


def write_weights(
    path: Path, model: nn.Module, *, replaced: Mapping[str, Tensor] | None, step: int
) -> None:
    """Write the weights of a model, some of them `replaced` by an average, and the step they are of."""
    tensors = {**model_tensors(model), **(replaced or {})}
    write_whole(path, pack(tensors, {STEP: str(step)}))


def load_weights(model: nn.Module, path: Path) -> None:
    """Give a model the weights in a file that `write_weights` wrote, at the first evaluation."""
    way_out = f"Restore it, or go on with the run: regard train --resume {path.parent}"
    load_model_tensors(model, unpack(path, way_out=way_out)[0], source=path)


def weights_step(path: Path) -> int | None:
    """The step whose weights a file holds; None where there is no file or it says nothing."""
    try:
        with safe_open(path, framework="pt") as file:
            return int((file.metadata() or {})[STEP])
    except (OSError, SafetensorError, KeyError, ValueError):
        return None


def pack(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """The content of a safetensors file."""
    held = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    return save(held, dict(metadata))


def unpack(path: Path, *, way_out: str) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and the metadata of a safetensors file; what to do if it is broken is `way_out`."""
    try:
        with safe_open(path, framework="pt") as file:
            # Copied to memory of torch's own alignment, on which the last bit of a product may depend.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
            return tensors, file.metadata() or {}
    except FileNotFoundError as error:
        raise RegardError(f"'{path}' is not there. {way_out}") from error
    except (OSError, SafetensorError, ValueError, RuntimeError) as error:
        raise RegardError(
            f"'{path}' is not a whole safetensors file ({error}). {way_out}"
        ) from error


def _misfit(source: Path, why: str) -> RegardError:
    return RegardError(
        f"'{source}' does not fit the model: {why}. Build the model with the options it was trained with."
    )
