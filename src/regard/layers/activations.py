"""Activations by name, with what they cost: function evaluations and arithmetic an entry."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class Activation(NamedTuple):
    """A function of every entry, how many transcendental functions it evaluates, and what else."""

    function: Callable[[Tensor], Tensor]
    evaluations: int
    arithmetic: int = 0


ACTIVATIONS: dict[str, Activation] = {
    "relu": Activation(F.relu, 0, arithmetic=1),
    "gelu": Activation(F.gelu, 1),
    # With tanh in place of the error function, as GPT-2 was trained.
    "gelu_tanh": Activation(partial(F.gelu, approximate="tanh"), 1),
    "silu": Activation(F.silu, 1),
    "tanh": Activation(torch.tanh, 1),
    "sigmoid": Activation(torch.sigmoid, 1),
}
