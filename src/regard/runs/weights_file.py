"""Weights from a safetensors file into a model that must fit them."""

from __future__ import annotations

from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_model
from torch import nn

from regard.core.errors import RegardError


def load_weights(model: nn.Module, path: Path) -> None:
    """Put the weights of a file into the model; a file of another model is refused."""
    if not path.is_file():
        raise RegardError(
            f"'{path}' is not there: weights are written at the first evaluation. Train on with "
            f"regard train --resume {path.parent}"
        )
    try:
        load_model(model, path)  # knows of weights that are used twice and stored once
    except (OSError, SafetensorError) as error:
        raise RegardError(
            f"'{path}' is not a whole safetensors file ({error}). Restore it, or train the run anew."
        ) from error
    except RuntimeError as error:
        reason = str(error).splitlines()[-1].strip()
        raise RegardError(
            f"The weights in '{path}' do not fit the model of its spec.json ({reason}). One of the two "
            "was changed; restore it, or train the run anew."
        ) from error
