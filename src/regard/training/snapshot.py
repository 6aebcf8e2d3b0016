"""All tensors of a run, gathered for a checkpoint and given back.

model.<name>               weights and buffers
optimizer.<name>.<field>   what the optimiser remembers of a weight
average.<...>              what the averaging keeps
generator.cpu              where torch's random numbers stand
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from regard.core.errors import RegardError
from regard.training.averaging import Averaging
from regard.training.checkpoint import Checkpoint
from regard.training.optimizers import load_state_tensors, state_tensors
from regard.training.weights import load_model_tensors, model_tensors


def gather(
    *, model: nn.Module, optimizers: list[Optimizer], averaging: Averaging
) -> dict[str, Tensor]:
    """The tensors as they are now; not copies."""
    parts = {
        "model.": model_tensors(model),
        "optimizer.": state_tensors(optimizers, model),
        "average.": averaging.tensors(),
        "generator.": {"cpu": torch.get_rng_state()},
    }
    return {prefix + name: value for prefix, part in parts.items() for name, value in part.items()}


def give_back(
    checkpoint: Checkpoint,
    *,
    model: nn.Module,
    optimizers: list[Optimizer],
    averaging: Averaging,
    path: Path,
) -> None:
    """Make everything as it was when it was gathered; `path` is for errors."""
    load_model_tensors(model, checkpoint.part("model."), source=path)
    strange = load_state_tensors(optimizers, model, checkpoint.part("optimizer."))
    if strange:
        raise _misfit(path, f"optimiser has no use for '{strange[0]}'")
    try:
        averaging.load(checkpoint.part("average."))
    except (KeyError, RuntimeError, ValueError) as error:
        raise _misfit(path, f"averaging finds no fitting {error}") from error
    generator = checkpoint.part("generator.").get("cpu")
    if generator is None:
        raise _misfit(path, "random numbers have no place to go on from")
    torch.set_rng_state(generator)


def _misfit(path: Path, why: str) -> RegardError:
    return RegardError(f"'{path}' does not fit the run: its {why}. Train anew in another folder.")
