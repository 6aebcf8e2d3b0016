"""Networks from one sequence to another, and the table that names them.

The table holds strings, so listing the models imports neither them nor torch.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from regard.core.construction import construct
from regard.core.names import look_up

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class Entry:
    """Where a model lives and what it is, in one line each."""

    module: str
    class_name: str
    summary: str
    reference: str


MODELS: dict[str, Entry] = {
    "transformer": Entry(
        "transformer",
        "Transformer",
        "attention blocks all the way, any mechanism in each place",
        "Vaswani et al. 2017",
    ),
    "recurrent": Entry(
        "recurrent",
        "RecurrentEncoderDecoder",
        "LSTM or GRU on both sides, attention before or after the update, or none",
        "Bahdanau et al. 2015; Luong et al. 2015",
    ),
}


def model_class(name: str) -> type[nn.Module]:
    """The class behind a name of the table."""
    entry = look_up("model", name, MODELS)
    module = importlib.import_module(f"{__name__}.{entry.module}")
    found: type[nn.Module] = getattr(module, entry.class_name)
    return found


def build_model(
    name: str, *, source_vocabulary: int, target_vocabulary: int, **options: Any
) -> nn.Module:
    """A model by name, for vocabularies of these sizes; options must be its own.

    >>> build_model("recurrent", source_vocabulary=50, target_vocabulary=40)  # doctest: +SKIP
    """
    sizes = {"source_vocabulary": source_vocabulary, "target_vocabulary": target_vocabulary}
    kind = model_class(name)
    return construct(kind, what=f"model '{name}'", sizes=sizes, options=options)
