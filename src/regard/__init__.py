"""Build, train, compare, look into and price every attention mechanism, on evidence.

    from regard import MultiHead, build_mechanism

Names arrive on first use: `import regard` alone does not import torch, so that the command line
answers at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.core.masks import Causal, Mask, Padding, Window
    from regard.core.mechanism import Mechanism
    from regard.layers.multi_head import MultiHead
    from regard.mechanisms import build_mechanism

__version__ = "0.1.0"

__all__ = [
    "Causal",
    "Mask",
    "Mechanism",
    "MultiHead",
    "Padding",
    "Window",
    "build_mechanism",
]

_MODULE_OF = {
    "Causal": "regard.core.masks",
    "Mask": "regard.core.masks",
    "Mechanism": "regard.core.mechanism",
    "MultiHead": "regard.layers.multi_head",
    "Padding": "regard.core.masks",
    "Window": "regard.core.masks",
    "build_mechanism": "regard.mechanisms",
}


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(
            f"module 'regard' has no attribute '{name}'. It exports: {', '.join(__all__)}."
        )
    value: object = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value  # the next use does not come through here
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
