"""Weights that another library trained: reading what describes them, and copying them by name.

    configuration   a dictionary, an object with `to_dict()`, or the path of a .json file
    tensors         a dictionary, a module, or the path of a .safetensors file

A plan says which of their tensors make up each of our parameters. Nothing that is read can be run:
files of other kinds, which are pickle, are refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from regard.core.errors import RegardError

# For each of ours the names of theirs that it is made of, put together along the first dimension.
Plan = dict[str, tuple[str, ...]]
NAMES_SHOWN = 5


class ForeignConfig:
    """The settings of another library's model, with errors that name the key and its value."""

    def __init__(self, given: object) -> None:
        self.settings = _settings(given)

    def needed(self, key: str) -> Any:
        """The value of a key that must be there."""
        if self.settings.get(key) is None:
            raise RegardError(
                f"The configuration has no '{key}', without which the model cannot be built. Give "
                "the whole config.json that came with the weights."
            )
        return self.settings[key]

    def wanted(self, key: str, otherwise: Any) -> Any:
        """The value of a key, or another where it is missing or None."""
        value = self.settings.get(key)
        return otherwise if value is None else value

    def require(self, key: str, only: object, *, because: str) -> None:
        """Refuse a model that is set otherwise than the one value that can be represented."""
        value = self.wanted(key, only)
        if value != only:
            raise RegardError(
                f"The configuration has {key}={value!r}; only {only!r} can be loaded: {because}."
            )

    def translated(self, key: str, table: Mapping[str, str], otherwise: str) -> str:
        """Our name for what theirs names; an error lists the names that have one."""
        value = self.wanted(key, otherwise)
        if value not in table:
            raise RegardError(
                f"The configuration has {key}={value!r}, which has no counterpart here. Those that "
                f"can be loaded are: {', '.join(sorted(table))}."
            )
        return table[value]


def _settings(given: object) -> dict[str, Any]:
    if isinstance(given, str | PathLike):
        path = Path(given)
        try:
            given = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RegardError(
                f"The configuration '{path}' cannot be read ({error}). Give the path of the "
                "config.json that came with the weights."
            ) from error
    elif hasattr(given, "to_dict"):
        given = given.to_dict()
    if not isinstance(given, Mapping):
        raise RegardError(
            f"The configuration is a {type(given).__name__}; it must be a dictionary, an object with "
            "to_dict(), or the path of a config.json."
        )
    return dict(given)


def read_tensors(given: object) -> dict[str, Tensor]:
    """Named tensors, from wherever they are."""
    if isinstance(given, nn.Module):
        return dict(given.state_dict())
    if isinstance(given, Mapping):
        return dict(given)
    if not isinstance(given, str | PathLike):
        raise RegardError(
            f"The tensors are a {type(given).__name__}; they must be a dictionary, a module, or the "
            "path of a .safetensors file."
        )
    path = Path(given)
    if path.suffix != ".safetensors":
        raise RegardError(
            f"The tensors are in '{path}', and only .safetensors files are read: what is in other "
            "kinds may be run on loading. Save the model again with save_pretrained(…), which "
            "writes model.safetensors."
        )
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise RegardError(
            f"The tensors '{path}' cannot be read ({error}). Give the path of a whole "
            "model.safetensors."
        ) from error


def copy_planned(
    model: nn.Module, plan: Plan, tensors: Mapping[str, Tensor], *, table: str
) -> None:
    """Fill every parameter of a model as planned; the number type becomes that of the tensor `table`.

    All tensors must be used, and all that are planned must be there, in the shape that is needed.
    """
    own = dict(model.named_parameters())
    assert set(own) == set(plan), "a plan names every parameter of the model"
    planned = {name for names in plan.values() for name in names}
    missing = [name for name in planned if name not in tensors]
    if missing:
        raise RegardError(
            f"The tensors lack {_listed(missing)}, which the model needs. Give those of the whole "
            "model that the configuration describes."
        )
    strange = [name for name in tensors if name not in planned]
    if strange:
        raise RegardError(
            f"The tensors have {_listed(strange)}, which have no place in the model. If they are "
            "not wanted, give a dictionary without them."
        )
    model.to(tensors[table].dtype)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            whole = torch.cat([tensors[part] for part in plan[name]])
            if whole.shape != parameter.shape:
                raise RegardError(
                    f"The tensors {_listed(plan[name])} give the shape {tuple(whole.shape)}, and "
                    f"'{name}' of the model has {tuple(parameter.shape)}: the configuration must be "
                    "that of these weights."
                )
            parameter.copy_(whole)


def merge_copy(tensors: dict[str, Tensor], name: str, *, of: str) -> None:
    """Make one of a tensor and its second name, of which a file may hold either; they must be equal."""
    copied = tensors.pop(name, None)
    if copied is None:
        return
    if not torch.equal(copied, tensors.setdefault(of, copied)):
        raise RegardError(
            f"The tensor '{name}' differs from '{of}', and here the two are one: a model with "
            "tie_word_embeddings=False cannot be loaded."
        )


def _listed(names: list[str] | tuple[str, ...]) -> str:
    names = sorted(names) if isinstance(names, list) else list(names)
    shown = ", ".join(f"'{name}'" for name in names[:NAMES_SHOWN])
    return shown + (f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else "")
